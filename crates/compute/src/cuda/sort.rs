//! Sorting on the GPU: a radix sort that moves the pairs once for every eight bits.

use std::sync::LazyLock;

use super::declare::{In, Out};
use super::{Cuda, CudaBuffer, Shape};
use crate::device::{DeviceBuffer, Memory};
use crate::error::Result;
use crate::ops::Sort;
use crate::ops::sort::{
    APPROXIMATE_BITS, KeyRange, Limits, SortKey, check, check_pairs, check_starts,
};

/// Digits have eight bits.
const DIGITS: usize = 256;

/// The most passes: 64 bits.
const MOST_PASSES: usize = 8;

/// The warps of the block of a tile.
const WARPS: usize = 12;

/// From this many keys on the counts of tiles need more than 30 bits.
const LARGE: usize = 1 << 30;

/// Threads of a block of the kernels that measure and count.
const COUNTING: u32 = 512;

/// Shared memory of a block from which on two blocks with large tiles fit on a multiprocessor.
const ROOM_FOR_LARGE_TILES: usize = 160 << 10;

/// The keys of each thread. Keys and values of a tile fit in shared memory; the larger the tile,
/// the longer the runs of neighbours that it writes.
const fn items(wide: bool, large_tiles: bool) -> usize {
    match (wide, large_tiles) {
        (false, true) => 20,
        (true, true) => 14,
        (false, false) => 11,
        (true, false) => 7,
    }
}

cells! {
    /// Keys, of 32 or 64 bits.
    Key = "Key";
    /// The value that a tile publishes, of 32 or 64 bits.
    Status = "Status";
}

kernels! { SORT = "sort/sort.cu";
    fn key_range[COUNTING](keys: &[Key], range: &mut [u64], order: Order, finite_floats: u32, n: u32);
    fn count_digits[COUNTING](keys: &[Key], bins: &mut [u32], range: &[u64], order: Order, passes: u32,
        n: u32);
    fn sort_pass[32 * WARPS as u32](keys: &[Key], values: &[u32], sorted_keys: &mut [Key],
        sorted_values: &mut [u32], status: &mut [Status], next_status: &mut [Status], ticket: &mut [u32],
        bins: &[u32], range: &[u64], order: Order, shift: u32, n: u32);
    fn compose[256](keys: &[Key], starts: &[u32], composed: &mut [u64], range: &[u64], order: Order,
        key_bits: u32, segments: u32, n: u32);
    fn segments_of[256](positions: &[u32], starts: &[u32], found: &mut [u32], segments: u32, n: u32);
    fn gather[256](keys: &[Key], values: &[u32], positions: &[u32], sorted_keys: &mut [Key],
        sorted_values: &mut [u32], n: u32);
}

/// The variants of the kernels, by [`Digits::program`].
static PROGRAMS: LazyLock<Vec<SORT>> = LazyLock::new(|| {
    (0..12usize)
        .map(|variant| {
            let (kind, large_tiles) = (variant % 3, variant / 6 == 1);
            SORT.with(&[
                ("WIDE", (kind == 1).into()),
                ("APPROXIMATE", (kind == 2).into()),
                ("LARGE", (variant / 3 % 2) as i64),
                ("ITEMS", items(kind == 1, large_tiles) as i64),
                ("WARPS", WARPS as i64),
            ])
        })
        .collect()
});

plain! {
    /// The order numbers of keys and the bits to sort by, in the layout of the kernels.
    struct Order {
        turned_if_negative: u64,
        turned: u64,
        low: u64,
        span: u64,
    }
}

impl Order {
    fn of<K: SortKey>(low: u64, high: u64) -> Self {
        let (turned_if_negative, turned) = (K::TURNED_IF_NEGATIVE, K::TURNED);
        Self { turned_if_negative, turned, low, span: high - low }
    }
}

