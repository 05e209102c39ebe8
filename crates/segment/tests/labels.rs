//! Several regions on devices against those on the host.

// A check that is skipped says so.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use common::Random;
use voxalign_compute::Device;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_segment::device::{DevicePartition, Fits, Labelling, evolve_labels};
use voxalign_segment::{
    Ending, Lattice, Likelihoods, MeanIntensities, Mixture, Neighbourhood, Partition,
    PartitionOptions, Ranges, Result, Scores, SegmentError, patchwork,
};

fn cpu(threads: usize) -> Cpu {
    Cpu::new(Some(threads)).unwrap()
}

/// Shells of three or four intensities with noise, and the number of each.
fn picture(lattice: &Lattice, count: u8) -> (Vec<f32>, Vec<u8>) {
    let [nx, ny, nz] = lattice.dims().map(|d| d as f64);
    let mut random = Random(5);
    let truth: Vec<u8> = (0..lattice.len())
        .map(|p| {
            let [x, y, z] = lattice.place(p).map(|c| c as f64 + 0.5);
            let away = ((2.0 * x / nx - 1.0).powi(2) + (2.0 * y / ny - 1.0).powi(2)).sqrt();
            let away = if nz > 1.0 { away.hypot(2.0 * z / nz - 1.0) } else { away };
            // As many points of each.
            let inside = 1.0 - away.powi(if nz > 1.0 { 3 } else { 2 }) / 1.3;
            (inside.max(0.0) * f64::from(count)).min(f64::from(count) - 0.5) as u8
        })
        .collect();
    let values = truth.iter().map(|t| 4.0 + 10.0 * f32::from(*t) + 2.5 * random.normal() as f32);
    (values.collect(), truth)
}

/// How many labels are wrong, in the order of their means.
fn wrong(labels: &[u8], values: &[f32], truth: &[u8], count: u8) -> usize {
    let mean = |label: u8| {
        let own = || labels.iter().zip(values).filter(move |(l, _)| **l == label);
        own().map(|(_, v)| f64::from(*v)).sum::<f64>() / own().count() as f64
    };
    let mut order: Vec<u8> = (0..count).collect();
    order.sort_by(|a, b| mean(*a).total_cmp(&mean(*b)));
    labels.iter().zip(truth).filter(|(l, t)| order[usize::from(**t)] != **l).count()
}

/// Labels with how often they were seen.
fn evolved<D: Device>(
    device: &D,
    lattice: &Lattice,
    start: &[u8],
    fits: &Fits<'_>,
    options: &PartitionOptions,
) -> DevicePartition {
    let mut times = Vec::new();
    let every = 3;
    let found = evolve_labels(device, lattice, start, fits, options, every, &mut |n, labels| {
        assert_eq!(labels.len(), lattice.len());
        if n == 0 {
            assert_eq!(labels, start);
        }
        times.push(n);
        Ok(())
    })
    .unwrap();
    let expected: Vec<usize> = (0..=found.iterations).step_by(every).collect();
    // Labels that were there before are not looked at.
    let is_seen = !matches!(found.ending, Ending::Repeating { .. });
    let most = expected.len() - usize::from(!is_seen && found.iterations.is_multiple_of(every));
    assert_eq!(times, expected[..most]);
    found
}

