//! All schemes for binned sums and joint histograms against the naive double-precision sums.

use crate::cases::{
    BINNING, BINS, COLUMNS, Case, OPTIONS, cases, close, each_sample, naive_joint, naive_sums,
    with_device,
};
use crate::support::Results;
use voxalign_compute::ops::histogram::{
    Binning, JointMethod, JointScheme, LayoutOptions, MovingView, ParzenBins, Scheme,
    SchemeSettings, Schemes, Terms, Window,
};
use voxalign_compute::{AffineMap, ComputeError};

/// As `close`, with room for the rounding to whole units of the largest weight (1 in all cases):
/// half a unit a sample and column at worst, of which few parts remain over many samples.
fn within_units(found: &[f64], expected: &[f64], what: &str) {
    const UNIT: f64 = 1.0 / 262_144.0;
    let scale = expected.iter().fold(1e-3f64, |a, b| a.max(b.abs()));
    assert_eq!(found.len(), expected.len());
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        let room = 2e-5 * scale + 24.0 * UNIT;
        assert!((f - e).abs() <= room, "{what}[{i}]: {f} against {e} (scale {scale})");
    }
}

/// What a scheme gives; nothing where the device has it not and says so.
fn offered<T>(name: &str, found: Result<T, ComputeError>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(ComputeError::Unsupported { what, remedy, .. }) => {
            assert!(what.contains(name) && !remedy.is_empty(), "{what}; {remedy}");
            None
        }
        Err(e) => panic!("{name}: {e}"),
    }
}

/// The map of a case and two others: one that moves, one that leads outside altogether.
fn maps_of(case: &Case) -> [AffineMap; 3] {
    let mut moved = case.map;
    moved[0][3] += 0.37;
    moved[1][0] -= 0.0213;
    let mut away = case.map;
    away[1][3] = 1e4;
    [case.map, moved, away]
}

fn settings(blocks: usize, threads: usize) -> SchemeSettings {
    SchemeSettings { blocks: Some(blocks), threads: Some(threads) }
}

pub(crate) fn schemes_match<D: Schemes>(device: &D) {
    let mut offers = 0;
    for case in cases() {
        with_device(device, &case, |samples, view| {
            let maps = maps_of(&case);
            for terms in [Terms::Ratio, Terms::Moments] {
                let expected: Vec<_> = maps.iter().map(|m| naive_sums(&case, terms, m)).collect();
                for scheme in Scheme::ALL {
                    let what = format!("{} {terms:?} {:?}", scheme.name(), case.fixed_dims);
                    let found = device.binned_sums(terms, scheme, samples, view, &maps);
                    let Some(found) = offered(scheme.name(), found) else { continue };
                    offers += 1;
                    assert_eq!(found.len(), maps.len());
                    for (f, e) in found.iter().zip(&expected) {
                        close(f, e, 2e-5, &what);
                    }
                    assert!(found[2].iter().all(|&v| v == 0.0), "{what}: samples outside count");
                    let none = device.binned_sums(terms, scheme, samples, view, &[]).unwrap();
                    assert!(none.is_empty());
                }
            }
        });
    }
    assert!(offers > 0);
}

/// Any number of blocks and threads, few samples or many for each.
pub(crate) fn settings_do_not_matter<D: Schemes>(device: &D) {
    let case = &cases()[3];
    with_device(device, case, |samples, view| {
        let terms = Terms::Ratio;
        let expected = naive_sums(case, terms, &case.map);
        for scheme in Scheme::ALL {
            for (blocks, threads) in [(1, 32), (1, 1024), (3, 96), (20, 256)] {
                let set = settings(blocks, threads);
                let found =
                    device.binned_sums_with(terms, scheme, &set, samples, view, &[case.map]);
                // The CPU has no blocks and threads, and the grouped samples set their own.
                if matches!(found, Err(ComputeError::Unsupported { .. })) {
                    continue;
                }
                let what = format!("{} {blocks} x {threads}", scheme.name());
                close(&found.unwrap()[0], &expected, 2e-5, &what);
            }
        }
        for scheme in JointScheme::ALL {
            for window in [Window::Cubic, Window::Counts] {
                for (blocks, threads) in [(1, 32), (1, 1024), (20, 256)] {
                    let method =
                        JointMethod { scheme, window, settings: settings(blocks, threads) };
                    let found =
                        device.joint_histogram_with(&method, samples, view, &COLUMNS, &[case.map]);
                    if matches!(found, Err(ComputeError::Unsupported { .. })) {
                        continue;
                    }
                    let expected = naive(case, window, &case.map);
                    let what = format!("{} {blocks} x {threads}", scheme.name());
                    within_units(&found.unwrap()[0], &expected, &what);
                }
            }
        }
    });
}

