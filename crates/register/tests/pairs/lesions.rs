//! A lesion in the moving image, with and without a mask of it.

use crate::common::{shipped, thorough};
use crate::deform::Told;
use crate::deform::{fft, scales, warped, waves};
use voxalign_compute::Device;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_image::{Affine, Grid, ImageView, Vector3, VectorField, Volume};
use voxalign_register::diffeo::{
    DeformInput, DeformModel, DeformResult, Matching, register_deformable,
};
use voxalign_register::similarity::Similarity;
use voxalign_register::{Choice, Silent};

fn register<D: Device>(
    device: &D,
    fixed: &Volume<f32>,
    moving: &Volume<f32>,
    moving_mask: Option<&Volume<f32>>,
    similarity: Similarity,
    options: &Matching,
) -> DeformResult {
    let input = DeformInput {
        moving_mask: moving_mask.map(ImageView::from),
        ..DeformInput::new(fixed, moving, similarity, Affine::identity())
    };
    register_deformable(device, &input, options, &Silent).unwrap()
}

/// The distance of a voxel from a point within the left half of a head.
fn from_centre(dims: [usize; 3], x: usize, y: usize, z: usize) -> f64 {
    let from = |i: usize, n: usize, part: f64| (i as f64 - part * n as f64).powi(2);
    (from(x, dims[0], 0.35) + from(y, dims[1], 0.5) + from(z, dims[2], 0.55)).sqrt()
}

/// The mean distance of two displacements where `inside` is above 0, voxels.
fn apart(inside: &Volume<f32>, a: &VectorField, b: &VectorField) -> f64 {
    let at: Vec<usize> = (0..inside.data().len()).filter(|&i| inside.data()[i] > 0.0).collect();
    let sum: f64 = at.iter().map(|&i| (a.get(i) - b.get(i)).norm()).sum();
    sum / at.len() as f64 / inside.grid().spacing()[0]
}

/// With a mask the deformation around a lesion is near to that without the lesion; without one it is not.
/// What the lesion shows does not matter.
#[test]
fn a_masked_lesion_leads_nothing_astray() {
    let device = Cpu::new(None).unwrap();
    let healthy = shipped("colin27_t1.nii.gz");
    let (grid, dims) = (healthy.grid().clone(), healthy.dims());
    let truth = waves(&grid, 5.0);
    let fixed = warped(&healthy, &truth);
    let flag = |b: bool| f32::from(u8::from(b));
    let mask = Volume::from_fn(grid.clone(), |x, y, z| flag(from_centre(dims, x, y, z) > 8.0));
    let around = Volume::from_fn(grid.clone(), |x, y, z| flag(from_centre(dims, x, y, z) < 16.0));
    let top = healthy.data().iter().fold(0f32, |m, &v| m.max(v));
    let with_lesion = |lesion: &dyn Fn(f32) -> f32| {
        Volume::from_fn(grid.clone(), |x, y, z| {
            let v = *healthy.get(x, y, z).unwrap();
            if from_centre(dims, x, y, z) < 7.0 { lesion(v) } else { v }
        })
    };
    let bright = with_lesion(&|v| 0.3 * v + 0.8 * top);
    let dark = with_lesion(&|v| 0.1 * v);
    let usual = [
        (DeformModel::GREEDY, Similarity::LNCC),
        (DeformModel::GREEDY, Similarity::NMI),
        (DeformModel::SYMMETRIC, Similarity::SSD),
        (DeformModel::LDDMM, Similarity::LNCC),
    ];
    let others = [
        (DeformModel::GREEDY, Similarity::SSD),
        (DeformModel::GREEDY, Similarity::MI),
        (DeformModel::SYMMETRIC, Similarity::LNCC),
        (DeformModel::LDDMM, Similarity::SSD),
    ];
    let others = thorough().then_some(others).into_iter().flatten();
    for (model, similarity) in usual.into_iter().chain(others) {
        let mut options = Matching::of(model).told("schedule", scales(&[(4, 40), (2, 20)]));
        if model == DeformModel::LDDMM {
            options = options.told("time_steps", 4).told("schedule", scales(&[(4, 30), (2, 10)]));
        }
        let found = |moving, mask| register(&device, &fixed, moving, mask, similarity, &options);
        let wanted = found(&healthy, None).forward;
        let with = found(&bright, Some(&mask));
        let with_dark = found(&dark, Some(&mask)).forward;
        let [bare, bare_dark] = [&bright, &dark].map(|moving| found(moving, None).forward);
        let (off, without) =
            (apart(&around, &wanted, &with.forward), apart(&around, &wanted, &bare));
        let (by_content, bare_by_content) =
            (apart(&around, &with.forward, &with_dark), apart(&around, &bare, &bare_dark));
        let name = format!("{} {}", model.name(), similarity.name());
        println!(
            "{name}: {off:.3} voxels off with the mask, {without:.3} without it; a bright and a dark \
             lesion are {by_content:.4} apart with it, {bare_by_content:.3} without"
        );
        assert!(by_content < 0.1 * bare_by_content, "{name}: {by_content} {bare_by_content}");
        // Histograms hardly notice a lesion whose intensity few other voxels have: there is little to
        // win, and what is in the hole is missed.
        if !matches!(similarity, Similarity::MI | Similarity::NMI) {
            assert!(off < 0.5 * without, "{name}: {off} against {without}");
        }
        let remarks = &with.verdict.remarks;
        assert!(remarks.iter().any(|r| r.contains("inside the moving mask")), "{remarks:?}");
    }
}

