//! Every operator of every backend against a naive `f64` reference.
//!
//! The checks of a family are functions over any device; `on_cpus` makes tests of them, each run
//! at every SIMD level that the machine has. Another backend runs the same functions.

// A check that does not hold is a panic.
#![allow(clippy::unwrap_used, clippy::needless_range_loop, clippy::float_cmp)]

/// Makes tests of checks, on every CPU of [`support::cpus`]; and of functions that give results,
/// which must have the same bits for every SIMD level and any number of threads.
macro_rules! on_cpus {
    ($($check:ident),* $(,)?; same bits: $($results:ident),* $(,)?) => {
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
                }
            )*
        }
    };
}

mod elementwise;
mod filter;
mod histogram;
mod reduce;
mod resample;
mod stencil;
mod support;
