//! A volume that is brought to slices by an elastic body: from files to files.

use super::job::Job;
use super::measures::Measures;
use super::state::deformed;
use super::task::{MESH, OfBody, slice_files, warped_slice};
use crate::deform::{AffineChoice, Fields, Task, field_files, record, write_chains};
use crate::error::{Error, Result};
use crate::files;
use crate::listener::{Listener, check as go_on};
use crate::machine::Machine;
use crate::options::{Product, refuse};
use crate::pair::{Pair, outside};
use crate::remedy::Speaker;
use crate::run::{self, Done, Read, Run, WARPED};
use crate::staged::Staged;
use rayon::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use voxalign_image::{Affine, Grid, ImageView, Vector3, VectorField, Volume, memory};
use voxalign_io::image::{self, DataType, ReadOptions};
use voxalign_io::tetra;
use voxalign_io::transform::Geometry;
use voxalign_options::{Text, text};
use voxalign_register::RegisterError;
use voxalign_register::diffeo::{
    DeformResult, ElasticSetting, SliceInput, SlicesInput, SlicesResult, register_slices,
};
use voxalign_register::resample::MovingImage;
use voxalign_register::similarity::Similarity;
use voxalign_report::slices::{SlicePictures, SlicesReport, render};
use voxalign_report::{Figure, MaterialRecord, SliceRecord, When};

/// A slice that was read.
#[derive(Debug)]
struct Slice {
    path: PathBuf,
    image: Volume<f32>,
    /// What its pixels count.
    weights: Option<Volume<f32>>,
    /// Where they are in the world of the volume.
    moved: Grid,
}

/// What was read: slices in their world, and the volume that is brought to them.
#[derive(Debug)]
pub(super) struct Slices {
    slices: Vec<Slice>,
    moving: Arc<Volume<f32>>,
    moving_mask: Option<Volume<f32>>,
    start: AffineChoice,
    /// From the world of the slices to that of the volume.
    affine: Affine,
    oddities: Vec<Text>,
}

/// Whether an image is a slice of a volume.
pub(super) fn is_slice(grid: &Grid) -> bool {
    grid.dims().iter().filter(|&&n| n == 1).count() == 1
}

/// Refuses what is for two volumes.
pub(super) fn check(job: &Job) -> Result<()> {
    let volumes = || text!("two volumes; here the fixed images are slices");
    refuse(job.affine == Some(AffineChoice::Auto), "affine = auto", volumes())?;
    refuse(job.init.is_some(), "init", volumes())?;
    if let Some(option) = job.way.given() {
        refuse(true, option, volumes())?;
    }
    refuse(job.is_sequence(), "stream", volumes())?;
    refuse(job.preparation()?.histogram_match, "histogram_match", volumes())?;
    let masks = &job.paths.masks;
    refuse(masks.fixed_labels.is_some(), "fixed_labels", volumes())?;
    refuse(masks.moving_labels.is_some(), "moving_labels", volumes())
}

/// Reads what goes with the first slice and the volume, which are those of a pair.
pub(super) fn read(job: &Job, pair: Pair, listener: &dyn Listener) -> Result<Slices> {
    check(job)?;
    let oddities = pair.oddities().cloned().collect();
    let Pair { fixed, moving, fixed_mask, moving_mask, .. } = pair;
    let start = job.affine.clone().unwrap_or(AffineChoice::None);
    let geometry = Geometry { fixed: Some(fixed.grid()), moving: Some(moving.grid()) };
    let affine = crate::deform::given(&start, &geometry, listener)?;
    let affine = affine.unwrap_or_else(Affine::identity);
    let first = Volume::new(fixed.grid().clone(), memory::copied(fixed.data())?)?;
    let mut images = vec![(&job.paths.fixed, first)];
    for path in &job.slice {
        let image = files::image_of(path, &ReadOptions::default(), listener);
        images.push((path, image.map_err(|e| e.at(text!("`slice`")))?.0));
    }
    let of = |(path, image): (&PathBuf, Volume<f32>)| {
        if !is_slice(image.grid()) {
            let [x, y, z] = image.dims();
            return Err(Error::input(text!(
                "'{}' has {x} x {y} x {z} voxels; a slice has exactly one dimension of 1, whichever",
                path.display()
            )));
        }
        let weights = fixed_mask.as_ref().map(|mask| within(mask, image.grid())).transpose()?;
        let moved = image.grid().moved(&affine)?;
        Ok(Slice { path: path.clone(), image, weights, moved })
    };
    let slices = images.into_iter().map(of).collect::<Result<_>>()?;
    Ok(Slices { slices, moving, moving_mask, start, affine, oddities })
}