fn naive(case: &Case, window: Window, map: &AffineMap) -> Vec<f64> {
    if window == Window::Cubic {
        return naive_joint(case, map);
    }
    let mut h = vec![0.0; BINS * COLUMNS.count];
    each_sample(case, map, |bin, _, y, w| {
        let last = (COLUMNS.count - 3) as f64;
        let span = f64::from(COLUMNS.high) - f64::from(COLUMNS.low);
        let u = ((y - f64::from(COLUMNS.low)) / span * (last - 2.0) + 2.0).clamp(2.0, last);
        h[bin * COLUMNS.count + (u + 0.5) as usize] += w;
    });
    h
}

pub(crate) fn baselines_match<D: Schemes>(device: &D) {
    for case in cases() {
        with_device(device, &case, |samples, view| {
            let maps = maps_of(&case);
            for window in [Window::Cubic, Window::Counts] {
                let expected: Vec<_> = maps.iter().map(|m| naive(&case, window, m)).collect();
                for scheme in JointScheme::ALL {
                    let method = JointMethod { scheme, window, ..JointMethod::default() };
                    let found =
                        device.joint_histogram_with(&method, samples, view, &COLUMNS, &maps);
                    if scheme == JointScheme::Default && window == Window::Counts {
                        assert!(found.is_err());
                        continue;
                    }
                    let name = if scheme == JointScheme::Default { "joint" } else { scheme.name() };
                    let Some(found) = offered(name, found) else { continue };
                    for (f, e) in found.iter().zip(&expected) {
                        let what = format!("{} {window:?} {:?}", scheme.name(), case.fixed_dims);
                        within_units(f, e, &what);
                    }
                }
            }
        });
    }
}

/// Histograms that only fit in parts, and such that do not fit.
pub(crate) fn narrow_memory<D: Schemes>(device: &D) {
    let case = &cases()[3];
    let fixed = device.upload(&case.fixed).unwrap();
    let values = device.upload(&case.moving).unwrap();
    let view =
        MovingView { values: &values, mask: None, dims: case.moving_dims, border: case.border };
    let binning = Binning { bins: 200, ..BINNING };
    let options = LayoutOptions { binning, ..OPTIONS };
    let samples = device.group_samples(&fixed, case.fixed_dims, None, &options).unwrap();
    let columns = ParzenBins { count: 160, ..COLUMNS };
    let joint = |scheme, threads| {
        let method =
            JointMethod { scheme, settings: settings(2, threads), ..JointMethod::default() };
        device.joint_histogram_with(&method, &samples, &view, &columns, &[case.map])
    };
    let expected =
        device.joint_histogram(JointScheme::Default, &samples, &view, &columns, &[case.map]);
    // Eight warps with a histogram of 128 kB each: several passes; a few rows a block.
    let mut first: Option<Vec<f64>> = expected.ok().map(|mut e| e.swap_remove(0));
    for scheme in JointScheme::ALL.into_iter().filter(|&s| s != JointScheme::Default) {
        let Some(mut found) = offered(scheme.name(), joint(scheme, 256)) else { continue };
        let found = found.swap_remove(0);
        within_units(&found, first.get_or_insert_with(|| found.clone()), scheme.name());
    }
    // What no device has the shared memory for is said.
    let many = Binning { bins: 60_000, ..BINNING };
    let options = LayoutOptions { binning: many, ..OPTIONS };
    let samples = device.group_samples(&fixed, case.fixed_dims, None, &options).unwrap();
    for scheme in [Scheme::SharedAtomic, Scheme::SharedWarp, Scheme::FixedPoint] {
        let found = device.binned_sums(Terms::Ratio, scheme, &samples, &view, &[case.map]);
        let message = found.unwrap_err().to_string();
        assert!(message.contains(scheme.name()) && message.contains("use"), "{message}");
    }
    let set = settings(2048, 1024);
    let found = device.binned_sums_with(
        Terms::Ratio,
        Scheme::GlobalMerge,
        &set,
        &samples,
        &view,
        &[case.map],
    );
    assert!(matches!(found, Err(ComputeError::Unsupported { .. })), "{found:?}");
}

