//! One deformable registration, from files to files.

use super::method::{AffineChoice, Channel};
use super::{record, table, unfit};
use crate::args::{InitChoice, MethodArgs, Product};
use crate::device::Machine;
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::interrupt;
use crate::registration::{
    self, AFFINE, Input, Output, Pair, PairPaths, RECORD, REPORT, Run, TRANSFORM, TRANSFORM_FSL,
    Views, WARPED,
};
use crate::remedy::{Speaker, worded};
use crate::staging::Staging;
use std::path::{Path, PathBuf};
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Affine, Displacement, Transform, VectorField, Volume};
use voxalign_io::image::{self, DataType};
use voxalign_io::transform::{self, Geometry};
use voxalign_register::compare::same_grid;
use voxalign_register::diffeo::calibrate::foreground_threshold;
use voxalign_register::diffeo::{
    ChannelInput, DeformInput, DeformOptions, DeformResult, DeformSimilarity, check_start,
    object_of, register_deformable,
};
use voxalign_register::linear::{AffineInput, Init, register_affine};
use voxalign_register::resample::{MovingImage, displacements};
use voxalign_register::scores::{Scoring, Tissue};
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
    pub(super) similarity: DeformSimilarity,
    pub(super) options: DeformOptions,
    pub(super) run: Run<'a>,
}

/// What was read.
struct Inputs {
    pair: Pair,
    /// Fixed and moving images of further channels.
    channels: Vec<[Volume<f32>; 2]>,
}

impl Job<'_> {
    /// Checks what can be checked before a device is started.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.run.check(&OUTPUTS, &self.paths.all())?;
        self.paths.pair.check()?;
        self.paths.check_channels()
    }

    /// Does it all and prints the table.
    pub(super) fn run(&self, machine: &Machine) -> Result<Outcome, Failure> {
        self.run_on(&machine.device, machine)
    }

    fn run_on(&self, device: &AnyDevice, machine: &Machine) -> Result<Outcome, Failure> {
        let mut clock = self.run.clock(machine);
        let mut inputs = self.read()?;
        let grids = [inputs.pair.fixed.grid().clone(), inputs.pair.moving.grid().clone()];
        let geometry = Geometry { fixed: Some(&grids[0]), moving: Some(&grids[1]) };
        let given = self.given(&geometry)?;
        let input_records = self.run.inputs(&self.paths.all())?;
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

        // Each field is let go once it is written, but for the one that the report shows.
        let dimensions = inputs.pair.dimensions;
        if self.run.writes(Product::Affine) {
            registration::write_affine(&mut staging, &start, dimensions, &geometry)?;
        }
        let inverse = displacement(inverse);
        if self.run.writes(Product::InverseWarp) {
            write_transform(&mut staging, INVERSE_WARP, &inverse)?;
        }
        let back = Transform::Composite(vec![Transform::Affine(start.inverse()?), inverse]);
        if self.run.writes(Product::InverseComposite) {
            let field = displacements(device, &grids[1], &back)?;
            write_transform(&mut staging, INVERSE_COMPOSITE, &displacement(field))?;
        }
        drop(back);
        let warp = displacement(forward);
        if self.run.writes(Product::Warp) {
            write_transform(&mut staging, WARP, &warp)?;
        }
        let whole = Transform::Composite(vec![warp, Transform::Affine(start)]);
        if self.run.writes(Product::Composite) {
            let field = displacements(device, &grids[0], &whole)?;
            write_transform(&mut staging, COMPOSITE, &displacement(field))?;
        }
        let as_floats = files::write_options(DataType::F32, dimensions);
        if self.run.writes(Product::Jacobian) {
            staging.write(JACOBIAN, |path| image::write_volume(path, &jacobian, &as_floats))?;
        }
        clock.lap("write");

        let moving = inputs.pair.take_moving()?;
        // A mask says by itself what counts.
        let masked = inputs.pair.fixed_mask.is_some();
        let moving_above = match foreground_threshold(moving.data()) {
            Some((_, above)) if !masked => above,
            _ => f32::NEG_INFINITY,
        };
        let object = object_of(&inputs.pair.fixed, inputs.pair.fixed_mask.as_ref());
        let tissue = object.map(|object| Tissue { object, moving_above });
        let moving = MovingImage::new(device, moving)?;
        let scoring = Scoring { tissue, ..inputs.pair.scoring(self.run.output_options, outside)? };
        let after = scoring.under(device, &moving, &whole)?;
        let before = scoring.under(device, &moving, &Transform::Affine(start))?;
        if let Some(rival) = rival {
            let rival = Transform::Affine(rival.transform);
            let scores = scoring.under(device, &moving, &rival)?.scores;
            verdict = verdict.with(after.scores.worth(&scores, Remedy::BetterStart));
        } else {
            verdict = verdict.with(after.scores.worth(&before.scores, Remedy::OtherAffinePart));
        }
        let energy = measures.harmonic_energy_of_object(grids[0].len());
        let earns = energy.and_then(|energy| after.scores.earns(energy));
        verdict = verdict.with(after.scores.agrees()).with(earns);
        drop(moving);
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
        let print = |record: &_| table::print(&views, &measures, &scales, record, self.run.output);
        self.run.finish(staging, clock, &mut record, &OUTPUTS, report, print)
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

    fn read(&self) -> Result<Inputs, Failure> {
        let (paths, talk) = (&self.paths, self.run.talk);
        let image = |path: &Path| files::image(path, talk).map_err(|e| e.at("--channel"));
        let channels = paths.channels.iter().map(|c| Ok([image(&c.fixed)?, image(&c.moving)?]));
        Ok(Inputs {
            pair: paths.pair.read(talk)?,
            channels: channels.collect::<Result<_, Failure>>()?,
        })
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
