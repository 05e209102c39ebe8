//! One deformable registration, from files to files.

use super::method::{AffineChoice, Channel};
use super::{record, table, unfit};
use crate::args::{InitChoice, MethodArgs, Product};
use crate::device::Machine;
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::interrupt;
use crate::registration::{
    self, AFFINE, Input, Output, Pair, PairPaths, RECORD, REPORT, Read, Run, TRANSFORM,
    TRANSFORM_FSL, Views, WARPED,
};
use crate::remedy::{Speaker, worded};
use crate::staging::Staging;
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Affine, Displacement, Transform, VectorField, Volume};
use voxalign_io::image::{self, DataType, WriteOptions};
use voxalign_io::transform::{self, Geometry};
use voxalign_register::compare::same_grid;
use voxalign_register::diffeo::calibrate::foreground_threshold;
use voxalign_register::diffeo::{
    ChannelInput, DeformInput, DeformOptions, DeformResult, check_start, object_of,
    register_deformable,
};
use voxalign_register::linear::{AffineInput, AffineResult, Init, register_affine};
use voxalign_register::resample::{MovingImage, displacements};
use voxalign_register::scores::{Resampled, Scores, Scoring, Tissue};
use voxalign_register::similarity::Similarity;
use voxalign_register::{Event, Progress, Remedy};
use voxalign_report::deform::{DeformReport, energies, render};

/// Names of the files that are a deformation's own.
const WARP: &str = "warp.nii.gz";
const INVERSE_WARP: &str = "inverse_warp.nii.gz";
const COMPOSITE: &str = "composite.nii.gz";
const INVERSE_COMPOSITE: &str = "inverse_composite.nii.gz";
const JACOBIAN: &str = "jacobian.nii.gz";

/// What each file is.
pub(super) const OUTPUTS: [Output; 10] = [
    Output::new("warp", WARP, Some(Product::Warp)),
    Output::new("inverse_warp", INVERSE_WARP, Some(Product::InverseWarp)),
    Output::new("transform", TRANSFORM, Some(Product::Affine)),
    Output::new("transform_fsl", TRANSFORM_FSL, Some(Product::Affine)),
    Output::new("composite", COMPOSITE, Some(Product::Composite)),
    Output::new("inverse_composite", INVERSE_COMPOSITE, Some(Product::InverseComposite)),
    Output::new("resampled", WARPED, Some(Product::Warped)),
    Output::new("jacobian", JACOBIAN, Some(Product::Jacobian)),
    Output::new("record", RECORD, None),
    Output::new("report", REPORT, None),
];

/// The files that a registration reads.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    pub(super) pair: PairPaths,
    pub(super) channels: Vec<Channel>,
    pub(super) affine: Option<PathBuf>,
}

impl Paths {
    /// All files with what they are.
    fn all(&self) -> Vec<Input<'_>> {
        let mut all = self.pair.all();
        for channel in &self.channels {
            all.push(Input::image("channel_fixed", &channel.fixed));
            all.push(Input::image("channel_moving", &channel.moving));
        }
        all.extend(self.affine.as_deref().map(|path| Input::other(AFFINE, path)));
        all
    }

    /// The fixed images of all channels are on one grid.
    fn check_channels(&self) -> Result<(), Failure> {
        let grid = |path: &Path| Ok::<_, Failure>(image::read_info(path)?.grid);
        if self.channels.is_empty() {
            return Ok(());
        }
        let fixed = grid(&self.pair.fixed)?;
        for channel in &self.channels {
            let own = grid(&channel.fixed).map_err(|e| e.at("--channel"))?;
            if same_grid(&own, &fixed).is_err() {
                return Err(Failure::input(format!(
                    "--channel: '{0}' is on another grid than the fixed image '{1}': {own} against \
                     {fixed}; bring it there first, by `voxalign apply -i {0} -r {1} -o CHANNEL.nii.gz`",
                    channel.fixed.display(),
                    self.pair.fixed.display()
                )));
            }
        }
        Ok(())
    }
}

/// A registration that is to be done.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) paths: Paths,
    pub(super) affine: AffineChoice,
    /// The similarity of the fixed and the moving image.
    pub(super) similarity: Similarity,
    pub(super) options: DeformOptions,
    pub(super) run: Run<'a>,
}

/// What was read.
pub(super) struct Inputs {
    pair: Pair,
    /// Fixed and moving images of further channels.
    channels: Vec<[Volume<f32>; 2]>,
    /// The affine map to start from, where it is not to be found.
    given: Option<Affine>,
}

