//! End to end on the images that ship with the project.

use crate::common::*;
use voxalign_compute::cpu::{Cpu, Simd};
use voxalign_compute::ops::resample::Interpolation;
use voxalign_image::{Affine, Grid, ImageView, Matrix3, Vector3, Volume};
use voxalign_register::linear::{
    AffineOptions, Angles, DeviceInput, FullSearch, Init, PreparedFixed, Rescue, Search,
    register_affine, register_affine_on_device,
};
use voxalign_register::numbers::Levels;
use voxalign_register::similarity::{Cr, Similarity};
use voxalign_register::{RegisterError, Silent};

/// Thirty random affine maps of a real head, with noise and bias, are all recovered.
#[test]
fn known_transforms_are_recovered() {
    let head = shipped("colin27_t1.nii.gz");
    let mut worst = 0.0f64;
    for case in 0..if thorough() { 30 } else { 4 } {
        let mut random = Random::new(case + 1);
        let truth = random_affine(&mut random, head.grid().centre());
        let grid = padded(head.grid(), 60.0);
        let mut moving = resample(&head, &truth.inverse().unwrap(), grid, Interpolation::Linear);
        spoil(&mut moving, &mut random);
        let result = register(&head, &moving, &AffineOptions::default());
        let (mean, largest) = error_inside(&head, &result.transform, &truth);
        println!("case {case}: mean {mean:.3} mm, largest {largest:.3} mm");
        assert!(mean < 0.5, "case {case}: {mean} mm");
        assert!(result.verdict.good, "case {case}: {}", result.verdict.summary());
        worst = worst.max(mean);
    }
    println!("worst mean error: {worst:.3} mm");
}

/// Two real brains: the same bits for any number of threads, on every SIMD level and in every run.
#[test]
fn the_same_bits() {
    let fixed = shipped("icbm152_t1.nii.gz");
    let moving = shipped("colin27_brain.nii.gz");
    for cost in [Some(Similarity::CR), Some(Similarity::NMI), None] {
        let options = AffineOptions { similarity: cost, ..AffineOptions::default() };
        let run = |threads: usize, simd: Simd| {
            let device = Cpu::new(Some(threads)).unwrap().with_simd(simd).unwrap();
            let r = register_affine(&device, &input(&fixed, &moving), &options, &Silent).unwrap();
            let evaluations: Vec<usize> = r.stages.iter().map(|s| s.evaluations).collect();
            (r.transform.rows(), r.cost_after.to_bits(), evaluations)
        };
        let first = run(2, Simd::detect());
        for threads in [1, 4].into_iter().filter(|t| thorough() || *t == 1 || cost.is_none()) {
            assert_eq!(run(threads, Simd::detect()), first, "{cost:?}, {threads} threads");
        }
        for simd in Simd::available() {
            if simd != Simd::detect() && cost == Some(Similarity::CR) {
                assert_eq!(run(2, simd), first, "{simd:?}");
            }
        }
    }
}

/// The finest stages take the cross-correlation where the intensities lie on a line, and mutual information where they
/// do not, unless a cost is given.
#[test]
fn the_cost_follows_the_intensities() {
    let fixed = shipped("icbm152_t1.nii.gz");
    let most = fixed.data().iter().copied().fold(0.0, f32::max);
    let of = |f: &dyn Fn(f32) -> f32| {
        let values =
            fixed.data().iter().map(|&v| if v > 0.0 { f(v / most) } else { 0.0 }).collect();
        Volume::new(fixed.grid().clone(), values).unwrap()
    };
    let near = AffineOptions { search: Search::Local, dof: 6, ..AffineOptions::default() };
    let found = |moving: &Volume<f32>, options: &AffineOptions| {
        let found = register(&fixed, moving, options);
        let costs: Vec<String> = found.stages.iter().map(|s| s.cost.clone()).collect();
        let off = error_inside(&fixed, &found.transform, &Affine::identity()).0;
        assert!(off < 0.2 && found.verdict.good, "{off} mm, {}", found.verdict.summary());
        (costs, found.relation.map(|r| r.linearity()))
    };
    let (costs, linearity) = found(&of(&|v| 3.0 * v + 1.0), &near);
    assert_eq!(costs, ["nmi", "nmi", "ncc"]);
    assert!(linearity.unwrap() > 0.99, "{linearity:?}");
    let (costs, linearity) = found(&of(&|v| 1.2 - v), &near);
    assert_eq!(costs, ["nmi"; 3]);
    assert!(linearity.unwrap() < 0.01, "{linearity:?}");
    let given = AffineOptions { similarity: Some(Similarity::NMI), ..near };
    let (costs, linearity) = found(&of(&|v| 3.0 * v + 1.0), &given);
    assert_eq!((costs, linearity), (vec!["nmi".to_owned(); 3], None));
}

