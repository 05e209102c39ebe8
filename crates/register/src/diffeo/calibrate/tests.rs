use super::*;
use voxalign_compute::Memory;
use voxalign_compute::cpu::Cpu;

/// Air with a little noise, and a body whose values rise evenly from 200 to 1000.
fn body(i: usize) -> f32 {
    if i.is_multiple_of(2) {
        (i * 7 % 11) as f32
    } else {
        200.0 + 800.0 * (i % 9973) as f32 / 9973.0
    }
}

#[test]
fn calibration_finds_background_and_top() {
    let mut values: Vec<f32> = (0..199_460).map(body).collect();
    values[1] = 1e20;
    values[3] = f32::NAN;
    values[5] = f32::INFINITY;
    let device = Cpu::new(Some(2)).unwrap();
    let on = device.upload(&values).unwrap();
    let found = Calibration::new(Role::Fixed, &values, None, TOP).unwrap();
    assert!(found.background.abs() < 3.0, "{found:?}");
    assert!((found.top - 996.0).abs() < 8.0, "{found:?}");
    assert_eq!(Calibration::on(&device, Role::Fixed, &on, None, TOP).unwrap(), found);
    let mask: Vec<f32> = values.iter().map(|v| f32::from(*v > 200.0 && *v < 600.0)).collect();
    let masked = Calibration::new(Role::Fixed, &values, Some(&mask), TOP).unwrap();
    assert_eq!(masked.background, found.background);
    assert!((masked.top - 598.0).abs() < 4.0, "{masked:?}");
    let on_mask = device.upload(&mask).unwrap();
    assert_eq!(Calibration::on(&device, Role::Fixed, &on, Some(&on_mask), TOP).unwrap(), masked);
    let mut mapped = device.upload(&values).unwrap();
    found.apply_on(&device, &mut mapped).unwrap();
    let mapped = device.into_host(mapped).unwrap();
    for (m, v) in mapped.iter().zip(&values) {
        assert_eq!(*m, found.apply(*v), "{v}");
        assert!((0.0..=1.0).contains(m));
    }
    assert_eq!((found.apply(f32::NAN), found.apply(f32::INFINITY)), (0.0, 1.0));
    assert!((found.undo(found.apply(500.0)) - 500.0).abs() < 1e-3);
    let (low, above) = foreground_threshold(&values).unwrap();
    assert!(low < 3.0 && above > 20.0 && above < 200.0, "{low} {above}");
}

#[test]
fn a_small_foreground_is_found() {
    // Fewer bright voxels than the hundredth part.
    let values: Vec<f32> = (0..100_000).map(|i| if i % 250 == 0 { 50.0 } else { 0.0 }).collect();
    let found = Calibration::new(Role::Moving, &values, None, TOP).unwrap();
    assert_eq!(found.background, 0.0);
    assert!((found.top - 50.0).abs() < 0.1, "{found:?}");
}

#[test]
fn what_cannot_be_calibrated_is_said() {
    let flat = vec![3.0; 100];
    let device = Cpu::new(Some(1)).unwrap();
    let on = device.upload(&flat).unwrap();
    let constant = "constant (3 everywhere)";
    let new = |mask, top| Calibration::new(Role::Fixed, &flat, mask, top).unwrap_err().to_string();
    assert!(new(None, TOP).contains(constant));
    let on = Calibration::on(&device, Role::Fixed, &on, None, TOP).unwrap_err().to_string();
    assert!(on.contains(constant), "{on}");
    assert!(new(None, 0.0).contains("above 0"));
    let two: Vec<f32> = (0..100).map(|i| (i % 2) as f32).collect();
    let mask = vec![0.0; 100];
    let empty = Calibration::new(Role::Moving, &two, Some(&mask), TOP).unwrap_err();
    assert!(matches!(empty, RegisterError::EmptyMask { role: Role::MovingMask }));
    assert!(Calibration::new(Role::Moving, &two, Some(&mask[1..]), TOP).is_err());
    let none = Calibration::new(Role::Moving, &[f32::NAN; 4], None, TOP).unwrap_err();
    assert!(matches!(none, RegisterError::Constant { .. }));
}

/// A curve as that of another scanner: monotone and far from linear.
fn scanner(v: f32) -> f32 {
    50.0 + 300.0 * (v / 1000.0).powf(0.6)
}