impl Job<'_> {
    /// Checks what can be checked before a device is started.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.run.check(&OUTPUTS, &self.paths.all())?;
        self.paths.pair.check()?;
        self.paths.check_channels()
    }

    /// Does it all and prints the table.
    pub(super) fn run(&self, machine: &Machine, read: Read<Inputs>) -> Result<Outcome, Failure> {
        let device = &machine.device;
        let mut clock = self.run.clock(machine, &read);
        let Read { mut inputs, records: input_records, .. } = read;
        let grids = [inputs.pair.fixed.grid().clone(), inputs.pair.moving.grid().clone()];
        let geometry = Geometry { fixed: Some(&grids[0]), moving: Some(&grids[1]) };
        let given = inputs.given;
        clock.lap("read");

        let mut staging = Staging::new(self.run.output)?;
        let printer = self.run.printer(&grids);
        let blamed = |e| registration::blamed(e, &self.paths.all());
        // A start that was given is compared with the best affine transform at the end.
        let options = MethodArgs::default().options(&geometry)?;
        let found = match given {
            None => register_affine(device, &inputs.for_affine(), &options, &printer),
            Some(_) => register_affine(device, &inputs.for_affine(), &options, &Interruptible),
        };
        let (start, found, rival) = match given {
            None => {
                let found = found.map_err(blamed)?;
                (found.transform, Some(found), None)
            }
            Some(start) => match found {
                Ok(found) => (start, None, Some(found).filter(|f| f.verdict.good)),
                Err(e) if e.is_of_images() => (start, None, None),
                Err(e) => return Err(blamed(e)),
            },
        };
        interrupt::check()?;
        clock.lap("affine");
        if let Some(affine) = found.as_ref().filter(|f| !f.verdict.good)
            && let Err(why) = check_start(&start, self.options.model)
        {
            printer.finish();
            let end = unfit::End { job: self, device, machine, affine, why: &why };
            return end.write(inputs.pair, staging, clock, input_records);
        }
        let input = self.input(&inputs, start);
        let result =
            register_deformable(device, &input, &self.options, &printer).map_err(blamed)?;
        drop(input);
        inputs.channels.clear();
        printer.finish();
        clock.lap("register");

        let outside = inputs.pair.outside(self.run.output_options);
        let mut record =
            record::record(self, &result, found.as_ref(), outside, machine, input_records);
        let mut verdict = match &found {
            Some(affine) => {
                result.verdict.after("affine part", &affine.verdict, Remedy::OtherAffinePart)
            }
            None => result.verdict,
        };
        let DeformResult { forward, inverse, jacobian, measures, scales, path, .. } = result;

        let dimensions = inputs.pair.dimensions;
        if self.run.writes(Product::Affine) {
            registration::write_affine(&mut staging, &start, dimensions, &geometry)?;
        }
        let back =
            Transform::Composite(vec![Transform::Affine(start.inverse()?), displacement(inverse)]);
        if self.run.writes(Product::InverseComposite) {
            let field = displacements(device, &grids[1], &back)?;
            write_transform(&mut staging, INVERSE_COMPOSITE, &displacement(field))?;
        }
        let whole = Transform::Composite(vec![displacement(forward), Transform::Affine(start)]);
        if self.run.writes(Product::Composite) {
            let field = displacements(device, &grids[0], &whole)?;
            write_transform(&mut staging, COMPOSITE, &displacement(field))?;
        }
        let as_floats = files::write_options(DataType::F32, dimensions);
        let files = self.field_files(&mut staging)?;
        let fields = Fields { back, whole: &whole, jacobian: &jacobian, options: &as_floats };
        let mut fields = Some(fields);
        if machine.gpu().is_none() {
            // On the CPU all threads have enough to do, and the inverse is let go before the result is scored.
            fields.take().map_or(Ok(()), |fields| fields.write(&files))?;
        }
        clock.lap("write");
        // While a GPU scores the result, and the report is made, other threads write.
        let writers = fields.as_ref().map(|_| writers(machine.threads)).transpose()?;
        std::thread::scope(|scope| {
            let (files, writers) = (&files, writers.as_ref());
            let write = move |fields: Fields<'_>| match writers {
                Some(writers) => writers.install(|| fields.write(files)),
                None => fields.write(files),
            };
            let mut writing = Writing(fields.map(|fields| scope.spawn(move || write(fields))));
            let Scored { before, after, rival } =
                self.score(device, &mut inputs.pair, &whole, start, rival, outside)?;
            let (worse, remedy) = match &rival {
                Some(rival) => (rival, Remedy::BetterStart),
                None => (&before.scores, Remedy::OtherAffinePart),
            };
            let energy = measures.harmonic_energy_of_object(grids[0].len());
            let earns = energy.and_then(|energy| after.scores.earns(energy));
            verdict = verdict.with(after.scores.worth(worse, remedy));
            verdict = verdict.with(after.scores.agrees()).with(earns);
            let views = Views { before, after };
            verdict.remarks.extend(inputs.pair.remarks(&views));
            record.verdict = worded(verdict, Speaker::Deform);
            clock.lap("resample");
            if self.run.writes(Product::Warped) {
                let image = &views.after.image;
                staging.write(WARPED, |path| image::write_volume(path, image, &as_floats))?;
            }
            clock.lap("write");

            registration::score_figures(&mut record, &views, &inputs.pair.label_names);
            let field = match &whole {
                Transform::Composite(parts) => parts.first(),
                _ => None,
            };
            let Some(Transform::Displacement(warp)) = field else {
                return Err(Failure::Internal("the field is gone".into()));
            };
            let report = |record: &_| {
                render(&DeformReport {
                    record,
                    images: views.images(&inputs.pair),
                    jacobian: &jacobian,
                    field: warp.field(),
                    energies: &energies(&scales, path.as_ref(), self.options.sigma, &grids[0]),
                })
            };
            let print =
                |record: &_| table::print(&views, &measures, &scales, record, self.run.output);
            let written = move || writing.wait();
            self.run.finish(staging, clock, &mut record, &OUTPUTS, written, report, print)
        })
    }

    /// Where the fields and their Jacobian are written to.
    fn field_files(&self, staging: &mut Staging) -> Result<Vec<FieldFile>, Failure> {
        let all = [
            (Product::InverseWarp, INVERSE_WARP),
            (Product::Warp, WARP),
            (Product::Jacobian, JACOBIAN),
        ];
        let written = all.into_iter().filter(|&(product, _)| self.run.writes(product));
        written
            .map(|(product, name)| {
                let path = staging.path(name)?;
                Ok(FieldFile { product, path, end: staging.final_path(name) })
            })
            .collect()
    }

    /// Brings the moving image to the fixed one by the result, and by the affine map alone.
    fn score(
        &self,
        device: &AnyDevice,
        pair: &mut Pair,
        whole: &Transform,
        start: Affine,
        rival: Option<AffineResult>,
        outside: f32,
    ) -> Result<Scored, Failure> {
        let moving = pair.take_moving()?;
        // A mask says by itself what counts.
        let masked = pair.fixed_mask.is_some();
        let moving_above = match foreground_threshold(moving.data()) {
            Some((_, above)) if !masked => above,
            _ => f32::NEG_INFINITY,
        };
        let object = object_of(&pair.fixed, pair.fixed_mask.as_ref());
        let tissue = object.map(|object| Tissue { object, moving_above });
        let moving = MovingImage::new(device, moving)?;
        let scoring = Scoring { tissue, ..pair.scoring(self.run.output_options, outside)? };
        let after = scoring.under(device, &moving, whole)?;
        let before = scoring.under(device, &moving, &Transform::Affine(start))?;
        let rival = rival.map(|rival| {
            let rival = Transform::Affine(rival.transform);
            Ok::<_, Failure>(scoring.under(device, &moving, &rival)?.scores)
        });
        Ok(Scored { before, after, rival: rival.transpose()? })
    }

    /// The affine map to start from, where it is not to be found.
    fn given(&self, geometry: &Geometry<'_>) -> Result<Option<Affine>, Failure> {
        match &self.affine {
            AffineChoice::Auto => Ok(None),
            AffineChoice::None => Ok(Some(Affine::identity())),
            AffineChoice::File(path) => {
                let init = InitChoice::File(path.clone()).load(geometry);
                match init.map_err(|e| e.at("--affine"))? {
                    Init::Given(affine) => Ok(Some(affine)),
                    _ => Err(Failure::Internal("a file is no start".into())),
                }
            }
        }
    }

    /// Reads all files.
    pub(super) fn read(&self) -> Result<Read<Inputs>, Failure> {
        self.run.read(&self.paths.all(), || self.inputs())
    }

    fn inputs(&self) -> Result<Inputs, Failure> {
        let (paths, talk) = (&self.paths, self.run.talk);
        let image = |path: &Path| files::image(path, talk).map_err(|e| e.at("--channel"));
        let channels = paths.channels.iter().map(|c| Ok([image(&c.fixed)?, image(&c.moving)?]));
        let pair = paths.pair.read(talk)?;
        let grids = [pair.fixed.grid(), pair.moving.grid()];
        let given = self.given(&Geometry { fixed: Some(grids[0]), moving: Some(grids[1]) })?;
        Ok(Inputs { channels: channels.collect::<Result<_, Failure>>()?, pair, given })
    }

    fn input<'a>(&self, inputs: &'a Inputs, affine: Affine) -> DeformInput<'a> {
        let mut channels = vec![ChannelInput {
            fixed: &inputs.pair.fixed,
            moving: &inputs.pair.moving,
            similarity: self.similarity,
            weight: 1.0,
        }];
        for (images, channel) in inputs.channels.iter().zip(&self.paths.channels) {
            channels.push(ChannelInput {
                fixed: &images[0],
                moving: &images[1],
                similarity: channel.similarity,
                weight: channel.weight,
            });
        }
        let [fixed_mask, moving_mask] =
            [&inputs.pair.fixed_mask, &inputs.pair.moving_mask].map(Option::as_ref);
        DeformInput { channels, fixed_mask, moving_mask, affine }
    }
}

