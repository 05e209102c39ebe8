//! Images in the memory of a device give what the same images on the host give there, to the bit, and stay where they are.

use crate::common::*;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::{Cuda, MemoryLimit};
use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::{Device, Memory};
use voxalign_image::{Affine, Transform, Volume};
use voxalign_register::Silent;
use voxalign_register::compare::OverlapRule;
use voxalign_register::diffeo::{
    DeformInput, DeformModel, DeformResult, Matching, object_of, register_deformable,
};
use voxalign_register::linear::{AffineInput, AffineOptions, Search, register_affine, see};
use voxalign_register::multiscale::Schedule;
use voxalign_register::numbers::Levels;
use voxalign_register::resample::MovingImage;
use voxalign_register::scores::{Resampled, Scores, Scoring, Tissue};
use voxalign_register::similarity::Similarity;
use voxalign_register::there::{kept, uploaded};

/// The GPU that the environment names, or the emulated one.
fn device() -> Option<Cuda> {
    if std::env::var("VOXALIGN_TEST_DEVICE").is_ok_and(|d| d.starts_with("cuda")) {
        return Some(Cuda::new(0).unwrap());
    }
    match Cuda::emulated() {
        Ok(cuda) => Some(cuda),
        Err(e) => {
            let required = std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_some();
            assert!(!required, "the kernels of the GPU cannot be tested: {e}");
            eprintln!("skipped: {e}");
            None
        }
    }
}

/// Two brains on voxels of 8 mm, with an offset below 0 as CT has.
fn pair() -> [Volume<f32>; 2] {
    let cpu = Cpu::new(None).unwrap();
    ["icbm152_t1.nii.gz", "colin27_brain.nii.gz"].map(|name| {
        let image = shipped(name);
        let coarse = voxalign_register::attachment::images::DeviceImage {
            grid: image.grid().clone(),
            values: cpu.upload(image.data()).unwrap(),
            outside: 0.0,
            open: false,
        };
        let coarse = coarse.at(&cpu, 8.0).unwrap();
        let values = cpu.into_host(coarse.values).unwrap();
        Volume::new(coarse.grid, values.into_iter().map(|v| v - 5.0).collect()).unwrap()
    })
}

/// The same images in the memory of a device.
fn there<D: Device>(device: &D, images: &[Volume<f32>; 2]) -> [Volume<f32>; 2] {
    images.each_ref().map(|image| {
        let values = device.upload(image.data()).unwrap();
        kept(device, image.grid().clone(), values).unwrap()
    })
}

/// Does something with the images on the host, and in the memory of the device, where they stay.
fn of_both<R>(cuda: &Cuda, what: impl Fn(&Cuda, &[Volume<f32>; 2]) -> R) -> [R; 2] {
    let here = pair();
    let there = there(cuda, &here);
    assert!(there[0] == here[0] && there[0] != there[1]);
    let before = cuda.transfers().images_to_host;
    let found = [what(cuda, &here), what(cuda, &there)];
    assert_eq!(cuda.transfers().images_to_host, before, "an image was brought to the host");
    found
}

#[test]
fn affine_maps_and_what_the_images_say() {
    let Some(cuda) = device() else { return };
    let [here, there] = of_both(&cuda, |cuda, [fixed, moving]| {
        let options = AffineOptions {
            search: Search::Local,
            levels: Some(Levels(vec![16.0, 12.0])),
            ..AffineOptions::default()
        };
        let input = AffineInput::new(fixed, moving);
        let found = register_affine(cuda, &input, &options, &Silent).unwrap();
        (found.transform.rows(), found.cost_after.to_bits(), see(cuda, &input).unwrap())
    });
    assert!(here == there);
}

/// What was deformed by a model, by default around the foreground alone.
fn deformed(cuda: &Cuda, model: DeformModel) -> [DeformResult; 2] {
    of_both(cuda, |cuda, [fixed, moving]| {
        let mut matching = Matching::of(model);
        matching.multiscale.schedule = Schedule::of(&[(2, 3), (1, 2)]);
        let mut input = DeformInput::new(fixed, moving, Similarity::LNCC, Affine::identity());
        input.preparation.clip = true;
        register_deformable(cuda, &input, &matching, &Silent).unwrap()
    })
}

#[test]
fn deformations() {
    let Some(cuda) = device() else { return };
    for model in [DeformModel::GREEDY, DeformModel::SYMMETRIC] {
        let [here, there] = deformed(&cuda, model);
        assert!(here.forward == there.forward && here.inverse == there.inverse);
        assert_eq!((here.clipped, here.foreground), (there.clipped, there.foreground));
        assert!(here.measures == there.measures);
    }
}