/// Every start and every way of searching ends at the same place.
#[test]
fn starts_and_searches_agree() {
    let fixed = shipped("icbm152_t1.nii.gz");
    let moving = shipped("colin27_brain.nii.gz");
    let reference = register(&fixed, &moving, &AffineOptions::default());
    let near = |t: &Affine| error_inside(&fixed, t, &reference.transform).0;
    for init in [
        Init::Header,
        Init::Centre,
        Init::Moments,
        Init::Given(Affine::translation(Vector3::new(5.0, -9.0, 12.0))),
    ] {
        // The full search looks at all angles wherever it starts.
        let full = thorough() || matches!(init, Init::Moments);
        for search in full.then_some(Search::FULL).into_iter().chain([Search::Local]) {
            let options = AffineOptions { init: init.clone(), search, ..AffineOptions::default() };
            let result = register(&fixed, &moving, &options);
            let d = near(&result.transform);
            let gain = result.cost_after - reference.cost_after;
            println!("{init:?} {search:?}: {d:.3} mm, cost {gain:+.6}");
            // Two people's brains: within some tenths of a millimetre many maps are equally good.
            assert!(gain.abs() < 1e-4, "{init:?} {search:?}: cost {gain:+}");
            assert!(d < 0.5, "{init:?} {search:?}: {d} mm");
        }
    }
    // Without search the start is what comes out.
    let start = Affine::translation(Vector3::new(3.0, 0.0, 0.0));
    let options = AffineOptions {
        init: Init::Given(start),
        search: Search::None,
        ..AffineOptions::default()
    };
    let result = register(&fixed, &moving, &options);
    assert!((result.transform.matrix - start.matrix).norm() < 1e-12);
    assert!((result.transform.offset - start.offset).norm() < 1e-9);
    // A narrow range of angles does not find a brain that lies on its head; a remark says what was
    // not looked at, and the full range finds it.
    let turn = Affine::new(
        *nalgebra::Rotation3::new(Vector3::new(2.6, 0.3, 0.4)).matrix(),
        Vector3::new(40.0, 0.0, -30.0),
    );
    let turned = moving.clone().with_grid(moving.grid().moved(&turn).unwrap()).unwrap();
    let full = register(&fixed, &turned, &AffineOptions::default());
    assert!(near(&full.transform.then(&turn.inverse().unwrap())) < 0.1);
    let options = AffineOptions {
        search: Search::Full(FullSearch {
            search_angles: Angles([[-20.0, 20.0]; 3]),
            ..FullSearch::USUAL
        }),
        ..AffineOptions::default()
    };
    let narrow = register(&fixed, &turned, &options);
    assert!(near(&narrow.transform.then(&turn.inverse().unwrap())) > 5.0);
    assert!(narrow.verdict.remarks.iter().any(|r| r.contains("angles")), "{:?}", narrow.verdict);
    assert!(full.verdict.remarks.is_empty(), "{:?}", full.verdict);
}

/// Degrees of freedom do what they say.
#[test]
fn degrees_of_freedom() {
    let fixed = shipped("icbm152_t1.nii.gz");
    let moving = shipped("colin27_brain.nii.gz");
    let mut last = f64::INFINITY;
    for dof in [6, 7, 9, 12] {
        let options = AffineOptions { dof, ..AffineOptions::default() };
        let r = register(&fixed, &moving, &options);
        let m = r.transform.matrix;
        let gram = m.transpose() * m;
        let off = gram[(0, 1)].abs() + gram[(0, 2)].abs() + gram[(1, 2)].abs();
        if dof == 6 {
            assert!((gram - Matrix3::identity()).norm() < 1e-9);
        }
        if dof == 7 {
            assert!((gram - Matrix3::identity() * gram[(0, 0)]).norm() < 1e-9);
        }
        if dof == 9 {
            assert!(off < 1e-9);
        }
        assert!(r.cost_after < last + 1e-4, "{dof}: {} after {last}", r.cost_after);
        last = r.cost_after;
    }
    for dof in [0, 3, 8, 13] {
        let options = AffineOptions { dof, ..AffineOptions::default() };
        let device = Cpu::new(Some(1)).unwrap();
        let e = register_affine(&device, &input(&fixed, &moving), &options, &Silent).unwrap_err();
        assert!(e.to_string().contains("`dof` is"), "{e}");
    }
}

