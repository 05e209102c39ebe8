//! One deformable registration, from files to files.

use super::method::{AffineChoice, Channel};
use super::{record, table};
use crate::args::{InitChoice, MethodArgs, OutputArgs, RunArgs};
use crate::device::{Machine, on_device};
use crate::failure::{Failure, Outcome};
use crate::files::{self, Staging};
use crate::output;
use crate::progress::{Printer, Talk};
use crate::registration::{self, AFFINE, Clock, Resampled, View, write_text};
use crate::resample::{self, Source};
use std::path::{Path, PathBuf};
use voxalign_compute::Device;
use voxalign_image::{Affine, Displacement, LabelMap, Transform, Volume};
use voxalign_io::image::{self, DataType};
use voxalign_io::transform::{self, Geometry};
use voxalign_register::compare::OverlapRule;
use voxalign_register::diffeo::{
    ChannelInput, DeformInput, DeformOptions, DeformResult, DeformSimilarity, register_deformable,
};
use voxalign_register::linear::{AffineInput, AffineResult, Init, register_affine};
use voxalign_register::{Check, Verdict};
use voxalign_report::deform::{DeformReport, render};

/// Names of the files of a result.
const WARP: &str = "warp.nii.gz";
const INVERSE_WARP: &str = "inverse_warp.nii.gz";
const TRANSFORM: &str = "affine.tfm";
const TRANSFORM_FSL: &str = "affine.fsl.mat";
const COMPOSITE: &str = "composite.nii.gz";
const INVERSE_COMPOSITE: &str = "inverse_composite.nii.gz";
const WARPED: &str = "warped.nii.gz";
const JACOBIAN: &str = "jacobian.nii.gz";
const RECORD: &str = "result.json";
const REPORT: &str = "report.html";

/// What each file is, for the record; the report comes last.
const OUTPUTS: [(&str, &str); 10] = [
    ("warp", WARP),
    ("inverse_warp", INVERSE_WARP),
    ("transform", TRANSFORM),
    ("transform_fsl", TRANSFORM_FSL),
    ("composite", COMPOSITE),
    ("inverse_composite", INVERSE_COMPOSITE),
    ("resampled", WARPED),
    ("jacobian", JACOBIAN),
    ("record", RECORD),
    ("report", REPORT),
];

/// The files that a registration reads.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    pub(super) fixed: PathBuf,
    pub(super) moving: PathBuf,
    pub(super) channels: Vec<Channel>,
    pub(super) affine: Option<PathBuf>,
    pub(super) fixed_mask: Option<PathBuf>,
    pub(super) fixed_labels: Option<PathBuf>,
    pub(super) moving_labels: Option<PathBuf>,
}

impl Paths {
    /// All files with what they are.
    fn all(&self) -> Vec<(&'static str, &Path)> {
        let mut all = vec![("fixed", self.fixed.as_path()), ("moving", self.moving.as_path())];
        for channel in &self.channels {
            all.push(("channel_fixed", &channel.fixed));
            all.push(("channel_moving", &channel.moving));
        }
        let optional = [
            (AFFINE, &self.affine),
            ("fixed_mask", &self.fixed_mask),
            ("fixed_labels", &self.fixed_labels),
            ("moving_labels", &self.moving_labels),
        ];
        all.extend(optional.into_iter().filter_map(|(role, p)| Some((role, p.as_deref()?))));
        all
    }
}

/// A registration that is to be done.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) paths: Paths,
    /// The configuration file, where there is one.
    pub(super) config: Option<PathBuf>,
    pub(super) output: PathBuf,
    pub(super) affine: AffineChoice,
    /// The similarity of the fixed and the moving image.
    pub(super) similarity: DeformSimilarity,
    pub(super) options: DeformOptions,
    pub(super) output_options: &'a OutputArgs,
    pub(super) run: &'a RunArgs,
}

/// What was read.
struct Inputs {
    fixed: Volume<f32>,
    moving: Volume<f32>,
    /// Fixed and moving images of further channels.
    channels: Vec<[Volume<f32>; 2]>,
    fixed_mask: Option<Volume<f32>>,
    fixed_labels: Option<LabelMap>,
    moving_labels: Option<LabelMap>,
    rule: OverlapRule,
}