/// 1 at the pixels of a slice that are in a mask, on any grid, else 0.
fn within(mask: &Volume<f32>, slice: &Grid) -> Result<Volume<f32>> {
    let ([nx, ny, _], grid) = (slice.dims(), mask.grid());
    let at = |v: usize| {
        let index = [v % nx, v / nx % ny, v / nx / ny].map(|i| i as f64);
        let at = grid.world_to_index(slice.index_to_world(Vector3::from(index)));
        let nearest = at.map(f64::round);
        let inside = (0..3).all(|a| nearest[a] >= 0.0 && nearest[a] < grid.dims()[a] as f64);
        let value = match inside {
            true => {
                let [i, j, k] = [0, 1, 2].map(|a| nearest[a] as usize);
                mask.get(i, j, k).copied().unwrap_or(0.0)
            }
            false => 0.0,
        };
        if value > 0.0 { 1.0 } else { 0.0 }
    };
    Ok(Volume::new(slice.clone(), memory::collected((0..slice.len()).map(at))?)?)
}

impl Slices {
    /// The grid of the volume, in whose world the body is at rest.
    pub(super) fn grid(&self) -> &Grid {
        self.moving.grid()
    }

    /// What the registration takes: slices in the world of the volume.
    fn as_input(&self, similarity: Similarity) -> Result<SlicesInput<'_>> {
        let mut slices = Vec::with_capacity(self.slices.len());
        for Slice { image, weights, moved, .. } in &self.slices {
            let input = SliceInput::new(ImageView::new(moved, image.data())?);
            slices.push(match weights {
                Some(weights) => input.weighted(ImageView::new(moved, weights.data())?),
                None => input,
            });
        }
        let mut input = SlicesInput::new(slices, &*self.moving, similarity);
        input.moving_mask = self.moving_mask.as_ref().map(Into::into);
        Ok(input)
    }

    /// Refuses what cannot be registered.
    pub(super) fn check(&self, similarity: Similarity, setting: &ElasticSetting) -> Result<()> {
        setting.check_body()?;
        self.as_input(similarity)?.check().map_err(|e| self.blamed(e))
    }

    /// An error with the file of the slice that it is about, where it is one.
    fn blamed(&self, error: RegisterError) -> Error {
        let slice = match &error {
            RegisterError::Slice { number, .. } => self.slices.get(*number),
            _ => None,
        };
        let failure = Error::from(error);
        match slice {
            // One in memory has no path.
            Some(slice) if slice.path.as_os_str().is_empty() => failure.at("the fixed image"),
            Some(slice) => failure.at(format!("'{}'", slice.path.display())),
            None => failure,
        }
    }
}

/// A field of displacements in the world of the volume as one in that of the slices, before the affine map from there.
fn in_fixed_world(field: VectorField, affine: &Affine) -> Result<VectorField> {
    if *affine == Affine::identity() {
        return Ok(field);
    }
    let back = affine.inverse()?;
    let (grid, mut data) = field.into_parts();
    let n = grid.len();
    let (x, rest) = data.split_at_mut(n);
    let (y, z) = rest.split_at_mut(n);
    x.par_iter_mut().zip(y).zip(z).for_each(|((x, y), z)| {
        let v = back.matrix * Vector3::new(*x, *y, *z).map(f64::from);
        (*x, *y, *z) = (v.x as f32, v.y as f32, v.z as f32);
    });
    Ok(VectorField::new(grid.moved(&back)?, data)?)
}

