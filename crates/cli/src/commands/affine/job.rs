//! One affine registration, from files to files.

use super::{record, table};
use crate::args::{MethodArgs, Product};
use crate::device::Machine;
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::progress::Talk;
use crate::registration::{
    self, Input, Output, Pair, PairPaths, RECORD, REPORT, Read, Run, TRANSFORM, TRANSFORM_FSL,
    Views, WARPED, optional_image,
};
use crate::staging::Staging;
use std::path::PathBuf;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Transform, Volume};
use voxalign_io::image::{self, DataType};
use voxalign_io::transform::Geometry;
use voxalign_register::linear::{AffineInput, AffineOptions, AffineResult, register_affine};
use voxalign_register::resample::MovingImage;
use voxalign_report::affine::{AffineReport, render};

/// What each file is.
const OUTPUTS: [Output; 5] = [
    Output::new("transform", TRANSFORM, Some(Product::Affine)),
    Output::new("transform_fsl", TRANSFORM_FSL, Some(Product::Affine)),
    Output::new("resampled", WARPED, Some(Product::Warped)),
    Output::new("record", RECORD, None),
    Output::new("report", REPORT, None),
];

/// The files that a registration reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paths {
    pub(crate) pair: PairPaths,
    pub(crate) fixed_weight: Option<PathBuf>,
}

impl Paths {
    /// All files with what they are.
    fn all(&self) -> Vec<Input<'_>> {
        let mut all = self.pair.all();
        all.extend(Input::those_given(&[("fixed_weight", &self.fixed_weight)]));
        all
    }
}

/// A registration that is to be done.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    /// Program and command, for the record.
    pub(crate) program: &'static str,
    pub(crate) paths: Paths,
    pub(crate) method: &'a MethodArgs,
    pub(crate) run: Run<'a>,
}

/// What was read.
pub(crate) struct Inputs {
    pair: Pair,
    fixed_weight: Option<Volume<f32>>,
}

impl Job<'_> {
    /// Checks what can be checked before a device is started.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.run.check(&OUTPUTS, &self.paths.all())?;
        self.paths.pair.check()
    }

    /// Does it all and prints the table.
    pub(crate) fn run(&self, machine: &Machine, read: Read<Inputs>) -> Result<Outcome, Failure> {
        let device = &machine.device;
        let mut clock = self.run.clock(machine, &read);
        let Read { mut inputs, records: input_records, .. } = read;
        let grids = [inputs.pair.fixed.grid().clone(), inputs.pair.moving.grid().clone()];
        let geometry = Geometry { fixed: Some(&grids[0]), moving: Some(&grids[1]) };
        let options = self.method.options(&geometry)?;
        clock.lap("read");

        let mut staging = Staging::new(self.run.output)?;
        let printer = self.run.printer(&grids);
        let result = register_affine(device, &inputs.as_input(), &options, &printer)
            .map_err(|e| registration::blamed(e, &self.paths.all()))?;
        if let Some(scheme) = result.scheme {
            printer.say(Talk::Verbose, &format!("histogram scheme: {}", scheme.name()));
        }
        printer.finish();
        clock.lap("register");

        let outside = inputs.pair.outside(self.run.output_options);
        let moving = MovingImage::new(device, inputs.pair.take_moving()?)?;
        let scoring = inputs.pair.scoring(self.run.output_options, outside)?;
        let after = scoring.under(device, &moving, &Transform::Affine(result.transform))?;
        let before = scoring.under(device, &moving, &Transform::identity())?;
        drop(moving);
        let views = Views { before, after };
        clock.lap("resample");

        let dimensions = inputs.pair.dimensions;
        if self.run.writes(Product::Affine) {
            registration::write_affine(&mut staging, &result.transform, dimensions, &geometry)?;
        }
        if self.run.writes(Product::Warped) {
            let as_floats = files::write_options(DataType::F32, dimensions);
            let image = &views.after.image;
            staging.write(WARPED, |path| image::write_volume(path, image, &as_floats))?;
        }
        clock.lap("write");

        let mut record = record::record(self, machine, &options, &result, outside, input_records);
        record.verdict.remarks.extend(inputs.pair.remarks(&views));
        record.transform = record::transform(&result, &grids[0]);
        record.figures = record::figures(&result);
        registration::score_figures(&mut record, &views, &inputs.pair.label_names);
        let report =
            |record: &_| render(&AffineReport { record, images: views.images(&inputs.pair) });
        let print = |record: &_| table::print(&options, &result, &views, record, self.run.output);
        self.run.finish(staging, clock, &mut record, &OUTPUTS, || Ok(()), report, print)
    }

    /// Reads all files.
    pub(crate) fn read(&self) -> Result<Read<Inputs>, Failure> {
        self.run.read(&self.paths.all(), || self.inputs())
    }

    fn inputs(&self) -> Result<Inputs, Failure> {
        let (paths, talk) = (&self.paths, self.run.talk);
        Ok(Inputs {
            pair: paths.pair.read(talk)?,
            fixed_weight: optional_image(&paths.fixed_weight, "--fixed-weight", talk)?,
        })
    }
}

impl Inputs {
    fn as_input(&self) -> AffineInput<'_> {
        AffineInput {
            fixed: &self.pair.fixed,
            moving: &self.pair.moving,
            fixed_mask: self.pair.fixed_mask.as_ref(),
            moving_mask: self.pair.moving_mask.as_ref(),
            fixed_weight: self.fixed_weight.as_ref(),
        }
    }
}

/// For the benchmark: registers without writing.
pub(crate) fn register_only(
    device: &AnyDevice,
    fixed: &Volume<f32>,
    moving: &Volume<f32>,
    options: &AffineOptions,
) -> Result<AffineResult, Failure> {
    let input = AffineInput::new(fixed, moving);
    Ok(register_affine(device, &input, options, &voxalign_register::Silent)?)
}
