//! Operators over many images with every model (Ha 2011, table 4.1).

use super::Watch;
use crate::Host;
use serde::Serialize;
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::select::AnyDevice;
use voxalign_compute::{HostBuffer, Transfer};
use voxalign_image::Grid;
use voxalign_jobs::Result;
use voxalign_jobs::check;
use voxalign_population::stream::operators::{
    Energy, Extreme, Mean, Normalise, Numbers, Smooth, Target,
};
use voxalign_population::stream::{
    Mapping, Model, Order, Resident, ResidentSink, Sink, Source, StreamOptions, Trace, mimo, miso,
};

/// Pieces of memory that represent all images.
const PIECES: usize = 4;
/// Values are within this.
pub(super) const BOUND: f64 = 1024.0;
/// The Gaussian, mm and voxels.
const SIGMA: f64 = 2.0;

/// The times of an operator, seconds of all images.
#[derive(Debug, Serialize)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// Each stage, one after the other.
    pub(super) stages: Vec<(String, f64)>,
    /// The whole, by model.
    pub(super) models: Vec<(String, f64)>,
}

/// The functions of the table.
pub(super) const NAMES: [&str; 6] =
    ["max", "energy", "average", "normalise", "normalise, on the host", "Gaussian"];

/// Streams one of the functions.
pub(super) fn once(
    (device, host): (&AnyDevice, &dyn Host),
    name: &str,
    source: &dyn Source,
    sink: &dyn Sink,
    reference: &[f32],
    options: &StreamOptions,
) -> Result<Trace> {
    check(host)?;
    let target = Target::Range(0.0, 1.0);
    let each = |numbers| {
        let operator = Normalise { target, numbers };
        mimo(device, source, &operator, sink, options, &Watch(host)).map(|s| s.trace)
    };
    Ok(match name {
        "max" => miso(device, source, &Extreme::Max, options, &Watch(host))?.trace,
        "energy" => {
            let operator = Energy { reference: Some(reference) };
            miso(device, source, &operator, options, &Watch(host))?.trace
        }
        "average" => miso(device, source, &Mean::new(&[], BOUND)?, options, &Watch(host))?.trace,
        "normalise" => each(Numbers::OnDevice)?,
        "normalise, on the host" => each(Numbers::OnHost)?,
        _ => {
            let operator = Smooth { sigma: SIGMA, method: GaussianMethod::Recursive };
            mimo(device, source, &operator, sink, options, &Watch(host))?.trace
        }
    })
}

fn all(
    on: (&AnyDevice, &dyn Host),
    source: &dyn Source,
    sink: &dyn Sink,
    reference: &[f32],
    models: &[(&str, Model)],
    options: StreamOptions,
) -> Result<Vec<Function>> {
    let letters = [("upload", "U"), ("execute", "E"), ("download", "D")];
    let run = |name: &str, model| {
        let options = StreamOptions { model: Some(model), ..options };
        once(on, name, source, sink, reference, &options)
    };
    let mut found = Vec::new();
    for name in NAMES {
        // The first time compiles kernels and touches memory.
        run(name, Model::Synchronous)?;
        let alone = run(name, Model::Synchronous)?;
        let busy = |letter: &str| {
            let stages = alone.stages.iter().enumerate();
            let of = stages.filter(|(_, s)| letters.contains(&(s.name.as_str(), letter)));
            of.map(|(i, _)| alone.busy(i)).fold(0.0, |a, s| a + s)
        };
        let mut times = vec![("synchronous".to_owned(), alone.wall())];
        for (label, model) in models {
            times.push(((*label).to_owned(), run(name, *model)?.wall()));
        }
        let stages = letters.iter().map(|l| (l.1.to_owned(), busy(l.1))).collect();
        found.push(Function { name, stages, models: times });
    }
    Ok(found)
}

/// Values that differ from voxel to voxel.
fn fill(image: &mut [f32], seed: usize) {
    for (i, v) in image.iter_mut().enumerate() {
        *v = ((i + 977 * seed).wrapping_mul(2_654_435_761) % 1009) as f32;
    }
}

fn pieces(device: &AnyDevice, n: usize) -> Result<Vec<HostBuffer<f32>>> {
    Ok((0..PIECES)
        .map(|_| device.host_alloc(n))
        .collect::<Result<_, voxalign_compute::ComputeError>>()?)
}

/// Between host and device.
pub(super) fn in_memory(
    on: (&AnyDevice, &dyn Host),
    dims: [usize; 3],
    images: usize,
) -> Result<Vec<Function>> {
    let device = on.0;
    let grid = Grid::axis_aligned(dims, [1.0; 3])?;
    let n = grid.len();
    let mut buffers = pieces(device, n)?;
    buffers.iter_mut().enumerate().for_each(|(i, b)| fill(b, i));
    let reference = buffers[0].to_vec();
    let source = Resident::new(buffers, grid, images, BOUND)?;
    let sink = ResidentSink::new(pieces(device, n)?);
    let models = [
        ("implicit", Model::Implicit { streams: None }),
        ("hardware-aware", Model::HardwareAware(Mapping::U_ED)),
        ("hardware-independent", Model::HardwareIndependent(Order::UED)),
    ];
    all(on, &source, &sink, &reference, &models, StreamOptions::default())
}
