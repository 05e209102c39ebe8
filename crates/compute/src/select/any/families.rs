//! The operators of all families, forwarded.

use super::{AnyBuffer, AnyRayVolume, AnySamples, Backend};
use crate::cpu::Cpu;
use crate::cuda::Cuda;
use crate::device::Element;
use crate::error::Result;
use crate::ops::elastic::ElasticOperator;
use crate::ops::elementwise::Expr;
use crate::ops::filter::GaussianMethod;
use crate::ops::flow::{Inversion, Inverted, Limit, Step};
use crate::ops::histogram::{
    Binning, JointMethod, JointScheme, LayoutOptions, MovingView, ParzenBins, Scheme,
    SchemeSettings, Schemes, SumsAndGradient, Terms, ValueCounts,
};
use crate::ops::pairwise::RadialKernel;
use crate::ops::points::{Bounds, Carriage};
use crate::ops::raycast::{Along, Pixels, RayView, Traversal, ViewSlopes};
use crate::ops::reduce::Reduction;
use crate::ops::resample::{Interpolation, LabelInterpolation};
use crate::ops::simplices::{Element as Simplex, Incidence};
use crate::ops::sort::{KeyRange, SortKey};
use crate::ops::splat::Lattice;
use crate::ops::{
    Accumulate, Elastic, Elementwise, Filter, Flow, Fourier, Histogram, Pairwise, Points, Raycast,
    Reduce, Resample, Similarity, Simplices, Sort, Splat, SplatScheme, Stencil,
};
use crate::select::AnyDevice;
use crate::{AffineMap, Dims};

/// An argument of an operator, as the backend takes it.
trait Argument<B: Backend> {
    /// What is held while the operator runs.
    type Held;
    /// What it is given.
    type Given<'h>
    where
        Self: 'h,
        Self::Held: 'h;

    fn hold(self) -> Result<Self::Held>;
    fn give<'h>(held: &'h mut Self::Held) -> Self::Given<'h>
    where
        Self: 'h;
}

/// Arguments that are the same for every backend.
macro_rules! plain {
    ($($t:ty $(=> [$($generics:tt)*])?;)*) => {$(
        impl<$($($generics)*,)? B: Backend> Argument<B> for $t {
            type Held = Self;
            type Given<'h> = Self where Self: 'h;

            fn hold(self) -> Result<Self> {
                Ok(self)
            }

            fn give<'h>(held: &'h mut Self) -> Self where Self: 'h {
                *held
            }
        }
    )*};
}
plain! {
    bool; usize; i32; f32; f64;
    Dims; Option<Dims>; Lattice; SplatScheme; Simplex; [f64; 3]; [usize; 2]; Traversal; Along;
    Interpolation; LabelInterpolation; GaussianMethod; Inversion; Terms; Scheme; JointScheme;
    &'a AffineMap => ['a];
    &'a RadialKernel => ['a];
    &'a Expr => ['a];
    &'a ElasticOperator => ['a];
    &'a LayoutOptions => ['a];
    &'a SchemeSettings => ['a];
    &'a JointMethod => ['a];
    &'a Binning => ['a];
    &'a ParzenBins => ['a];
    &'a [f32] => ['a];
    &'a [f64] => ['a];
    &'a [Reduction] => ['a];
    &'a [Bounds] => ['a];
    &'a [RayView] => ['a];
    &'a Pixels => ['a];
    &'a [AffineMap] => ['a];
    &'a [Vec<f64>] => ['a];
    &'a (dyn Fn(usize, &[f64]) -> Vec<f64> + Sync) => ['a];
    KeyRange<K> => [K: SortKey];
}

