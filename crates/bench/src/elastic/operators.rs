//! Interpolation of an image and displacement of points, by the size of their grid (tables 5.1, 5.2 and 5.4).

use super::scene::{MM, MeshOn, body, grid, moving};
use super::sheets::{Measured, Row};
use super::{COARSER, OnDevice, PUBLISHED_SIZE, Plan, timed};
use crate::Size;
use voxalign_compute::Device;
use voxalign_compute::ops::resample::{Interpolation, grid_map};
use voxalign_compute::ops::tetrahedra::{Bins, Placed, Samples};
use voxalign_image::{Grid, Volume};
use voxalign_jobs::Result;
use voxalign_register::model::elastic::ElasticBody;

/// The operations that the thesis counts for a point, as its times and GFLOP/s say.
const INTERPOLATION: f64 = 43.0;
const DISPLACEMENT: f64 = 59.0;

/// A grid of table 5.1, with times, ms, and GFLOP/s by texture memory, without it, and on the CPU.
type Interpolated = ([usize; 3], [[f64; 2]; 3]);

const TABLE_1: [Interpolated; 3] = [
    ([64, 64, 25], [[0.15, 29.35], [0.49, 8.98], [47.0, 0.09]]),
    ([128, 128, 50], [[0.28, 125.80], [0.92, 38.28], [251.0, 0.14]]),
    ([256, 256, 50], [[0.52, 270.96], [1.68, 83.87], [547.0, 0.25]]),
];

/// The devices of table 5.1.
const ON: [&str; 3] = ["GTX 480, texture memory", "GTX 480", "Core i5, 1 thread"];

/// A grid of table 5.2, with times, ms, on the CPU and on the GPU.
const TABLE_2: [([usize; 3], [f64; 2]); 4] = [
    ([16, 16, 20], [2.0, 0.096]),
    ([32, 32, 40], [16.0, 0.18]),
    ([64, 64, 50], [78.0, 0.59]),
    ([128, 128, 50], [312.0, 2.15]),
];

/// The best block of table 5.4, for the largest of these grids: ms and GFLOP/s.
const TABLE_4: [f64; 2] = [1.63, 29.65];

/// The largest grid of tables 5.2 and 5.4.
pub(super) const LARGEST: [usize; 3] = [128, 128, 50];

/// A time as ms, and the GFLOP/s that it comes to.
fn rated(seconds: f64, operations: f64) -> [Option<f64>; 2] {
    [Some(seconds * 1e3), Some(operations / seconds * 1e-9)]
}

/// Groups rows by what they are of, in the order of these.
fn ordered(rows: Vec<Row>, order: impl Iterator<Item = String>) -> Vec<Row> {
    order
        .flat_map(|what| rows.iter().filter(move |r| r.what == what).cloned().collect::<Vec<_>>())
        .collect()
}

/// Table 5.1.
pub(super) fn interpolation(plan: &Plan<'_>) -> Result<Measured> {
    let image = moving(plan.size_or(PUBLISHED_SIZE))?;
    let title = format!("Trilinear interpolation of {} voxels (table 5.1)", Size(image.dims()));
    let spacing = COARSER * plan.spacing;
    let mut measured = OfImage {
        image: &image,
        body: &body(image.dims(), spacing)?,
        runs: plan.runs(),
        rows: Vec::new(),
    };
    plan.everywhere(&mut measured)?;
    let mut rows = measured.rows;
    for (dims, times) in TABLE_1 {
        for (on, [ms, rate]) in ON.iter().zip(times) {
            rows.push(Row::published(
                &Size(dims).to_string(),
                on,
                vec![Some(ms), Some(rate), None, None],
            ));
        }
    }
    Ok(Measured {
        part: "interpolation",
        title,
        of: "grid",
        quantities: vec!["regular ms", "regular GFLOP/s", "displaced ms", "displaced GFLOP/s"],
        rows: ordered(rows, TABLE_1.iter().map(|(dims, _)| Size(*dims).to_string())),
    })
}

/// Interpolation of an image.
struct OfImage<'a> {
    image: &'a Volume<f32>,
    body: &'a ElasticBody,
    runs: usize,
    rows: Vec<Row>,
}

