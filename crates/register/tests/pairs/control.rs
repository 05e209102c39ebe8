//! How far rounding alone moves a result: the control for comparisons of devices. The same registration,
//! on the CPU, of images whose values are changed by one unit in the last place.

use crate::common::*;
use crate::deform::Told;
use voxalign_compute::cpu::Cpu;
use voxalign_image::{Affine, VectorField, Volume};
use voxalign_register::diffeo::{
    DeformInput, DeformModel, DeformResult, Matching, register_deformable,
};
use voxalign_register::linear::AffineOptions;
use voxalign_register::metric::reference::correlation_ratio;
use voxalign_register::multiscale::Schedule;
use voxalign_register::similarity::Similarity;
use voxalign_register::{Choice, Silent};

/// Pairs of changed images that are registered.
const RUNS: u64 = 2;

/// The image with every value above 0 one unit in the last place higher or lower, at random.
pub(crate) fn nudged(image: &Volume<f32>, seed: u64) -> Volume<f32> {
    let mut random = Random::new(seed);
    let mut other = image.clone();
    for v in other.data_mut().iter_mut().filter(|v| **v > 0.0) {
        *v = if random.unit() < 0.5 { v.next_up() } else { v.next_down() };
    }
    other
}

/// How far two results are apart.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Apart {
    /// The largest distance inside the fixed image, mm.
    pub(crate) mm: f64,
    /// The difference of their costs, by one plain reference in double precision.
    pub(crate) cost: f64,
}

impl Apart {
    /// Of two affine maps of a pair.
    pub(crate) fn of(fixed: &Volume<f32>, moving: &Volume<f32>, a: &Affine, b: &Affine) -> Self {
        let (low, high) = fixed
            .data()
            .iter()
            .fold((f32::MAX, f32::MIN), |(low, high), &v| (low.min(v), high.max(v)));
        let [a_cost, b_cost] =
            [a, b].map(|t| correlation_ratio(fixed, moving, t, (low, high), 256));
        Self { mm: error_inside(fixed, a, b).1, cost: (a_cost - b_cost).abs() }
    }

    /// The larger of each.
    fn most(self, other: Self) -> Self {
        Self { mm: self.mm.max(other.mm), cost: self.cost.max(other.cost) }
    }
}

/// How far the last place of the values moves an affine result of the CPU, at most of some runs.
pub(crate) fn affine(
    fixed: &Volume<f32>,
    moving: &Volume<f32>,
    options: &AffineOptions,
    result: &Affine,
) -> Apart {
    (1..=RUNS).fold(Apart::default(), |most, seed| {
        let [f, m] = [nudged(fixed, seed), nudged(moving, RUNS + seed)];
        let found = register(&f, &m, options).transform;
        most.most(Apart::of(fixed, moving, result, &found))
    })
}

/// How far two fields of displacements are apart on average, mm.
pub(crate) fn mean_apart(a: &VectorField, b: &VectorField) -> f64 {
    let n = a.grid().len();
    (0..n).map(|i| (a.get(i) - b.get(i)).norm()).sum::<f64>() / n as f64
}

/// How far the last place of the values moves a deformation of the CPU on average, mm, at most of some runs.
pub(crate) fn deformation(
    [fixed, moving]: [&Volume<f32>; 2],
    affine: Affine,
    similarity: Similarity,
    options: &Matching,
    result: &DeformResult,
) -> f64 {
    let cpu = Cpu::new(None).unwrap();
    let run = |fixed: &Volume<f32>, moving: &Volume<f32>| {
        let input = DeformInput::new(fixed, moving, similarity, affine);
        let found = register_deformable(&cpu, &input, options, &Silent).unwrap();
        mean_apart(&result.forward, &found.forward)
    };
    (1..=RUNS)
        .map(|seed| run(&nudged(fixed, seed), &nudged(moving, RUNS + seed)))
        .fold(0.0, f64::max)
}

/// Between two people many maps are nearly as good: what the last place of the values decides is a
/// twentieth of a voxel, and nothing of the cost.
#[test]
fn the_last_place_moves_an_affine_map_little() {
    let (fixed, moving) = (shipped("icbm152_t1.nii.gz"), shipped("colin27_brain.nii.gz"));
    // A voxel that goes to another bin of a joint histogram changes it at once.
    for (similarity, cost) in [(Similarity::CR, 1e-5), (Similarity::NMI, 1e-4)] {
        let options = AffineOptions { similarity: Some(similarity), ..AffineOptions::default() };
        let result = register(&fixed, &moving, &options);
        let apart = affine(&fixed, &moving, &options, &result.transform);
        println!("two brains, {}: {apart:?}", similarity.name());
        assert!(apart.mm > 0.0, "nothing was changed");
        assert!(apart.mm < 0.05 * fixed.grid().spacing()[0], "{similarity:?} {apart:?}");
        assert!(apart.cost < cost, "{similarity:?} {apart:?}");
    }
}

/// One image that flows is the reference of the other: none of its voxels may jump from bin to bin.
#[test]
fn the_last_place_moves_a_symmetric_deformation_little() {
    let cpu = Cpu::new(None).unwrap();
    let (fixed, moving) = (shipped("icbm152_t1.nii.gz"), shipped("colin27_brain.nii.gz"));
    let affine = register(&fixed, &moving, &AffineOptions::default()).transform;
    let schedule = Schedule::of(&[(4, 10)]);
    let options = Matching::of(DeformModel::SYMMETRIC).told("schedule", schedule);
    for similarity in [Similarity::MI, Similarity::NMI] {
        let run = |fixed: &Volume<f32>, moving: &Volume<f32>| -> DeformResult {
            let input = DeformInput::new(fixed, moving, similarity, affine);
            register_deformable(&cpu, &input, &options, &Silent).unwrap()
        };
        let result = run(&fixed, &moving);
        let energy = |r: &DeformResult| r.scales[0].energies.last().copied().unwrap();
        for seed in 1..=RUNS {
            let found = run(&nudged(&fixed, seed), &nudged(&moving, RUNS + seed));
            let n = fixed.grid().len();
            let apart = (0..n).map(|i| (result.forward.get(i) - found.forward.get(i)).norm());
            let (sum, largest) = apart.fold((0.0, 0f64), |(s, l), d| (s + d, l.max(d)));
            let off = (energy(&result) - energy(&found)).abs();
            let name = similarity.name();
            println!(
                "{name}, {seed}: {:.7} mm on average, {largest:.6} at most; energies {off:.1e} apart",
                sum / n as f64
            );
            // A voxel of this scale is 8 mm; one that jumps moves its surroundings by a tenth of a mm.
            assert!(largest < 0.01, "{name}: {largest} mm");
            assert!(off < 1e-5, "{name}: energies {off} apart");
        }
    }
}