/// Arguments that are held as the backend's; `hold` makes them, and they are given as they are or by reference.
macro_rules! borrowed {
    ($([$($generics:tt)*] $t:ty => $held:ty, $given:ty: |$arg:ident| $hold:expr, |$h:ident| $give:expr;)*) => {$(
        impl<'a, B: Backend, $($generics)*> Argument<B> for $t {
            type Held = $held;
            type Given<'h> = $given where Self: 'h, Self::Held: 'h;

            fn hold(self) -> Result<Self::Held> {
                let $arg = self;
                $hold
            }

            fn give<'h>($h: &'h mut Self::Held) -> Self::Given<'h> where Self: 'h {
                $give
            }
        }
    )*};
}
borrowed! {
    [T: Element] &'a AnyBuffer<T> => &'a B::Buffer<T>, &'a B::Buffer<T>:
        |buffer| B::of(buffer), |held| held;
    [T: Element] &'a mut AnyBuffer<T> => &'a mut B::Buffer<T>, &'h mut B::Buffer<T>:
        |buffer| B::of_mut(buffer), |held| held;
    [T: Element] Option<&'a AnyBuffer<T>> => Option<&'a B::Buffer<T>>, Option<&'a B::Buffer<T>>:
        |buffer| buffer.map(B::of).transpose(), |held| *held;
    [] &'a [&'a AnyBuffer<f32>] => Vec<&'a B::Buffer<f32>>, &'h [&'a B::Buffer<f32>]:
        |buffers| buffers.iter().map(|b| B::of(b)).collect(), |held| held;
    [] &'a Carriage<'a, AnyDevice> => Carriage<'a, B>, &'h Carriage<'a, B>:
        |carriage| Ok(Carriage {
            field: B::of(carriage.field)?,
            lattice: carriage.lattice,
            scale: carriage.scale,
            map: carriage.map,
        }), |held| held;
    [] &'a AnySamples => &'a B::Samples, &'a B::Samples:
        |samples| B::samples(samples), |held| held;
    [] &'a AnyRayVolume => &'a B::RayVolume, &'a B::RayVolume:
        |volume| B::ray_volume_of(volume), |held| held;
    [] &'a Incidence<'a, AnyDevice> => Incidence<'a, B>, &'h Incidence<'a, B>:
        |incidence| Ok(Incidence { starts: B::of(incidence.starts)?, corners: B::of(incidence.corners)? }), |held| held;
    [] &'a MovingView<'a, AnyDevice> => MovingView<'a, B>, &'h MovingView<'a, B>:
        |view| Ok(MovingView {
            values: B::of(view.values)?,
            mask: view.mask.map(B::of).transpose()?,
            dims: view.dims,
            border: view.border,
        }), |held| held;
    [] &'a Step<'a, AnyDevice> => Step<'a, B>, &'h Step<'a, B>:
        |step| Ok(Step {
            scale: step.scale,
            limit: match &step.limit {
                None => None,
                Some(Limit { largest, index, step, most }) => {
                    Some(Limit { largest: B::of(largest)?, index: *index, step: *step, most: *most })
                }
            },
        }), |held| held;
}

impl<'a, B: Backend> Argument<B> for &'a mut [&mut AnyBuffer<f32>] {
    type Held = Vec<&'a mut B::Buffer<f32>>;
    type Given<'h>
        = &'h mut [&'a mut B::Buffer<f32>]
    where
        Self: 'h,
        Self::Held: 'h;

    fn hold(self) -> Result<Self::Held> {
        self.iter_mut().map(|buffer| B::of_mut(buffer)).collect()
    }

    fn give<'h>(held: &'h mut Self::Held) -> Self::Given<'h>
    where
        Self: 'h,
    {
        held
    }
}

