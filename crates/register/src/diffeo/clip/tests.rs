use super::*;
use crate::model::solver::{Fft, Operator, SolverKind};
use voxalign_compute::Memory;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::elastic::Boundary;
use voxalign_image::{Displacement, Matrix3, Transform, VectorField};

fn block(grid: &Grid, from: [usize; 3], to: [usize; 3]) -> Volume<f32> {
    Volume::from_fn(grid.clone(), |x, y, z| {
        let inside = (0..3).all(|a| [x, y, z][a] >= from[a] && [x, y, z][a] < to[a]);
        if inside { 5.0 } else { 0.0 }
    })
}

#[test]
fn the_box_of_the_foreground_ignores_specks() {
    let grid = Grid::axis_aligned([50, 60, 70], [1.0, 2.0, 0.5]).unwrap();
    let mut image = block(&grid, [10, 20, 30], [40, 50, 45]);
    image.data_mut()[0] = 100.0;
    image.data_mut()[7] = f32::NAN;
    let found = foreground_box(&image, 1.0).unwrap().unwrap();
    assert_eq!(found, IndexBox { start: [10, 20, 30], size: [30, 30, 15] });
    assert!((found.part(&grid) - 13_500.0 / 210_000.0).abs() < 1e-12);
    assert_eq!(foreground_box(&image, 1e9).unwrap(), None);
    let all = foreground_box(&image, -1.0).unwrap().unwrap();
    assert!(all.is_whole(&grid));
    let flat = Grid::axis_aligned([20, 10, 1], [1.0; 3]).unwrap();
    let found = foreground_box(&block(&flat, [3, 4, 0], [5, 6, 1]), 1.0).unwrap().unwrap();
    assert_eq!((found.start, found.size), ([3, 4, 0], [2, 2, 1]));
}

#[test]
fn both_boxes_and_the_guard_count() {
    let fixed = Grid::axis_aligned([100, 100, 100], [1.0, 2.0, 1.0]).unwrap();
    let moving = Grid::axis_aligned([50, 50, 50], [2.0; 3]).unwrap();
    let ours = IndexBox { start: [40, 40, 40], size: [20, 20, 20] };
    let theirs = IndexBox { start: [20, 20, 20], size: [10, 10, 10] };
    let guard = Guard { margin: 3.0, voxels: 2 };
    // World 39 to 59 along each axis of the moving image is 49 to 69 of the fixed one along x.
    let shift = Affine::translation(Vector3::new(-10.0, 0.0, 0.0));
    let found = common_box((&fixed, Some(ours)), (&moving, Some(theirs)), &shift, guard).unwrap();
    // Along y, the moving box covers indices 19.5 to 29.5 of the fixed grid.
    assert_eq!(found.start, [37, 18, 36]);
    assert_eq!(found.end(), [73, 62, 63]);
    // Far away: the fixed box alone is kept, and the grid is not left.
    let away = Affine::translation(Vector3::new(1e6, 0.0, 0.0));
    let found = common_box((&fixed, Some(ours)), (&moving, Some(theirs)), &away, guard).unwrap();
    assert_eq!((found.start[0], found.end()[0]), (0, 63));
    for boxes in [(None, Some(theirs)), (Some(ours), None)] {
        let found = common_box((&fixed, boxes.0), (&moving, boxes.1), &shift, guard).unwrap();
        assert!(found.is_whole(&fixed));
    }
    let singular = Affine::new(Matrix3::zeros(), Vector3::zeros());
    let bad = common_box((&fixed, Some(ours)), (&moving, Some(theirs)), &singular, guard);
    assert!(bad.is_err());
    let outside = IndexBox { start: [90, 0, 0], size: [11, 1, 1] };
    assert!(crop_grid(&fixed, &outside).unwrap_err().to_string().contains("90"));
}

