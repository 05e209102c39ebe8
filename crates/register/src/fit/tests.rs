//! Points under known maps, and lists that are not what they should be.

use super::*;
use crate::random::Random;
use voxalign_image::{AffineParameters, Grid};

fn cloud(random: &mut Random, count: usize, extent: [f64; 3]) -> PointSet {
    let mut point = || Vector3::from_fn(|a, _| extent[a] * (2.0 * random.uniform() - 1.0));
    PointSet::new((0..count).map(|_| point()).collect())
}

/// A map of a family, with turns by any angle.
fn known(random: &mut Random, kind: MapKind) -> Affine {
    let mut sign = || 2.0 * random.uniform() - 1.0;
    let (turn, shift) = (3.1 * sign(), 80.0 * sign());
    let scales = Vector3::from_fn(|_, _| 1.0 + 0.2 * sign());
    let shears = Vector3::from_fn(|_, _| 0.1 * sign());
    let parts = AffineParameters {
        translation: Vector3::new(shift, -40.0, 12.0),
        rotation: Vector3::new(turn, 0.9 * sign(), 3.0 * sign()),
        ..AffineParameters::identity(Vector3::new(5.0, -9.0, 20.0))
    };
    match kind {
        MapKind::Rigid => parts,
        MapKind::Similarity => AffineParameters { scale: Vector3::repeat(scales[0]), ..parts },
        MapKind::Scales => AffineParameters { scale: scales, ..parts },
        _ => AffineParameters { scale: scales, shear: shears, ..parts },
    }
    .to_affine()
}

fn pairs(fixed: &PointSet, map: &Affine) -> PointPairs {
    PointPairs::new(fixed, &fixed.map(|p| map.apply(*p))).unwrap()
}

/// The corners of a head.
fn corners() -> [Vector3<f64>; 8] {
    let grid = Grid::axis_aligned([46, 55, 46], [4.0; 3]).unwrap();
    grid.moved(&Affine::translation(-grid.centre())).unwrap().corners()
}

#[test]
fn known_maps_are_found_again() {
    let mut random = Random::new(4);
    let kinds =
        [(MapKind::Rigid, 3), (MapKind::Similarity, 3), (MapKind::Scales, 4), (MapKind::Affine, 4)];
    for (kind, least) in kinds {
        for trial in 0..60 {
            let fixed = cloud(&mut random, least + trial % 9, [70.0, 90.0, 60.0]);
            let map = known(&mut random, kind);
            let found = fit_points(&pairs(&fixed, &map), kind, None).unwrap();
            if found.kind < kind {
                // By chance nearly in one plane.
                assert!(trial % 9 < 2, "{found:?}");
                continue;
            }
            let error = found.map.largest_distance(&map, &corners());
            assert!(error < 0.1 && found.rms < 0.01 && !found.mirrored, "{kind:?} {error}");
        }
    }
}

#[test]
fn errors_of_points_average_out_and_weights_count() {
    let mut random = Random::new(9);
    let fixed = cloud(&mut random, 200, [70.0, 90.0, 60.0]);
    for kind in [MapKind::Rigid, MapKind::Similarity, MapKind::Scales, MapKind::Affine] {
        let map = known(&mut random, kind);
        let mut off = || Vector3::from_fn(|_, _| random.normal());
        let moving = fixed.map(|p| map.apply(*p) + off());
        let clean = PointPairs::new(&fixed, &moving).unwrap();
        let found = fit_points(&clean, kind, None).unwrap();
        let error = found.map.largest_distance(&map, &corners());
        assert!(error < 1.2 && (found.rms - 3f64.sqrt()).abs() < 0.2, "{kind:?} {error}");
        // Every second pair is wrong, and counts for nothing.
        let (mut wrong, mut weights) = (moving.points().to_vec(), vec![2.0; 200]);
        for i in (0..200).step_by(2) {
            (wrong[i], weights[i]) = (Vector3::new(999.0, 0.0, 0.0), 0.0);
        }
        let wrong = PointPairs::new(&fixed, &PointSet::new(wrong)).unwrap();
        let found = fit_points(&wrong.with_weights(weights).unwrap(), kind, None).unwrap();
        let error = found.map.largest_distance(&map, &corners());
        assert!(error < 1.6, "{kind:?} {error}");
    }
}

