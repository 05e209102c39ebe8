//! Images whose intensities are compared as they are.

use crate::deform::Told;
use crate::deform::scales;
use voxalign_compute::cpu::Cpu;
use voxalign_image::{Affine, Grid, Volume};
use voxalign_register::diffeo::{
    ChannelInput, DeformInput, DeformModel, DeformResult, Intensities, Matching, Preparation,
    register_deformable,
};
use voxalign_register::similarity::Similarity;
use voxalign_register::{RegisterError, Silent};

/// A ball of a probability, 2 mm voxels.
fn ball(radius: f64, most: f32) -> Volume<f32> {
    let grid = Grid::axis_aligned([24, 22, 20], [2.0; 3]).unwrap();
    Volume::from_fn(grid, |x, y, z| {
        let at = |i: usize, middle: f64| (i as f64 - middle).powi(2);
        let r = (at(x, 11.5) + at(y, 10.5) + at(z, 9.5)).sqrt();
        most / (1.0 + (2.0 * (r - radius)).exp()) as f32
    })
}

fn found(
    channels: Vec<ChannelInput<'_>>,
    iterations: usize,
) -> Result<DeformResult, RegisterError> {
    let device = Cpu::new(None).unwrap();
    let input = DeformInput {
        channels,
        fixed_mask: None,
        moving_mask: None,
        landmarks: None,
        shapes: Vec::new(),
        affine: Affine::identity(),
        preparation: Preparation { clip: false, ..Preparation::default() },
    };
    let options = Matching::of(DeformModel::GREEDY).told("schedule", scales(&[(1, iterations)]));
    register_deformable(&device, &input, &options, &Silent)
}

fn channel<'a>(
    [fixed, moving]: [&'a Volume<f32>; 2],
    intensities: Intensities,
) -> ChannelInput<'a> {
    ChannelInput { intensities, ..ChannelInput::new(fixed, moving, Similarity::SSD) }
}

#[test]
fn a_probability_of_a_half_stays_one() {
    let (fixed, moving) = (ball(6.0, 1.0), ball(6.0, 0.5));
    let energy = |intensities| {
        let found = found(vec![channel([&fixed, &moving], intensities)], 1).unwrap();
        found.scales[0].energies[0]
    };
    let squares = fixed.data().iter().zip(moving.data()).map(|(f, m)| f64::from(f - m).powi(2));
    let expected = squares.sum::<f64>() / fixed.data().len() as f64;
    let as_they_are = energy(Intensities::AsTheyAre);
    assert!((as_they_are / expected - 1.0).abs() < 1e-3, "{as_they_are} {expected}");
    // Calibrated they are the same.
    assert!(energy(Intensities::Calibrated) < 0.01 * expected);
}

#[test]
fn a_pair_of_no_weight_says_where_the_images_are() {
    let (fixed, moving) = (ball(6.0, 1.0), ball(7.0, 1.0));
    let blank = ball(6.0, 0.0);
    let pulling = channel([&fixed, &moving], Intensities::AsTheyAre);
    let silent = ChannelInput { weight: 0.0, ..channel([&blank, &blank], Intensities::Calibrated) };
    let alone = found(vec![pulling], 20).unwrap();
    let both = found(vec![silent, pulling], 20).unwrap();
    assert!(alone.forward == both.forward && alone.scales[0].energies.len() == 20);
    assert!(both.scales[0].energies[19] < 0.2 * both.scales[0].energies[0]);
    // One that pulls nothing has to stand beside one that does; constant images are for what is compared as it is.
    assert!(found(vec![silent], 1).is_err());
    let constant = channel([&blank, &blank], Intensities::Calibrated);
    assert!(matches!(found(vec![constant], 1), Err(RegisterError::Constant { .. })));
}
