//! Histogram schemes: what the CPU has not, and what a GPU keeps for them.

use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_compute::ops::Histogram;
use voxalign_compute::ops::histogram::{JointMethod, JointScheme, Scheme, Schemes, Terms};
use voxalign_conformance::cases::{COLUMNS, cases, with_device};

/// The CPU says what it has not.
#[test]
fn the_cpu_names_what_it_has_not() {
    let device = Cpu::new(Some(1)).unwrap();
    let case = &cases()[0];
    with_device(&device, case, |samples, view| {
        for scheme in Scheme::ALL {
            let found = device.binned_sums(Terms::Ratio, scheme, samples, view, &[case.map]);
            assert_eq!(found.is_ok(), scheme.on_cpu(), "{scheme:?}");
            if let Err(e) = found {
                let message = e.to_string();
                assert!(message.contains(scheme.name()) && message.contains("GPU"), "{message}");
            }
        }
        for scheme in JointScheme::ALL {
            let method = JointMethod { scheme, ..JointMethod::default() };
            let found = device.joint_histogram_with(&method, samples, view, &COLUMNS, &[case.map]);
            assert_eq!(found.is_ok(), scheme == JointScheme::Default);
        }
    });
}

/// Samples in the order of the image, at least two bytes a voxel, are made for the schemes that need them
/// when they ask, and once.
fn made_when_asked_for(cuda: &Cuda) {
    let case = &cases()[3];
    with_device(cuda, case, |samples, view| {
        let n = case.fixed.len() as u64;
        let maps = [case.map];
        let live = |scheme: Option<Scheme>| {
            match scheme {
                Some(scheme) => {
                    drop(cuda.binned_sums(Terms::Ratio, scheme, samples, view, &maps).unwrap());
                }
                None => drop(
                    cuda.joint_histogram(JointScheme::Default, samples, view, &COLUMNS, &maps)
                        .unwrap(),
                ),
            }
            cuda.pool().live
        };
        let grouped = cuda.pool().live;
        for scheme in [Some(Scheme::default()), Some(Scheme::Direct), None] {
            assert_eq!(live(scheme), grouped, "{scheme:?} keeps something");
        }
        let squares = |_: usize, sums: &[f64]| sums.to_vec();
        let scheme = Scheme::default();
        cuda.binned_gradient(Terms::Ratio, scheme, samples, view, &maps, &squares).unwrap();
        assert_eq!(cuda.pool().live, grouped);
        assert!(!cuda.launched().contains("spread_samples") || !cuda.is_emulated());
        // A scheme without grouping asks: bins, and weights and values beside them.
        let asked = live(Some(Scheme::FixedPoint));
        assert_eq!(asked - grouped, (2 + 4 + 4) * n);
        assert_eq!(live(Some(Scheme::GlobalMerge)), asked, "made again");
    });
}

#[test]
fn the_default_keeps_no_samples_in_the_order_of_the_image() {
    if let Some(cuda) = crate::devices::emulated() {
        made_when_asked_for(&cuda);
    }
    // A handle of its own: what it has made is counted.
    if let Some(number) = crate::devices::gpu_number() {
        made_when_asked_for(&Cuda::new(number).unwrap());
    }
}
