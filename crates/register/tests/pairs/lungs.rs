//! A lung at two times with ten landmarks: those that pull bring those that do not along.

use crate::common::{Random, real_data, volume};
use crate::deform::Told;
use crate::deform::scales;
use voxalign_compute::cpu::Cpu;
use voxalign_image::{Affine, Grid, PointSet, Vector3, Volume};
use voxalign_register::Silent;
use voxalign_register::attachment::Landmarks;
use voxalign_register::diffeo::{DeformInput, Matching, register_deformable};
use voxalign_register::fit::{MapKind, PointPairs, fit_points};
use voxalign_register::similarity::Similarity;

/// The images, and their landmarks in world coordinates.
struct Lung {
    images: [Volume<f32>; 2],
    points: [Vec<Vector3<f64>>; 2],
}

fn lung(test: &str) -> Option<Lung> {
    let data = real_data(test)?;
    let name = |what: &str| data.join("lung_ct_elastix").join(format!("3DCT_lung_{what}"));
    let points = |what: &str, grid: &Grid| -> Vec<Vector3<f64>> {
        // The list of elastix: a line that says what it has, here voxels, their number, then one a line.
        let text = std::fs::read_to_string(name(what)).unwrap();
        assert!(text.starts_with("index"));
        let point = |line: &str| {
            let index: Vec<f64> = line.split_whitespace().map(|v| v.parse().unwrap()).collect();
            grid.index_to_world(Vector3::from_row_slice(&index))
        };
        text.lines().skip(2).filter(|l| !l.trim().is_empty()).map(point).collect()
    };
    let images = ["baseline.mha", "followup.mha"].map(|n| volume(name(n)));
    let points =
        [points("baseline.txt", images[0].grid()), points("followup.txt", images[1].grid())];
    assert_eq!(points.each_ref().map(Vec::len), [10, 10]);
    Some(Lung { images, points })
}

impl Lung {
    /// Those of some numbers.
    fn some(&self, which: &[usize]) -> [PointSet; 2] {
        self.points.each_ref().map(|p| PointSet::new(which.iter().map(|&i| p[i]).collect()))
    }

    /// The rigid map that the landmarks of some numbers give.
    fn start(&self, which: &[usize]) -> Affine {
        let [fixed, moving] = self.some(which);
        let pairs = PointPairs::new(&fixed, &moving).unwrap();
        let found = fit_points(&pairs, MapKind::Rigid, None).unwrap();
        assert!(found.kind == MapKind::Rigid && !found.mirrored, "{found:?}");
        found.map
    }

    /// The mean distance of the landmarks of some numbers by a map.
    fn apart(&self, which: &[usize], map: impl Fn(Vector3<f64>) -> Vector3<f64>) -> f64 {
        let [p, q] = &self.points;
        which.iter().map(|&i| (map(p[i]) - q[i]).norm()).sum::<f64>() / which.len() as f64
    }

    /// Registers by images and, with a weight above 0, the landmarks of some numbers; gives the mean distances of these and
    /// of the others.
    fn deformed(
        &self,
        [used, held]: [&[usize]; 2],
        weight: f64,
        schedule: &[(usize, usize)],
    ) -> [f64; 2] {
        let device = Cpu::new(None).unwrap();
        let [fixed, moving] = &self.images;
        let mut input = DeformInput::new(fixed, moving, Similarity::LNCC, self.start(used));
        if weight > 0.0 {
            let [p, q] = self.some(used);
            input.landmarks = Some(Landmarks::new(&p, &q, weight).unwrap());
        }
        let options = Matching::default().told("schedule", scales(schedule));
        let found = register_deformable(&device, &input, &options, &Silent).unwrap();
        assert_eq!(found.measures.folded, 0);
        let map = found.transform();
        [used, held].map(|which| self.apart(which, |p| map.apply(p)))
    }
}

/// Five landmarks at random, and the other five.
fn split(random: &mut Random) -> [Vec<usize>; 2] {
    let mut all: Vec<usize> = (0..10).collect();
    for i in (1..10).rev() {
        all.swap(i, ((i + 1) as f64 * random.unit()) as usize);
    }
    [all[..5].to_vec(), all[5..].to_vec()]
}

/// The usual weight of the program.
const WEIGHT: f64 = 3e-4;

#[test]
fn landmarks_bring_others_along() {
    let Some(lung) = lung("landmarks_bring_others_along") else { return };
    let [used, held] = split(&mut Random::new(1));
    let both = [&used[..], &held];
    let coarse = [(4, 60)];
    let start = lung.start(&used);
    let before = [&used, &held].map(|which| lung.apart(which, |p| start.apply(p)));
    let alone = lung.deformed(both, 0.0, &coarse);
    let pulled = lung.deformed(both, WEIGHT, &coarse);
    println!("mean distance of five landmarks that pull, and of five that do not, mm");
    for (name, [used, held]) in [("rigid", before), ("images", alone), ("and landmarks", pulled)] {
        println!("  {name:<14} {used:6.2} {held:6.2}");
    }
    assert!(pulled[0] < alone[0] && pulled[1] < alone[1] + 0.3, "{alone:?} {pulled:?}");
    assert!(pulled[1] < before[1], "{before:?} {pulled:?}");
}

/// Twenty splits and several weights, down to a fine scale: a table, for whoever asks for it.
#[test]
#[ignore = "a table that takes minutes"]
fn landmarks_at_several_weights() {
    let Some(lung) = lung("landmarks_at_several_weights") else { return };
    let splits: Vec<_> = (0..20).map(|seed| split(&mut Random::new(seed + 1))).collect();
    let fine = [(4, 60), (2, 40)];
    println!(
        "weight, mean distance of landmarks that pull and of those held back, mm, 20 splits; worst split"
    );
    for weight in [0.0, 3e-5, 3e-4, 3e-3, 3e-2] {
        let all: Vec<_> =
            splits.iter().map(|[u, h]| lung.deformed([u, h], weight, &fine)).collect();
        let mean = |k: usize| all.iter().map(|d| d[k]).sum::<f64>() / all.len() as f64;
        let worst = all.iter().map(|d| d[1]).fold(0.0, f64::max);
        println!("  {weight:<6} {:6.2} {:6.2}   {worst:6.2}", mean(0), mean(1));
    }
}
