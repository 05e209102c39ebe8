//! The displacement of points with its transfers, by kind of host memory (figure 5.3).

use super::operators::LARGEST;
use super::scene::{MM, MeshOn, body, grid};
use super::sheets::{Measured, Row};
use super::{COARSER, OnDevice, Plan, median};
use std::time::Instant;
use voxalign_compute::ops::tetrahedra::{Placed, Samples};
use voxalign_compute::{Device, HostBuffer};
use voxalign_image::memory;
use voxalign_jobs::Result;
use voxalign_register::model::elastic::ElasticBody;

/// What the thesis says of its kinds of memory, ms in all.
const PUBLISHED: [(&str, f64); 2] = [("pageable", 19.32), ("write-combined", 10.43)];

/// Figure 5.3.
pub(super) fn measure(plan: &Plan<'_>) -> Result<Measured> {
    let body = body(LARGEST, COARSER * plan.spacing)?;
    let points = grid(LARGEST)?.len();
    let mut measured = Transfers {
        body: &body,
        runs: plan.runs(),
        gpu: plan.machine.gpu().is_some(),
        rows: Vec::new(),
    };
    plan.everywhere(&mut measured)?;
    let mut rows = measured.rows;
    for (kind, ms) in PUBLISHED {
        rows.push(Row::published(kind, "GTX 480", vec![None, None, None, Some(ms)]));
    }
    Ok(Measured {
        part: "memory",
        title: format!("Displacement of {points} points with transfers (figure 5.3)"),
        of: "memory",
        quantities: vec!["send ms", "kernel ms", "fetch ms", "total ms"],
        rows,
    })
}

/// Transfers with a kernel between them.
struct Transfers<'a> {
    body: &'a ElasticBody,
    runs: usize,
    /// Whether the next device is a GPU.
    gpu: bool,
    rows: Vec<Row>,
}

/// Medians of the three parts and of their sum, ms, of so many runs after one that does not count.
fn medians(
    runs: usize,
    mut run: impl FnMut() -> Result<[f64; 3], voxalign_compute::ComputeError>,
) -> Result<Vec<Option<f64>>> {
    run()?;
    let mut all = Vec::new();
    for _ in 0..runs {
        let [send, kernel, fetch] = run()?;
        all.push([send, kernel, fetch, send + kernel + fetch]);
    }
    Ok((0..4).map(|k| Some(1e3 * median(all.iter().map(|t| t[k]).collect()))).collect())
}

impl OnDevice for Transfers<'_> {
    fn on<D: Device>(&mut self, device: &D, name: &str) -> Result<()> {
        let is_gpu = std::mem::take(&mut self.gpu);
        let points = grid(LARGEST)?;
        let mesh = MeshOn::new(device, self.body)?;
        let samples = Samples::voxels(points.dims(), mesh.map(&points));
        let placed = Placed { mesh: mesh.as_box(), samples, elements: None };
        let mut u = device.alloc(3 * mesh.vertices)?;
        let mut field = device.alloc(3 * points.len())?;
        let mut fetched: Vec<f32> = memory::zeroed(3 * points.len())?;
        let values = medians(self.runs, || {
            let start = Instant::now();
            device.upload_into(&mut u, &mesh.displacements)?;
            device.synchronize()?;
            let sent = start.elapsed().as_secs_f64();
            device.field(&placed, &u, &MM, &mut field)?;
            device.synchronize()?;
            let done = start.elapsed().as_secs_f64();
            device.download_into(&field, &mut fetched)?;
            Ok([sent, done - sent, start.elapsed().as_secs_f64() - done])
        })?;
        self.rows.push(Row::new(if is_gpu { "pageable" } else { "copied" }, name, values));
        drop(fetched);

        let mut from: HostBuffer<f32> = device.host_alloc(u_len(&mesh))?;
        from.copy_from_slice(&mesh.displacements);
        let mut to: HostBuffer<f32> = device.host_alloc(3 * points.len())?;
        let values = medians(self.runs, || {
            let start = Instant::now();
            if is_gpu {
                device.upload_from(&from, &mut u)?;
            } else {
                device.hand_over(&mut from, &mut u)?;
            }
            let sent = start.elapsed().as_secs_f64();
            device.field(&placed, &u, &MM, &mut field)?;
            device.synchronize()?;
            let done = start.elapsed().as_secs_f64();
            if is_gpu {
                device.download_to(&field, &mut to)?;
            } else {
                device.hand_back(&mut field, &mut to)?;
            }
            Ok([sent, done - sent, start.elapsed().as_secs_f64() - done])
        })?;
        self.rows.push(Row::new(if is_gpu { "page-locked" } else { "handed over" }, name, values));
        Ok(())
    }
}

fn u_len<D: Device>(mesh: &MeshOn<D>) -> usize {
    3 * mesh.vertices
}