/// The sort key.
#[derive(Debug)]
struct Digits {
    order: Order,
    /// The bits to sort by; none if all keys are equal.
    bits: u32,
    /// The measured range of an approximate sort.
    range: Option<CudaBuffer<u64>>,
    /// Whether counts may need more than 30 bits.
    large: bool,
    /// Whether tiles are large.
    large_tiles: bool,
}

impl Digits {
    fn within<K: SortKey>(cuda: &Cuda, low: u64, high: u64, keys: usize) -> Self {
        Self {
            order: Order::of::<K>(low, high),
            bits: bits_of(high - low),
            range: None,
            large: keys >= LARGE,
            large_tiles: cuda.shared_memory() >= ROOM_FOR_LARGE_TILES,
        }
    }

    /// For whole numbers of some bits.
    fn of_bits(cuda: &Cuda, bits: u32, keys: usize) -> Self {
        Self { bits, ..Self::within::<u64>(cuda, 0, u64::MAX, keys) }
    }

    /// Keys that are all equal are passed through once.
    fn passes(&self) -> usize {
        self.bits.div_ceil(8).max(1) as usize
    }

    fn program<K: SortKey>(&self) -> &'static SORT {
        let kind = if K::BITS > 32 { 1 } else { 2 * usize::from(self.range.is_some()) };
        &PROGRAMS[kind + 3 * usize::from(self.large) + 6 * usize::from(self.large_tiles)]
    }

    fn range(&self) -> In<u64> {
        self.range.as_ref().into()
    }
}