/// Masks take away what would mislead.
#[test]
fn masks_and_weights() {
    let fixed = shipped("icbm152_t1.nii.gz");
    let moving = shipped("colin27_brain.nii.gz");
    // One cost for all, as two people have another best map by another cost.
    let options = AffineOptions { similarity: Some(Similarity::NMI), ..AffineOptions::default() };
    let clean = register(&fixed, &moving, &options);
    // A bright block where no anatomy is, in each image.
    let spoil = |v: &Volume<f32>, x0: usize| {
        let [nx, ny, nz] = v.dims();
        let inside = |x: usize, y: usize, z: usize| {
            (x0..x0 + 15).contains(&x) && (5..ny - 70).contains(&y) && (5..nz / 2).contains(&z)
        };
        let image = Volume::from_fn(v.grid().clone(), |x, y, z| {
            if inside(x, y, z) { 600.0 } else { v.data()[(z * ny + y) * nx + x] }
        });
        let mask =
            Volume::from_fn(v.grid().clone(), |x, y, z| if inside(x, y, z) { 0.0 } else { 1.0 });
        (image, mask)
    };
    let (bad_fixed, fixed_mask) = spoil(&fixed, 4);
    let (bad_moving, moving_mask) = spoil(&moving, 60);
    let device = Cpu::new(None).unwrap();
    let run = |f: Option<&Volume<f32>>, w: Option<&Volume<f32>>, m: Option<&Volume<f32>>| {
        let is_whole = f.is_none() && w.is_none();
        let input = voxalign_register::linear::AffineInput {
            fixed_mask: f.map(ImageView::from),
            moving_mask: m.map(ImageView::from),
            fixed_weight: w.map(ImageView::from),
            ..input(&bad_fixed, &bad_moving)
        };
        let r = register_affine(&device, &input, &options, &Silent).unwrap();
        let off = error_inside(&fixed, &r.transform, &clean.transform).0;
        if is_whole {
            return off;
        }
        // Images on the device are left as they are, and give the same.
        let held = DeviceInput::upload(&device, &input).unwrap();
        let again = register_affine_on_device(&device, &held, &options, &Silent).unwrap();
        assert_eq!(again.transform.rows(), r.transform.rows());
        // A fixed image that is kept gives the same, for one moving image after the other.
        let (of, way) = (input.fixed_mask, input.fixed_weight);
        let kept = PreparedFixed::new(&device, input.fixed, of, way).unwrap();
        let turned = kept.register(&fixed, None, &options, &Silent).unwrap();
        let again = kept.register(input.moving, input.moving_mask, &options, &Silent).unwrap();
        assert_eq!(again.transform.rows(), r.transform.rows());
        assert_eq!((again.evidence, &again.verdict), (r.evidence, &r.verdict));
        assert_ne!(turned.transform.rows(), r.transform.rows());
        off
    };
    let without = run(None, None, None);
    let with = run(Some(&fixed_mask), None, Some(&moving_mask));
    let weighted = run(None, Some(&fixed_mask), Some(&moving_mask));
    println!("error without masks {without:.2} mm, with {with:.2} mm");
    assert!(with < 2.0 && with < 0.5 * without, "{with} {without}");
    assert!((with - weighted).abs() < 1e-9);
}

