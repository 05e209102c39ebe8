//! Updates of labels on the CPU: a thread has whole rows.

use rayon::prelude::*;

use super::simd::kernel;
use super::{Cpu, CpuBuffer};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Regions;
use crate::ops::front::{Layout, Units};
use crate::ops::regions::{Around, MOST_LABELS, Scores, check_scan, check_shares, check_sums};

/// The points of a task, roughly.
const TASK: usize = 1 << 14;

impl Regions for Cpu {
    fn label_sums(
        &self,
        image: &CpuBuffer<f32>,
        labels: &CpuBuffer<u8>,
        units: Units,
        sums: &mut CpuBuffer<i64>,
    ) -> Result<()> {
        let count = check_sums(&units, [image.len(), labels.len(), sums.len()])?;
        let parts = image.as_slice().par_chunks(TASK).zip(labels.as_slice().par_chunks(TASK));
        let of_part = |(values, labels): (&[f32], &[u8])| {
            let mut sums = [[0i64; 2]; MOST_LABELS];
            for (value, label) in values.iter().zip(labels) {
                let [points, sum] = &mut sums[usize::from(*label)];
                *points += 1;
                *sum = sum.wrapping_add(units.of(*value)[0]);
            }
            sums
        };
        let added = |mut first: [[i64; 2]; MOST_LABELS], second: [[i64; 2]; MOST_LABELS]| {
            for (first, second) in first.iter_mut().zip(second) {
                *first = [first[0] + second[0], first[1].wrapping_add(second[1])];
            }
            first
        };
        let found = self.install(|| parts.map(of_part).reduce(|| [[0; 2]; MOST_LABELS], added));
        sums.as_mut_slice().copy_from_slice(found[..count].as_flattened());
        Ok(())
    }

    fn label_shares(
        &self,
        layout: &Layout,
        around: &Around<'_, Self>,
        label: u8,
        labels: &CpuBuffer<u8>,
        scratch: &mut CpuBuffer<f32>,
        shares: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let (radius, n) = (around.radius, layout.points());
        let lengths = [around.values.len(), labels.len(), scratch.len(), shares.len()];
        check_shares(layout, radius, label, lengths)?;
        let ([nx, ny, nz], values) = (layout.dims(), around.values.as_slice());
        let (along_x, rest) = values.split_at(2 * radius[0] + 1);
        let (along_y, along_z) = rest.split_at(2 * radius[1] + 1);
        let (labels, scratch) = (labels.as_slice(), scratch.as_mut_slice());
        let shares = &mut shares.as_mut_slice()[usize::from(label) * n..][..n];
        let rows = TASK.div_ceil(nx);
        self.chunks_mut(shares, rows * nx, |task, out| {
            let mut is_in = vec![0.0f32; nx + 2 * radius[0]];
            for (row, out) in out.chunks_mut(nx).enumerate() {
                let labels = &labels[(task * rows + row) * nx..][..nx];
                share_of_row(self.simd(), labels, label, along_x, &mut is_in, out);
            }
        });
        self.chunks_mut(scratch, rows * nx, |task, out| {
            for (row, out) in out.chunks_mut(nx).enumerate() {
                let (y, z) = ((task * rows + row) % ny, (task * rows + row) / ny);
                let of = |at: usize| &shares[(at + ny * z) * nx..][..nx];
                weighted_rows(self.simd(), along_y, y, ny, of, out);
            }
        });
        self.chunks_mut(shares, rows * nx, |task, out| {
            for (row, out) in out.chunks_mut(nx).enumerate() {
                let (y, z) = ((task * rows + row) % ny, (task * rows + row) / ny);
                let of = |at: usize| &scratch[(y + ny * at) * nx..][..nx];
                weighted_rows(self.simd(), along_z, z, nz, of, out);
            }
        });
        Ok(())
    }