/// The moving image on the fixed one with its scores, within a tissue that both show, and with or without a mask.
fn scored<D: Device>(
    device: &D,
    [fixed, moving]: &[Volume<f32>; 2],
    mask: Option<&Volume<f32>>,
) -> Resampled {
    let object = object_of(fixed, Some(20.0), mask).unwrap();
    let rule = OverlapRule::default();
    let scoring = Scoring {
        fixed,
        fixed_mask: mask,
        fixed_labels: None,
        moving_labels: None,
        tissue: Some(Tissue { object, moving_above: 10.0 }),
        rule: &rule,
        interpolation: Interpolation::Linear,
        outside: -5.0,
    };
    let shift = Affine::translation([20.0, 3.0, -11.0].into());
    let moving = MovingImage::lent(device, moving.into()).unwrap();
    scoring.under(device, &moving, &Transform::Affine(shift)).unwrap()
}

/// A mask of part of the fixed image.
fn mask() -> Volume<f32> {
    let grid = pair()[0].grid().clone();
    Volume::from_fn(grid, |x, y, _| f32::from(u8::from(x > 4 && y < 18)))
}

#[test]
fn scores() {
    let Some(cuda) = device() else { return };
    let mask = mask();
    for mask in [None, Some(&mask)] {
        let [here, there] = of_both(&cuda, |cuda, images| scored(cuda, images, mask));
        // The image on the fixed grid is where the two images are.
        assert!(there.image.elsewhere().is_some() && here.image.elsewhere().is_none());
        assert!(there.image == here.image);
        assert_eq!(here.scores, there.scores);
        // Those of the host: what is counted is the same, sums are up to rounding.
        let host = scored(&Cpu::new(None).unwrap(), &pair(), mask);
        let (own, expected) = (there.scores, host.scores);
        assert_eq!(own.agreement, expected.agreement);
        let Scores { images: Some(own), .. } = own else { panic!("there is no overlap") };
        let Scores { images: Some(expected), .. } = expected else { panic!("no overlap") };
        assert_eq!((own.voxels, own.not_finite), (expected.voxels, expected.not_finite));
        assert!(own.not_finite > 100 && own.voxels > 1000);
        let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-5 * b.abs(), "{a} is not {b}");
        near(own.rms, expected.rms);
        near(own.mi, expected.mi);
        near(own.ncc.unwrap(), expected.ncc.unwrap());
        near(own.nmi.unwrap(), expected.nmi.unwrap());
        let apart = there.image.data().iter().zip(host.image.data());
        assert!(apart.into_iter().all(|(a, b)| (a - b).abs() < 1e-2));
    }
}

#[test]
fn images_that_do_not_meet_have_no_scores() {
    let Some(cuda) = device() else { return };
    let [here, there] = of_both(&cuda, |cuda, [fixed, moving]| {
        let away = Affine::translation([1e4, 0.0, 0.0].into());
        let away = moving.grid().clone().moved(&away).unwrap();
        let moving = Volume::new(away, uploaded_back(cuda, moving)).unwrap();
        let scored = scored(cuda, &[fixed.clone(), moving], None);
        (scored.scores, scored.image.elsewhere().is_some())
    });
    assert_eq!((here.0.images, there.0.images), (None, None));
    assert!(!here.1 && there.1);
}

#[test]
fn scores_are_those_of_the_host_where_the_device_has_no_room() {
    let Some(cuda) = device() else { return };
    let (here, mask) = (pair(), mask());
    for images in [there(&cuda, &here), here] {
        let expected = scored(&cuda, &images, Some(&mask));
        // Room for the moving image, for it on the fixed grid, and for no other.
        let bytes = images.each_ref().map(|image| 4 * image.grid().len() as u64);
        let enough = cuda.pool().live + bytes[0] + bytes[1] + bytes[0] / 2;
        cuda.limit_memory(MemoryLimit::Bytes(enough));
        let found = scored(&cuda, &images, Some(&mask));
        cuda.limit_memory(MemoryLimit::Device);
        assert!(found.image.elsewhere().is_none() && found.image == expected.image);
        assert_eq!(found.scores.agreement, expected.scores.agreement);
        let [found, expected] = [found, expected].map(|of| of.scores.images.unwrap());
        assert_eq!(found.voxels, expected.voxels);
        assert!((found.mi - expected.mi).abs() < 1e-5 * expected.mi);
    }
}

/// The values of an image by way of the device.
fn uploaded_back(cuda: &Cuda, image: &Volume<f32>) -> Vec<f32> {
    cuda.into_host(uploaded(cuda, image).unwrap()).unwrap()
}