/// The moving image by the affine part only and by the whole transform.
pub(super) struct Views {
    pub(super) before: Resampled,
    pub(super) after: Resampled,
}

impl Job<'_> {
    /// Checks what can be checked before a device is started.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let names = OUTPUTS.map(|(_, name)| name);
        let inputs = self.paths.all().into_iter().map(|(_, p)| p).chain(self.config.as_deref());
        registration::check_outputs(&self.output, &names, inputs)?;
        registration::check_labels(&self.paths.fixed_labels, &self.paths.moving_labels)?;
        self.output_options.check()
    }

    /// Does it all and prints the table.
    pub(super) fn run(&self, machine: &Machine) -> Result<Outcome, Failure> {
        on_device!(&machine.device, |device| self.run_on(device, machine))
    }

    fn run_on<D: Device>(&self, device: &D, machine: &Machine) -> Result<Outcome, Failure> {
        let mut clock = Clock::start();
        if machine.gpu().is_some() {
            clock.add("device", machine.seconds);
        }
        let mut inputs = self.read()?;
        let grids = [inputs.fixed.grid().clone(), inputs.moving.grid().clone()];
        let geometry = Geometry { fixed: Some(&grids[0]), moving: Some(&grids[1]) };
        let given = self.given(&geometry)?;
        let input_records = registration::inputs(&self.paths.all(), self.config.as_deref())?;
        clock.lap("read");

        let mut staging = Staging::new(&self.output)?;
        let printer = Printer::new(self.run.talk());
        printer.say(Talk::Verbose, &format!("fixed:  {}", grids[0]));
        printer.say(Talk::Verbose, &format!("moving: {}", grids[1]));
        let (start, found) = match given {
            Some(affine) => (affine, None),
            None => {
                let options = MethodArgs::default().options(&geometry)?;
                let found = register_affine(device, &inputs.for_affine(), &options, &printer)?;
                clock.lap("affine");
                (found.transform, Some(found))
            }
        };
        let input = self.input(&inputs, start);
        let result = register_deformable(device, &input, &self.options, &printer)?;
        drop(input);
        inputs.channels.clear();
        printer.finish();
        clock.lap("register");

        let mut record =
            record::record(self, &result, found.as_ref(), &grids[0], machine, input_records);
        record.verdict = verdict(&result.verdict, found.as_ref());
        let DeformResult { forward, inverse, jacobian, measures, scales, path, .. } = result;

        // Each field is let go once it is written, but for the one that the report shows.
        let dimensions = image::read_info(&self.paths.fixed)?.dimensions;
        let names = [TRANSFORM, TRANSFORM_FSL];
        registration::write_affine(&mut staging, names, &start, dimensions, &geometry)?;
        let none = Geometry::default();
        let inverse = Transform::Displacement(Displacement::new(inverse));
        transform::write(staging.path(INVERSE_WARP)?, &inverse, &none)?;
        let back = Transform::Composite(vec![Transform::Affine(start.inverse()?), inverse]);
        let field = resample::displacements(device, &grids[1], &back)?;
        drop(back);
        write_field(&mut staging, INVERSE_COMPOSITE, field)?;
        let warp = Transform::Displacement(Displacement::new(forward));
        transform::write(staging.path(WARP)?, &warp, &none)?;
        let whole = Transform::Composite(vec![warp, Transform::Affine(start)]);
        let field = resample::displacements(device, &grids[0], &whole)?;
        write_field(&mut staging, COMPOSITE, field)?;
        let options = files::write_options(DataType::F32, dimensions);
        image::write_volume(staging.path(JACOBIAN)?, &jacobian, &options)?;
        clock.lap("write");

        let source = Source::new(device, registration::take(&mut inputs.moving)?)?;
        let view = self.view(&inputs);
        let after = view.resample(device, &source, &whole)?;
        let before = view.resample(device, &source, &Transform::Affine(start))?;
        drop(source);
        let views = Views { before, after };
        clock.lap("resample");
        image::write_volume(staging.path(WARPED)?, &views.after.image, &options)?;
        clock.lap("write");

        registration::score_figures(&mut record.figures, &views.before.scores, &views.after.scores);
        let with_report = self.output_options.wants_report();
        let count = OUTPUTS.len() - usize::from(!with_report);
        record.outputs = registration::outputs(&staging, &OUTPUTS[..count]);
        if with_report {
            record.timings = clock.laps();
            record.peak_memory_bytes = registration::peak_memory();
            let field = match &whole {
                Transform::Composite(parts) => parts.first(),
                _ => None,
            };
            let Some(Transform::Displacement(warp)) = field else {
                return Err(Failure::Internal("the field is gone".into()));
            };
            let rows: Vec<_> = measures.rows().into_iter().map(Into::into).collect();
            let html = render(&DeformReport {
                record: &record,
                fixed: &inputs.fixed,
                moving_affine: &views.before.image,
                warped: &views.after.image,
                jacobian: &jacobian,
                field: warp.field(),
                energies: &record::energies(&scales, path.as_ref(), &self.options, &grids[0]),
                measures: &rows,
                fixed_labels: inputs.fixed_labels.as_ref(),
                before_labels: views.before.labels.as_ref(),
                after_labels: views.after.labels.as_ref(),
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

        let good = record.verdict.good;
        if self.run.talk() > Talk::Quiet {
            table::print(&views, &measures, &scales, &record, &self.output);
        } else if !good {
            output::note(&format!("verdict: {}", record.verdict.summary()));
        }
        Ok(if good { Outcome::Good } else { Outcome::Bad })
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
        let paths = &self.paths;
        let talk = self.run.talk();
        let labels = |path: &Option<PathBuf>, option: &str| {
            path.as_ref().map(|p| files::labels(p).map_err(|e| e.at(option))).transpose()
        };
        let channel = |path: &Path| files::image(path, talk).map_err(|e| e.at("--channel"));
        let mask = paths.fixed_mask.as_ref();
        let mut inputs = Inputs {
            fixed: files::image(&paths.fixed, talk)?,
            moving: files::image(&paths.moving, talk)?,
            channels: paths
                .channels
                .iter()
                .map(|c| Ok::<_, Failure>([channel(&c.fixed)?, channel(&c.moving)?]))
                .collect::<Result<_, _>>()?,
            fixed_mask: mask
                .map(|p| files::image(p, talk).map_err(|e| e.at("--fixed-mask")))
                .transpose()?,
            fixed_labels: labels(&paths.fixed_labels, "--fixed-labels")?,
            moving_labels: labels(&paths.moving_labels, "--moving-labels")?,
            rule: OverlapRule::default(),
        };
        if let (Some(fixed), Some(moving)) = (&inputs.fixed_labels, &inputs.moving_labels) {
            inputs.rule = registration::label_rule(fixed, moving, inputs.fixed.grid())?;
        }
        Ok(inputs)
    }

    fn input<'a>(&self, inputs: &'a Inputs, affine: Affine) -> DeformInput<'a> {
        let mut channels = vec![ChannelInput {
            fixed: &inputs.fixed,
            moving: &inputs.moving,
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
        DeformInput { channels, fixed_mask: inputs.fixed_mask.as_ref(), affine }
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
}

impl Inputs {
    fn for_affine(&self) -> AffineInput<'_> {
        AffineInput {
            fixed: &self.fixed,
            moving: &self.moving,
            fixed_mask: self.fixed_mask.as_ref(),
            moving_mask: None,
            fixed_weight: None,
        }
    }
}

/// Writes a field and lets it go.
fn write_field(
    staging: &mut Staging,
    name: &str,
    field: voxalign_image::VectorField,
) -> Result<(), Failure> {
    let field = Transform::Displacement(Displacement::new(field));
    Ok(transform::write(staging.path(name)?, &field, &Geometry::default())?)
}

/// The verdict on the whole: a deformation is no better than the affine part that it starts from.
fn verdict(deformation: &Verdict, affine: Option<&AffineResult>) -> Verdict {
    let mut checks = deformation.checks.clone();
    if let Some(affine) = affine {
        let failed = affine.verdict.checks.iter().filter(|c| !c.passed);
        checks.extend(
            failed.map(|c| Check { name: format!("affine part: {}", c.name), ..c.clone() }),
        );
    }
    Verdict::new(checks, deformation.remarks.clone())
}