    fn label_scan(
        &self,
        layout: &Layout,
        scores: &Scores<'_, Self>,
        label: u8,
        labels: &CpuBuffer<u8>,
        next: &mut CpuBuffer<u8>,
        changed: &mut CpuBuffer<i64>,
    ) -> Result<()> {
        let lengths = [labels.len(), next.len(), changed.len()];
        let count = check_scan(layout, scores, label, lengths)?;
        let ([nx, ny, nz], n) = (layout.dims(), layout.points());
        let labels = labels.as_slice();
        let means = scores.image.zip(scores.means).map(|(i, m)| (i.as_slice(), m.as_slice()));
        let given = scores.given.map_or(&[][..], |b| b.as_slice());
        let shares = scores.shares.map(|b| b.as_slice());
        let score = |point: usize, label: usize| {
            let fit = match means {
                Some((image, means)) => {
                    let off = means[label] - f64::from(image[point]);
                    -(off * off)
                }
                None => f64::from(given[label * n + point]),
            };
            match shares {
                Some(shares) => fit + scores.weight * f64::from(shares[label * n + point]),
                None => fit,
            }
        };
        let rows = TASK.div_ceil(nx);
        let total = std::sync::atomic::AtomicI64::new(0);
        self.chunks_mut(next.as_mut_slice(), rows * nx, |task, next| {
            let mut near = vec![0u8; nx];
            let mut took = 0;
            for (row, next) in next.chunks_mut(nx).enumerate() {
                let number = task * rows + row;
                let (y, z) = (number % ny, number / ny);
                let own = &labels[number * nx..][..nx];
                next.copy_from_slice(own);
                near.fill(0);
                for dz in -1..=1isize {
                    for dy in -1..=1isize {
                        let taken = dy.unsigned_abs() + dz.unsigned_abs();
                        let at = (y.checked_add_signed(dy), z.checked_add_signed(dz));
                        let (Some(y), Some(z)) = at else { continue };
                        if taken <= layout.axes() && y < ny && z < nz {
                            let beside = &labels[(y + ny * z) * nx..][..nx];
                            let wide = taken < layout.axes();
                            add_near(self.simd(), beside, label, wide, &mut near);
                        }
                    }
                }
                for (x, (next, &near)) in next.iter_mut().zip(&near).enumerate() {
                    let (point, current) = (number * nx + x, usize::from(*next));
                    if near != 0
                        && *next != label
                        && current < count
                        && score(point, usize::from(label)) > score(point, current)
                    {
                        *next = label;
                        took += 1;
                    }
                }
            }
            total.fetch_add(took, std::sync::atomic::Ordering::Relaxed);
        });
        changed.as_mut_slice()[0] += total.into_inner();
        Ok(())
    }
}

/// The weighted sum of the rows about the place `at` of `n`, whose ends continue.
fn weighted_rows<'a>(
    simd: super::Simd,
    weights: &[f32],
    at: usize,
    n: usize,
    of: impl Fn(usize) -> &'a [f32],
    out: &mut [f32],
) {
    let radius = weights.len() / 2;
    out.fill(0.0);
    for (k, weight) in weights.iter().enumerate() {
        let place = (at + k).saturating_sub(radius).min(n - 1);
        add_weighted(simd, *weight, of(place), out);
    }
}

kernel! {
    /// Adds a weight times a row.
    fn add_weighted<V>(v, weight: f32, row: &[f32], out: &mut [f32]) {
        let _ = v;
        for (sum, value) in out.iter_mut().zip(row) {
            *sum += weight * value;
        }
    }
}

kernel! {
    /// The weighted share of the points of a row that have a label, about each; `is_in` has room for the row with what the weights reach beyond it.
    fn share_of_row<V>(v, labels: &[u8], label: u8, weights: &[f32], is_in: &mut [f32], out: &mut [f32]) {
        let _ = v;
        let (radius, n) = (weights.len() / 2, labels.len());
        let of = |l: u8| if l == label { 1.0f32 } else { 0.0 };
        for (value, l) in is_in[radius..].iter_mut().zip(labels) {
            *value = of(*l);
        }
        is_in[..radius].fill(of(labels[0]));
        is_in[radius + n..].fill(of(labels[n - 1]));
        out.fill(0.0);
        for (k, weight) in weights.iter().enumerate() {
            for (sum, value) in out.iter_mut().zip(&is_in[k..]) {
                *sum += weight * value;
            }
        }
    }
}

kernel! {
    /// Marks the places of a row that have a label there in a row beside it, or one further along x where that is a neighbour, too.
    fn add_near<V>(v, row: &[u8], label: u8, wide: bool, near: &mut [u8]) {
        let _ = v;
        for (near, l) in near.iter_mut().zip(row) {
            *near |= u8::from(*l == label);
        }
        if wide {
            for (near, l) in near[1..].iter_mut().zip(row) {
                *near |= u8::from(*l == label);
            }
            for (near, l) in near.iter_mut().zip(&row[1..]) {
                *near |= u8::from(*l == label);
            }
        }
    }
}
