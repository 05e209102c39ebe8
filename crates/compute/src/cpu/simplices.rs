//! Elements of meshes on the CPU.

use super::{Cpu, CpuBuffer};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Simplices;
use crate::ops::simplices::{Element, Incidence, check, check_covectors};

pub(super) type Vector = [f64; 3];

/// The elements, or vertices, of a task.
const TASK: usize = 2048;

#[inline]
pub(super) fn vector(list: &[f32], n: usize, i: usize) -> Vector {
    [0, 1, 2].map(|a| f64::from(list[a * n + i]))
}

#[inline]
pub(super) fn minus(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

#[inline]
pub(super) fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

#[inline]
pub(super) fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// The tangent or normal of an element with these corners.
#[inline]
fn direction(x: &[Vector]) -> Vector {
    match *x {
        [a, b, c] => cross(minus(b, a), minus(c, a)).map(|v| 0.5 * v),
        [a, b] => minus(b, a),
        _ => [0.0; 3],
    }
}

const ROOT: f64 = std::f64::consts::SQRT_2;

/// The moment of a direction: six numbers, of which oriented elements have three.
#[inline]
fn moment(kind: Element, d: Vector) -> [f64; 6] {
    let [x, y, z] = d;
    if kind.is_oriented() {
        return [x, y, z, 0.0, 0.0, 0.0];
    }
    let size = dot(d, d).sqrt();
    let r = if size > 0.0 { 1.0 / size } else { 0.0 };
    [x * x * r, y * y * r, z * z * r, ROOT * x * y * r, ROOT * x * z * r, ROOT * y * z * r]
}

/// The derivative in the direction, given that in the moment.
#[inline]
fn by_direction(kind: Element, d: Vector, m: [f64; 6]) -> Vector {
    if kind.is_oriented() {
        return [m[0], m[1], m[2]];
    }
    let size = dot(d, d).sqrt();
    if size <= 0.0 {
        return [0.0; 3];
    }
    let [xy, xz, yz] = [m[3] / ROOT, m[4] / ROOT, m[5] / ROOT];
    let [x, y, z] = d;
    let along =
        [m[0] * x + xy * y + xz * z, xy * x + m[1] * y + yz * z, xz * x + yz * y + m[2] * z];
    let quadratic = dot(d, along) / (size * size);
    [0, 1, 2].map(|a| (2.0 * along[a] - quadratic * d[a]) / size)
}

/// The derivative in one corner, given that in the direction.
#[inline]
fn by_corner(x: &[Vector], corner: usize, g: Vector) -> Vector {
    match *x {
        [a, b, c] => {
            let (s, t) = (cross(minus(c, a), g), cross(g, minus(b, a)));
            match corner {
                1 => s.map(|v| 0.5 * v),
                2 => t.map(|v| 0.5 * v),
                _ => [0, 1, 2].map(|k| -0.5 * (s[k] + t[k])),
            }
        }
        _ if corner == 0 => g.map(|v| -v),
        _ => g,
    }
}

/// The corners of an element.
#[inline]
fn corners_of(
    kind: Element,
    (vertices, points): (&[f32], usize),
    (corners, elements): (&[u32], usize),
    i: usize,
) -> [Vector; 3] {
    let mut x = [[0.0; 3]; 3];
    for (k, x) in x.iter_mut().enumerate().take(kind.corners()) {
        *x = vector(vertices, points, (corners[k * elements + i] as usize).min(points - 1));
    }
    x
}

impl Simplices for Cpu {
    fn measures(
        &self,
        kind: Element,
        vertices: &CpuBuffer<f32>,
        corners: &CpuBuffer<u32>,
        centres: &mut CpuBuffer<f32>,
        moments: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = [vertices.len(), corners.len(), centres.len(), moments.len()];
        let (points, elements) = check(kind, lengths)?;
        let (vertices, corners) = (vertices.as_slice(), corners.as_slice());
        let n = kind.corners();
        let found = self.collect(elements.div_ceil(TASK), |task| {
            let of_element = |i: usize| {
                let x = corners_of(kind, (vertices, points), (corners, elements), i);
                let sum = |a: usize| x[..n].iter().fold(0.0, |s, x| s + x[a]);
                ([0, 1, 2].map(|a| sum(a) / n as f64), moment(kind, direction(&x[..n])))
            };
            (task * TASK..elements.min((task + 1) * TASK)).map(of_element).collect::<Vec<_>>()
        });
        let (centres, moments) = (centres.as_mut_slice(), moments.as_mut_slice());
        for (i, (centre, moment)) in found.into_iter().flatten().enumerate() {
            for a in 0..3 {
                centres[a * elements + i] = centre[a] as f32;
            }
            for c in 0..kind.components() {
                moments[c * elements + i] = moment[c] as f32;
            }
        }
        Ok(())
    }

    fn measure_covectors(
        &self,
        kind: Element,
        vertices: &CpuBuffer<f32>,
        corners: &CpuBuffer<u32>,
        incidence: &Incidence<'_, Self>,
        by_centre: &CpuBuffer<f32>,
        by_moment: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = [vertices.len(), corners.len(), by_centre.len(), by_moment.len()];
        let (points, elements) = check_covectors(kind, lengths, incidence, out.len())?;
        let (vertices, corners) = (vertices.as_slice(), corners.as_slice());
        let (starts, lists) = (incidence.starts.as_slice(), incidence.corners.as_slice());
        let (by_centre, by_moment) = (by_centre.as_slice(), by_moment.as_slice());
        let n = kind.corners();
        self.chunks_mut_3(out.as_mut_slice(), TASK, |task, out| {
            let [out_x, out_y, out_z] = out;
            for k in 0..out_x.len() {
                let v = task * TASK + k;
                let mut sum = [0.0; 3];
                let range = starts[v] as usize..starts[v + 1] as usize;
                for &place in lists.get(range).unwrap_or_default() {
                    let (corner, i) = (place as usize / elements, place as usize % elements);
                    let x = corners_of(kind, (vertices, points), (corners, elements), i);
                    let mut m = [0.0; 6];
                    for (c, m) in m.iter_mut().enumerate().take(kind.components()) {
                        *m = f64::from(by_moment[c * elements + i]);
                    }
                    let g = by_direction(kind, direction(&x[..n]), m);
                    let g = by_corner(&x[..n], corner, g);
                    let centre = vector(by_centre, elements, i);
                    for a in 0..3 {
                        sum[a] += g[a] + centre[a] / n as f64;
                    }
                }
                [out_x[k], out_y[k], out_z[k]] = sum.map(|s| s as f32);
            }
        });
        Ok(())
    }
}
