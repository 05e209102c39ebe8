//! What a registration by an elastic body adds to that by any deformation.

use super::job::Job;
use super::measures::Measures;
use super::sequence::{Attempt, Begin, Rank};
use super::state::deformed;
use super::stream;
use crate::deform::{Carried, Task, outputs};
use crate::error::Result;
use crate::machine::Machine;
use crate::options::Product;
use crate::pair::Views;
use crate::remedy::Speaker;
use crate::results::{ResultFile, of_outputs};
use crate::run::{self, Input, Output, Run, WARPED};
use crate::staged::Staged;
use serde_json::{Value, json};
use std::fmt::Display;
use std::path::Path;
use voxalign_elasticity::State;
use voxalign_image::Affine;
use voxalign_io::tetra;
use voxalign_options::{Choice as _, Parameters as _, Text};
use voxalign_register::Verdict;
use voxalign_register::diffeo::ElasticSetting;
use voxalign_register::model::elastic::{ElasticResult, StepSolver, StepTimes};
use voxalign_register::multiscale::ScaleRecord;
use voxalign_register::similarity::Similarity;
use voxalign_report::deform::DeformReport;
use voxalign_report::elastic::render;
use voxalign_report::{
    ElasticRecord, ElasticReport, MaterialRecord, ReportError, RunRecord, StepPartRecord,
};

/// The file of the body as it ended.
pub(super) const MESH: &str = "mesh.vtu";

/// All files that may be written.
pub(super) fn files_of() -> Vec<Output> {
    let mut all = outputs(Some(WARPED.to_owned()));
    // Before the record and the report.
    all.insert(all.len() - 2, Output::new("mesh", MESH, Some(Product::Mesh)));
    all
}

/// The same for pipelines, with those of sequences and slices.
pub(crate) fn results() -> Vec<ResultFile> {
    let mut all = of_outputs(&files_of());
    // A sequence has a record of its own.
    all.iter_mut().for_each(|file| file.always = false);
    let about = "What the volume shows at the pixels of each slice";
    all.push(ResultFile::of("resampled_slice", &warped_slice("*"), about));
    all.extend(stream::results());
    all
}

/// What a volume shows at the pixels of a slice, counted from 1.
pub(super) fn warped_slice(number: impl Display) -> String {
    format!("warped_slice_{number}.nii.gz")
}

/// The files of a registration with slices.
pub(super) struct SliceFiles {
    /// All that may be written.
    pub(super) files: Vec<Output>,
    /// What an earlier run has left of further slices.
    pub(super) stale: Vec<String>,
}

/// Those of so many slices, which go into a folder.
pub(super) fn slice_files(folder: &Path, count: usize) -> SliceFiles {
    let mut files = files_of();
    let of = |number| Output::named("resampled_slice", warped_slice(number), Some(Product::Warped));
    let end = files.len() - 2;
    files.splice(end..end, (1..=count).map(of));
    let there = |name: &String| folder.join(name).exists();
    let stale = (count + 1..).map(warped_slice).take_while(there).collect();
    SliceFiles { files, stale }
}

/// The body at the end.
struct Ended {
    body: ElasticResult,
    measures: Measures,
    norms: Vec<f32>,
}

/// A registration by a body.
pub(super) struct OfBody<'a> {
    job: &'a Job,
    setting: &'a ElasticSetting,
    similarity: Similarity,
    materials: &'a [MaterialRecord],
    /// What to say beside the verdict.
    remarks: &'a [String],
    ended: Option<Ended>,
    record: ElasticRecord,
    /// The affine part that was found or given.
    affine: Option<Affine>,
    /// Where the body began, and what the result has to be better than, of a frame of a sequence.
    began: Option<Begin>,
    beat: Option<Rank>,
}

