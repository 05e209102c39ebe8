//! The course of a deformable registration from what was read to what is written; jobs add what is their own by a
//! [`Task`].

use super::fields::{
    COMPOSITE, Fields, INVERSE_COMPOSITE, INVERSE_WARP, JACOBIAN, WARP, Writing, field_files,
    write_chains, writers,
};
use super::{
    AffineChoice, AffinePart, ChannelImages, Deformer, Found, Inputs, Scored, affine_part,
    evidence, record, with_affine_part,
};
use crate::error::{Error, Result};
use crate::files;
use crate::listener::{Listener, check};
use crate::machine::Machine;
use crate::options::{InitChoice, Product, Products};
use crate::pair::{HeldImage, Pair, Views, outside, score_figures};
use crate::remedy::Speaker;
use crate::results::{ResultFile, of_outputs};
use crate::run::{
    self, Clock, Done, Input, Output, RECORD, REPORT, Read, Run, TRANSFORM, TRANSFORM_FSL, WARPED,
};
use crate::staged::Staged;
use serde_json::{Value, json};
use std::borrow::Cow;
use voxalign_image::{Affine, Grid, Transform};
use voxalign_io::image::{self, DataType};
use voxalign_io::transform::Geometry;
use voxalign_options::{Choice, OptionError, Text, text};
use voxalign_register::attachment::images::with_divided_slices;
use voxalign_register::diffeo::{DeformResult, Suited};
use voxalign_register::linear::{AffineResult, Init};
use voxalign_register::multiscale::ScaleRecord;
use voxalign_register::resample::MovingImage;
use voxalign_register::similarity::Similarity;
use voxalign_register::{RegisterError, Verdict};
use voxalign_report::affine;
use voxalign_report::deform::{DeformReport, energies, render};
use voxalign_report::{Figure, InputRecord, ReportError, RunRecord, When};

/// What each file is: `warped` is the name of that with the moving image on the fixed one, where there is one.
pub(crate) fn outputs(warped: Option<String>) -> Vec<Output> {
    let warped = warped.map(|name| Output::named("resampled", name, Some(Product::Warped)));
    let fields = [
        Output::new("warp", WARP, Some(Product::Warp)),
        Output::new("inverse_warp", INVERSE_WARP, Some(Product::InverseWarp)),
        Output::new("transform", TRANSFORM, Some(Product::Affine)),
        Output::new("transform_fsl", TRANSFORM_FSL, Some(Product::Affine)),
        Output::new("composite", COMPOSITE, Some(Product::Composite)),
        Output::new("inverse_composite", INVERSE_COMPOSITE, Some(Product::InverseComposite)),
    ];
    let rest = [
        Output::new("jacobian", JACOBIAN, Some(Product::Jacobian)),
        Output::new("record", RECORD, None),
        Output::new("report", REPORT, None),
    ];
    fields.into_iter().chain(warped).chain(rest).collect()
}

/// The files of a deformation of images, for pipelines.
pub(crate) fn results() -> Vec<ResultFile> {
    of_outputs(&outputs(Some(WARPED.to_owned())))
}

/// The affine map that a deformation starts from, where it is not to be found.
pub(crate) fn given(
    start: &AffineChoice,
    geometry: &Geometry<'_>,
    listener: &dyn Listener,
) -> Result<Option<Affine>> {
    match start {
        AffineChoice::Auto => Ok(None),
        AffineChoice::None => Ok(Some(Affine::identity())),
        AffineChoice::File(path) => {
            let init = InitChoice::File(path.clone());
            let init = init.load(geometry, Default::default(), listener);
            match init.map_err(|e| e.at(text!("`affine`")))? {
                Init::Given(affine) => Ok(Some(affine)),
                _ => Err(Error::Internal("a file is not a start".into())),
            }
        }
    }
}

/// What a deformation has found, for what a job makes of it.
pub(crate) struct Carried<'c, X = ()> {
    /// The affine part, from the fixed to the moving world.
    pub(crate) start: Affine,
    /// The whole, from the fixed to the moving world.
    pub(crate) whole: &'c Transform,
    /// Its inverse.
    pub(crate) back: &'c Transform,
    /// The images of further channels.
    pub(crate) channels: Vec<ChannelImages>,
    /// The fixed grid.
    pub(crate) fixed: &'c Grid,
    /// The scales, coarse to fine.
    pub(crate) scales: &'c [ScaleRecord],
    /// What was found beside fields.
    pub(crate) extra: X,
}

