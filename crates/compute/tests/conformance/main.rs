//! Every operator of every backend against a naive `f64` reference.
//!
//! The checks of a family are functions over any device; `on_cpus` makes tests of them, each run
//! at every SIMD level that the machine has. Another backend runs the same functions.

// A check that does not hold is a panic.
#![allow(clippy::unwrap_used, clippy::needless_range_loop, clippy::float_cmp)]

/// Makes tests of checks on all devices: on every CPU of [`support::cpus`]; on a GPU, if the
/// environment variable `VOXALIGN_TEST_DEVICE` names one (`cuda`, `cuda:1`); and with the kernels of
/// the GPU emulated on the host, in one test that fails if a kernel of the given files has not run.
/// A family whose kernels are written as they are needed, and that has no files, says `generated`.
///
/// Functions that give results must give the same bits for every SIMD level and any number of
/// threads of the CPU, at every run on a GPU, and where the device is one that was chosen at run time.
macro_rules! on_devices {
    (
        $($generated:ident)?
        $($file:literal),* $(,)?;
        $($check:ident),* $(,)?;
        same bits: $($results:ident),* $(,)?
    ) => {
        mod cpu {
            $(
                #[test]
                fn $check() {
                    for cpu in crate::support::cpus() {
                        super::$check(&cpu);
                    }
                }
            )*
            $(
                #[test]
                fn $results() {
                    let cpus = crate::support::cpus();
                    let expected = super::$results(&cpus[0]);
                    for cpu in &cpus[1..] {
                        crate::support::assert_same_bits(cpu, &expected, &super::$results(cpu));
                    }
                    // As the programs see it.
                    let any = voxalign_compute::select::AnyDevice::Cpu(cpus[0].clone());
                    crate::support::assert_same_bits(&any, &expected, &super::$results(&any));
                }
            )*
        }
        mod cuda {
            $(
                #[test]
                fn $check() {
                    if let Some(cuda) = crate::support::gpu() {
                        super::$check(&cuda);
                    }
                }
            )*
            $(
                #[test]
                fn $results() {
                    if let Some(cuda) = crate::support::gpu() {
                        let expected = super::$results(&cuda);
                        for _ in 0..2 {
                            let found = super::$results(&cuda);
                            crate::support::assert_same_bits(&cuda, &expected, &found);
                        }
                        let any = voxalign_compute::select::AnyDevice::Cuda(cuda);
                        let found = super::$results(&any);
                        crate::support::assert_same_bits(&any, &expected, &found);
                    }
                }
            )*
        }
        mod emulated {
            #[test]
            fn all_kernels() {
                let files: &[(&str, &str)] =
                    &[$(($file, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/cuda/kernels/", $file)))),*];
                let generated: &[&str] = &[$(stringify!($generated))?];
                if files.is_empty() && generated.is_empty() {
                    return;
                }
                let Some(cuda) = crate::support::emulated() else { return };
                $(super::$check(&cuda);)*
                $(
                    let expected = super::$results(&cuda);
                    crate::support::assert_same_bits(&cuda, &expected, &super::$results(&cuda));
                )*
                assert!(!cuda.launched().is_empty(), "no kernel has run");
                crate::support::assert_all_ran(&cuda, files);
            }
        }
    };
}

/// The files in a folder and those in it whose names end so.
fn files(folder: &std::path::Path, end: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let of = |path: std::path::PathBuf| match path.is_dir() {
        true => files(&path, end),
        false => vec![path],
    };
    entries.flat_map(of).filter(|path| path.extension().is_some_and(|e| e == end)).collect()
}

/// A new file of kernels has to be in a list, where a test fails unless all of its kernels ran.
#[test]
fn every_file_of_kernels_is_in_a_list() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let checks: Vec<String> = files(&root.join("tests/conformance"), "rs")
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let kernels = root.join("src/cuda/kernels");
    let all = files(&kernels, "cu");
    if all.is_empty() {
        eprintln!("skipped: the sources are not on this machine");
    }
    for path in all {
        let name = format!("\"{}\"", path.strip_prefix(&kernels).unwrap().display());
        assert!(checks.iter().any(|text| text.contains(&name)), "{name} is in no list of checks");
    }
}

mod accumulate;
mod elastic;
mod elementwise;
mod filter;
mod flow;
mod fourier;
mod histogram;
mod host;
mod memory;
mod pairwise;
mod points;
mod raycast;
mod reduce;
mod resample;
mod schemes;
mod similarity;
mod simplices;
mod sort;
mod splat;
mod stencil;
mod support;
mod team;
mod turns;
mod weights;
