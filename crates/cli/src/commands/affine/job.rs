//! One affine registration, from files to files.

use super::OutputArgs;
use super::record::{self, Clock};
use super::table;
use crate::args::{Interpolation, MethodArgs, Outside, RunArgs};
use crate::device::{AnyDevice, Machine, on_device};
use crate::failure::{Failure, Outcome};
use crate::files::{self, Staging};
use crate::output;
use crate::progress::{Printer, Talk};
use crate::resample::{self, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use voxalign_compute::Device;
use voxalign_image::{Grid, LabelMap, Transform, Volume};
use voxalign_io::image::{self, DataType};
use voxalign_io::transform::{self, Geometry};
use voxalign_register::compare::{
    CompareError, ImageScores, OverlapRule, OverlapScores, compare_images, compare_labels,
    same_grid,
};
use voxalign_register::linear::{AffineInput, AffineOptions, AffineResult, Cost, register_affine};
use voxalign_report::affine::{AffineReport, render};

/// Names of the files of a result.
pub(crate) const TRANSFORM: &str = "affine.tfm";
const TRANSFORM_FSL: &str = "affine.fsl.mat";
const WARPED: &str = "warped.nii.gz";
const RECORD: &str = "result.json";
const REPORT: &str = "report.html";

/// Bins of the joint histogram for the scores that are reported beside the cost.
const SCORE_BINS: usize = 64;

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

/// Scores of the moving image on the fixed grid, before or after.
pub(super) struct Scores {
    pub(super) images: Option<ImageScores>,
    pub(super) labels: Option<OverlapScores>,
}

/// The moving image on the fixed grid.
struct Resampled {
    image: Volume<f32>,
    labels: Option<LabelMap>,
    scores: Scores,
}

impl Job<'_> {
    /// Does it all and prints the table.
    pub(crate) fn run(&self) -> Result<Outcome, Failure> {
        for name in [TRANSFORM, TRANSFORM_FSL, WARPED, RECORD, REPORT] {
            self.check_output(name)?;
        }
        if self.interpolation() == Interpolation::Label {
            return Err(Failure::input(
                "--interpolation label is for label maps, but warped.nii.gz is an image; use \
                 nearest, linear or cubic",
            ));
        }
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
        let input_records = record::inputs(&self.paths, self.config.as_deref())?;
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
        let after = self.resample(device, &source, &inputs, &found)?;
        let before = self.resample(device, &source, &inputs, &Transform::identity())?;
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
            record.peak_memory_bytes = record::peak_memory();
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
        record.peak_memory_bytes = record::peak_memory();
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

    /// An output must not be one of the inputs.
    fn check_output(&self, name: &str) -> Result<(), Failure> {
        let output = self.output.join(name);
        if !output.exists() {
            return Ok(());
        }
        let config = self.config.as_deref();
        files::check_output(&output, self.paths.all().into_iter().map(|(_, p)| p).chain(config))
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
        if paths.fixed_labels.is_some() != paths.moving_labels.is_some() {
            return Err(Failure::input(
                "--fixed-labels and --moving-labels belong together; give both or neither",
            ));
        }
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
            same_grid(fixed.grid(), inputs.fixed.grid())
                .map_err(|e| Failure::from(e).at("--fixed-labels and the fixed image"))?;
            inputs.rule = OverlapRule::common_labels(fixed, moving);
            if inputs.rule.only.as_ref().is_some_and(BTreeSet::is_empty) {
                return Err(Failure::input(
                    "--fixed-labels and --moving-labels have no label in common; check that they \
                     use the same numbers",
                ));
            }
        }
        Ok(inputs)
    }

    /// The moving image and labels on the fixed grid, and how well they agree with the fixed ones.
    fn resample<D: Device>(
        &self,
        device: &D,
        source: &Source<'_, D>,
        inputs: &Inputs,
        transform: &Transform,
    ) -> Result<Resampled, Failure> {
        let grid = inputs.fixed.grid();
        let interpolation = self.interpolation();
        let outside = self.outside();
        // Outside is NaN at first, so that the scores are those of the overlap.
        let mut image = source.onto(grid, transform, interpolation, f32::NAN)?;
        // Where the images do not overlap at all there are no scores.
        let mask = inputs.fixed_mask.as_ref();
        let images = match compare_images(&inputs.fixed, &image, mask, SCORE_BINS) {
            Ok(scores) => Some(scores),
            Err(CompareError::Nothing { .. }) => None,
            Err(e) => return Err(e.into()),
        };
        image.data_mut().iter_mut().filter(|v| v.is_nan()).for_each(|v| *v = outside);
        let labels = inputs.moving_labels.as_ref();
        let labels = labels
            .map(|m| resample::labels(device, m, grid, transform, Interpolation::Nearest, 0))
            .transpose()?;
        let overlap = match (&inputs.fixed_labels, &labels) {
            (Some(fixed), Some(warped)) => Some(compare_labels(fixed, warped, None, &inputs.rule)?),
            _ => None,
        };
        Ok(Resampled { image, labels, scores: Scores { images, labels: overlap } })
    }

    fn write(
        &self,
        staging: &mut Staging,
        result: &AffineResult,
        warped: &Volume<f32>,
        geometry: &Geometry<'_>,
    ) -> Result<(), Failure> {
        let transform = Transform::Affine(result.transform);
        // Tools for images of two dimensions take transforms of two dimensions only.
        let dimensions = image::read_info(&self.paths.fixed)?.dimensions;
        let path = staging.path(TRANSFORM)?;
        if dimensions != 2 || !transform::write_itk_2d(&path, &transform)? {
            transform::write(&path, &transform, geometry)?;
        }
        transform::write(staging.path(TRANSFORM_FSL)?, &transform, geometry)?;
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
        let record = |(role, name): (&str, &str)| voxalign_report::OutputRecord {
            role: role.to_owned(),
            path: staging.final_path(name).display().to_string(),
        };
        names.into_iter().map(record).collect()
    }

    /// Interpolation of the resampled image.
    pub(super) fn interpolation(&self) -> Interpolation {
        self.output_options.interpolation.unwrap_or(Interpolation::Linear)
    }

    /// Value outside the moving image.
    pub(super) fn outside(&self) -> f32 {
        self.output_options.outside.map_or(0.0, |Outside(v)| v)
    }
}

impl Inputs {
    /// Takes the moving image out, once it has been registered; one voxel is left.
    fn take_moving(&mut self) -> Result<Volume<f32>, Failure> {
        let one = Volume::filled(Grid::axis_aligned([1; 3], [1.0; 3])?, 0.0);
        Ok(std::mem::replace(&mut self.moving, one))
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
    for (when, scores) in [("before", before), ("after", after)] {
        let mut put = |name: &str, value: Option<f64>| {
            if let Some(value) = value {
                figures.insert(format!("{name}_{when}"), value);
            }
        };
        let images = scores.images.as_ref();
        put("rms", images.map(|s| s.rms));
        put("ncc", images.and_then(|s| s.ncc));
        put("mi", images.map(|s| s.mi));
        put("nmi", images.and_then(|s| s.nmi));
        put("label_overlap", scores.labels.as_ref().and_then(|l| l.mean_dice));
    }
    figures
}

fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    Ok(voxalign_io::atomic::write_file(path, |w| w.write_all(text.as_bytes()))?)
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