/// What is a job's own in the course of a deformable registration, of which it gets what was found beside fields.
pub(crate) trait Task<X = ()> {
    /// Who words the verdict.
    const SPEAKER: Speaker = Speaker::Deform;

    /// Whether the job has an option for the similarity of its images.
    const CHOOSES_SIMILARITY: bool = true;

    /// All parameters that have an effect, for the record; `similarity` is that of the pair, which starts from an affine map.
    fn parameters(&self, outside: f32, similarity: Similarity, start: &Affine) -> Value;

    /// What is worth saying of how the pair is deformed.
    fn remark(&self, _similarity: &Similarity, _start: &Affine) -> Option<Text> {
        None
    }

    /// All files that are read.
    fn files(&self) -> Vec<Input<'_>>;

    /// The name of the file with the moving image on the fixed one, where that is written.
    fn warped(&self) -> Option<String> {
        Some(WARPED.to_owned())
    }

    /// All files that may be written.
    fn outputs(&self) -> Vec<Output> {
        outputs(self.warped())
    }

    /// Makes of the result what is the job's own, once it is found, and writes it.
    fn carried(
        &mut self,
        _found: Carried<'_, X>,
        _machine: &Machine,
        _run: &Run<'_>,
        _staged: &mut Staged<'_>,
    ) -> Result<()> {
        Ok(())
    }

    /// The verdict with what the job has measured, which it adds to the record.
    fn judged(&mut self, verdict: Verdict, _views: &Views, _record: &mut RunRecord) -> Verdict {
        verdict
    }

    /// Whether a result with its verdict is to be written; where not, nothing is, and what is in the folder stays.
    fn keeps(&self, _record: &RunRecord) -> bool {
        true
    }

    /// The report.
    fn report(&self, report: &DeformReport<'_>) -> Result<String, ReportError> {
        render(report)
    }
}

/// Parameters with what the images said of the similarity, where they were asked.
fn with_suited(mut parameters: Value, suited: Option<&Suited>) -> Value {
    if let (Some(all), Some(suited)) = (parameters.as_object_mut(), suited) {
        let relation = suited.relation.map(|r| json!({"line": r.line, "any": r.any}));
        let chosen = json!({"by": "images", "because": suited.words(), "relation": relation});
        all.insert("similarity_chosen".to_owned(), chosen);
    }
    parameters
}

/// What is worth saying of the similarity: that it is not the one that most images take, or that it was asked for although it suits images of
/// one kind, and these are of two.
fn remark_on(suited: &Suited, asked: Option<Similarity>) -> Option<Text> {
    let (name, why) = (suited.similarity.name(), suited.words());
    match asked {
        None => (suited.similarity != Similarity::LNCC)
            .then(|| text!("compared by {} ({}); `similarity` chooses another", name, why)),
        Some(asked) => suited.is_against(&asked).then(|| {
            text!(
                "compared by {}, which suits images of one kind, but these look like {}; `similarity` \
                 takes {} for such",
                asked.name(),
                why,
                name
            )
        }),
    }
}

/// Registration method.
pub(crate) struct Course<'a, D> {
    pub(crate) machine: &'a Machine,
    pub(crate) run: Run<'a>,
    /// The similarity of the pair; none where the images decide.
    pub(crate) similarity: Option<Similarity>,
    /// What deforms images that are compared by a similarity, from an affine map on.
    pub(crate) deformer: &'a dyn Fn(&Similarity, &Affine) -> &'a D,
}

