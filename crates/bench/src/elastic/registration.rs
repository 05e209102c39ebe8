//! The parts of a whole registration (table 5.5).

use super::sheets::{Measured, Row};
use super::{CPU_SIZE, PUBLISHED_SIZE, Plan, median, scene};
use crate::{Host, Size};
use voxalign_compute::Memory;
use voxalign_image::{Affine, VectorField};
use voxalign_jobs::{Error, Result, check};
use voxalign_register::diffeo::{DeformInput, ElasticSetting, register_elastic};
use voxalign_register::model::elastic::Sampling;
use voxalign_register::multiscale::Schedule;
use voxalign_register::similarity::Similarity;
use voxalign_register::{Event, Progress};

/// The iterations of the thesis.
const ITERATIONS: usize = 15;

/// Ms an iteration of steps 1 to 5 on the GPU and on the CPU, of what else the GPU does, and of all.
const STEPS: [(&str, [f64; 5], Option<f64>, f64); 2] = [
    ("GTX 480", [2.21, 120.0, 12.7, 0.11, 0.65], Some(10.54), 146.21),
    ("Core i5, 1 thread", [892.0, 2797.0, 1828.0, 4.0, 1.0], None, 5522.0),
];

/// Whole registrations, s.
const WHOLE: [f64; 2] = [2.19, 82.83];

/// Stops where the host does, and tells nothing.
struct Stops<'h>(&'h dyn Host);

impl Progress for Stops<'_> {
    fn event(&self, _: &Event<'_>) {}

    fn stop(&self) -> bool {
        self.0.stop()
    }
}

/// Table 5.5.
pub(super) fn measure(plan: &Plan<'_>) -> Result<Measured> {
    let is_gpu = plan.machine.gpu().is_some();
    let dims = plan.size_or(if is_gpu { PUBLISHED_SIZE } else { CPU_SIZE });
    let runs = plan.repeat.unwrap_or(if is_gpu { 3 } else { 1 });
    let (fixed, moving) = (scene::fixed(dims)?, scene::moving(dims)?);
    let mut input = DeformInput::new(&fixed, &moving, Similarity::SSD, Affine::identity());
    input.preparation.clip = false;
    let body = scene::body(dims, plan.spacing)?;
    let mesh = body.finest().body.mesh();
    let title = format!(
        "{ITERATIONS} iterations between images of {}, {} tetrahedra, {} vertices, ms per iteration (table 5.5)",
        Size(dims),
        mesh.tetrahedra().len(),
        mesh.vertices().len()
    );
    let mut setting = ElasticSetting::new(body);
    setting.elastic.tolerance = 0.0;
    setting.multiscale.schedule = Schedule::of(&[(1, ITERATIONS)]);
    setting.timed = true;
    if is_gpu {
        setting = setting.on_gpu();
    }
    let before = scene::error(&VectorField::zeros(scene::grid([2; 3])?))?;
    let on = if is_gpu { plan.machine.device.name() } else { super::threads(plan.machine.threads) };
    let mut rows = Vec::new();
    for &samples in &plan.samples {
        setting.elastic.samples = samples;
        let mut found = Vec::new();
        for _ in 0..runs {
            check(plan.host)?;
            found.push(once(plan, &input, &setting)?);
        }
        let at = |k: usize| median(found.iter().map(|f| f[k]).collect());
        let mut values: Vec<Option<f64>> = (0..9).map(|k| Some(at(k))).collect();
        values.insert(8, Some(before));
        let what = match samples {
            Sampling::All => "every voxel".to_owned(),
            Sampling::Lattice(_) => samples.to_string(),
        };
        rows.push(Row::new(&what, &on, values));
    }
    for ((on, steps, others, total), whole) in STEPS.into_iter().zip(WHOLE) {
        let mut values: Vec<Option<f64>> = steps.map(Some).into();
        values.extend([others, Some(total), Some(whole), None, None]);
        rows.push(Row::published("20x30x10", on, values));
    }
    Ok(Measured {
        part: "registration",
        title,
        of: "samples",
        quantities: vec![
            "1 interpolation ms",
            "2 forces ms",
            "3 motion ms",
            "4 displacement ms",
            "5 similarity ms",
            "others ms",
            "total ms",
            "all s",
            "error before mm",
            "after mm",
        ],
        rows,
    })
}

/// Numbers of a registration, without the error before.
fn once(plan: &Plan<'_>, input: &DeformInput<'_>, setting: &ElasticSetting) -> Result<[f64; 9]> {
    let stops = Stops(plan.host);
    let (found, body) = register_elastic(&plan.machine.device, input, setting, &stops)?;
    let scale = found.scales.first();
    let scale = scale.ok_or_else(|| Error::Internal("a registration without a scale".into()))?;
    let (times, made) = (body.times, scale.energies.len().max(1) as f64);
    let parts =
        [times.interpolation, times.forces, times.motion, times.displacement, times.similarity];
    let [a, b, c, d, e] = parts.map(|seconds| 1e3 * seconds / made);
    let all = scale.seconds - body.setup_seconds;
    let total = 1e3 * all / made;
    let others = total - (a + b + c + d + e);
    Ok([a, b, c, d, e, others, total, all, scene::error(&found.forward)?])
}
