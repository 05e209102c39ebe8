//! Samples, many at a time: their cells, their interpolated values, and what these add. Steps that compute are loops over arrays for the SIMD of the
//! level; those that read pixels or add to a table go one by one.

use crate::cpu::simd::kernel;
use crate::ops::joint::{
    Block, CUT, JointRule, LOW_BITS, NO_SAMPLE, NUMBERS, PLACE_BITS, WindowTable, cells, moment,
};

/// The samples at once.
pub(super) const LANES: usize = 128;

type Numbers = [u32; LANES];

/// A block of pixels, with what is needed to find those of a cell.
pub(super) struct Source<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) words: &'a [u16],
    /// The exact coordinates of its samples: from and to.
    pub(super) limits: [[i64; 2]; 3],
    origin: [u32; 3],
    row: u64,
    rows: u32,
    /// The last cell of the image along each axis.
    last: [u32; 3],
    /// The way to the upper pixel of a cell along each axis.
    next: [usize; 3],
}

impl<'a> Source<'a> {
    pub(super) fn new(
        rule: &JointRule,
        stored: &Block,
        of: &Block,
        bytes: &'a [u8],
        words: &'a [u16],
    ) -> Self {
        let all = cells(rule.moving);
        let ways = [1, stored.dims[0], stored.dims[0] * stored.dims[1]];
        Self {
            bytes,
            words,
            limits: rule.limits(of),
            origin: stored.origin.map(|o| o as u32),
            row: stored.dims[0] as u64,
            rows: stored.dims[1] as u32,
            last: all.map(|n| (n - 1) as u32),
            next: [0, 1, 2].map(|a| if rule.moving[a] > 1 { ways[a] } else { 0 }),
        }
    }

    #[inline(always)]
    fn pixel<const WIDE: bool>(&self, at: usize) -> u32 {
        if WIDE { u32::from(self.words[at]) } else { u32::from(self.bytes[at]) }
    }
}

/// Samples: coordinates with 8 fractional bits, and fixed bins.
pub(super) struct Samples {
    pub(super) q: [Numbers; 3],
    pub(super) bins: [u8; LANES],
    pub(super) len: usize,
}

impl Samples {
    pub(super) const NONE: Self = Self { q: [[0; LANES]; 3], bins: [NO_SAMPLE; LANES], len: 0 };

    /// The pixels of a row from one on.
    #[inline(always)]
    fn of_row(&mut self, start: [i64; 3], step: [i64; 3], bins: &[u8]) {
        self.len = bins.len().min(LANES);
        self.bins[..self.len].copy_from_slice(&bins[..self.len]);
        for a in 0..3 {
            let (mut c, m) = (start[a].cast_unsigned(), step[a].cast_unsigned());
            for q in &mut self.q[a] {
                *q = (c >> CUT) as u32;
                c = c.wrapping_add(m);
            }
        }
    }
}

/// The corners of the cells of some samples, the weights of the upper ones, and what is made of them.
pub(super) struct Corners {
    v: [Numbers; 8],
    w: [Numbers; 3],
    place: Numbers,
    inside: [bool; LANES],
}

impl Corners {
    pub(super) const NONE: Self =
        Self { v: [[0; LANES]; 8], w: [[0; LANES]; 3], place: [0; LANES], inside: [false; LANES] };

    #[inline(always)]
    fn read<const WIDE: bool, const AXES: usize>(
        &mut self,
        source: &Source<'_>,
        samples: &Samples,
    ) {
        let mut offsets = [0u64; LANES];
        let mut cell = [[0u32; LANES]; 3];
        for a in 0..AXES {
            let (last, origin) = (source.last[a], source.origin[a]);
            for l in 0..LANES {
                let m = (samples.q[a][l] >> 8).min(last);
                // Lanes without a sample have any coordinate, and some weight.
                self.w[a][l] = samples.q[a][l].wrapping_sub(m << 8).min(256);
                cell[a][l] = m.wrapping_sub(origin);
            }
        }
        for l in 0..LANES {
            let row = if AXES == 3 {
                cell[2][l].wrapping_mul(source.rows).wrapping_add(cell[1][l])
            } else {
                cell[1][l]
            };
            offsets[l] = u64::from(row) * source.row + u64::from(cell[0][l]);
        }
        let [x, y, z] = source.next;
        for l in 0..samples.len {
            let at = offsets[l] as usize;
            self.v[0][l] = source.pixel::<WIDE>(at);
            self.v[1][l] = source.pixel::<WIDE>(at + x);
            self.v[2][l] = source.pixel::<WIDE>(at + y);
            self.v[3][l] = source.pixel::<WIDE>(at + y + x);
            if AXES == 3 {
                self.v[4][l] = source.pixel::<WIDE>(at + z);
                self.v[5][l] = source.pixel::<WIDE>(at + z + x);
                self.v[6][l] = source.pixel::<WIDE>(at + z + y);
                self.v[7][l] = source.pixel::<WIDE>(at + z + y + x);
            }
        }
    }

