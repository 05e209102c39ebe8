//! Conformance of backends: every operator of a device against a naive `f64` reference, over sizes that are odd, tiny,
//! flat and not powers of two.
//!
//! A backend tests itself by one line in a file of its `tests` folder:
//!
//! ```
//! use voxalign_compute::cpu::Cpu;
//!
//! /// The devices to test; none where there are none.
//! fn devices() -> Vec<Cpu> {
//!     vec![Cpu::new(Some(1)).unwrap(), Cpu::new(Some(3)).unwrap()]
//! }
//!
//! mod conformance {
//!     voxalign_conformance::all!(super::devices);
//! }
//! ```
//!
//! Each family of operators becomes a module there, each check a test, such as `conformance::stencil::gradient`. Those that ask
//! for results compare them bit by bit: at a second run, and over all devices that were given. Checks named `bits_of_the_cpu` ask
//! for the very bits of the [CPU](voxalign_compute::cpu): the same operations in the same order, and no fused multiply-add.
//!
//! A check is a function of this crate as well, over any device; one that does not hold panics. [`blocks`], [`cases`], [`sums`] and
//! [`support`] have what tests of a backend's own may want, too.
//!
//! With the feature `baselines` there are the checks of histogram schemes as well, in `baselines!`.

// A check that does not hold is a panic.
#![allow(clippy::unwrap_used, clippy::needless_range_loop, clippy::float_cmp)]

pub mod blocks;
pub mod cases;
mod families;
pub mod sums;
pub mod support;

/// Makes tests of all checks: `all!(devices)`, with a function without arguments that gives the devices to test, as a vector, an array
/// or an option. See the [crate](crate).
#[macro_export]
macro_rules! all {
    ($devices:expr) => {
        $crate::each!([$crate::device_tests] $devices);
    };
}

/// As [`all!`](crate::all) of histogram schemes, for a backend that implements
/// [`Schemes`](voxalign_compute::ops::histogram::Schemes).
#[cfg(feature = "baselines")]
#[macro_export]
macro_rules! baselines {
    ($devices:expr) => {
        $crate::each_baseline!([$crate::device_tests] $devices);
    };
}

/// Gives all families to a macro, for tests of a kind of their own: `each!([name] with ...)` is, for each,
/// `name! { [with ...] family [checks ...] [results ...] }`. Checks are functions `fn(&D)` in the module of the family, results are functions
/// `fn(&D) -> Results`.
#[macro_export]
macro_rules! each {
    ($($to:tt)*) => {
        $crate::give_families! { ($($to)*)
            elementwise [
                expressions special_values in_place without_inputs many_inputs many_numbers
                same_input costly errors
            ] [bits];
            reduce [all_at_once not_numbers no_elements many_inputs one_by_one errors] [bits];
            resample [
                affine by_field exact_at_voxels constants_stay far_positions prefilter resizing
                bits_of_the_cpu many_rows errors
            ] [bits];
            fields [composition fields_on_other_grids bits_of_the_cpu errors] [bits];
            labels [labels bits_of_the_cpu ties errors] [bits];
            stencil [
                gradient divergence laplacian determinant determinant_of_linear_maps
                bits_of_the_cpu many_rows errors
            ] [bits];
            filter [
                gaussian gaussian_of_constant gaussian_impulse narrow_windows long_lines
                box_mean long_boxes several_images errors
            ] [bits];
            fourier [
                forward round_trip several_images waves energy scale sine
                sine_is_its_own_inverse errors
            ] [bits];
            front [steps plans repeats signs curvature errors bits_of_the_cpu] [bits];
            regions [sums shares scans errors bits_of_the_cpu] [bits];
            elastic [
                product residual sweep sweeps_converge symbol eigenvalues bits_of_the_cpu errors
            ] [bits];
            flow [
                advance advance_by_a_limit advance_of_what_is_not_finite force force_at
                force_at_is_a_derivative force_at_voxels force_at_what_is_not_finite norms lengths
                overshoot blends energies halves inverse_of_waves inverse_of_large_waves
                inverse_of_noise bits_of_the_cpu errors
            ] [bits];
            similarity [
                local_correlation local_correlation_of_both background flat_images
                local_correlation_derivative many_rows histogram derivatives histogram_derivative
                outside_the_range maps errors
            ] [bits bits_of_pairs];
            contexts [matches of_both background alike derivative errors] [bits];
            weights [samples similarities masks] [bits_of_masks bits_of_derivatives];
            histogram [
                samples_are_grouped values_are_counted binned_sums_match gradients_match
                joint_matches several_tiles_match bad_input_is_an_error
            ] [bits];
            joint [bytes words bricks messages wild_messages large_slopes errors] [bits];
            sort [
                every_length kinds_of_data extreme_keys ranges keys_alone approximate segments
                errors
            ] [bits];
            accumulate [sums rounding extremes any_order errors bits_of_the_cpu] [bits];
            splat [
                values sums added origins adjoint of_itself schemes extremes errors
                bits_of_the_cpu
            ] [bits];
            simplices [measures covectors sizes nothing errors bits_of_the_cpu] [bits];
            points [
                points covectors adjoint carried pushed pairs bounds errors bits_of_the_cpu
            ] [bits];
            pairwise [sums derivatives far not_finite nothing errors] [bits];
            sparse [product chebyshev refill dense_product diagonal errors bits_of_the_cpu] [bits];
            tetrahedra [
                boxes located samples nodes covectors covectors_of_nothing ratios strain errors
                bits_of_the_cpu
            ] [bits];
            values [
                taken_over places_apart pairs slices errors bits_of_the_cpu
            ] [bits];
            raycast [
                projections maxima textures draws emptiness derivatives
                derivatives_are_of_the_image adjoints wide_angles picks ends far_away rule faces
                tall many_views detectors_within errors
            ] [bits];
            host [copies exchanges queues lasting_queues errors bits_of_the_cpu] [bits];
            turns [
                dropped_by_the_maker dropped_by_the_queue changed_by_the_maker
                changed_by_the_queue read_before_a_change copies_and_uploads arriving_numbers
                several_queues families threads
            ] [bits];
            team [sums uploads errors] [];
        }
    };
}