/// The operators of families: each call goes to the device behind, with its arguments as that one takes them.
macro_rules! forward {
    ($(impl $family:ident { $({ $($itself:tt)* })? $(
        fn $name:ident $(<$k:ident: $bound:ident>)? ($($arg:ident: $t:ty),* $(,)?) -> $out:ty;
    )* })*) => {$(
        #[allow(clippy::too_many_arguments)]
        impl $family for AnyDevice { $($($itself)*)? $(
            fn $name $(<$k: $bound>)? (&self, $($arg: $t),*) -> $out {
                match self {
                    Self::Cpu(device) => forward!(@ Cpu, device, $name, $($arg: $t),*),
                    Self::Cuda(device) => forward!(@ Cuda, device, $name, $($arg: $t),*),
                }
            }
        )* }
    )*};
    (@ $backend:ident, $device:ident, $name:ident, $($arg:ident: $t:ty),*) => {{
        $(let mut $arg = <$t as Argument<$backend>>::hold($arg)?;)*
        $device.$name($(<$t as Argument<$backend>>::give(&mut $arg)),*)
    }};
}
forward! {
    impl Elementwise {
        fn eval(
            expr: &Expr,
            inputs: &[&Self::Buffer<f32>],
            params: &[f32],
            scalars: Option<&Self::Buffer<f64>>,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn eval_in_place(
            expr: &Expr,
            io: &mut Self::Buffer<f32>,
            inputs: &[&Self::Buffer<f32>],
            params: &[f32],
            scalars: Option<&Self::Buffer<f64>>,
        ) -> Result<()>;
    }
    impl Reduce {
        fn reduce(inputs: &[&Self::Buffer<f32>], what: &[Reduction]) -> Result<Vec<f64>>;
        fn reduce_into(
            inputs: &[&Self::Buffer<f32>],
            what: &[Reduction],
            out: &mut Self::Buffer<f64>,
        ) -> Result<()>;
    }
    impl Resample {
        fn warp_affine(
            src: &Self::Buffer<f32>,
            src_dims: Dims,
            map: &AffineMap,
            out_dims: Dims,
            interpolation: Interpolation,
            outside: f32,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn warp_field(
            src: &Self::Buffer<f32>,
            src_dims: Dims,
            map: &AffineMap,
            field: &Self::Buffer<f32>,
            out_dims: Dims,
            interpolation: Interpolation,
            outside: f32,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn warp_labels(
            src: &Self::Buffer<i32>,
            src_dims: Dims,
            map: &AffineMap,
            field: Option<&Self::Buffer<f32>>,
            out_dims: Dims,
            rule: LabelInterpolation,
            outside: i32,
            out: &mut Self::Buffer<i32>,
        ) -> Result<()>;
        fn compose_fields(
            outer: &Self::Buffer<f32>,
            outer_dims: Dims,
            map: &AffineMap,
            inner: &Self::Buffer<f32>,
            dims: Dims,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn resample_field(
            field: &Self::Buffer<f32>,
            src_dims: Dims,
            map: &AffineMap,
            out_dims: Dims,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn bspline_prefilter(data: &mut Self::Buffer<f32>, dims: Dims) -> Result<()>;
        fn resize(
            src: &Self::Buffer<f32>,
            src_dims: Dims,
            map: &AffineMap,
            out_dims: Dims,
            outside: f32,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
    }
    impl Stencil {
        fn gradient(
            src: &Self::Buffer<f32>,
            dims: Dims,
            spacing: [f64; 3],
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn divergence(
            field: &Self::Buffer<f32>,
            dims: Dims,
            spacing: [f64; 3],
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn laplacian(
            src: &Self::Buffer<f32>,
            dims: Dims,
            spacing: [f64; 3],
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn jacobian_determinant(
            field: &Self::Buffer<f32>,
            dims: Dims,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
    }
    impl Filter {
        fn gaussian(
            src: &Self::Buffer<f32>,
            dims: Dims,
            sigma: [f64; 3],
            method: GaussianMethod,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn box_mean(
            src: &Self::Buffer<f32>,
            dims: Dims,
            radius: [usize; 3],
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
    }
    impl Fourier {
        fn forward(
            src: &Self::Buffer<f32>,
            dims: Dims,
            spectrum: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn inverse(
            spectrum: &mut Self::Buffer<f32>,
            dims: Dims,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn inverse_sum(
            spectrum: &mut Self::Buffer<f32>,
            dims: Dims,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn scale_spectrum(
            spectrum: &mut Self::Buffer<f32>,
            dims: Dims,
            factors: &Self::Buffer<f32>,
        ) -> Result<()>;
        fn sine(data: &mut Self::Buffer<f32>, dims: Dims) -> Result<()>;
    }
    impl Sort {
        fn sort_pairs<K: SortKey>(
            range: KeyRange<K>,
            keys: &Self::Buffer<K>,
            values: Option<&Self::Buffer<u32>>,
            sorted_keys: &mut Self::Buffer<K>,
            sorted_values: &mut Self::Buffer<u32>,
        ) -> Result<()>;
        fn sort_keys<K: SortKey>(
            range: KeyRange<K>,
            keys: &Self::Buffer<K>,
            sorted_keys: &mut Self::Buffer<K>,
        ) -> Result<()>;
        fn sort_segments<K: SortKey>(
            range: KeyRange<K>,
            keys: &Self::Buffer<K>,
            values: Option<&Self::Buffer<u32>>,
            starts: &Self::Buffer<u32>,
            sorted_keys: &mut Self::Buffer<K>,
            sorted_values: &mut Self::Buffer<u32>,
        ) -> Result<()>;
    }
    impl Elastic {
        fn elastic_product(
            operator: &ElasticOperator,
            v: &Self::Buffer<f32>,
            dims: Dims,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn elastic_residual(
            operator: &ElasticOperator,
            f: &Self::Buffer<f32>,
            v: &Self::Buffer<f32>,
            dims: Dims,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn elastic_sweep(
            operator: &ElasticOperator,
            omega: f64,
            f: &Self::Buffer<f32>,
            v: &Self::Buffer<f32>,
            dims: Dims,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn elastic_symbol(
            operator: &ElasticOperator,
            spectra: &mut Self::Buffer<f32>,
            dims: Dims,
        ) -> Result<()>;
        fn elastic_eigenvalues(
            operator: &ElasticOperator,
            coefficients: &mut Self::Buffer<f32>,
            dims: Dims,
        ) -> Result<()>;
    }
    impl Flow {
        fn advance(
            field: &Self::Buffer<f32>,
            velocity: &Self::Buffer<f32>,
            step: &Step<'_, Self>,
            dims: Dims,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn invert_field(
            field: &Self::Buffer<f32>,
            dims: Dims,
            how: Inversion,
            out: &mut Self::Buffer<f32>,
        ) -> Result<Inverted>;
        fn force(
            slope: &Self::Buffer<f32>,
            image: &Self::Buffer<f32>,
            dims: Dims,
            spacing: [f64; 3],
            add: bool,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn field_norms(
            field: &Self::Buffer<f32>,
            scale: [f64; 3],
            out: &mut Self::Buffer<f64>,
        ) -> Result<()>;
        fn field_energies(
            field: &Self::Buffer<f32>,
            dims: Dims,
            scale: [f64; 3],
            spacing: [f64; 3],
            out: &mut Self::Buffer<f64>,
        ) -> Result<()>;
        fn field_lengths(
            field: &Self::Buffer<f32>,
            scale: [f64; 3],
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn field_overshoot(
            field: &Self::Buffer<f32>,
            dims: Dims,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn blend_fields(
            other: Option<&Self::Buffer<f32>>,
            weight: &Self::Buffer<f32>,
            field: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn to_half(src: &Self::Buffer<f32>, out: &mut Self::Buffer<u16>) -> Result<()>;
        fn to_single(src: &Self::Buffer<u16>, out: &mut Self::Buffer<f32>) -> Result<()>;
    }
    impl Similarity {
        fn local_correlation(
            fixed: &Self::Buffer<f32>,
            moving: &Self::Buffer<f32>,
            weights: Option<&Self::Buffer<f32>>,
            dims: Dims,
            radius: [usize; 3],
            noise: f64,
            slope: &mut Self::Buffer<f32>,
            energy: &mut Self::Buffer<f64>,
        ) -> Result<()>;
        fn local_correlation_of_both(
            first: &Self::Buffer<f32>,
            second: &Self::Buffer<f32>,
            weights: Option<&Self::Buffer<f32>>,
            dims: Dims,
            radius: [usize; 3],
            noise: f64,
            first_slope: &mut Self::Buffer<f32>,
            second_slope: &mut Self::Buffer<f32>,
            energy: &mut Self::Buffer<f64>,
        ) -> Result<()>;
        fn pair_histogram(
            fixed: &Self::Buffer<f32>,
            moving: &Self::Buffer<f32>,
            weights: Option<&Self::Buffer<f32>>,
            rows: &Binning,
            columns: &ParzenBins,
        ) -> Result<Vec<f64>>;
        fn pair_slopes(
            fixed: &Self::Buffer<f32>,
            moving: &Self::Buffer<f32>,
            weights: Option<&Self::Buffer<f32>>,
            rows: &Binning,
            columns: &ParzenBins,
            table: &[f64],
            slope: &mut Self::Buffer<f32>,
        ) -> Result<()>;
    }
    impl Accumulate {
        fn add_fixed(
            image: &Self::Buffer<f32>,
            factor: f64,
            sums: &mut Self::Buffer<i64>,
        ) -> Result<()>;
        fn fixed_to_float(
            sums: &Self::Buffer<i64>,
            factor: f64,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
    }
    impl Raycast {
        {
            type RayVolume = AnyRayVolume;

            fn ray_volume(&self, values: &AnyBuffer<f32>, dims: Dims) -> Result<AnyRayVolume> {
                fn of<B: Backend>(
                    device: &B,
                    values: &AnyBuffer<f32>,
                    dims: Dims,
                ) -> Result<B::RayVolume> {
                    device.ray_volume(B::of(values)?, dims)
                }
                Ok(match self {
                    Self::Cpu(device) => AnyRayVolume::Cpu(of(device, values, dims)?),
                    Self::Cuda(device) => AnyRayVolume::Cuda(Box::new(of(device, values, dims)?)),
                })
            }
        }
        fn project(
            volume: &Self::RayVolume,
            views: &[RayView],
            pixels: &Pixels,
            traversal: Traversal,
            along: Along,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn project_with_slopes(
            volume: &Self::RayVolume,
            views: &[RayView],
            pixels: &Pixels,
            step: f64,
            out: &mut Self::Buffer<f32>,
            slopes: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn view_slopes(
            views: usize,
            pixels: &Pixels,
            weights: &Self::Buffer<f32>,
            slopes: &Self::Buffer<f32>,
        ) -> Result<Vec<ViewSlopes>>;
        fn backproject(
            weights: &Self::Buffer<f32>,
            views: &[RayView],
            pixels: &Pixels,
            traversal: Traversal,
            dims: Dims,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
        fn pick(
            image: &Self::Buffer<f32>,
            size: [usize; 2],
            pixels: &Pixels,
            out: &mut Self::Buffer<f32>,
        ) -> Result<()>;
    }
    impl Schemes {
        fn binned_sums_with(
            terms: Terms,
            scheme: Scheme,
            settings: &SchemeSettings,
            samples: &Self::Samples,
            moving: &MovingView<'_, Self>,
            maps: &[AffineMap],
        ) -> Result<Vec<Vec<f64>>>;
        fn joint_histogram_with(
            method: &JointMethod,
            samples: &Self::Samples,
            moving: &MovingView<'_, Self>,
            columns: &ParzenBins,
            maps: &[AffineMap],
        ) -> Result<Vec<Vec<f64>>>;
    }
    impl Simplices {
        fn measures(kind: Simplex, vertices: &Self::Buffer<f32>, corners: &Self::Buffer<u32>, centres: &mut Self::Buffer<f32>, moments: &mut Self::Buffer<f32>) -> Result<()>;
        fn measure_covectors(kind: Simplex, vertices: &Self::Buffer<f32>, corners: &Self::Buffer<u32>, incidence: &Incidence<'_, Self>, by_centre: &Self::Buffer<f32>, by_moment: &Self::Buffer<f32>, out: &mut Self::Buffer<f32>) -> Result<()>;
    }
    impl Points {
        fn map_points(map: &AffineMap, points: &Self::Buffer<f32>, out: &mut Self::Buffer<f32>) -> Result<()>;
        fn map_covectors(map: &AffineMap, covectors: &Self::Buffer<f32>, out: &mut Self::Buffer<f32>) -> Result<()>;
        fn carry_points(carriage: &Carriage<'_, Self>, points: &Self::Buffer<f32>, out: &mut Self::Buffer<f32>) -> Result<()>;
        fn pull_back(carriage: &Carriage<'_, Self>, points: &Self::Buffer<f32>, covectors: &Self::Buffer<f32>, out: &mut Self::Buffer<f32>) -> Result<()>;
        fn push_points(carriage: &Carriage<'_, Self>, points: &Self::Buffer<f32>, covectors: &Self::Buffer<f32>, reach: &Self::Buffer<f32>, stiffness: &Self::Buffer<f32>, bounds: &[Bounds], out: &mut [&mut Self::Buffer<f32>]) -> Result<()>;
        fn pull_pairs(points: &Self::Buffer<f32>, to: &Self::Buffer<f32>, stiffness: &Self::Buffer<f32>, covectors: &mut Self::Buffer<f32>, add: bool, energy: &mut Self::Buffer<f64>) -> Result<()>;
        fn point_bounds(points: &Self::Buffer<f32>, out: &mut Self::Buffer<f64>) -> Result<()>;
    }
    impl Pairwise {
        fn pair_sums(kernel: &RadialKernel, targets: &Self::Buffer<f32>, sources: &Self::Buffer<f32>, weights: &Self::Buffer<f32>, out: &mut Self::Buffer<f32>) -> Result<()>;
        fn pair_sums_with_slopes(kernel: &RadialKernel, targets: &Self::Buffer<f32>, moments: &Self::Buffer<f32>, sources: &Self::Buffer<f32>, weights: &Self::Buffer<f32>, out: &mut Self::Buffer<f32>, slopes: &mut Self::Buffer<f32>) -> Result<()>;
    }
    impl Splat {
        fn splat(values: &Self::Buffer<f32>, positions: &Self::Buffer<f32>, of: Option<Dims>, lattice: Lattice, scheme: SplatScheme, out: &mut Self::Buffer<f32>) -> Result<()>;
        fn add_splat(values: &Self::Buffer<f32>, positions: &Self::Buffer<f32>, lattice: Lattice, out: &mut Self::Buffer<f32>) -> Result<()>;
        fn origins(field: &Self::Buffer<f32>, lattice: Lattice, positions: &Self::Buffer<f32>, out: &mut Self::Buffer<f32>) -> Result<()>;
        fn gather(image: &Self::Buffer<f32>, lattice: Lattice, positions: &Self::Buffer<f32>, of: Option<Dims>, out: &mut Self::Buffer<f32>) -> Result<()>;
        fn gather_with_slopes(image: &Self::Buffer<f32>, lattice: Lattice, positions: &Self::Buffer<f32>, of: Option<Dims>, moments: &Self::Buffer<f32>, out: &mut Self::Buffer<f32>, slopes: &mut Self::Buffer<f32>) -> Result<()>;
    }
    impl Histogram {
        {
            type Samples = AnySamples;

            fn batch(&self) -> usize {
                behind!(self, |device| device.batch())
            }

            fn group_samples(
                &self,
                values: &AnyBuffer<f32>,
                dims: Dims,
                weights: Option<&AnyBuffer<f32>>,
                options: &LayoutOptions,
            ) -> Result<AnySamples> {
                fn of<B: Backend>(
                    device: &B,
                    values: &AnyBuffer<f32>,
                    dims: Dims,
                    weights: Option<&AnyBuffer<f32>>,
                    options: &LayoutOptions,
                ) -> Result<B::Samples> {
                    let weights = weights.map(B::of).transpose()?;
                    device.group_samples(B::of(values)?, dims, weights, options)
                }
                Ok(match self {
                    Self::Cpu(device) => AnySamples::Cpu(of(device, values, dims, weights, options)?),
                    Self::Cuda(device) => AnySamples::Cuda(Box::new(of(device, values, dims, weights, options)?)),
                })
            }
        }
        fn value_counts(
            values: &Self::Buffer<f32>,
            weights: Option<&Self::Buffer<f32>>,
            low: f32,
            high: f32,
            bins: usize,
        ) -> Result<ValueCounts>;
        fn binned_sums(
            terms: Terms,
            scheme: Scheme,
            samples: &Self::Samples,
            moving: &MovingView<'_, Self>,
            maps: &[AffineMap],
        ) -> Result<Vec<Vec<f64>>>;
        fn binned_gradient(
            terms: Terms,
            scheme: Scheme,
            samples: &Self::Samples,
            moving: &MovingView<'_, Self>,
            maps: &[AffineMap],
            slopes: &(dyn Fn(usize, &[f64]) -> Vec<f64> + Sync),
        ) -> Result<Vec<SumsAndGradient>>;
        fn joint_histogram(
            scheme: JointScheme,
            samples: &Self::Samples,
            moving: &MovingView<'_, Self>,
            columns: &ParzenBins,
            maps: &[AffineMap],
        ) -> Result<Vec<Vec<f64>>>;
        fn joint_gradient(
            samples: &Self::Samples,
            moving: &MovingView<'_, Self>,
            columns: &ParzenBins,
            maps: &[AffineMap],
            tables: &[Vec<f64>],
        ) -> Result<Vec<[f64; 12]>>;
    }
}