/// A mask of the outermost slices, in which two brains fit anywhere, does not hide that the rest does not fit; the images
/// without it find where they belong.
#[test]
fn a_mask_of_little_does_not_hide_the_rest() {
    let (fixed, moving) = (shipped("icbm152_t1.nii.gz"), shipped("colin27_brain.nii.gz"));
    let [_, _, nz] = fixed.dims();
    let mask = Volume::from_fn(fixed.grid().clone(), |_, _, z| if z < nz / 8 { 1.0 } else { 0.0 });
    let device = Cpu::new(None).unwrap();
    let masked = voxalign_register::linear::AffineInput {
        fixed_mask: Some((&mask).into()),
        ..input(&fixed, &moving)
    };
    let clean = register(&fixed, &moving, &AffineOptions::default());
    assert!(clean.unmasked.is_none());
    let run = |rescue| {
        let options = AffineOptions { rescue, ..AffineOptions::default() };
        let found = register_affine(&device, &masked, &options, &Silent).unwrap();
        let whole = found.unmasked.expect("there is a mask");
        let off = error_inside(&fixed, &found.transform, &clean.transform).0;
        let (own, all) = (found.evidence.agreement(), whole.evidence.agreement());
        println!("{off:.2} mm, kept {:.2}, agreement {own:.2}, of the whole {all:.2}", whole.kept);
        println!("{:?} {:?}", found.attempts, found.verdict.summary());
        (off, whole, found)
    };
    let (off, whole, found) = run(Rescue::Off);
    assert!(whole.kept < 0.2, "{}", whole.kept);
    assert!(off > 10.0 && !found.verdict.good, "{off} {}", found.verdict.summary());
    let (rescued, _, found) = run(Rescue::On);
    let kept = found.attempts.iter().find(|a| a.kept).expect("another way is better");
    assert!(kept.what.contains("masks left out") && kept.good, "{:?}", found.attempts);
    assert!(rescued < 1e-6 && found.verdict.good, "{rescued} {}", found.verdict.summary());
}

