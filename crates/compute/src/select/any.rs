//! A device of whatever backend was chosen is a device itself: each call is forwarded to the one behind it. So
//! algorithms are compiled once, for [`AnyDevice`], and not for each backend.

use super::AnyDevice;
use crate::comm::{DeviceSums, HostSums};
use crate::cpu::{Cpu, CpuBuffer, CpuSamples};
use crate::cuda::{Cuda, CudaBuffer, CudaSamples};
use crate::device::{Device, DeviceBuffer, Element, Memory, MemoryInfo, Transfer};
use crate::error::{ComputeError, Result};
use crate::host::{HostBuffer, Queue};
use crate::ops::elastic::ElasticOperator;
use crate::ops::elementwise::Expr;
use crate::ops::filter::GaussianMethod;
use crate::ops::flow::{Inversion, Inverted, Limit, Step};
use crate::ops::histogram::{
    Binning, JointMethod, JointScheme, LayoutOptions, MovingView, ParzenBins, SampleSet, Scheme,
    SchemeSettings, Schemes, SumsAndGradient, Terms, ValueCounts,
};
use crate::ops::reduce::Reduction;
use crate::ops::resample::{Interpolation, LabelInterpolation};
use crate::ops::sort::{KeyRange, SortKey};
use crate::ops::{
    Accumulate, Elastic, Elementwise, Filter, Flow, Fourier, Histogram, Reduce, Resample,
    Similarity, Sort, Stencil,
};
use crate::{AffineMap, Dims};

/// A buffer of an [`AnyDevice`].
#[derive(Debug)]
pub enum AnyBuffer<T: Element> {
    /// On the CPU.
    Cpu(CpuBuffer<T>),
    /// On a GPU.
    Cuda(CudaBuffer<T>),
}

impl<T: Element> DeviceBuffer<T> for AnyBuffer<T> {
    fn len(&self) -> usize {
        match self {
            Self::Cpu(buffer) => buffer.len(),
            Self::Cuda(buffer) => buffer.len(),
        }
    }
}

/// The samples of an [`AnyDevice`].
#[derive(Debug)]
pub enum AnySamples {
    /// On the CPU.
    Cpu(CpuSamples),
    /// On a GPU.
    Cuda(Box<CudaSamples>),
}

impl AnySamples {
    fn behind(&self) -> &dyn SampleSet {
        match self {
            Self::Cpu(samples) => samples,
            Self::Cuda(samples) => &**samples,
        }
    }
}

impl SampleSet for AnySamples {
    fn len(&self) -> usize {
        self.behind().len()
    }

    fn bins(&self) -> usize {
        self.behind().bins()
    }

    fn total_weight(&self) -> f64 {
        self.behind().total_weight()
    }
}

/// The error of a buffer that another backend made.
fn foreign() -> ComputeError {
    ComputeError::argument("a buffer", "of another device", "one that this device made")
}

/// A backend as what is behind an [`AnyDevice`].
trait Backend: Device + Schemes {
    fn device(device: &AnyDevice) -> Result<&Self>;
    fn wrapped(self) -> AnyDevice;
    fn own<T: Element>(buffer: AnyBuffer<T>) -> Result<Self::Buffer<T>>;
    fn of<T: Element>(buffer: &AnyBuffer<T>) -> Result<&Self::Buffer<T>>;
    fn of_mut<T: Element>(buffer: &mut AnyBuffer<T>) -> Result<&mut Self::Buffer<T>>;
    fn samples(samples: &AnySamples) -> Result<&Self::Samples>;
}

macro_rules! backend {
    ($backend:ident) => {
        impl Backend for $backend {
            fn device(device: &AnyDevice) -> Result<&Self> {
                match device {
                    AnyDevice::$backend(device) => Ok(device),
                    _ => Err(foreign()),
                }
            }

            fn wrapped(self) -> AnyDevice {
                AnyDevice::$backend(self)
            }

            fn own<T: Element>(buffer: AnyBuffer<T>) -> Result<Self::Buffer<T>> {
                match buffer {
                    AnyBuffer::$backend(buffer) => Ok(buffer),
                    _ => Err(foreign()),
                }
            }

            fn of<T: Element>(buffer: &AnyBuffer<T>) -> Result<&Self::Buffer<T>> {
                match buffer {
                    AnyBuffer::$backend(buffer) => Ok(buffer),
                    _ => Err(foreign()),
                }
            }

            fn of_mut<T: Element>(buffer: &mut AnyBuffer<T>) -> Result<&mut Self::Buffer<T>> {
                match buffer {
                    AnyBuffer::$backend(buffer) => Ok(buffer),
                    _ => Err(foreign()),
                }
            }

            fn samples(samples: &AnySamples) -> Result<&Self::Samples> {
                match samples {
                    AnySamples::$backend(samples) => Ok(samples),
                    _ => Err(foreign()),
                }
            }
        }
    };
}
backend!(Cpu);
backend!(Cuda);

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
    Dims; [f64; 3];
    Interpolation; LabelInterpolation; GaussianMethod; Inversion; Terms; Scheme; JointScheme;
    &'a AffineMap => ['a];
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
    [] &'a AnySamples => &'a B::Samples, &'a B::Samples:
        |samples| B::samples(samples), |held| held;
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
                Some(Limit { largest, index, step }) => {
                    Some(Limit { largest: B::of(largest)?, index: *index, step: *step })
                }
            },
        }), |held| held;
}

