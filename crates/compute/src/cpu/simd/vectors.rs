//! Vectors of sixteen lanes, the same on every SIMD level.
//!
//! Every operation is defined lane by lane by IEEE arithmetic without contraction, so a kernel
//! written with them gives the same bits on every level.

/// The number of lanes of all vectors.
pub(crate) const LANES: usize = 16;

/// Sixteen numbers in memory.
pub(crate) type Lanes = [f32; LANES];

/// The number of each lane.
pub(crate) const LANE: Lanes =
    [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.];

/// A SIMD level that this processor has: a value of the type is the proof of that.
pub(crate) trait Vectors: Copy {
    /// Sixteen `f32`.
    type F: Copy;
    /// Sixteen `f64`.
    type D: Copy;
    /// Sixteen `i32`.
    type I: Copy;
    /// Sixteen truth values.
    type M: Copy;

    /// The same number in all lanes.
    fn splat(self, value: f32) -> Self::F;
    /// From memory.
    fn load(self, from: &Lanes) -> Self::F;
    /// To memory.
    fn store(self, value: Self::F, to: &mut Lanes);
    /// a + b
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// a − b
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// a b
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// a / b
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// √a
    fn sqrt(self, a: Self::F) -> Self::F;
    /// a < b ? a : b, and so b if either is not a number
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// a > b ? a : b, and so b if either is not a number
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// a < b
    fn lt(self, a: Self::F, b: Self::F) -> Self::M;
    /// a ≤ b
    fn le(self, a: Self::F, b: Self::F) -> Self::M;
    /// a = b
    fn eq(self, a: Self::F, b: Self::F) -> Self::M;
    /// a and b
    fn and(self, a: Self::M, b: Self::M) -> Self::M;
    /// One bit for each lane, that of the first lane the lowest.
    fn bits(self, a: Self::M) -> u32;
    /// mask ? a : b
    fn select(self, mask: Self::M, a: Self::F, b: Self::F) -> Self::F;
    /// The sign bit cleared.
    fn abs(self, a: Self::F) -> Self::F;
    /// The sign bit turned.
    fn neg(self, a: Self::F) -> Self::F;

    /// Rounded towards zero; any number at all where that does not fit.
    fn to_int(self, a: Self::F) -> Self::I;
    /// Rounded to nearest.
    fn to_float(self, a: Self::I) -> Self::F;
    /// The same number in all lanes.
    fn splat_int(self, value: i32) -> Self::I;
    /// a + b, wrapping
    fn add_int(self, a: Self::I, b: Self::I) -> Self::I;
    /// a b, wrapping
    fn mul_int(self, a: Self::I, b: Self::I) -> Self::I;
    /// The smaller one.
    fn min_int(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bit by bit.
    fn and_int(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bits moved towards the lowest, zeros after them.
    fn shift_right<const BITS: u32>(self, a: Self::I) -> Self::I;
    /// From memory, bit by bit.
    fn load_int(self, from: &[u32; LANES]) -> Self::I;
    /// To memory.
    fn store_int(self, value: Self::I, to: &mut [i32; LANES]);

    /// `from[i]` for every lane i of `index`, where an index outside stands for the last one.
    /// `from` has at least one element and at most `i32::MAX`.
    fn gather(self, from: &[f32], index: Self::I) -> Self::F;
    /// `from[i]` and `from[i + 1]` for every lane i of `index`, where an index outside stands for
    /// the last pair. `from` has at least two elements and at most `i32::MAX`.
    fn gather_pairs(self, from: &[f32], index: Self::I) -> [Self::F; 2];
    /// As [`gather_pairs`](Self::gather_pairs), from each of four places: for the one at `offset`,
    /// from `i + offset`. The last offset is the largest, and an index outside stands for the last
    /// pair that all four have. `from` has at least two elements more than the last offset.
    #[inline(always)]
    fn gather_cells(self, from: &[f32], index: Self::I, offsets: [usize; 4]) -> [[Self::F; 2]; 4] {
        let end = from.len() - offsets[3];
        [
            self.gather_pairs(&from[offsets[0]..][..end], index),
            self.gather_pairs(&from[offsets[1]..][..end], index),
            self.gather_pairs(&from[offsets[2]..][..end], index),
            self.gather_pairs(&from[offsets[3]..][..end], index),
        ]
    }
    /// Four runs of four: lane `4 l + t` is `from[index[l] + t]`.
    ///
    /// # Safety
    /// The runs are inside the memory that `from` points to.
    unsafe fn gather_fours(self, from: *const f32, index: [usize; 4]) -> Self::F;
    /// Four lanes, each four times: lane `4 l + t` is lane `4 group + l` of `a`. `group` is below 4.
    fn spread_four(self, a: Self::F, group: usize) -> Self::F;

    /// The same number in all lanes.
    fn splat_wide(self, value: f64) -> Self::D;
    /// Each lane as `f64`.
    fn widen(self, a: Self::F) -> Self::D;
    /// Each lane rounded to `f32`.
    fn narrow(self, a: Self::D) -> Self::F;
    /// To memory.
    fn store_wide(self, value: Self::D, to: &mut [f64; LANES]);
    /// a + b
    fn add_wide(self, a: Self::D, b: Self::D) -> Self::D;
    /// a − b
    fn sub_wide(self, a: Self::D, b: Self::D) -> Self::D;
    /// a b
    fn mul_wide(self, a: Self::D, b: Self::D) -> Self::D;
    /// a > b ? a : b, and so b if either is not a number
    fn max_wide(self, a: Self::D, b: Self::D) -> Self::D;
    /// √a
    fn sqrt_wide(self, a: Self::D) -> Self::D;

    /// Lane j of row i becomes lane i of row j.
    fn transpose(self, rows: [Self::F; LANES]) -> [Self::F; LANES];

    /// The sum of all lanes in double precision: halves are added to each other, again and again.
    #[inline(always)]
    fn sum(self, a: Self::F) -> f64 {
        let mut lanes = [0.0; LANES];
        self.store(a, &mut lanes);
        let mut s = [0.0f64; 8];
        for l in 0..8 {
            s[l] = f64::from(lanes[l]) + f64::from(lanes[l + 8]);
        }
        let a = [s[0] + s[4], s[1] + s[5], s[2] + s[6], s[3] + s[7]];
        (a[0] + a[2]) + (a[1] + a[3])
    }
}