/// Flat images: 3, 4 and 6 degrees of freedom, on flipped, transposed and tilted grids.
#[test]
fn flat_images() {
    let brain = shipped("colin27_brain.nii.gz");
    let [nx, ny, _] = brain.dims();
    let slice = |z: usize| {
        let plane = brain.data()[z * nx * ny..(z + 1) * nx * ny].to_vec();
        let origin = brain.grid().index_to_world(Vector3::new(0.0, 0.0, z as f64));
        let grid =
            Grid::new([nx, ny, 1], Affine::new(brain.grid().to_world().matrix, origin)).unwrap();
        Volume::new(grid, plane).unwrap()
    };
    let fixed = slice(45);
    let turn = nalgebra::Rotation3::new(Vector3::new(0.0, 0.0, 0.9));
    for (dof, linear) in [
        (3, *turn.matrix()),
        (4, turn.matrix() * Matrix3::from_diagonal(&Vector3::new(1.1, 1.1, 1.0))),
        (6, turn.matrix() * Matrix3::new(1.1, 0.06, 0.0, 0.0, 0.92, 0.0, 0.0, 0.0, 1.0)),
    ] {
        let truth = Affine::about(linear, fixed.grid().centre(), Vector3::new(12.0, -9.0, 0.0));
        let mut grid = padded(fixed.grid(), 40.0);
        let centre = grid.dims()[2] / 2;
        let origin = grid.index_to_world(Vector3::new(0.0, 0.0, centre as f64));
        let dims = [grid.dims()[0], grid.dims()[1], 1];
        grid = Grid::new(dims, Affine::new(grid.to_world().matrix, origin)).unwrap();
        let moving = resample(&fixed, &truth.inverse().unwrap(), grid, Interpolation::Linear);
        let options = AffineOptions { dof, ..AffineOptions::default() };
        let plain = register(&fixed, &moving, &options);
        let (mean, _) = error_inside(&fixed, &plain.transform, &truth);
        assert!(mean < 0.2, "{dof}: {mean} mm");
        assert!(plain.verdict.good, "{}", plain.verdict.summary());
        // The same slices stored with x and y exchanged and x backwards.
        let [mx, my, _] = moving.dims();
        let m = moving.grid().to_world();
        let exchanged = Matrix3::from_columns(&[
            m.matrix.column(1).into_owned(),
            -m.matrix.column(0).into_owned(),
            m.matrix.column(2).into_owned(),
        ]);
        let origin = moving.grid().index_to_world(Vector3::new((mx - 1) as f64, 0.0, 0.0));
        let other = Grid::new([my, mx, 1], Affine::new(exchanged, origin)).unwrap();
        let stored = Volume::from_fn(other, |x, y, _| *moving.get(mx - 1 - y, x, 0).unwrap());
        let again = register(&fixed, &stored, &options);
        let (d, _) = error_inside(&fixed, &again.transform, &plain.transform);
        assert!(d < 0.2, "{dof} exchanged: {d} mm");
        // Both headers tilted in space: the transform is tilted with them.
        let tilt = Affine::new(
            *nalgebra::Rotation3::new(Vector3::new(0.4, -0.7, 0.2)).matrix(),
            Vector3::new(10.0, 20.0, 30.0),
        );
        let tilted = |v: &Volume<f32>| v.clone().with_grid(v.grid().moved(&tilt).unwrap()).unwrap();
        let (f, m) = (tilted(&fixed), tilted(&moving));
        let oblique = register(&f, &m, &options);
        let back = tilt.then(&oblique.transform).then(&tilt.inverse().unwrap());
        let (d, _) = error_inside(&fixed, &back, &plain.transform);
        assert!(d < 0.2, "{dof} tilted: {d} mm");
        // Only the moving slice tilted: the transform leads from plane to plane.
        let one = register(&fixed, &m, &options);
        let back = one.transform.then(&tilt.inverse().unwrap());
        let (d, _) = error_inside(&fixed, &back, &plain.transform);
        assert!(d < 0.2, "{dof} one tilted: {d} mm");
        // Left-handed storage (x backwards) of the tilted fixed slice.
        let [fx, _, _] = f.dims();
        let w = f.grid().to_world();
        let mirrored = Matrix3::from_columns(&[
            -w.matrix.column(0).into_owned(),
            w.matrix.column(1).into_owned(),
            w.matrix.column(2).into_owned(),
        ]);
        let origin = f.grid().index_to_world(Vector3::new((fx - 1) as f64, 0.0, 0.0));
        let grid = Grid::new(f.dims(), Affine::new(mirrored, origin)).unwrap();
        let left = Volume::from_fn(grid, |x, y, _| *f.get(fx - 1 - x, y, 0).unwrap());
        assert!(!left.grid().is_right_handed());
        let handed = register(&left, &m, &options);
        let back = tilt.then(&handed.transform).then(&tilt.inverse().unwrap());
        let (d, _) = error_inside(&fixed, &back, &plain.transform);
        assert!(d < 0.2, "{dof} left-handed: {d} mm");
    }
    let e = {
        let device = Cpu::new(Some(1)).unwrap();
        register_affine(&device, &input(&fixed, &brain), &AffineOptions::default(), &Silent)
            .unwrap_err()
    };
    assert!(matches!(e, RegisterError::Dimensions { fixed: 2, moving: 3 }));
}

/// A slab of a few slices is not a slice, and is not stretched to fill the overlap.
#[test]
fn thin_slabs() {
    let fixed = shipped("colin27_t1.nii.gz");
    let [nx, ny, _] = fixed.dims();
    for slices in [3, 8] {
        let origin = fixed.grid().index_to_world(Vector3::new(0.0, 0.0, 42.0));
        let grid = Grid::new([nx, ny, slices], Affine::new(fixed.grid().to_world().matrix, origin))
            .unwrap();
        let slab = Volume::from_fn(grid, |x, y, z| *fixed.get(x, y, z + 42).unwrap());
        let options =
            AffineOptions { init: Init::Header, search: Search::Local, ..AffineOptions::default() };
        let result = register(&fixed, &slab, &options);
        let (mean, _) = error_inside(&slab, &result.transform, &Affine::identity());
        println!("{slices} slices: {mean:.3} mm, {}", result.verdict.summary());
        assert!(mean < 0.5, "{slices} slices: {mean} mm");
        let overlap = voxalign_register::compare::field_overlap(
            fixed.grid(),
            slab.grid(),
            &Affine::identity(),
        );
        assert!(overlap > 0.99, "{overlap}");
    }
}