/// A mask without a hole changes nothing but the border, where nothing is.
#[test]
fn the_masks_of_both_images_go_together() {
    let device = Cpu::new(None).unwrap();
    let moving = shipped("colin27_brain.nii.gz");
    let fixed = warped(&moving, &waves(moving.grid(), 4.0));
    let ones = Volume::filled(moving.grid().clone(), 1.0);
    let mut none = ones.clone();
    none.data_mut().fill(0.0);
    let [left, right] = [0, 1].map(|side| {
        Volume::from_fn(moving.grid().clone(), |x, _, _| {
            f32::from(u8::from(usize::from(2 * x > moving.dims()[0]) == side))
        })
    });
    for model in [DeformModel::GREEDY, DeformModel::SYMMETRIC, DeformModel::LDDMM] {
        let options =
            Matching::of(model).told("schedule", scales(&[(4, 10)])).told("time_steps", 3);
        let run = |fixed_mask: Option<&Volume<f32>>, moving_mask: Option<&Volume<f32>>| {
            let input = DeformInput {
                fixed_mask: fixed_mask.map(ImageView::from),
                moving_mask: moving_mask.map(ImageView::from),
                ..DeformInput::new(&fixed, &moving, Similarity::LNCC, Affine::identity())
            };
            register_deformable(&device, &input, &options, &Silent)
        };
        let (bare, masked) = (run(None, None).unwrap(), run(None, Some(&ones)).unwrap());
        let off = apart(&ones, &bare.forward, &masked.forward);
        println!("{}: {off:.4} voxels apart with a mask of ones", model.name());
        assert!(off < 0.02, "{}: {off}", model.name());
        let both = run(Some(&left), Some(&left)).unwrap();
        assert!(both.verdict.remarks.iter().any(|r| r.contains("inside the masks of both images")));
        // What one leaves is all that the other takes away.
        let said = run(Some(&left), Some(&right)).err().map(|e| e.to_string());
        assert!(said.is_some_and(|e| e.contains("have no voxel in common")), "{}", model.name());
        let said = run(None, Some(&none)).err().map(|e| e.to_string());
        assert!(said.is_some_and(|e| e.contains("the moving mask selects no voxel")));
    }
}

#[test]
fn the_same_bits_with_a_mask() {
    let (fixed, moving, mask) = small();
    for model in [DeformModel::GREEDY, DeformModel::SYMMETRIC, DeformModel::LDDMM] {
        let run = |threads| {
            let device = Cpu::new(Some(threads)).unwrap();
            let similarity = Similarity::LNCC;
            let found =
                register(&device, &fixed, &moving, Some(&mask), similarity, &options_of(model));
            found.forward.data().iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        };
        let expected = run(1);
        assert!(run(2) == expected && run(5) == expected, "{}", model.name());
    }
}

fn options_of(model: DeformModel) -> Matching {
    Matching {
        solver: if model == DeformModel::LDDMM { fft() } else { Matching::of(model).solver },
        ..Matching::of(model)
    }
    .told("schedule", scales(&[(2, 3), (1, 2)]))
    .told("time_steps", 3)
}

/// A small pair with a bright lesion in the moving image, and its mask.
fn small() -> (Volume<f32>, Volume<f32>, Volume<f32>) {
    let grid = Grid::axis_aligned([20, 18, 16], [2.0; 3]).unwrap();
    let image = Volume::from_fn(grid.clone(), |x, y, z| {
        let d = Vector3::new(x as f64 - 9.0, y as f64 - 8.0, z as f64 - 7.5);
        ((-d.norm_squared() / 30.0).exp() * (1.0 + 0.3 * (x as f64).sin())) as f32
    });
    let fixed = warped(&image, &waves(&grid, 1.0));
    let hole = |x: usize, y: usize, z: usize| {
        (6..10).contains(&x) && (7..11).contains(&y) && (5..9).contains(&z)
    };
    let mask = Volume::from_fn(grid.clone(), |x, y, z| f32::from(u8::from(!hole(x, y, z))));
    let moving = Volume::from_fn(grid, |x, y, z| match hole(x, y, z) {
        true => 3.0,
        false => *image.get(x, y, z).unwrap(),
    });
    (fixed, moving, mask)
}

/// The kernels of a GPU, emulated, do as the CPU.
#[test]
fn the_emulated_gpu_agrees() {
    let Ok(cuda) = Cuda::emulated() else {
        assert!(std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_none(), "no C++ compiler");
        println!("skipped: there is no C++ compiler");
        return;
    };
    agrees_with_the_cpu(&cuda);
}

/// A GPU does as the CPU, where the environment names one.
#[test]
fn a_gpu_agrees() {
    if std::env::var("VOXALIGN_TEST_DEVICE").is_ok_and(|d| d.starts_with("cuda")) {
        agrees_with_the_cpu(&Cuda::new(0).unwrap());
    } else {
        println!("skipped: VOXALIGN_TEST_DEVICE names no GPU");
    }
}

fn agrees_with_the_cpu(cuda: &Cuda) {
    let (fixed, moving, mask) = small();
    let cpu = Cpu::new(None).unwrap();
    for (model, similarity) in [
        (DeformModel::GREEDY, Similarity::LNCC),
        (DeformModel::GREEDY, Similarity::NMI),
        (DeformModel::SYMMETRIC, Similarity::LNCC),
        (DeformModel::LDDMM, Similarity::SSD),
    ] {
        let options = options_of(model);
        let one = register(&cpu, &fixed, &moving, Some(&mask), similarity, &options);
        let other = register(cuda, &fixed, &moving, Some(&mask), similarity, &options);
        let far = one.forward.data().iter().zip(other.forward.data());
        let far = far.map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        println!("{} {}: {far:e} mm apart", model.name(), similarity.name());
        assert!(far < 0.02, "{far}");
    }
}