/// As [`each!`](crate::each) of histogram schemes.
#[cfg(feature = "baselines")]
#[macro_export]
macro_rules! each_baseline {
    ($($to:tt)*) => {
        $crate::give_families! { ($($to)*)
            schemes [
                schemes_match settings_do_not_matter gradients_follow_the_scheme baselines_match
                narrow_memory bad_settings_are_errors
            ] [reproducible_schemes];
        }
    };
}

/// Gives families to a macro.
#[doc(hidden)]
#[macro_export]
macro_rules! give_families {
    ($to:tt $($family:ident $checks:tt $results:tt;)*) => {
        $($crate::give_family! { $to $family $checks $results })*
    };
}

/// Gives a family to a macro.
#[doc(hidden)]
#[macro_export]
macro_rules! give_family {
    (([$($to:tt)+] $($with:tt)*) $($family:tt)*) => {
        $($to)+! { [$($with)*] $($family)* }
    };
}

/// The tests of a family.
#[doc(hidden)]
#[macro_export]
macro_rules! device_tests {
    ([$devices:expr] $family:ident [$($check:ident)*] [$($results:ident)*]) => {
        mod $family {
            #[allow(unused_imports)] // for the name of the devices, unless it is a path
            use super::*;

            $(
                #[test]
                fn $check() {
                    $devices().into_iter().for_each(|d| $crate::$family::$check(&d));
                }
            )*
            $(
                #[test]
                fn $results() {
                    $crate::support::assert_reproducible($devices(), $crate::$family::$results);
                }
            )*
        }
    };
}

/// The checks of a family, as others see them.
macro_rules! family {
    ([$bound:path] $family:ident [$($check:ident)*] [$($results:ident)*]) => {
        #[doc = concat!("The checks of the family `", stringify!($family), "`.")]
        pub mod $family {
            #[allow(unused_imports)] // a family may have no results
            use crate::support::Results;

            $(
                #[doc = concat!("Panics unless the check `", stringify!($check), "` holds.")]
                pub fn $check<D: $bound>(device: &D) {
                    crate::families::$family::$check(device);
                }
            )*
            $(
                #[doc = concat!("The results of `", stringify!($results), "`, which have the same bits at every run.")]
                #[must_use]
                pub fn $results<D: $bound>(device: &D) -> Results {
                    crate::families::$family::$results(device)
                }
            )*
        }
    };
}
each!([family] voxalign_compute::Device);
#[cfg(feature = "baselines")]
each_baseline!([family] voxalign_compute::ops::histogram::Schemes);