#[test]
fn nothing_is_compared_where_the_other_image_ends() {
    let head = Grid::axis_aligned([100, 100, 100], [1.0; 3]).unwrap();
    let slab = Grid::axis_aligned([250, 10, 250], [0.4, 2.0, 0.4]).unwrap();
    let found = IndexBox { start: [5, 10, 20], size: [90, 80, 70] };
    let guard = Guard { margin: 3.0, voxels: 2 };
    // The slab is at 30 to 50 mm along y of the head; its centres begin at 31.
    let shift = Affine::translation(Vector3::new(0.3, -31.0, 0.3));
    let whole = IndexBox::whole(&slab);
    let cut = in_view(&head, found, (&slab, Some(whole)), &shift, guard).unwrap();
    assert_eq!((cut.start, cut.end()), ([5, 27, 20], [95, 54, 90]));
    // A little of the body at its border is enough.
    let little = Affine::translation(Vector3::new(0.3, 7.0, 0.3));
    let cut = in_view(&head, found, (&slab, Some(whole)), &little, guard).unwrap();
    assert_eq!((cut.start, cut.end()), ([5, 10, 20], [95, 16, 90]));
    // What ends within the slab is known to end there, and what shows nothing says nothing.
    let within = IndexBox { start: [1, 1, 1], size: [248, 8, 248] };
    for shown in [Some(within), None] {
        assert_eq!(in_view(&head, found, (&slab, shown), &shift, guard).unwrap(), found);
    }
    // Images that do not meet stay as they are.
    let away = Affine::translation(Vector3::new(0.0, -300.0, 0.0));
    assert_eq!(in_view(&head, found, (&slab, Some(whole)), &away, guard).unwrap(), found);
    let singular = Affine::new(Matrix3::zeros(), Vector3::zeros());
    assert!(in_view(&head, found, (&slab, Some(whole)), &singular, guard).is_err());
}

#[test]
fn boxes_grow_to_sizes_that_suit() {
    let grid = Grid::axis_aligned([100, 40, 31], [1.0; 3]).unwrap();
    let small = IndexBox { start: [30, 0, 25], size: [29, 37, 5] };
    let grown = small.grown(&grid, |n| n % 10 == 0);
    assert_eq!(grown, IndexBox { start: [30, 0, 21], size: [30, 40, 10] });
    assert_eq!(small.grown(&grid, |n| n == 200), small);
    let sizes = |boundary| {
        let fft = Fft { operator: Operator { boundary, ..Operator::USUAL } };
        let options = SolverKind::from(fft);
        (100..131).filter(|&n| options.suits(n)).collect::<Vec<_>>()
    };
    assert_eq!(sizes(Boundary::Periodic), [100, 108, 112, 120, 126, 128]);
    assert_eq!(sizes(Boundary::Zero), [104, 107, 111, 119, 124, 125, 127]);
    assert!(SolverKind::GAUSSIAN.suits(101));
}

#[test]
fn flat_images_stay_flat() {
    let grid = Grid::axis_aligned([60, 60, 1], [1.0, 1.0, 5.0]).unwrap();
    let image = block(&grid, [20, 20, 0], [30, 30, 1]);
    let ours = foreground_box(&image, 1.0).unwrap();
    let guard = Guard { margin: 4.0, voxels: 4 };
    let lifted = Affine::translation(Vector3::new(0.0, 0.0, 3.0));
    let found = common_box((&grid, ours), (&grid, ours), &lifted, guard).unwrap();
    assert_eq!((found.start, found.size), ([16, 16, 0], [18, 18, 1]));
    assert_eq!(crop(&image, &found).unwrap().dims(), [18, 18, 1]);
}

#[test]
fn crops_stay_where_they_are_in_the_world() {
    let turned = Affine::new(
        Matrix3::new(0.0, -1.5, 0.0, 2.0, 0.0, 0.1, 0.0, 0.0, -1.0),
        Vector3::new(5.0, -6.0, 7.0),
    );
    let grid = Grid::new([9, 8, 7], turned).unwrap();
    let to = IndexBox { start: [2, 3, 1], size: [5, 4, 6] };
    let image = Volume::from_fn(grid.clone(), |x, y, z| (100 * z + 10 * y + x) as f32);
    let part = crop(&image, &to).unwrap();
    assert_eq!(part.get(0, 0, 0), Some(&132.0));
    assert_eq!(part.get(4, 3, 5), Some(&666.0));
    let world = |g: &Grid, p: [f64; 3]| g.index_to_world(Vector3::from(p));
    let same = world(part.grid(), [1.0, 2.0, 3.0]) - world(&grid, [3.0, 5.0, 4.0]);
    assert!(same.norm() < 1e-12);
    assert!(crop(&image, &IndexBox { start: [0; 3], size: [9, 8, 0] }).is_err());
}