impl<'a> OfBody<'a> {
    pub(super) fn new(
        job: &'a Job,
        (setting, similarity): (&'a ElasticSetting, Similarity),
        materials: &'a [MaterialRecord],
        remarks: &'a [String],
    ) -> Self {
        let (ended, record) = (None, ElasticRecord::default());
        let (affine, began, beat) = (None, None, None);
        Self { job, setting, similarity, materials, remarks, ended, record, affine, began, beat }
    }

    /// That of a frame of a sequence.
    pub(super) fn of_frame(self, attempt: &Attempt) -> Self {
        Self { began: Some(attempt.begin), beat: attempt.beat, ..self }
    }

    /// The affine part and where the body ended.
    pub(super) fn end(self) -> Option<(Affine, State)> {
        self.affine.zip(self.ended.map(|ended| ended.body.state))
    }

    pub(super) fn recorded(
        &self,
        body: &ElasticResult,
        measures: &Measures,
        scales: &[ScaleRecord],
    ) -> ElasticRecord {
        let (mesh, elastic) = (body.body.mesh(), &self.setting.elastic);
        let iterations = scales.iter().map(|s| s.energies.len()).sum::<usize>();
        let method = elastic.newmark();
        // One that is not exact leaves a residual.
        let left = scales.iter().any(|s| s.residual.is_some());
        let solver = match elastic.step_solver {
            StepSolver::Auto if left => StepSolver::Chebyshev,
            StepSolver::Auto => StepSolver::Direct,
            solver => solver,
        };
        let file = self.job.mesh.mesh.as_ref().map(|path| path.display().to_string());
        ElasticRecord {
            vertices: mesh.vertices().len(),
            tetrahedra: mesh.tetrahedra().len(),
            volume_mm3: mesh.volume(),
            spacing_mm: self.job.mesh.spacing(),
            file,
            held: body.fixed.mask().iter().filter(|held| **held).count(),
            materials: self.materials.to_vec(),
            force_scale_kpa: elastic.pressure(&self.similarity),
            time_step_s: elastic.time_step,
            newmark: [method.beta, method.gamma],
            mass_damping_per_s: method.mass_damping,
            stiffness_damping_s: method.stiffness_damping,
            solver: solver.name().to_owned(),
            iterations,
            cuts: measures.cuts,
            least_volume_ratio: measures.least.ratio,
            least_volume_tetrahedron: measures.least.tetrahedron,
            largest_strain: measures.largest_strain,
            largest_von_mises_kpa: measures.largest_von_mises,
            at_rest: measures.at_rest,
            setup_seconds: body.setup_seconds,
            step_parts: parts(&body.times, iterations),
            slices: Vec::new(),
        }
    }
}

/// The parts of all steps and of one.
fn parts(times: &StepTimes, iterations: usize) -> Vec<StepPartRecord> {
    let of = |(name, seconds): (&str, f64)| StepPartRecord {
        name: name.to_owned(),
        seconds,
        seconds_per_iteration: seconds / iterations.max(1) as f64,
    };
    times.parts().map(of).to_vec()
}

impl Task<ElasticResult> for OfBody<'_> {
    const SPEAKER: Speaker = Speaker::Elastic;

    fn parameters(&self, outside: f32, _: Similarity, _: &Affine) -> Value {
        let (job, setting) = (self.job, self.setting);
        let mut all = json!({
            "affine": job.start().to_string(),
            "similarity": self.similarity.name(),
            "outside": run::outside(outside),
            "interpolation": job.written.interpolation().name(),
            "schedule": setting.multiscale.schedule.to_string(),
        });
        let Some(given) = all.as_object_mut() else { return all };
        given.extend(self.similarity.as_json());
        given.extend(setting.elastic.as_json());
        given.extend(job.mesh.parameters());
        match &job.materials {
            Some(path) => {
                given.insert("materials".to_owned(), json!(path.display().to_string()));
            }
            None => given.extend(job.tissue().map(|t| t.as_json()).unwrap_or_default()),
        }
        let path = |p: &std::path::PathBuf| json!(p.display().to_string());
        given.extend(job.state.as_ref().map(|p| ("state".to_owned(), path(p))));
        given.extend(self.began.map(|began| ("start".to_owned(), json!(began.to_string()))));
        given.extend(job.init.as_ref().map(|init| ("init".to_owned(), json!(init.to_string()))));
        let histograms = job.preparation().is_ok_and(|p| p.histogram_match);
        given.insert("histogram_match".to_owned(), json!(histograms));
        let way = serde_json::to_value(&job.way).unwrap_or_default();
        let said = way.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        given.extend(said.map(|(name, value)| (name.clone(), value.clone())));
        given.extend(job.paths.which.parameters());
        all
    }

    fn files(&self) -> Vec<Input<'_>> {
        self.job.files()
    }

    fn outputs(&self) -> Vec<Output> {
        files_of()
    }

    fn carried(
        &mut self,
        found: Carried<'_, ElasticResult>,
        _: &Machine,
        run: &Run<'_>,
        staged: &mut Staged<'_>,
    ) -> Result<()> {
        self.affine = Some(found.start);
        let (body, scales) = (found.extra, found.scales);
        slice_files(run.folder, 0).stale.iter().for_each(|name| staged.without(name));
        let measures = Measures::of(&body, scales, self.setting.elastic.tolerance)?;
        self.record = self.recorded(&body, &measures, scales);
        if run.writes(Product::Mesh) {
            let mesh = deformed(&body, &measures)?;
            staged
                .write(MESH, |path| tetra::write(path, &mesh, &tetra::WriteOptions::default()))?;
        }
        let norms = measures.norms()?;
        self.ended = Some(Ended { body, measures, norms });
        Ok(())
    }

    fn keeps(&self, record: &RunRecord) -> bool {
        let scales = record.deformation.as_ref().map_or(&[][..], |d| &d.scales);
        let rank = Rank::of(&record.verdict, scales);
        self.beat.is_none_or(|beat| rank.beats(&beat))
    }

    fn judged(&mut self, verdict: Verdict, _: &Views, record: &mut RunRecord) -> Verdict {
        record.elastic = Some(self.record.clone());
        let mut verdict = match &self.ended {
            Some(ended) => ended.measures.judged(verdict),
            None => verdict,
        };
        verdict.remarks.extend(self.remarks.iter().cloned().map(Text::from));
        verdict
    }

    fn report(&self, report: &DeformReport<'_>) -> Result<String, ReportError> {
        match &self.ended {
            Some(Ended { body, norms, .. }) => render(&ElasticReport {
                deform: *report,
                mesh: body.body.mesh(),
                displacements: &body.state.displacements,
                strain: norms,
            }),
            None => voxalign_report::deform::render(report),
        }
    }
}