impl OnDevice for OfImage<'_> {
    fn on<D: Device>(&mut self, device: &D, name: &str) -> Result<()> {
        let (from, linear) = (self.image.dims(), Interpolation::Linear);
        let source = device.upload(self.image.data())?;
        let mesh = MeshOn::new(device, self.body)?;
        let moved = device.upload(&mesh.displacements)?;
        for (dims, _) in TABLE_1 {
            let points = grid(dims)?;
            let map = grid_map(from, dims);
            let mut out = device.alloc(points.len())?;
            let regular = timed(device, self.runs, || {
                device.warp_affine(&source, from, &map, dims, linear, 0.0, &mut out)
            })?;
            // Displacements in voxels of the grid of points.
            let mut field = device.alloc(3 * points.len())?;
            let to_index = points.to_index().matrix;
            let units = [0, 1, 2].map(|r| [0, 1, 2].map(|c| to_index[(r, c)]));
            let samples = Samples::voxels(dims, mesh.map(&points));
            let placed = Placed { mesh: mesh.as_box(), samples, elements: None };
            device.field(&placed, &moved, &units, &mut field)?;
            let displaced = timed(device, self.runs, || {
                device.warp_field(&source, from, &map, &field, dims, linear, 0.0, &mut out)
            })?;
            let operations = INTERPOLATION * points.len() as f64;
            let values = [regular, displaced].map(|s| rated(s, operations)).concat();
            self.rows.push(Row::new(&Size(dims).to_string(), name, values));
        }
        Ok(())
    }
}

/// Tables 5.2 and 5.4.
pub(super) fn displacement(plan: &Plan<'_>) -> Result<Measured> {
    let body = body(LARGEST, COARSER * plan.spacing)?;
    let mesh = body.finest().body.mesh();
    let title = format!(
        "Displacement of grid points by {} tetrahedra with {} vertices (tables 5.2 and 5.4)",
        mesh.tetrahedra().len(),
        mesh.vertices().len()
    );
    let mut measured = OfMesh { body: &body, runs: plan.runs(), rows: Vec::new() };
    plan.everywhere(&mut measured)?;
    let mut rows = measured.rows;
    let printed = |ms: f64, rate: Option<f64>| vec![None, None, Some(ms), rate, None];
    for (dims, [cpu, gpu]) in TABLE_2 {
        let size = Size(dims).to_string();
        rows.push(Row::published(&size, "GTX 480", printed(gpu, None)));
        if dims == LARGEST {
            let [ms, rate] = TABLE_4;
            rows.push(Row::published(&size, "GTX 480, best block", printed(ms, Some(rate))));
        }
        rows.push(Row::published(&size, "Core i5, 1 thread", printed(cpu, None)));
    }
    Ok(Measured {
        part: "displacement",
        title,
        of: "grid",
        quantities: vec!["box ms", "box GFLOP/s", "any mesh ms", "any mesh GFLOP/s", "locating ms"],
        rows: ordered(rows, TABLE_2.iter().map(|(dims, _)| Size(*dims).to_string())),
    })
}

/// Displacement by a mesh.
struct OfMesh<'a> {
    body: &'a ElasticBody,
    runs: usize,
    rows: Vec<Row>,
}

impl OfMesh<'_> {
    /// Values of a row: in the box, in any mesh, and the location there.
    fn values<D: Device>(
        &self,
        device: &D,
        mesh: &MeshOn<D>,
        points: &Grid,
    ) -> Result<Vec<Option<f64>>> {
        let (runs, operations) = (self.runs, DISPLACEMENT * points.len() as f64);
        let u = device.upload(&mesh.displacements)?;
        let mut out = device.alloc(3 * points.len())?;
        let samples = || Samples::voxels(points.dims(), mesh.map(points));
        let placed = Placed { mesh: mesh.as_box(), samples: samples(), elements: None };
        let in_box = timed(device, runs, || device.field(&placed, &u, &MM, &mut out))?;
        let any = mesh.as_any();
        let bins = Bins::new(device, &any, mesh.bins())?;
        let mut elements = device.alloc(points.len())?;
        let locating = timed(device, runs, || {
            device.locate(&any, &samples(), Some(bins.lists()), None, &mut elements)
        })?;
        let placed = Placed { mesh: any, samples: samples(), elements: Some(&elements) };
        let in_any = timed(device, runs, || device.to_samples(&placed, &u, &mut out))?;
        let mut values = [in_box, in_any].map(|s| rated(s, operations)).concat();
        values.push(Some(locating * 1e3));
        Ok(values)
    }
}

impl OnDevice for OfMesh<'_> {
    fn on<D: Device>(&mut self, device: &D, name: &str) -> Result<()> {
        let mesh = MeshOn::new(device, self.body)?;
        for (dims, _) in TABLE_2 {
            let values = self.values(device, &mesh, &grid(dims)?)?;
            self.rows.push(Row::new(&Size(dims).to_string(), name, values));
        }
        Ok(())
    }
}