/// Asserts that labels of a device are as good as those of the host, and the same on any number of threads; gives both.
fn assert_alike<S: Scores + Labelling + Clone>(
    name: &str,
    lattice: &Lattice,
    start: &[u8],
    scores: &S,
    options: &PartitionOptions,
    most: f64,
) -> (DevicePartition, Partition) {
    let labels = usize::from(*start.iter().max().unwrap()) + 1;
    let fits = scores.fits(labels).unwrap();
    let found = evolved(&cpu(1), lattice, start, &fits, options);
    for threads in [2, 3] {
        assert_eq!(evolved(&cpu(threads), lattice, start, &fits, options), found, "{name}");
    }
    let mut scores = scores.clone();
    let expected = Partition::run(lattice, start, &mut scores, options).unwrap();
    let differ = found.labels.iter().zip(&expected.labels).filter(|(a, b)| a != b).count();
    let part = differ as f64 / start.len() as f64;
    assert!(part <= most, "{name}: {part}");
    if found.labels == expected.labels {
        scores.update(&expected.labels).unwrap();
        let fit: f64 = (0..start.len()).map(|p| scores.score(p, expected.labels[p])).sum();
        let last = found.history.last().unwrap();
        let is_last = !matches!(found.ending, Ending::Repeating { .. });
        assert!(
            !is_last || (last.energy + fit).abs() <= 1e-5 * fit.abs(),
            "{name}: {fit} {last:?}"
        );
        assert!(!is_last || last.size == expected.labels.iter().filter(|l| **l != 0).count());
    }
    (found, expected)
}

/// Without curvature all scores are those of the host but for rounding, in every neighbourhood.
#[test]
fn labels_are_those_of_the_host() {
    for (dims, kind) in [
        ([83, 61, 1], Neighbourhood::Four),
        ([40, 57, 1], Neighbourhood::Eight),
        ([27, 22, 19], Neighbourhood::Six),
        ([21, 22, 18], Neighbourhood::Eighteen),
        ([18, 22, 19], Neighbourhood::TwentySix),
    ] {
        let lattice = Lattice::new(dims, kind).unwrap();
        for count in [2u8, 3, 4] {
            let (values, truth) = picture(&lattice, count);
            let start = patchwork(&lattice, 3, usize::from(count)).unwrap();
            for iterations in [Some(1), Some(4), Some(60)] {
                let options = PartitionOptions { iterations, ..PartitionOptions::default() };
                let means = MeanIntensities::new(&lattice, &values).unwrap();
                let (found, expected) =
                    assert_alike("means", &lattice, &start, &means, &options, 0.0);
                assert_eq!(found.iterations, expected.iterations);
                assert_eq!(found.ending, expected.ending);
                assert_eq!(found.history[0].took, [0; 2]);
                let ranges = Ranges::of(&values, usize::from(count)).unwrap().means;
                let fixed = means.with_means(&ranges).unwrap();
                let (found, expected) =
                    assert_alike("fixed means", &lattice, &start, &fixed, &options, 0.0);
                assert_eq!(found.iterations, expected.iterations);
                let all = Mixture::fit(&values, usize::from(count)).unwrap();
                let each = (0..count).map(|k| all.part(&[usize::from(k)]).unwrap()).collect();
                let likely = Likelihoods::new(&lattice, &values, each).unwrap();
                let (found, expected) =
                    assert_alike("mixtures", &lattice, &start, &likely, &options, 0.0);
                assert_eq!(found.iterations, expected.iterations);
                assert_eq!(found.ending, expected.ending);
                if iterations == Some(60) {
                    let wrong = wrong(&found.labels, &values, &truth, count);
                    assert!(wrong * 12 < truth.len(), "{wrong} of {}", truth.len());
                }
            }
        }
    }
}

/// With curvature shares are of single precision.
#[test]
fn labels_with_curvature_end_as_on_the_host() {
    for (dims, kind, sigma) in
        [([63, 51, 1], Neighbourhood::Four, 2.5), ([24, 22, 17], Neighbourhood::Six, 1.5)]
    {
        let lattice = Lattice::new(dims, kind).unwrap();
        let (values, truth) = picture(&lattice, 3);
        let start = patchwork(&lattice, 4, 3).unwrap();
        for (curvature, iterations) in [(25.0, 2), (25.0, 40), (300.0, 40)] {
            let options = PartitionOptions {
                iterations: Some(iterations),
                curvature,
                sigma,
                ..PartitionOptions::default()
            };
            let means = MeanIntensities::new(&lattice, &values).unwrap();
            let (found, _) = assert_alike("curved", &lattice, &start, &means, &options, 2e-3);
            if (curvature, iterations) == (25.0, 40) {
                let wrong = wrong(&found.labels, &values, &truth, 3);
                assert!(wrong * 40 < truth.len(), "{wrong} of {}", truth.len());
            }
        }
    }
}

