//! Tests of the paths.

use super::*;
use crate::attachment::images::{coarser, factors_for};
use crate::attachment::{Attachments, ChannelSimilarity};
use crate::model::Sources;
use crate::model::{Counts, FixedImage};
use crate::multiscale::Schedule;
use crate::similarity::Similarity;
use voxalign_compute::Memory;
use voxalign_compute::cpu::Cpu;
use voxalign_image::Volume;

#[test]
fn storage_is_checked_against_memory() {
    let (n, steps) = (256 * 256 * 256, 10);
    let [full, half, checkpoints] =
        [Storage::Full, Storage::Half, Storage::Checkpoints].map(|s| s.bytes(n, steps, 1));
    assert!(full > half && half > checkpoints);
    assert_eq!((checkpoint_distance(10, 1), checkpoint_distance(40, 1)), (5, 10));
    let check = |storage: Storage, free| storage.check(n, steps, 1, free);
    assert!(check(Storage::Full, None).is_ok() && check(Storage::Full, Some(full)).is_ok());
    let said = check(Storage::Full, Some(full - 1)).unwrap_err().to_string();
    assert!(said.contains("half (") && said.contains("or checkpoints ("), "{said}");
    let said = check(Storage::Half, Some(half - 1)).unwrap_err().to_string();
    assert!(said.contains("give checkpoints ("), "{said}");
    let said = check(Storage::Checkpoints, Some(checkpoints - 1)).unwrap_err().to_string();
    assert!(said.contains("fewer time steps"), "{said}");
}

/// Fields of a small registration, and the parts of its last energy.
fn registered(storage: Storage, time_steps: usize) -> ([Vec<f32>; 2], PathEnergy) {
    let device = Cpu::new(Some(2)).unwrap();
    let grid = Grid::axis_aligned([20, 18, 16], [1.0, 1.0, 1.2]).unwrap();
    let ball = |x: f64, radius: f64| {
        let image = Volume::from_fn(grid.clone(), |i, j, k| {
            let p = [i as f64 - x, j as f64 - 9.0, (k as f64 - 8.0) * 1.2];
            let r = p.iter().map(|c| c * c).sum::<f64>().sqrt();
            (1.0 / (1.0 + (r - radius).exp())) as f32
        });
        let values = device.upload(image.data()).unwrap();
        vec![DeviceImage { grid: grid.clone(), values, outside: 0.0, open: false }]
    };
    let options = Lddmm { time_steps, path_storage: storage, ..Lddmm::USUAL };
    let mut matching = Matching::of(options.into());
    matching.multiscale.schedule = Schedule::of(&[(2, 20), (1, 15)]);
    let ssd = ChannelSimilarity { channel: 0, similarity: Similarity::SSD, weight: 1.0 };
    let mut attachments: Attachments<Cpu> = vec![Box::new(ssd)];
    let (fixed, moving) = (ball(10.0, 5.5), ball(9.0, 4.5));
    let mut lddmm = LddmmModel::new(options, &matching, &grid);
    let mut state = lddmm.begin(&device, &Affine::identity(), 1).unwrap();
    for scale in matching.multiscale.scales() {
        let target = scale.factor as f64;
        let at = |image: &DeviceImage<Cpu>| image.at(&device, target).unwrap();
        lddmm.to_scale(scale, &coarser(&grid, factors_for(&grid, target)).unwrap());
        lddmm.refine(&device, moving.iter().map(at).collect(), &mut state).unwrap();
        let fixed: Vec<_> = fixed.iter().map(at).collect();
        let fixed: Vec<_> = fixed.iter().map(FixedImage::from).collect();
        for _ in 0..scale.iterations {
            let (shared, fixed, counts) = (&mut attachments, &fixed, Counts::ALL);
            let counted_volume = fixed[0].grid.len() as f64 * fixed[0].grid.voxel_volume();
            let sources = Sources { shared, own: &mut Vec::new(), share: 1.0, counted_volume };
            let pull = Pull { sources, fixed, warped: &[], counts };
            lddmm.step(&device, pull, &mut state).unwrap();
        }
    }
    let found = lddmm.conclude(&device, &grid, state).unwrap();
    let energy = *found.path.unwrap().energies.last().unwrap();
    (found.fields.map(|f| device.into_host(f).unwrap()), energy)
}

#[test]
fn all_ways_of_keeping_velocities_give_the_same() {
    for time_steps in [1, 5, 7] {
        let (full, energy) = registered(Storage::Full, time_steps);
        let (half, _) = registered(Storage::Half, time_steps);
        let (checkpoints, _) = registered(Storage::Checkpoints, time_steps);
        assert!(energy.length > 0.01, "{energy:?}");
        // Images that are made again are the same images.
        assert!(half == checkpoints, "{time_steps} time steps");
        for (full, half) in full.iter().zip(&half) {
            let largest = full.iter().fold(0f32, |a, v| a.max(v.abs()));
            let apart = full.iter().zip(half).fold(0f32, |a, (f, h)| a.max((f - h).abs()));
            assert!(apart < 0.01 * largest && largest > 0.5, "{apart} of {largest}");
        }
    }
}