/// What is written while the result is scored.
struct Fields<'a> {
    /// The inverse affine map and field.
    back: Transform,
    whole: &'a Transform,
    jacobian: &'a Volume<f32>,
    options: &'a WriteOptions,
}

/// A file of a field: where it is written, and the path that it will have.
struct FieldFile {
    product: Product,
    path: PathBuf,
    end: PathBuf,
}

impl Fields<'_> {
    fn write(&self, files: &[FieldFile]) -> Result<(), Failure> {
        let field = |transform: &Transform, path: &Path| match transform {
            Transform::Composite(parts) => parts
                .iter()
                .filter(|part| matches!(part, Transform::Displacement(_)))
                .try_for_each(|part| transform::write(path, part, &Geometry::default())),
            other => transform::write(path, other, &Geometry::default()),
        };
        for FieldFile { product, path, end } in files {
            match product {
                Product::InverseWarp => field(&self.back, path),
                Product::Warp => field(self.whole, path),
                _ => image::write_volume(path, self.jacobian, self.options),
            }
            .map_err(|e| e.instead_at(end))?;
        }
        Ok(())
    }
}

/// Threads that pack fields beside those of everything else, which would otherwise take turns with them; half
/// as many.
fn writers(threads: usize) -> Result<rayon::ThreadPool, Failure> {
    let count = (threads / 2).max(1);
    voxalign_compute::cpu::threads::check(count)?;
    let built = rayon::ThreadPoolBuilder::new().num_threads(count).build();
    built.map_err(|e| voxalign_compute::cpu::threads::refused(count, e).into())
}