#[test]
fn a_known_curve_is_found_again() {
    let fixed: Vec<f32> = (0..200_000).map(|i| scanner(body(i))).collect();
    let moving: Vec<f32> = (0..200_000).map(body).collect();
    let how = HistogramMatch { points: 31, ..HistogramMatch::default() };
    let device = Cpu::new(Some(2)).unwrap();
    for above_mean in [true, false] {
        let how = HistogramMatch { above_mean, ..how };
        let map = match_histogram(&moving, None, &fixed, None, &how).unwrap();
        for pair in map.knots().windows(2) {
            assert!(pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1, "{pair:?}");
        }
        // Where there are values and quantiles are matched one by one. The means of images that do
        // not differ linearly cut off unequal parts of them.
        let tolerance = if above_mean { 20.0 } else { 2.0 };
        for v in [520.0f32, 600.0, 700.0, 850.0, 990.0] {
            assert!((map.apply(v) - scanner(v)).abs() < tolerance, "{v}: {}", map.apply(v));
        }
        let on = [&moving, &fixed].map(|v| device.upload(v).unwrap());
        let same = match_histogram_on(&device, &on[0], None, &on[1], None, &how).unwrap();
        for (a, b) in same.knots().iter().zip(map.knots()) {
            assert!((a.0 - b.0).abs() < 1e-2 && (a.1 - b.1).abs() < 1e-2, "{a:?} {b:?}");
        }
        let odd = [-100.0, 0.0, 3.0, 333.3, 555.5, 999.0, 5000.0];
        let mut mapped = device.upload(&odd).unwrap();
        map.apply_on(&device, &mut mapped).unwrap();
        for (m, v) in device.into_host(mapped).unwrap().iter().zip(odd) {
            assert!((m - map.apply(v)).abs() < 1e-3 * map.apply(v).abs().max(1.0), "{v}");
        }
        assert!(map.apply(f32::NAN).is_nan());
        assert!(map.apply(5000.0) > map.apply(1000.0) && map.apply(-100.0) < map.apply(0.0));
    }
}

#[test]
fn linear_maps_are_found_whatever_the_background_and_the_wild_values() {
    // The moving image shows more air, and one voxel is broken.
    let fixed: Vec<f32> = (0..100_000).map(|i| 2.0 * body(i) + 30.0).collect();
    let mut moving: Vec<f32> = (0..100_000).map(body).collect();
    moving.extend((0..60_000).map(|i| (i * 7 % 11) as f32));
    moving[11] = 1e9;
    let mask: Vec<f32> = (0..160_000).map(|i| f32::from(i < 100_000)).collect();
    let how = HistogramMatch::default();
    let map = match_histogram(&moving, Some(&mask), &fixed, None, &how).unwrap();
    for v in [0.0f32, 5.0, 550.0, 700.0, 900.0, 1000.0] {
        assert!((map.apply(v) - (2.0 * v + 30.0)).abs() < 12.0, "{v}: {}", map.apply(v));
    }
    // Without the mask, matching above the mean still keeps the body close.
    let map = match_histogram(&moving, None, &fixed, None, &how).unwrap();
    assert!((map.apply(900.0) - 1830.0).abs() < 60.0, "{}", map.apply(900.0));
}

#[test]
fn matching_says_what_it_cannot_do() {
    let values: Vec<f32> = (0..1000).map(body).collect();
    let how = HistogramMatch::default();
    let flat = [1.0f32; 1000];
    let error = |m: &[f32], f: &[f32], how: &HistogramMatch| {
        match_histogram(m, None, f, None, how).unwrap_err().to_string()
    };
    assert!(error(&flat, &values, &how).contains("moving image is constant"));
    assert!(error(&values, &flat, &how).contains("fixed image is constant"));
    assert!(error(&values, &values, &HistogramMatch { levels: 1, ..how }).contains("levels"));
    assert!(error(&values, &values, &HistogramMatch { points: 0, ..how }).contains("points"));
    assert!(error(&[], &values, &how).contains("moving mask"));
    // Many equal values: still monotone, and the background stays at the background.
    let two: Vec<f32> = (0..1000).map(|i| if i % 3 == 0 { 7.0 } else { 0.0 }).collect();
    let map = match_histogram(&two, None, &values, None, &how).unwrap();
    assert!(map.apply(0.0) < 20.0 && map.apply(7.0) > 200.0, "{:?}", map.knots());
}