#[test]
fn what_points_do_not_determine_is_left_out() {
    let mut random = Random::new(2);
    let map = known(&mut random, MapKind::Rigid);
    for (extent, expected) in [
        ([70.0, 90.0, 1.0], MapKind::Similarity),
        ([70.0, 0.0, 0.0], MapKind::Line),
        ([0.0; 3], MapKind::Translation),
    ] {
        let turn = known(&mut random, MapKind::Rigid);
        let fixed = cloud(&mut random, 12, extent).map(|p| turn.apply(*p));
        let given = pairs(&fixed, &map);
        for asked in [MapKind::Rigid, MapKind::Affine] {
            let found = fit_points(&given, asked, None).unwrap();
            assert_eq!(found.kind, asked.min(expected), "{extent:?}");
            let lies = (found.map.matrix.determinant() - 1.0).abs() < 1e-6;
            assert!(found.rms < 1e-6 && lies && !found.mirrored, "{found:?}");
        }
    }
    // A line that is turned round.
    let line = PointSet::new((0..4).map(|i| Vector3::new(f64::from(i), 0.0, 0.0)).collect());
    let back = PointPairs::new(&line, &line.map(|p| -p)).unwrap();
    let found = fit_points(&back, MapKind::Rigid, None).unwrap();
    assert!(found.rms < 1e-9 && found.map.matrix.determinant() > 0.99, "{found:?}");
}

#[test]
fn mirror_images_are_seen_and_not_fitted() {
    let mut random = Random::new(5);
    let fixed = cloud(&mut random, 8, [70.0, 90.0, 60.0]);
    let mut off = || random.normal();
    let moving = fixed.map(|p| Vector3::new(-p[0] + off(), p[1] + off(), p[2] + off()));
    let given = PointPairs::new(&fixed, &moving).unwrap();
    for (asked, expected) in
        [(MapKind::Rigid, MapKind::Rigid), (MapKind::Affine, MapKind::Similarity)]
    {
        let found = fit_points(&given, asked, None).unwrap();
        assert!(found.mirrored && found.map.determinant() > 0.0, "{found:?}");
        assert_eq!(found.kind, expected);
    }
    let plane = Plane { frame: Matrix3::identity(), origin: Vector3::zeros() };
    let flat = given.placed([&|p| Vector3::new(p[0], p[1], 0.0); 2]);
    assert!(fit_points(&flat, MapKind::Affine, Some([plane; 2])).unwrap().mirrored);
}

#[test]
fn in_a_plane() {
    let mut random = Random::new(6);
    // Slices that stand in space, each with its own frame.
    let frames = [0.3, -1.1].map(|a| {
        let turn = known(&mut random, MapKind::Rigid).matrix;
        Plane { frame: turn, origin: Vector3::new(a * 50.0, 3.0, -8.0) }
    });
    for (kind, least) in [(MapKind::Rigid, 2), (MapKind::Similarity, 2), (MapKind::Affine, 3)] {
        for count in least..9 {
            let (angle, size) =
                (3.0 * (2.0 * random.uniform() - 1.0), 1.0 + 0.3 * random.uniform());
            let (c, s) = (angle.cos(), angle.sin());
            let inner = match kind {
                MapKind::Rigid => Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0),
                MapKind::Similarity => {
                    Matrix3::new(size * c, -size * s, 0.0, size * s, size * c, 0.0, 0.0, 0.0, 1.0)
                }
                _ => Matrix3::new(c, -0.8 * s, 0.0, s, size * c, 0.0, 0.0, 0.0, 1.0),
            };
            let places = cloud(&mut random, count, [80.0, 60.0, 0.0]);
            let on = |plane: Plane, p: Vector3<f64>| plane.origin + plane.frame * p;
            let fixed = places.map(|p| on(frames[0], *p));
            let to = |p: Vector3<f64>| on(frames[1], inner * p + Vector3::new(9.0, -4.0, 0.0));
            let moving = places.map(|p| to(*p));
            let given = PointPairs::new(&fixed, &moving).unwrap();
            let found = fit_points(&given, kind, Some(frames)).unwrap();
            if found.kind < kind {
                assert_eq!(count, least, "{found:?}");
                continue;
            }
            let at = Vector3::new(70.0, -60.0, 0.0);
            let error = (found.map.apply(on(frames[0], at)) - to(at)).norm();
            assert!(error < 0.05 && found.rms < 0.01, "{kind:?} {count} {error}");
        }
    }
}

#[test]
fn what_is_no_pair_is_refused() {
    let [none, one, two] = [0, 1, 2].map(|n| PointSet::new(vec![Vector3::zeros(); n]));
    let nan = PointSet::new(vec![Vector3::new(0.0, f64::NAN, 0.0); 2]);
    let said = |r: Result<PointPairs>| r.unwrap_err().to_string();
    assert!(said(PointPairs::new(&one, &two)).contains('2'));
    assert!(said(PointPairs::new(&two, &nan)).contains("landmark 1"));
    assert!(said(PointPairs::new(&none, &none)).contains("no landmarks"));
    let good = PointPairs::new(&two, &two).unwrap();
    assert!(said(good.clone().with_weights(vec![1.0])).contains("each of the 2"));
    assert!(said(good.clone().with_weights(vec![1.0, -1.0])).contains("-1"));
    assert!(said(good.clone().with_weights(vec![0.0; 2])).contains("above 0"));
    let few = fit_points(&good, MapKind::Rigid, None).unwrap_err().to_string();
    assert!(few.contains("2 pairs of landmarks") && few.contains("needs at least 3"), "{few}");
}