impl<D: Deformer> Course<'_, D> {
    /// Registers what was read, and writes all, unless the task does not [keep](Task::keeps) it.
    pub(crate) fn run<T: Task<D::Extra>>(
        &self,
        read: Read<Inputs>,
        task: &mut T,
    ) -> Result<Done<RunRecord>> {
        let Self { machine, run, .. } = self;
        let (device, listener, caller) = (&machine.device, run.listener, run.caller);
        let mut clock = run.clock(machine, &read);
        let Read { mut inputs, records: input_records, .. } = read;
        let grids = [inputs.pair.fixed.grid().clone(), inputs.pair.moving.grid().clone()];
        clock.lap("read");

        let mut staged = Staged::new(run.folder, listener)?;
        run.say_grids(&grids);
        let blamed = |e| run::blamed(e, &task.files());
        let AffinePart { start, found, rival, seen, mirrored } =
            affine_part(device, &inputs, listener).map_err(blamed)?;
        check(listener)?;
        let suited = Suited::new(seen.as_deref(), &start);
        let similarity = self.similarity.unwrap_or(suited.similarity);
        let deformer = (self.deformer)(&similarity, &start);
        clock.lap("affine");
        if let Some(affine) = found.as_ref().filter(|f| !f.verdict.good)
            && let Err(why) = deformer.check_start(&start)
        {
            let end = End { task: &*task, machine, similarity, affine, why: &why };
            return end.write(run, inputs.pair, staged, clock, input_records);
        }
        let input = inputs.as_input(similarity, start);
        let (result, extra) = deformer.deform(device, &input, listener).map_err(blamed)?;
        drop(input);
        let pulls = inputs.pulls();
        let channels = std::mem::take(&mut inputs.channels);
        inputs.shapes.clear();
        clock.lap("register");

        let outside = outside(device, run.output, &inputs.pair.moving)?;
        let parameters = task.parameters(outside, similarity, &start);
        let chosen = self.similarity.is_none().then_some(&suited);
        let of = (with_suited(parameters, chosen), run);
        let mut record = record::record(of, &result, found.as_ref(), machine);
        record.inputs = input_records;
        let DeformResult {
            forward,
            inverse,
            jacobian,
            measures,
            scales,
            path,
            foreground,
            verdict,
            ..
        } = result;

        let dimensions = inputs.pair.dimensions;
        let [fixed, moving] = &grids;
        let back_on = match deformer.divides_slices() {
            true => with_divided_slices(moving)?,
            false => moving.clone(),
        };
        let (fields, of) = (([forward, inverse], &back_on), [fixed, moving]);
        let [whole, back] = write_chains(run, &mut staged, device, fields, &start, of, dimensions)?;
        let of_scales = &*scales;
        let carried = Carried {
            start,
            whole: &whole,
            back: &back,
            channels,
            fixed,
            scales: of_scales,
            extra,
        };
        task.carried(carried, machine, run, &mut staged)?;
        let as_floats = files::write_options(DataType::F32, dimensions);
        let files = field_files(run, &mut staged)?;
        let of_voxels = match run.writes(Product::Jacobian) {
            // The change of volume of each voxel of the fixed image.
            true => jacobian.averaged_on(fixed)?,
            false => Cow::Borrowed(&jacobian),
        };
        let fields = Fields { back, whole: &whole, jacobian: &of_voxels, options: &as_floats };
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
            let of = (run.output, outside);
            let evidence = evidence(device, &inputs.pair, seen, (&start, &whole))?;
            let moving = inputs.pair.take_moving()?;
            let scored =
                Scored::of(device, (&inputs.pair, moving), &whole, (start, rival), foreground, of)?;
            let measures = &measures;
            let verdict = with_affine_part(verdict, found.as_ref(), mirrored, evidence.as_ref());
            let voxels = jacobian.grid().len();
            let found = Found { pulls, verdict, measures, voxels, evidence, start, whole: &whole };
            let (verdict, distances) = inputs.judged(found, &scored, [&grids[0], &grids[1]]);
            let views = scored.views;
            if let Some(deformation) = &mut record.deformation {
                deformation.evidence = evidence;
            }
            if let Some(distances) = distances {
                record.landmarks = distances.note(&mut record.figures);
            }
            let mut verdict = task.judged(verdict, &views, &mut record);
            if T::CHOOSES_SIMILARITY {
                verdict.remarks.extend(remark_on(&suited, self.similarity));
            }
            verdict.remarks.extend(task.remark(&similarity, &start));
            record.verdict = caller.worded(verdict, T::SPEAKER);
            clock.lap("resample");
            if !task.keeps(&record) {
                writing.wait()?;
                return Ok(Done::new(record, run.folder));
            }
            let outputs = task.outputs();
            if let Some(name) = task.warped().filter(|_| run.writes(Product::Warped)) {
                let image = &views.after.image;
                image.bring()?;
                staged.write(&name, |path| image::write_volume(path, image, &as_floats))?;
            }
            clock.lap("write");

            score_figures(&mut record, &views, &inputs.pair.label_names);
            let field = match &whole {
                Transform::Composite(parts) => parts.first(),
                _ => None,
            };
            let Some(Transform::Displacement(warp)) = field else {
                return Err(Error::Internal("the field is gone".into()));
            };
            let weight = deformer.similarity_weight();
            if run.output.wants_report() {
                views.bring(&inputs.pair)?;
            }
            let report = |record: &_| {
                task.report(&DeformReport {
                    record,
                    images: views.images(&inputs.pair),
                    jacobian: &jacobian,
                    field: warp.field(),
                    energies: &energies(&scales, path.as_ref(), weight, &grids[0]),
                })
            };
            let rest = move || writing.wait();
            let done = run.finish(staged, clock, record, &outputs, rest, report)?;
            Ok(Done { warped: HeldImage::remaining(&views.after.image, dimensions)?, ..done })
        })
    }
}