/// Only the proportions of weights count.
#[test]
fn small_weights() {
    let fixed = shipped("icbm152_t1.nii.gz");
    let moving = shipped("colin27_brain.nii.gz");
    let ramp = |scale: f32| {
        Volume::from_fn(fixed.grid().clone(), |x, _, _| scale * (0.5 + x as f32 / 200.0))
    };
    let device = Cpu::new(None).unwrap();
    let run = |weight: &Volume<f32>| {
        let mut input = input(&fixed, &moving);
        input.fixed_weight = Some(weight.into());
        register_affine(&device, &input, &AffineOptions::default(), &Silent).unwrap().transform
    };
    // A power of two: not even rounding differs.
    let (one, tiny) = (run(&ramp(1.0)), run(&ramp(2f32.powi(-20))));
    assert_eq!(one.rows(), tiny.rows());
}

/// `Init::Identity` lays the voxel grids on each other, whatever the headers say.
#[test]
fn headers_can_be_ignored() {
    let fixed = shipped("colin27_brain.nii.gz");
    let turn = Affine::new(
        *nalgebra::Rotation3::new(Vector3::new(0.4, 1.3, -0.8)).matrix(),
        Vector3::new(300.0, -200.0, 500.0),
    );
    let moving = fixed.clone().with_grid(fixed.grid().moved(&turn).unwrap()).unwrap();
    let options =
        AffineOptions { init: Init::Identity, search: Search::None, ..AffineOptions::default() };
    let result = register(&fixed, &moving, &options);
    assert!((result.transform.matrix - turn.matrix).norm() < 1e-9);
    assert!((result.transform.offset - turn.offset).norm() < 1e-6);
    assert!(result.cost_after < 1e-5, "{}", result.cost_after);
}

/// Input that cannot be registered is an error that says why.
#[test]
fn bad_input() {
    let brain = shipped("icbm152_t1.nii.gz");
    let device = Cpu::new(Some(1)).unwrap();
    let run = |f: &Volume<f32>, m: &Volume<f32>, o: &AffineOptions| {
        register_affine(&device, &input(f, m), o, &Silent).unwrap_err()
    };
    let default = AffineOptions::default();
    let constant = Volume::filled(brain.grid().clone(), 7.0);
    assert!(matches!(run(&constant, &brain, &default), RegisterError::Constant { .. }));
    assert!(matches!(run(&brain, &constant, &default), RegisterError::Constant { .. }));
    let mut nan = brain.clone();
    nan.data_mut()[5] = f32::NAN;
    assert!(matches!(run(&brain, &nan, &default), RegisterError::NotFinite { count: 1, .. }));
    let far = brain
        .clone()
        .with_grid(brain.grid().moved(&Affine::translation(Vector3::new(900.0, 0.0, 0.0))).unwrap())
        .unwrap();
    for search in [Search::FULL, Search::Local, Search::None] {
        let options = AffineOptions { init: Init::Header, search, ..default.clone() };
        assert!(matches!(run(&brain, &far, &options), RegisterError::NoOverlap { .. }));
    }
    let bins = AffineOptions { similarity: Some(Cr { bins: 1 }.into()), ..default.clone() };
    assert!(run(&brain, &brain, &bins).to_string().contains("`bins` is"));
    let border = AffineOptions { apodise: Some(-1.0), ..default.clone() };
    assert!(run(&brain, &brain, &border).to_string().contains("`apodise` is"));
    let levels = AffineOptions { levels: Some(Levels(vec![])), ..default.clone() };
    assert!(run(&brain, &brain, &levels).to_string().contains("`levels` is"));
    let column = Volume::from_fn(Grid::axis_aligned([1, 30, 30], [1.0; 3]).unwrap(), |_, y, z| {
        (y * z) as f32
    });
    assert!(matches!(run(&column, &brain, &default), RegisterError::FlatAxis { axis: 'x', .. }));
    let zeros = Volume::filled(brain.grid().clone(), 0.0);
    let mut with_mask = input(&brain, &brain);
    with_mask.fixed_mask = Some((&zeros).into());
    let e = register_affine(&device, &with_mask, &default, &Silent).unwrap_err();
    assert!(matches!(e, RegisterError::EmptyMask { .. }));
    let small = Volume::filled(Grid::axis_aligned([4, 4, 4], [1.0; 3]).unwrap(), 1.0);
    with_mask.fixed_mask = Some((&small).into());
    let e = register_affine(&device, &with_mask, &default, &Silent).unwrap_err();
    assert!(matches!(e, RegisterError::MaskGrid { .. }));
}