/// Evaluates an expression with the device behind; it is compiled for each backend.
macro_rules! behind {
    ($any:expr, |$device:ident: $backend:ident| $body:expr) => {
        match $any {
            AnyDevice::Cpu($device) => {
                type $backend = Cpu;
                $body
            }
            AnyDevice::Cuda($device) => {
                type $backend = Cuda;
                $body
            }
        }
    };
    ($any:expr, |$device:ident| $body:expr) => {
        match $any {
            AnyDevice::Cpu($device) => $body,
            AnyDevice::Cuda($device) => $body,
        }
    };
    ($any:expr, |$device:ident| $body:expr, as $kind:ident) => {
        match $any {
            AnyDevice::Cpu($device) => $kind::Cpu($body),
            AnyDevice::Cuda($device) => $kind::Cuda($body),
        }
    };
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

impl Memory for AnyDevice {
    type Buffer<T: Element> = AnyBuffer<T>;

    fn name(&self) -> String {
        behind!(self, |device| device.name())
    }

    fn alloc<T: Element>(&self, len: usize) -> Result<AnyBuffer<T>> {
        Ok(behind!(self, |device| device.alloc(len)?, as AnyBuffer))
    }

    fn upload<T: Element>(&self, data: &[T]) -> Result<AnyBuffer<T>> {
        Ok(behind!(self, |device| device.upload(data)?, as AnyBuffer))
    }

    fn upload_vec<T: Element>(&self, data: Vec<T>) -> Result<AnyBuffer<T>> {
        Ok(behind!(self, |device| device.upload_vec(data)?, as AnyBuffer))
    }

    fn download<T: Element>(&self, buffer: &AnyBuffer<T>) -> Result<Vec<T>> {
        behind!(self, |device: B| device.download(B::of(buffer)?))
    }

    fn download_into<T: Element>(&self, buffer: &AnyBuffer<T>, out: &mut [T]) -> Result<()> {
        behind!(self, |device: B| device.download_into(B::of(buffer)?, out))
    }

    fn into_host<T: Element>(&self, buffer: AnyBuffer<T>) -> Result<Vec<T>> {
        behind!(self, |device: B| device.into_host(B::own(buffer)?))
    }

    fn copy<T: Element>(&self, from: &AnyBuffer<T>, to: &mut AnyBuffer<T>) -> Result<()> {
        behind!(self, |device: B| device.copy(B::of(from)?, B::of_mut(to)?))
    }

    fn upload_into<T: Element>(&self, buffer: &mut AnyBuffer<T>, data: &[T]) -> Result<()> {
        behind!(self, |device: B| device.upload_into(B::of_mut(buffer)?, data))
    }

    fn sums(devices: &[Self]) -> Box<dyn DeviceSums<Self>> {
        fn of<B: Backend>(devices: &[AnyDevice]) -> Option<Box<dyn DeviceSums<AnyDevice>>> {
            let own: Result<Vec<B>> = devices.iter().map(|d| B::device(d).cloned()).collect();
            Some(Box::new(SumsBehind(B::sums(&own.ok()?))))
        }
        match devices.first() {
            Some(Self::Cpu(_)) => of::<Cpu>(devices),
            Some(Self::Cuda(_)) => of::<Cuda>(devices),
            None => None,
        }
        .unwrap_or_else(|| Box::new(HostSums::because("devices of several kinds")))
    }

    fn synchronize(&self) -> Result<()> {
        behind!(self, |device| device.synchronize())
    }

    fn memory(&self) -> MemoryInfo {
        behind!(self, |device| device.memory())
    }

    fn seconds(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
        behind!(self, |device| device.seconds(f))
    }
}

impl Transfer for AnyDevice {
    fn host_alloc<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        behind!(self, |device| device.host_alloc(len))
    }

    fn upload_from<T: Element>(&self, from: &HostBuffer<T>, to: &mut AnyBuffer<T>) -> Result<()> {
        behind!(self, |device: B| device.upload_from(from, B::of_mut(to)?))
    }

    fn download_to<T: Element>(&self, from: &AnyBuffer<T>, to: &mut HostBuffer<T>) -> Result<()> {
        behind!(self, |device: B| device.download_to(B::of(from)?, to))
    }

    fn hand_over<T: Element>(&self, from: &mut HostBuffer<T>, to: &mut AnyBuffer<T>) -> Result<()> {
        behind!(self, |device: B| device.hand_over(from, B::of_mut(to)?))
    }

    fn hand_back<T: Element>(&self, from: &mut AnyBuffer<T>, to: &mut HostBuffer<T>) -> Result<()> {
        behind!(self, |device: B| device.hand_back(B::of_mut(from)?, to))
    }

    fn queue(&self) -> Result<Queue<Self>> {
        behind!(self, |device: B| Ok(device.queue()?.turned(B::wrapped)))
    }

    fn lasting_queue(&self) -> Result<Queue<Self>> {
        behind!(self, |device: B| Ok(device.lasting_queue()?.turned(B::wrapped)))
    }

    fn begin_turn(&self, base: &Self) -> Result<()> {
        behind!(self, |device: B| device.begin_turn(B::device(base)?))
    }

    fn end_turn(&self) -> Result<()> {
        behind!(self, |device| device.end_turn())
    }
}

impl Device for AnyDevice {}

/// Sums over the devices behind.
struct SumsBehind<B: Backend>(Box<dyn DeviceSums<B>>);

impl<B: Backend> DeviceSums<AnyDevice> for SumsBehind<B> {
    fn name(&self) -> String {
        self.0.name()
    }

    fn all_reduce_sum(
        &self,
        devices: &[AnyDevice],
        buffers: &mut [&mut AnyBuffer<i64>],
    ) -> Result<()> {
        let devices: Vec<B> =
            devices.iter().map(|d| B::device(d).cloned()).collect::<Result<_>>()?;
        let buffers = buffers.iter_mut().map(|b| B::of_mut(b));
        self.0.all_reduce_sum(&devices, &mut buffers.collect::<Result<Vec<_>>>()?)
    }
}