    /// Places among the moving bins, and whether values are within their range.
    #[inline(always)]
    fn places<const WIDE: bool, const AXES: usize>(&mut self, rule: &JointRule) {
        let bins = &rule.moving_bins;
        let (low, high) = bins.range();
        let (low, high) = (u32::from(low) << bins.bits(), u32::from(high) << bins.bits());
        let (cut, factor, last) = (bins.cut(AXES as u32), bins.factor(), bins.last());
        let v = &self.v;
        for l in 0..LANES {
            let (ux, uy, uz) = (self.w[0][l], self.w[1][l], self.w[2][l]);
            let (lx, ly, lz) = (256 - ux, 256 - uy, 256 - uz);
            let near = (v[0][l] * lx + v[1][l] * ux) * ly + (v[2][l] * lx + v[3][l] * ux) * uy;
            let value = if AXES == 3 {
                let far = (v[4][l] * lx + v[5][l] * ux) * ly + (v[6][l] * lx + v[7][l] * ux) * uy;
                if WIDE {
                    ((u64::from(near) * u64::from(lz) + u64::from(far) * u64::from(uz)) >> cut)
                        as u32
                } else {
                    (near * lz + far * uz) >> cut
                }
            } else {
                near >> cut
            };
            self.inside[l] = low <= value && value <= high;
            let t = value.clamp(low, high) - low;
            self.place[l] = ((t * factor) >> 16).min(last);
        }
    }

    /// The difference of two faces across each axis.
    #[inline(always)]
    fn differences<const AXES: usize>(&self, out: &mut [[i64; LANES]; 3]) {
        let v = &self.v;
        for l in 0..LANES {
            let w = |a: usize| (256 - i64::from(self.w[a][l]), i64::from(self.w[a][l]));
            let ((lx, ux), (ly, uy), (lz, uz)) = (w(0), w(1), w(2));
            let p = |k: usize| i64::from(v[k][l]);
            let along_x = |k: usize| p(k) * lx + p(k + 1) * ux;
            let dx = |k: usize| (p(k + 1) - p(k)) * ly + (p(k + 3) - p(k + 2)) * uy;
            let dy = |k: usize| along_x(k + 2) - along_x(k);
            if AXES == 3 {
                let plane = |k: usize| along_x(k) * ly + along_x(k + 2) * uy;
                out[0][l] = dx(0) * lz + dx(4) * uz;
                out[1][l] = dy(0) * lz + dy(4) * uz;
                out[2][l] = plane(4) - plane(0);
            } else {
                out[0][l] = dx(0);
                out[1][l] = dy(0);
            }
        }
    }
}

/// Adds samples to a table of counts; the number of samples.
#[inline(always)]
fn count<const WIDE: bool, const AXES: usize, const CUBIC: bool>(
    rule: &JointRule,
    source: &Source<'_>,
    samples: &Samples,
    corners: &mut Corners,
    weights: &WindowTable,
    table: &mut [u32],
) -> u32 {
    corners.read::<WIDE, AXES>(source, samples);
    corners.places::<WIDE, AXES>(rule);
    let columns = rule.columns();
    let mut counted = 0;
    for l in 0..samples.len {
        let bin = samples.bins[l];
        if bin == NO_SAMPLE {
            continue;
        }
        counted += 1;
        let place = corners.place[l];
        let at = bin as usize * columns + (place >> PLACE_BITS) as usize;
        if CUBIC {
            let four = &weights[(place & 255) as usize];
            if let Some(entries) = table.get_mut(at..at + 4) {
                for k in 0..4 {
                    entries[k] += four[k].cast_unsigned();
                }
            }
        } else if let Some(entry) = table.get_mut(at) {
            *entry += 1;
        }
    }
    counted
}