/// The emulated GPU has the bits of the CPU.
#[test]
fn devices_have_the_same_bits() {
    let device = match Cuda::emulated() {
        Ok(device) => device,
        Err(e) => {
            let required = std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_some();
            assert!(!required, "the kernels of the GPU cannot be tested: {e}");
            eprintln!("skipped: {e}");
            return;
        }
    };
    for (dims, kind) in [([45, 37, 1], Neighbourhood::Eight), ([13, 12, 11], Neighbourhood::Six)] {
        let lattice = Lattice::new(dims, kind).unwrap();
        let (values, _) = picture(&lattice, 4);
        let start = patchwork(&lattice, 3, 4).unwrap();
        let means = MeanIntensities::new(&lattice, &values).unwrap();
        let all = Mixture::fit(&values, 4).unwrap();
        let each = (0..4).map(|k| all.part(&[k]).unwrap()).collect();
        let likely = Likelihoods::new(&lattice, &values, each).unwrap();
        for fits in [means.fits(4).unwrap(), likely.fits(4).unwrap()] {
            let options = PartitionOptions {
                iterations: Some(6),
                curvature: 2.0,
                sigma: 1.5,
                ..PartitionOptions::default()
            };
            let expected = evolved(&cpu(2), &lattice, &start, &fits, &options);
            assert_eq!(evolved(&device, &lattice, &start, &fits, &options), expected);
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let lattice = Lattice::new([20, 12, 1], Neighbourhood::Four).unwrap();
    let (values, _) = picture(&lattice, 3);
    let (start, device) = (patchwork(&lattice, 3, 3).unwrap(), cpu(1));
    let usual = PartitionOptions { iterations: Some(9), ..PartitionOptions::default() };
    let said = |start: &[u8], fits: &Fits<'_>, options: &PartitionOptions| {
        let run = evolve_labels(&device, &lattice, start, fits, options, 1, &mut |_, _| Ok(()));
        run.unwrap_err().to_string()
    };
    let of = |image| Fits::Means { image, fixed: None };
    let means = of(&values);
    assert!(said(&start[1..], &means, &usual).contains("239 values"));
    assert!(said(&[0; 240], &means, &usual).contains("empty"));
    assert!(said(&[2; 240], &means, &usual).contains("the whole image"));
    assert!(said(&start, &of(&values[1..]), &usual).contains("239 values"));
    assert!(said(&start, &of(&[7.0; 240]), &usual).contains("the value 7 everywhere"));
    let fixed = Fits::Means { image: &values, fixed: Some(&[1.0, 2.0]) };
    assert!(said(&start, &fixed, &usual).contains("the means has 2 values"));
    let short = Fits::Given(vec![1.0; 2 * 240].into());
    assert!(said(&start, &short, &usual).contains("480 values"));
    let mut scores = vec![1.0; 3 * 240];
    scores[250] = f32::NAN;
    assert!(said(&start, &Fits::Given(scores.into()), &usual).contains("at point 250"));
    let none = PartitionOptions { curvature: 1.0, sigma: 0.0, ..usual };
    assert!(said(&start, &means, &none).contains("standard deviation"));
    let below = PartitionOptions { curvature: -1.0, ..usual };
    assert!(said(&start, &means, &below).contains("not below 0"));
    // Whoever watches can end it.
    let mut stop = |n: usize, _: &[u8]| -> Result<()> {
        if n == 1 { Err(SegmentError::Stopped) } else { Ok(()) }
    };
    let run = evolve_labels(&device, &lattice, &start, &means, &usual, 1, &mut stop);
    assert_eq!(run.unwrap_err(), SegmentError::Stopped);
}