fn bits_of(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

impl Sort for Cuda {
    fn sort_pairs<K: SortKey>(
        &self,
        range: KeyRange<K>,
        keys: &CudaBuffer<K>,
        values: Option<&CudaBuffer<u32>>,
        sorted_keys: &mut CudaBuffer<K>,
        sorted_values: &mut CudaBuffer<u32>,
    ) -> Result<()> {
        let limits = check_pairs(range, keys, values, sorted_keys, sorted_values)?;
        if keys.is_empty() {
            return Ok(());
        }
        let digits = self.digits(limits, keys)?;
        self.radix_sort(&digits, keys, values, sorted_keys, Some(sorted_values))
    }

    fn sort_keys<K: SortKey>(
        &self,
        range: KeyRange<K>,
        keys: &CudaBuffer<K>,
        sorted_keys: &mut CudaBuffer<K>,
    ) -> Result<()> {
        let limits = check(range, keys.len(), None, &[sorted_keys.len()])?;
        if keys.is_empty() {
            return Ok(());
        }
        let digits = self.digits(limits, keys)?;
        self.radix_sort(&digits, keys, None, sorted_keys, None)
    }

    fn sort_segments<K: SortKey>(
        &self,
        range: KeyRange<K>,
        keys: &CudaBuffer<K>,
        values: Option<&CudaBuffer<u32>>,
        starts: &CudaBuffer<u32>,
        sorted_keys: &mut CudaBuffer<K>,
        sorted_values: &mut CudaBuffer<u32>,
    ) -> Result<()> {
        let limits = check_pairs(range, keys, values, sorted_keys, sorted_values)?;
        check_starts(starts.len())?;
        if keys.is_empty() {
            return Ok(());
        }
        let digits = self.digits(limits, keys)?;
        if starts.is_empty() {
            return self.radix_sort(&digits, keys, values, sorted_keys, Some(sorted_values));
        }
        let n = keys.len();
        let positions = self.positions_by_segment(&digits, keys, starts, sorted_keys)?;
        // SAFETY: all buffers have `n` elements, and the positions are a permutation of those of the
        // keys.
        unsafe {
            digits.program::<K>().gather(
                self,
                Shape::covering(n, 256),
                In::<Key>::cast(keys),
                values,
                &positions,
                Out::<Key>::cast(sorted_keys),
                sorted_values,
                n as u32,
            )
        }
    }
}

impl Cuda {
    /// The bits to sort by. Waits for the device only where the number of passes depends on keys.
    fn digits<K: SortKey>(&self, limits: Limits, keys: &CudaBuffer<K>) -> Result<Digits> {
        let n = keys.len();
        if let Limits::Within { low, high } = limits {
            return Ok(Digits::within::<K>(self, low, high, n));
        }
        let mut range = self.alloc::<u64>(2)?;
        let mut digits = Digits::within::<K>(self, 0, u64::MAX >> (64 - K::BITS), n);
        let finite = u32::from(limits == Limits::Approximate);
        let (program, shape) = (digits.program::<K>(), self.counting_blocks(n));
        let all = In::<Key>::cast(keys);
        // SAFETY: the kernel reads `n` keys and changes two numbers.
        unsafe { program.key_range(self, shape, all, &mut range, digits.order, finite, n as u32)? };
        if limits == Limits::Approximate {
            digits.bits = APPROXIMATE_BITS;
            digits.range = Some(range);
            return Ok(digits);
        }
        let mut found = [0; 2];
        self.read(&range, 0, &mut found)?;
        Ok(Digits::within::<K>(self, !found[0], found[1], n))
    }

    fn counting_blocks(&self, n: usize) -> Shape {
        let blocks = n.div_ceil(8 * COUNTING as usize).min(4 * self.multiprocessors());
        Shape::blocks(blocks, COUNTING)
    }

    /// Sorts at least one key, with values, or with positions if there are none, or alone.
    fn radix_sort<K: SortKey>(
        &self,
        digits: &Digits,
        keys: &CudaBuffer<K>,
        values: Option<&CudaBuffer<u32>>,
        sorted_keys: &mut CudaBuffer<K>,
        sorted_values: Option<&mut CudaBuffer<u32>>,
    ) -> Result<()> {
        let (n, passes, program) = (keys.len(), digits.passes(), digits.program::<K>());
        let tile = WARPS * 32 * items(K::BITS > 32, digits.large_tiles);
        let tiles = n.div_ceil(tile);
        // The bins of all passes, then the tickets.
        let mut counts = self.alloc::<u32>(MOST_PASSES * DIGITS + MOST_PASSES)?;
        // SAFETY: the kernel reads `n` keys and changes the bins of the passes.
        unsafe {
            program.count_digits(
                self,
                self.counting_blocks(n),
                In::<Key>::cast(keys),
                &mut counts,
                digits.range(),
                digits.order,
                passes as u32,
                n as u32,
            )?;
        }

        // Two sets of what tiles publish take turns: a pass clears the one of the next.
        let words = tiles * DIGITS * if digits.large { 2 } else { 1 };
        let mut status =
            [self.alloc::<u32>(words)?, self.alloc_unset(if passes > 1 { words } else { 0 })?];
        let spare = if passes > 1 { n } else { 0 };
        let mut spare_keys = self.alloc_unset::<K>(spare)?;
        let mut spare_values = match sorted_values {
            Some(_) => Some(self.alloc_unset::<u32>(spare)?),
            None => None,
        };

        let pair = size_of::<K>() + if sorted_values.is_some() { size_of::<u32>() } else { 0 };
        let shape = Shape::blocks(tiles, 32 * WARPS as u32).with_shared(tile * pair);
        let output = (Out::<Key>::cast(sorted_keys), Out::from(sorted_values));
        let other = (Out::<Key>::cast(&mut spare_keys), Out::from(spare_values.as_mut()));
        let mut source = (In::<Key>::cast(keys), In::from(values));
        for pass in 0..passes {
            // The last pass writes to the output.
            let target = if (passes - pass) % 2 == 1 { &output } else { &other };
            let next_status = match pass + 1 < passes {
                true => Out::<Status>::cast(&mut status[(pass + 1) % 2]),
                false => Out::none(),
            };
            // SAFETY: source and target are two sets of `n` keys and values; there is a block and a
            // row of what is published for every tile.
            unsafe {
                program.sort_pass(
                    self,
                    shape,
                    source.0,
                    source.1,
                    target.0.clone(),
                    target.1.clone(),
                    Out::<Status>::cast(&mut status[pass % 2]),
                    next_status,
                    Out::from_element(&mut counts, MOST_PASSES * DIGITS + pass),
                    In::from_element(&counts, pass * DIGITS),
                    digits.range(),
                    digits.order,
                    8 * pass as u32,
                    n as u32,
                )?;
            }
            source = (target.0.read(), target.1.read());
        }
        Ok(())
    }

    /// The positions of keys, of which there are some, sorted by segment and within it by key.
    fn positions_by_segment<K: SortKey>(
        &self,
        digits: &Digits,
        keys: &CudaBuffer<K>,
        starts: &CudaBuffer<u32>,
        sorted_keys: &mut CudaBuffer<K>,
    ) -> Result<CudaBuffer<u32>> {
        let (n, program) = (keys.len(), digits.program::<K>());
        let (keys_sorted, segments) = (n as u32, starts.len() as u32);
        let segment_bits = bits_of(u64::from(segments));
        let mut positions = self.alloc_unset::<u32>(n)?;
        let shape = Shape::covering(n, 256);
        if digits.bits + segment_bits <= u64::BITS {
            // Segment and key make one key.
            let mut composed = self.alloc_unset::<u64>(n)?;
            let mut sorted = self.alloc_unset::<u64>(n)?;
            // SAFETY: the kernel reads `n` keys and the starts, and writes `n` numbers.
            unsafe {
                program.compose(
                    self,
                    shape,
                    In::<Key>::cast(keys),
                    starts,
                    &mut composed,
                    digits.range(),
                    digits.order,
                    digits.bits,
                    segments,
                    keys_sorted,
                )?;
            }
            let both = Digits::of_bits(self, digits.bits + segment_bits, n);
            self.radix_sort(&both, &composed, None, &mut sorted, Some(&mut positions))?;
            return Ok(positions);
        }
        // First by key, then by segment.
        self.radix_sort(digits, keys, None, sorted_keys, Some(&mut positions))?;
        let mut found = self.alloc_unset::<u32>(n)?;
        // SAFETY: the kernel reads `n` positions and the starts, and writes `n` numbers.
        unsafe {
            program.segments_of(
                self,
                shape,
                &positions,
                starts,
                &mut found,
                segments,
                keys_sorted,
            )?;
        }
        let mut sorted = self.alloc_unset::<u32>(n)?;
        let mut by_segment = self.alloc_unset::<u32>(n)?;
        let digits = Digits::of_bits(self, segment_bits, n);
        self.radix_sort(&digits, &found, Some(&positions), &mut sorted, Some(&mut by_segment))?;
        Ok(by_segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tiles_and_counts_sort() {
        let Some(cuda) = crate::cuda::tests::emulated() else { return };
        let data: Vec<u32> = (0..20_000u32).map(|i| i.wrapping_mul(2_654_435_761) >> 16).collect();
        let keys = cuda.upload(&data).unwrap();
        let mut sorted = cuda.alloc::<u32>(data.len()).unwrap();
        let mut positions = cuda.alloc::<u32>(data.len()).unwrap();
        let mut expected: Vec<u32> = (0..data.len() as u32).collect();
        expected.sort_by_key(|&i| data[i as usize]);
        for (large, large_tiles) in [(true, false), (true, true), (false, true)] {
            let mut digits = Digits::within::<u32>(&cuda, 0, 0xffff, data.len());
            assert_eq!(digits.passes(), 2);
            (digits.large, digits.large_tiles) = (large, large_tiles);
            cuda.radix_sort(&digits, &keys, None, &mut sorted, Some(&mut positions)).unwrap();
            assert_eq!(cuda.download(&positions).unwrap(), expected);
            let values = cuda.upload(&data).unwrap();
            cuda.radix_sort(&digits, &keys, Some(&values), &mut sorted, Some(&mut positions))
                .unwrap();
            assert_eq!(cuda.download(&positions).unwrap(), cuda.download(&sorted).unwrap());
        }
    }
}
