//! Errors of sums on a grid over the kernel width in grid spacings (figure 3.4).

use super::shapes::{Masses, folded, random};
use serde::Serialize;
use voxalign_compute::ops::pairwise::{KernelShape, RadialKernel};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::simplices::Element;
use voxalign_compute::select::AnyDevice;
use voxalign_compute::{DeviceBuffer, Memory, ops::*};
use voxalign_jobs::Result;
use voxalign_register::attachment::currents::{Elements, MeshGrid, ParticleMesh, Shape};

/// Errors at a width, relative to the exact values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ErrorPoint {
    pub(super) kernel: &'static str,
    /// Of what: the norm of random points, the norm of a surface, the distance of two.
    pub(super) what: &'static str,
    /// The width of the kernel over the spacing.
    pub(super) spacings: f64,
    pub(super) value: f64,
    /// Of the derivative in the places of points, root mean square.
    pub(super) gradient: f64,
}

/// The width of the kernel, mm.
const WIDTH: f64 = 12.0;

/// The name of a kernel.
pub(super) fn name(shape: KernelShape) -> &'static str {
    match shape {
        KernelShape::Gaussian => "gaussian",
        KernelShape::Cauchy => "cauchy",
    }
}

/// Errors of all masses for these widths over spacing.
pub(super) fn measure(
    device: &AnyDevice,
    elements: usize,
    spacings: &[f64],
    check: &dyn Fn() -> Result<()>,
) -> Result<Vec<ErrorPoint>> {
    let (a, b) = (folded(elements, 0.0)?, folded(elements * 4 / 5, 0.7)?);
    let (a, b) = (of_shape(device, &a)?, of_shape(device, &b)?);
    let scenes = [
        ("random points", random(elements, 100.0), elements),
        ("surface", joined(&a, None), a.points.len() / 3),
        ("distance of surfaces", joined(&a, Some(&b)), a.points.len() / 3),
    ];
    let mut found = Vec::new();
    for shape in [KernelShape::Gaussian, KernelShape::Cauchy] {
        let kernel = RadialKernel { shape, width: WIDTH };
        for (what, masses, count) in &scenes {
            let exact = exact(device, &kernel, masses)?;
            for &n in spacings {
                check()?;
                let near = on_grid(device, &kernel, masses, WIDTH / n)?;
                let [value, gradient] = near.off(&exact, *count);
                let kernel = name(shape);
                found.push(ErrorPoint { kernel, what, spacings: n, value, gradient });
            }
        }
    }
    Ok(found)
}

/// A sum over all pairs, and its derivative in the places.
struct Summed {
    value: f64,
    derivatives: Vec<f32>,
}

impl Summed {
    /// The error relative to the exact value; for the derivative at the first points only.
    fn off(&self, exact: &Self, count: usize) -> [f64; 2] {
        let n = self.derivatives.len() / 3;
        let (mut off, mut size) = (0.0, 0.0);
        for (k, (a, b)) in self.derivatives.iter().zip(&exact.derivatives).enumerate() {
            if k % n.max(1) < count {
                off += f64::from(a - b).powi(2);
                size += f64::from(*b).powi(2);
            }
        }
        [(self.value - exact.value).abs() / exact.value, (off / size).sqrt()]
    }
}

/// Elements as points with moments.
fn of_shape(device: &AnyDevice, shape: &Shape) -> Result<Masses> {
    let n = shape.len();
    let corners: &[u32] = match shape.elements() {
        Elements::Simplices(_, corners) => corners,
        Elements::Points(_) => &[],
    };
    let list: Vec<f32> =
        (0..3).flat_map(|a| shape.vertices().iter().map(move |v| v[a] as f32)).collect();
    let (mut centres, mut moments) = (device.alloc(3 * n)?, device.alloc(3 * n)?);
    let (vertices, corners) = (device.upload(&list)?, device.upload(corners)?);
    device.measures(Element::Triangle, &vertices, &corners, &mut centres, &mut moments)?;
    Ok(Masses { points: device.into_host(centres)?, moments: device.into_host(moments)? })
}

/// One shape, and another one that is taken from it.
fn joined(a: &Masses, b: Option<&Masses>) -> Masses {
    let both = |a: &[f32], b: Option<&[f32]>, sign: f32| -> Vec<f32> {
        let n = a.len() / 3;
        let mut list = Vec::with_capacity(a.len() + b.map_or(0, <[f32]>::len));
        for k in 0..3 {
            list.extend_from_slice(&a[k * n..][..n]);
            if let Some(b) = b {
                let m = b.len() / 3;
                list.extend(b[k * m..][..m].iter().map(|v| sign * v));
            }
        }
        list
    };
    Masses {
        points: both(&a.points, b.map(|b| &b.points[..]), 1.0),
        moments: both(&a.moments, b.map(|b| &b.moments[..]), -1.0),
    }
}

fn exact(device: &AnyDevice, kernel: &RadialKernel, masses: &Masses) -> Result<Summed> {
    let (points, moments) = (device.upload(&masses.points)?, device.upload(&masses.moments)?);
    let (mut out, mut derivatives) = (device.alloc(points.len())?, device.alloc(points.len())?);
    device.pair_sums_with_derivatives(
        kernel,
        &points,
        &moments,
        &points,
        &moments,
        &mut out,
        &mut derivatives,
    )?;
    let value = device.reduce(&[&moments, &out], &[Reduction::Dot(0, 1)])?;
    let value = value.first().copied().unwrap_or(f64::NAN);
    Ok(Summed { value, derivatives: device.into_host(derivatives)? })
}

fn on_grid(
    device: &AnyDevice,
    kernel: &RadialKernel,
    masses: &Masses,
    spacing: f64,
) -> Result<Summed> {
    let points = device.upload(&masses.points)?;
    let mut bounds = device.alloc(7)?;
    device.point_bounds(&points, &mut bounds)?;
    let ends = device.into_host(bounds)?;
    let end = |first: usize| [0, 1, 2].map(|a| ends[first + a]);
    let grid = MeshGrid::of_any_width([end(1), end(4)], kernel, spacing)?;
    let mut mesh = ParticleMesh::new(device, grid, kernel, 3)?;
    let in_voxels: Vec<f32> =
        masses.points.iter().map(|v| (f64::from(*v) / spacing) as f32).collect();
    let (points, moments) = (device.upload_vec(in_voxels)?, device.upload(&masses.moments)?);
    let mut splatted = mesh.room(device)?;
    mesh.splat(device, &points, &moments, &mut splatted)?;
    let convolved = mesh.convolve(device, &splatted)?;
    let value = device.reduce(&[&splatted, convolved], &[Reduction::Dot(0, 1)])?;
    let value = value.first().copied().unwrap_or(f64::NAN);
    let (mut out, mut derivatives) = (device.alloc(points.len())?, device.alloc(points.len())?);
    mesh.gather(device, &points, &moments, &mut out, &mut derivatives)?;
    let per_mm = (1.0 / spacing) as f32;
    let derivatives = device.into_host(derivatives)?.iter().map(|v| v * per_mm).collect();
    Ok(Summed { value, derivatives })
}
