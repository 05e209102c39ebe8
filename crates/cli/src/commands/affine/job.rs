//! One affine registration, from files to files.

use super::record;
use super::table;
use crate::args::{MethodArgs, OutputArgs, RunArgs};
use crate::device::{AnyDevice, Machine, on_device};
use crate::failure::{Failure, Outcome};
use crate::files::{self, Staging};
use crate::output;
use crate::progress::{Printer, Talk};
use crate::registration::{self, Clock, Scores, View, write_text};
use crate::resample::Source;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use voxalign_compute::Device;
use voxalign_image::{LabelMap, Transform, Volume};
use voxalign_io::image::{self, DataType};
use voxalign_io::transform::Geometry;
use voxalign_register::compare::OverlapRule;
use voxalign_register::linear::{AffineInput, AffineOptions, AffineResult, Cost, register_affine};
use voxalign_report::affine::{AffineReport, render};

/// Names of the files of a result.
pub(crate) const TRANSFORM: &str = "affine.tfm";
const TRANSFORM_FSL: &str = "affine.fsl.mat";
const WARPED: &str = "warped.nii.gz";
const RECORD: &str = "result.json";
const REPORT: &str = "report.html";

/// The files that a registration reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paths {
    pub(crate) fixed: PathBuf,
    pub(crate) moving: PathBuf,
    pub(crate) fixed_mask: Option<PathBuf>,
    pub(crate) moving_mask: Option<PathBuf>,
    pub(crate) fixed_weight: Option<PathBuf>,
    pub(crate) fixed_labels: Option<PathBuf>,
    pub(crate) moving_labels: Option<PathBuf>,
}

impl Paths {
    /// All files with what they are.
    pub(crate) fn all(&self) -> Vec<(&'static str, &Path)> {
        let optional = [
            ("fixed_mask", &self.fixed_mask),
            ("moving_mask", &self.moving_mask),
            ("fixed_weight", &self.fixed_weight),
            ("fixed_labels", &self.fixed_labels),
            ("moving_labels", &self.moving_labels),
        ];
        let mut all = vec![("fixed", self.fixed.as_path()), ("moving", self.moving.as_path())];
        all.extend(optional.into_iter().filter_map(|(role, p)| Some((role, p.as_deref()?))));
        all
    }
}

/// A registration that is to be done.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    /// Program and command, for the record.
    pub(crate) program: &'static str,
    pub(crate) paths: Paths,
    /// The configuration file, where there is one.
    pub(crate) config: Option<PathBuf>,
    pub(crate) output: PathBuf,
    pub(crate) method: &'a MethodArgs,
    pub(crate) output_options: &'a OutputArgs,
    pub(crate) run: &'a RunArgs,
    pub(crate) machine: &'a Machine,
}

/// What was read.
struct Inputs {
    fixed: Volume<f32>,
    moving: Volume<f32>,
    fixed_mask: Option<Volume<f32>>,
    moving_mask: Option<Volume<f32>>,
    fixed_weight: Option<Volume<f32>>,
    fixed_labels: Option<LabelMap>,
    moving_labels: Option<LabelMap>,
    /// Which labels count.
    rule: OverlapRule,
}