/// Adds the slopes of samples to sums; the number of samples.
#[inline(always)]
fn slope<const WIDE: bool, const AXES: usize>(
    rule: &JointRule,
    source: &Source<'_>,
    samples: &Samples,
    corners: &mut Corners,
    derivatives: &WindowTable,
    table: &[i32],
    sums: &mut [i64; NUMBERS],
) -> u32 {
    corners.read::<WIDE, AXES>(source, samples);
    corners.places::<WIDE, AXES>(rule);
    let mut differences = [[0i64; LANES]; 3];
    corners.differences::<AXES>(&mut differences);
    let columns = rule.columns();
    let mut slopes = [0i32; LANES];
    let mut counted = 0;
    for l in 0..samples.len {
        let bin = samples.bins[l];
        if bin == NO_SAMPLE {
            continue;
        }
        counted += 1;
        let place = corners.place[l];
        let at = bin as usize * columns + (place >> PLACE_BITS) as usize;
        if let (Some(four), true) = (table.get(at..at + 4), corners.inside[l]) {
            let derivative = &derivatives[(place & 255) as usize];
            let sum: i64 = (0..4).map(|k| i64::from(derivative[k]) * i64::from(four[k])).sum();
            slopes[l] = ((sum + (1 << 11)) >> 12) as i32;
        }
    }
    let cut = rule.slope_cut(WIDE);
    let half = 1i64 << (cut - 1);
    for d in 0..AXES {
        let mut h = [0i32; LANES];
        for l in 0..LANES {
            h[l] = ((i64::from(slopes[l]) * differences[d][l] + half) >> cut) as i32;
        }
        sums[d] += h.iter().map(|&h| i64::from(h)).sum::<i64>();
        for e in 0..AXES {
            let (mut low, mut high) = (0i64, 0i64);
            for l in 0..LANES {
                let q = samples.q[e][l].cast_signed();
                low += i64::from(h[l]) * i64::from(q & ((1 << LOW_BITS) - 1));
                high += i64::from(h[l]) * i64::from(q >> LOW_BITS);
            }
            sums[moment(d, e, false)] += low;
            sums[moment(d, e, true)] += high;
        }
    }
    counted
}

kernel! {
    /// Counts the samples at some pixels of a row, whose first has the exact coordinates `start`.
    pub(super) fn count_row<V, const WIDE: bool, const AXES: usize, const CUBIC: bool>(
        v,
        rule: &JointRule,
        source: &Source<'_>,
        start: [i64; 3],
        step: [i64; 3],
        bins: &[u8],
        weights: &WindowTable,
        table: &mut [u32],
    ) -> u32 {
        let _ = v;
        let (mut samples, mut corners) = (Samples::NONE, Corners::NONE);
        let mut counted = 0;
        for (i, bins) in bins.chunks(LANES).enumerate() {
            let first = [0, 1, 2].map(|a| start[a] + step[a] * (i * LANES) as i64);
            if bins.iter().all(|&bin| bin == NO_SAMPLE) {
                continue;
            }
            samples.of_row(first, step, bins);
            counted += count::<WIDE, AXES, CUBIC>(rule, source, &samples, &mut corners, weights, table);
        }
        counted
    }
}

kernel! {
    /// As [`count_row`], of slopes.
    pub(super) fn slope_row<V, const WIDE: bool, const AXES: usize>(
        v,
        rule: &JointRule,
        source: &Source<'_>,
        start: [i64; 3],
        step: [i64; 3],
        bins: &[u8],
        derivatives: &WindowTable,
        table: &[i32],
        sums: &mut [i64; NUMBERS],
    ) -> u32 {
        let _ = v;
        let (mut samples, mut corners) = (Samples::NONE, Corners::NONE);
        let mut counted = 0;
        for (i, bins) in bins.chunks(LANES).enumerate() {
            let first = [0, 1, 2].map(|a| start[a] + step[a] * (i * LANES) as i64);
            if bins.iter().all(|&bin| bin == NO_SAMPLE) {
                continue;
            }
            samples.of_row(first, step, bins);
            counted += slope::<WIDE, AXES>(rule, source, &samples, &mut corners, derivatives, table, sums);
        }
        counted
    }
}

kernel! {
    /// Counts some samples.
    pub(super) fn count_samples<V, const WIDE: bool, const AXES: usize, const CUBIC: bool>(
        v,
        rule: &JointRule,
        source: &Source<'_>,
        samples: &Samples,
        corners: &mut Corners,
        weights: &WindowTable,
        table: &mut [u32],
    ) -> u32 {
        let _ = v;
        count::<WIDE, AXES, CUBIC>(rule, source, samples, corners, weights, table)
    }
}

kernel! {
    /// As [`count_samples`], of slopes.
    pub(super) fn slope_samples<V, const WIDE: bool, const AXES: usize>(
        v,
        rule: &JointRule,
        source: &Source<'_>,
        samples: &Samples,
        corners: &mut Corners,
        derivatives: &WindowTable,
        table: &[i32],
        sums: &mut [i64; NUMBERS],
    ) -> u32 {
        let _ = v;
        slope::<WIDE, AXES>(rule, source, samples, corners, derivatives, table, sums)
    }
}