pub(crate) fn bad_settings_are_errors<D: Schemes>(device: &D) {
    let case = &cases()[0];
    with_device(device, case, |samples, view| {
        for scheme in Scheme::ALL {
            for (blocks, threads) in [(0, 64), (4, 0), (4, 33), (4, 2048), (usize::MAX, 64)] {
                let set = settings(blocks, threads);
                let maps = [case.map];
                let found =
                    device.binned_sums_with(Terms::Ratio, scheme, &set, samples, view, &maps);
                assert!(found.is_err(), "{scheme:?} {blocks} {threads}");
            }
            let mut map = case.map;
            map[0][0] = f64::NAN;
            assert!(device.binned_sums(Terms::Ratio, scheme, samples, view, &[map]).is_err());
        }
        for scheme in JointScheme::ALL {
            let joint = |settings, columns: &ParzenBins| {
                let method = JointMethod { scheme, settings, ..JointMethod::default() };
                device.joint_histogram_with(&method, samples, view, columns, &[case.map])
            };
            assert!(joint(settings(4, 48), &COLUMNS).is_err());
            let few = ParzenBins { count: 4, ..COLUMNS };
            assert!(joint(SchemeSettings::default(), &few).is_err());
        }
    });
}

/// The sums of schemes that have the same bits at every run.
pub(crate) fn reproducible_schemes<D: Schemes>(device: &D) -> Results {
    let case = &cases()[3];
    let mut results = Results::new();
    let bits = |sums: &[Vec<f64>]| -> Vec<f32> {
        let halves = |v: &f64| {
            let b = v.to_bits();
            [f32::from_bits(b as u32), f32::from_bits((b >> 32) as u32)]
        };
        sums.iter().flatten().flat_map(halves).collect()
    };
    with_device(device, case, |samples, view| {
        for scheme in Scheme::ALL.into_iter().filter(|s| s.reproducible()) {
            let found = device.binned_sums(Terms::Ratio, scheme, samples, view, &[case.map; 2]);
            if let Some(found) = offered(scheme.name(), found) {
                results.push((scheme.name().into(), bits(&found)));
            }
        }
        for scheme in JointScheme::ALL {
            let method = JointMethod { scheme, ..JointMethod::default() };
            let found =
                device.joint_histogram_with(&method, samples, view, &COLUMNS, &[case.map; 2]);
            let name = if scheme == JointScheme::Default { "joint" } else { scheme.name() };
            if let Some(found) = offered(name, found) {
                results.push((scheme.name().into(), bits(&found)));
            }
        }
    });
    results
}

/// The pass for the derivative takes the sums of any scheme.
pub(crate) fn gradients_follow_the_scheme<D: Schemes>(device: &D) {
    let case = &cases()[3];
    with_device(device, case, |samples, view| {
        let maps = [case.map; 2];
        let squares = |_: usize, sums: &[f64]| sums.to_vec();
        let of =
            |scheme| device.binned_gradient(Terms::Ratio, scheme, samples, view, &maps, &squares);
        let expected = of(Scheme::Direct).unwrap();
        for scheme in Scheme::ALL {
            let Some(found) = offered(scheme.name(), of(scheme)) else { continue };
            assert_eq!(found.len(), 2);
            for (f, e) in found.iter().zip(&expected) {
                close(&f.0, &e.0, 2e-5, scheme.name());
                close(&f.1, &e.1, 1e-4, scheme.name());
            }
        }
    });
}