/// The end of a registration whose affine part failed so far that no deformation can start from it.
struct End<'a, T> {
    task: &'a T,
    machine: &'a Machine,
    similarity: Similarity,
    /// The affine part that failed.
    affine: &'a AffineResult,
    /// Why no deformation can start from it.
    why: &'a RegisterError,
}

impl<T> End<'_, T> {
    /// Writes record and report, which shows the affine part, and no transform.
    fn write<X>(
        &self,
        run: &Run<'_>,
        mut pair: Pair,
        staged: Staged<'_>,
        mut clock: Clock,
        inputs: Vec<InputRecord>,
    ) -> Result<Done<RunRecord>>
    where
        T: Task<X>,
    {
        let none = Products::none();
        let run = run.only(Some(&none));
        let (device, written) = (&self.machine.device, run.output);
        let (rule, outside) = (pair.rule()?, outside(device, written, &pair.moving)?);
        let moving = MovingImage::new(device, pair.take_moving()?)?;
        let scoring = pair.scoring(&rule, (written, outside))?;
        let after = scoring.under(device, &moving, &Transform::Affine(self.affine.transform))?;
        let before = scoring.under(device, &moving, &Transform::identity())?;
        drop(moving);
        let views = Views { before, after };
        clock.lap("resample");

        let middle = pair.fixed.grid().centre();
        let of = (self.task.parameters(outside, self.similarity, &self.affine.transform), &run);
        let mut record = record::of_affine_part(of, self.affine, middle, self.machine);
        record.inputs = inputs;
        let verdict =
            with_affine_part(Verdict::default(), Some(self.affine), self.affine.mirrored(), None);
        let mut verdict = run.caller.worded(verdict, T::SPEAKER);
        verdict.remarks.push(self.remark().into());
        verdict.remarks.extend(pair.remarks(&views));
        record.verdict = verdict;
        score_figures(&mut record, &views, &pair.label_names);
        if run.output.wants_report() {
            views.bring(&pair)?;
        }
        record.figures.set_at(Figure::AffineCost, When::Before, self.affine.cost_before);
        record.figures.set_at(Figure::AffineCost, When::After, self.affine.cost_after);
        let report = |record: &_| {
            affine::render(&affine::AffineReport { record, images: views.images(&pair) })
        };
        run.finish(staged, clock, record, &self.task.outputs(), || Ok(()), report)
    }

    /// That the registration ended early, and why.
    fn remark(&self) -> String {
        let why = match self.why {
            RegisterError::Option(OptionError::Value { name: "affine", value, .. }) => {
                format!("it is {value}")
            }
            RegisterError::Option(OptionError::Value { remedy, .. }) => remedy.clone(),
            other => other.to_string(),
        };
        format!(
            "the affine part failed, and no deformation can start from it: {why}; no transform and no \
             image was written"
        )
    }
}