/// A thread that writes fields. Whatever ends this waits for it, so that nothing is written into a folder that is
/// being removed.
struct Writing<'scope>(Option<ScopedJoinHandle<'scope, Result<(), Failure>>>);

impl Writing<'_> {
    fn wait(&mut self) -> Result<(), Failure> {
        let gone = |_| Failure::Internal("the thread that wrote the fields is gone".into());
        self.0.take().map_or(Ok(()), |thread| thread.join().map_err(gone)?)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        // What went wrong before says more.
        let _ = self.wait();
    }
}

/// The moving image on the fixed one.
struct Scored {
    before: Resampled,
    after: Resampled,
    /// By the best affine map, where that is not the start.
    rival: Option<Scores>,
}

impl Inputs {
    fn for_affine(&self) -> AffineInput<'_> {
        AffineInput {
            fixed: &self.pair.fixed,
            moving: &self.pair.moving,
            fixed_mask: self.pair.fixed_mask.as_ref(),
            moving_mask: self.pair.moving_mask.as_ref(),
            fixed_weight: None,
        }
    }
}

/// Listens to nothing but the user's wish to stop.
struct Interruptible;

impl Progress for Interruptible {
    fn event(&self, _: &Event<'_>) {}

    fn stop(&self) -> bool {
        interrupt::requested()
    }
}

/// A field as a transform.
fn displacement(field: VectorField) -> Transform {
    Transform::Displacement(Displacement::new(field))
}

/// Writes a field.
fn write_transform(staging: &mut Staging, name: &str, field: &Transform) -> Result<(), Failure> {
    staging.write(name, |path| transform::write(path, field, &Geometry::default()))
}