impl Job<'_> {
    /// Does it all and prints the table.
    pub(crate) fn run(&self) -> Result<Outcome, Failure> {
        let names = [TRANSFORM, TRANSFORM_FSL, WARPED, RECORD, REPORT];
        let inputs = self.paths.all().into_iter().map(|(_, p)| p).chain(self.config.as_deref());
        registration::check_outputs(&self.output, &names, inputs)?;
        self.output_options.check()?;
        on_device!(&self.machine.device, |device| self.run_on(device))
    }

    fn run_on<D: Device>(&self, device: &D) -> Result<Outcome, Failure> {
        let mut clock = Clock::start();
        if self.machine.gpu().is_some() {
            clock.add("device", self.machine.seconds);
        }
        let mut inputs = self.read()?;
        let grids = [inputs.fixed.grid().clone(), inputs.moving.grid().clone()];
        let geometry = Geometry { fixed: Some(&grids[0]), moving: Some(&grids[1]) };
        let options = self.method.options(&geometry)?;
        let input_records = registration::inputs(&self.paths.all(), self.config.as_deref())?;
        clock.lap("read");

        let mut staging = Staging::new(&self.output)?;
        let printer = Printer::new(self.run.talk());
        printer.say(Talk::Verbose, &format!("fixed:  {}", inputs.fixed.grid()));
        printer.say(Talk::Verbose, &format!("moving: {}", inputs.moving.grid()));
        if let (AnyDevice::Cuda(gpu), Cost::Cr, None) =
            (&self.machine.device, options.cost, options.scheme)
        {
            printer.say(Talk::Verbose, &format!("histogram scheme: {}", gpu.tuned()));
        }
        let result = register_affine(device, &inputs.as_input(), &options, &printer)?;
        printer.finish();
        clock.lap("register");

        let source = Source::new(device, inputs.take_moving()?)?;
        let found = Transform::Affine(result.transform);
        let after = self.view(&inputs).resample(device, &source, &found)?;
        let before = self.view(&inputs).resample(device, &source, &Transform::identity())?;
        drop(source);
        clock.lap("resample");

        self.write(&mut staging, &result, &after.image, &geometry)?;
        clock.lap("write");

        let mut record = record::record(self, &options, &result, input_records);
        record.transform = record::transform(&result, inputs.fixed.grid());
        record.figures = figures(&result, &before.scores, &after.scores);
        record.outputs = self.outputs(&staging);
        if self.output_options.wants_report() {
            record.timings = clock.laps();
            record.peak_memory_bytes = registration::peak_memory();
            let html = render(&AffineReport {
                record: &record,
                fixed: &inputs.fixed,
                before: &before.image,
                after: &after.image,
                fixed_labels: inputs.fixed_labels.as_ref(),
                before_labels: before.labels.as_ref(),
                after_labels: after.labels.as_ref(),
            })
            .map_err(|e| Failure::Internal(e.to_string()))?;
            write_text(&staging.path(REPORT)?, &html)?;
            clock.lap("report");
        } else {
            staging.without(REPORT);
        }
        clock.total();
        record.timings = clock.laps();
        record.peak_memory_bytes = registration::peak_memory();
        write_text(&staging.path(RECORD)?, &record.to_json())?;
        staging.commit()?;

        if self.run.talk() > Talk::Quiet {
            let scores = (&before.scores, &after.scores);
            table::print(&options, &result, scores, &record, &self.output);
        } else if !result.verdict.good {
            output::note(&format!("verdict: {}", result.verdict.summary()));
        }
        Ok(if result.verdict.good { Outcome::Good } else { Outcome::Bad })
    }

    fn read(&self) -> Result<Inputs, Failure> {
        let paths = &self.paths;
        let talk = self.run.talk();
        let image = |path: &Option<PathBuf>, option: &str| {
            path.as_ref().map(|p| files::image(p, talk).map_err(|e| e.at(option))).transpose()
        };
        let labels = |path: &Option<PathBuf>, option: &str| {
            path.as_ref().map(|p| files::labels(p).map_err(|e| e.at(option))).transpose()
        };
        registration::check_labels(&paths.fixed_labels, &paths.moving_labels)?;
        let mut inputs = Inputs {
            fixed: files::image(&paths.fixed, talk)?,
            moving: files::image(&paths.moving, talk)?,
            fixed_mask: image(&paths.fixed_mask, "--fixed-mask")?,
            moving_mask: image(&paths.moving_mask, "--moving-mask")?,
            fixed_weight: image(&paths.fixed_weight, "--fixed-weight")?,
            fixed_labels: labels(&paths.fixed_labels, "--fixed-labels")?,
            moving_labels: labels(&paths.moving_labels, "--moving-labels")?,
            rule: OverlapRule::default(),
        };
        if let (Some(fixed), Some(moving)) = (&inputs.fixed_labels, &inputs.moving_labels) {
            inputs.rule = registration::label_rule(fixed, moving, inputs.fixed.grid())?;
        }
        Ok(inputs)
    }

    /// What is resampled, and how it is compared.
    fn view<'a>(&self, inputs: &'a Inputs) -> View<'a> {
        View {
            fixed: &inputs.fixed,
            fixed_mask: inputs.fixed_mask.as_ref(),
            fixed_labels: inputs.fixed_labels.as_ref(),
            moving_labels: inputs.moving_labels.as_ref(),
            rule: &inputs.rule,
            interpolation: self.output_options.interpolation(),
            outside: self.output_options.outside(),
        }
    }

    fn write(
        &self,
        staging: &mut Staging,
        result: &AffineResult,
        warped: &Volume<f32>,
        geometry: &Geometry<'_>,
    ) -> Result<(), Failure> {
        let dimensions = image::read_info(&self.paths.fixed)?.dimensions;
        let names = [TRANSFORM, TRANSFORM_FSL];
        registration::write_affine(staging, names, &result.transform, dimensions, geometry)?;
        let options = files::write_options(DataType::F32, dimensions);
        image::write_volume(staging.path(WARPED)?, warped, &options)?;
        Ok(())
    }

    fn outputs(&self, staging: &Staging) -> Vec<voxalign_report::OutputRecord> {
        let mut names = vec![
            ("transform", TRANSFORM),
            ("transform_fsl", TRANSFORM_FSL),
            ("resampled", WARPED),
            ("record", RECORD),
        ];
        if self.output_options.wants_report() {
            names.push(("report", REPORT));
        }
        registration::outputs(staging, &names)
    }
}

impl Inputs {
    /// Takes the moving image out, once it has been registered; one voxel is left.
    fn take_moving(&mut self) -> Result<Volume<f32>, Failure> {
        registration::take(&mut self.moving)
    }

    fn as_input(&self) -> AffineInput<'_> {
        AffineInput {
            fixed: &self.fixed,
            moving: &self.moving,
            fixed_mask: self.fixed_mask.as_ref(),
            moving_mask: self.moving_mask.as_ref(),
            fixed_weight: self.fixed_weight.as_ref(),
        }
    }
}

/// The named numbers of the record.
fn figures(result: &AffineResult, before: &Scores, after: &Scores) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::from([
        ("cost_before".to_owned(), result.cost_before),
        ("cost_start".to_owned(), result.cost_start),
        ("cost_after".to_owned(), result.cost_after),
        ("overlap".to_owned(), result.overlap),
    ]);
    registration::score_figures(&mut figures, before, after);
    figures
}

/// For the benchmark: reads, registers and gives the times, without writing.
pub(crate) fn register_only<D: Device>(
    device: &D,
    fixed: &Volume<f32>,
    moving: &Volume<f32>,
    options: &AffineOptions,
) -> Result<AffineResult, Failure> {
    let input =
        AffineInput { fixed, moving, fixed_mask: None, moving_mask: None, fixed_weight: None };
    Ok(register_affine(device, &input, options, &voxalign_register::Silent)?)
}