/// Registers what was read, and writes all.
pub(super) fn run(
    job: &Job,
    (machine, run): (&Machine, Run<'_>),
    read: Read<Slices>,
    (setting, similarity): (&ElasticSetting, Similarity),
    (materials, remarks): (&[MaterialRecord], &[String]),
) -> Result<Done<voxalign_report::RunRecord>> {
    let (device, listener) = (&machine.device, run.listener);
    let mut clock = run.clock(machine, &read);
    let Read { inputs, records, .. } = read;
    clock.lap("read");
    let mut staged = Staged::new(run.folder, listener)?;
    let input = inputs.as_input(similarity)?;
    let found = register_slices(device, &input, setting, listener);
    let (result, body) = found.map_err(|e| inputs.blamed(e))?;
    drop(input);
    go_on(listener)?;
    clock.lap("register");

    let SlicesResult { deform: mut result, slices: shown, evidence } = result;
    result.affine = inputs.affine;
    let task = OfBody::new(job, (setting, similarity), materials, remarks);
    let outside = outside(device, run.output, &inputs.moving)?;
    let mut parameters = task.parameters(outside, similarity, &inputs.affine);
    if let Some(all) = parameters.as_object_mut() {
        let paths: Vec<_> = job.slice.iter().map(|p| p.display().to_string()).collect();
        all.insert("affine".to_owned(), inputs.start.to_string().into());
        all.insert("slice".to_owned(), paths.into());
        all.remove("histogram_match");
    }
    let mut record = record((parameters, &run), &result, None, machine);
    record.inputs = records;
    let DeformResult { forward, inverse, jacobian, scales, verdict, .. } = result;
    let measures = Measures::of(&body, &scales, setting.elastic.tolerance)?;
    let mut of_body = task.recorded(&body, &measures, &scales);
    let of = |(slice, evidence): (&Slice, &_)| SliceRecord {
        file: slice.path.display().to_string(),
        evidence: *evidence,
    };
    of_body.slices = inputs.slices.iter().zip(&evidence.slices).map(of).collect();
    for (when, k) in [(When::Before, 0), (When::After, 1)] {
        let of_all = of_body.slices.iter().map(|s| s.evidence.correlation[k]);
        record.figures.set_at(Figure::Ncc, when, of_all.sum::<f64>() / inputs.slices.len() as f64);
    }
    record.verdict = {
        let mut verdict = measures.judged(verdict);
        verdict.remarks.extend(worse(&of_body.slices));
        verdict.remarks.extend(remarks.iter().cloned().map(Text::from));
        verdict.remarks.extend(inputs.oddities.iter().cloned());
        run.caller.worded(verdict, Speaker::Elastic)
    };
    record.elastic = Some(of_body);

    let affine = inputs.affine;
    let (forward, inverse) = (in_fixed_world(forward, &affine)?, in_fixed_world(inverse, &affine)?);
    let grid = forward.grid().clone();
    let (_, values) = jacobian.into_parts();
    let jacobian = Volume::new(grid.clone(), values)?;
    let as_floats = files::write_options(DataType::F32, 3);
    let [whole, back] = write_chains(
        &run,
        &mut staged,
        device,
        ([forward, inverse], inputs.grid()),
        &affine,
        [&grid, inputs.grid()],
        3,
    )?;
    let moving = MovingImage::new(device, Arc::clone(&inputs.moving))?;
    let interpolation = run.output.interpolation().of_image()?;
    let warped = moving.onto(&grid, &whole, interpolation, outside)?;
    drop(moving);
    clock.lap("resample");
    let files = field_files(&run, &mut staged)?;
    Fields { back, whole: &whole, jacobian: &jacobian, options: &as_floats }.write(&files)?;
    if run.writes(Product::Warped) {
        staged.write(WARPED, |path| image::write_volume(path, &warped, &as_floats))?;
        for ((number, slice), shown) in (1..).zip(&inputs.slices).zip(&shown) {
            let image =
                Volume::new(slice.image.grid().clone(), memory::copied(shown.after.data())?)?;
            let name = warped_slice(number);
            staged.write(&name, |path| image::write_volume(path, &image, &as_floats))?;
        }
    }
    if run.writes(Product::Mesh) {
        let mesh = deformed(&body, &measures)?;
        staged.write(MESH, |path| tetra::write(path, &mesh, &tetra::WriteOptions::default()))?;
    }
    clock.lap("write");
    // Pictures are of the world of the volume, where the body is and slices were compared.
    let (norms, world) = (measures.norms()?, inputs.grid());
    let [warped, jacobian] = [warped, jacobian].map(|image| image.with_grid(world.clone()));
    let (warped, jacobian) = (warped?, jacobian?);
    let of = |slice: &Slice| {
        Volume::new(slice.moved.clone(), memory::copied(slice.image.data())?).map_err(Error::from)
    };
    let moved = inputs.slices.iter().map(of).collect::<Result<Vec<_>>>()?;
    let outputs = slice_files(run.folder, inputs.slices.len());
    outputs.stale.iter().for_each(|name| staged.without(name));
    let report = |record: &_| {
        let names: Vec<_> = inputs.slices.iter().map(|s| s.path.display().to_string()).collect();
        let pictures = moved.iter().zip(&shown).zip(&names);
        let pictures: Vec<_> = pictures
            .map(|((slice, shown), name)| SlicePictures {
                name,
                slice,
                before: &shown.before,
                after: &shown.after,
            })
            .collect();
        render(&SlicesReport {
            record,
            slices: &pictures,
            mesh: body.body.mesh(),
            displacements: &body.state.displacements,
            strain: &norms,
            warped: &warped,
            jacobian: &jacobian,
        })
    };
    run.finish(staged, clock, record, &outputs.files, run::nothing_more, report)
}

/// What to say of slices that agree less with the volume than before.
fn worse(slices: &[SliceRecord]) -> Option<Text> {
    let fell = |s: &&SliceRecord| s.evidence.local[1] < s.evidence.local[0] - WORSE;
    let names: Vec<_> = slices.iter().filter(fell).map(|s| format!("'{}'", s.file)).collect();
    (!names.is_empty()).then(|| {
        text!(
            "the volume agrees less with {} than before: for other contrasts than those of the volume give `similarity = mi`, \
             and look at the pictures",
            names.join(" and ")
        )
    })
}

/// How much less slice and volume may agree without a remark, as a part of the local variance.
const WORSE: f64 = 0.01;