/// A field of a box in mm, brought to the whole grid.
fn pasted(field: &VectorField, whole: &Grid, at: &IndexBox, guard: Guard) -> VectorField {
    let device = Cpu::new(Some(2)).unwrap();
    let scaled = |values: &[f32], power: i32| -> Vec<f32> {
        let (n, spacing) = (values.len() / 3, whole.spacing());
        let scale = |(i, v): (usize, &f32)| (f64::from(*v) * spacing[i / n].powi(power)) as f32;
        values.iter().enumerate().map(scale).collect()
    };
    let voxels = device.upload_vec(scaled(field.data(), -1)).unwrap();
    let out = paste_field(&device, &voxels, whole, at, guard).unwrap();
    VectorField::new(whole.clone(), scaled(&device.into_host(out).unwrap(), 1)).unwrap()
}

#[test]
fn pasted_fields_fade_over_the_guard() {
    let whole = Grid::axis_aligned([40, 30, 20], [1.0, 1.0, 2.0]).unwrap();
    let at = IndexBox { start: [10, 8, 6], size: [20, 12, 8] };
    let inner = crop_grid(&whole, &at).unwrap();
    let field = VectorField::from_world_fn(inner, |w| Vector3::new(0.1 * w[0], 1.0, -0.05 * w[2]));
    let guard = Guard { margin: 8.0, voxels: 2 };
    let out = pasted(&field, &whole, &at, guard);
    let get = |x: usize, y: usize, z: usize| out.get((z * 30 + y) * 40 + x);
    for (z, y, x) in [(0, 0, 0), (3, 5, 7), (7, 11, 19)] {
        assert_eq!(get(x + 10, y + 8, z + 6), field.get((z * 12 + y) * 20 + x));
    }
    // Four voxels of 1 mm left of the box: half of the border value.
    assert!((get(6, 10, 8) - get(10, 10, 8) * 0.5).norm() < 1e-6);
    // Two voxels of 2 mm below it.
    assert!((get(15, 10, 4) - get(15, 10, 6) * 0.5).norm() < 1e-6);
    // Past a corner the distance is the straight one: 3 and 4 voxels are 5 mm.
    assert!((get(7, 4, 8) - get(10, 8, 8) * 0.375).norm() < 1e-6);
    assert_eq!(get(2, 10, 8), Vector3::zeros());
    // All of the grid: nothing changes.
    assert_eq!(pasted(&out, &whole, &IndexBox::whole(&whole), guard), out);
    let device = Cpu::new(Some(1)).unwrap();
    let short = device.alloc::<f32>(4).unwrap();
    assert!(paste_field(&device, &short, &whole, &at, guard).is_err());
}

#[test]
fn large_displacements_at_the_border_do_not_fold() {
    let whole = Grid::axis_aligned([64, 20, 20], [1.0; 3]).unwrap();
    let at = IndexBox { start: [20, 0, 0], size: [24, 20, 20] };
    let inner = crop_grid(&whole, &at).unwrap();
    let field = VectorField::from_world_fn(inner, |_| Vector3::new(9.0, 0.0, 0.0));
    let guard = Guard { margin: 2.0, voxels: 1 };
    let out = pasted(&field, &whole, &at, guard);
    for x in 1..64 {
        let step = 1.0 + out.get(x)[0] - out.get(x - 1)[0];
        assert!((0.499..=1.501).contains(&step), "{x}: {step}");
    }
    assert_eq!(out.get(0)[0], 0.0);
    assert!(Transform::Displacement(Displacement::new(out)).inverse().is_ok());
}
