//! Sorting on the CPU: the order of each key and its position are combined in one integer. These integers are
//! all different, so their sorted order is unique.

use std::ops::Range;

use rayon::prelude::*;
use voxalign_image::memory::room;

use super::{Cpu, CpuBuffer};
use crate::device::{DeviceBuffer, Element};
use crate::error::Result;
use crate::ops::Sort;
use crate::ops::sort::{
    KeyRange, Limits, Places, SortKey, check, check_pairs, check_starts, float_of_order,
};

/// The elements that a thread gathers at once.
const CHUNK: usize = 1 << 14;

impl Sort for Cpu {
    fn sort_pairs<K: SortKey>(
        &self,
        range: KeyRange<K>,
        keys: &CpuBuffer<K>,
        values: Option<&CpuBuffer<u32>>,
        sorted_keys: &mut CpuBuffer<K>,
        sorted_values: &mut CpuBuffer<u32>,
    ) -> Result<()> {
        let limits = check_pairs(range, keys, values, sorted_keys, sorted_values)?;
        let order = self.order(keys.as_slice(), limits, &[])?;
        self.gather(keys, &order, sorted_keys);
        self.gather_values(values, &order, sorted_values);
        Ok(())
    }

    fn sort_keys<K: SortKey>(
        &self,
        range: KeyRange<K>,
        keys: &CpuBuffer<K>,
        sorted_keys: &mut CpuBuffer<K>,
    ) -> Result<()> {
        let limits = check(range, keys.len(), None, &[sorted_keys.len()])?;
        let order = self.order(keys.as_slice(), limits, &[])?;
        self.gather(keys, &order, sorted_keys);
        Ok(())
    }

    fn sort_segments<K: SortKey>(
        &self,
        range: KeyRange<K>,
        keys: &CpuBuffer<K>,
        values: Option<&CpuBuffer<u32>>,
        starts: &CpuBuffer<u32>,
        sorted_keys: &mut CpuBuffer<K>,
        sorted_values: &mut CpuBuffer<u32>,
    ) -> Result<()> {
        let limits = check_pairs(range, keys, values, sorted_keys, sorted_values)?;
        check_starts(starts.len())?;
        let order = self.order(keys.as_slice(), limits, starts.as_slice())?;
        self.gather(keys, &order, sorted_keys);
        self.gather_values(values, &order, sorted_values);
        Ok(())
    }
}

impl Cpu {
    fn gather<T: Element>(&self, from: &CpuBuffer<T>, order: &[u32], to: &mut CpuBuffer<T>) {
        let from = from.as_slice();
        self.chunks_mut(to.as_mut_slice(), CHUNK, |i, chunk| {
            for (to, &position) in chunk.iter_mut().zip(&order[i * CHUNK..]) {
                *to = from[position as usize];
            }
        });
    }

    fn gather_values(
        &self,
        values: Option<&CpuBuffer<u32>>,
        order: &[u32],
        to: &mut CpuBuffer<u32>,
    ) {
        match values {
            Some(values) => self.gather(values, order, to),
            None => self.copy_slice(order, to.as_mut_slice()),
        }
    }

    /// The positions of the keys in the order of the keys, each segment for itself.
    fn order<K: SortKey>(&self, keys: &[K], limits: Limits, starts: &[u32]) -> Result<Vec<u32>> {
        self.install(|| {
            let wide = K::BITS > 32;
            match limits {
                Limits::Within { low, high } if wide => {
                    self.order_by(keys, |k| k.order().clamp(low, high), starts, wide_pair)
                }
                Limits::Within { low, high } => {
                    self.order_by(keys, |k| k.order().clamp(low, high), starts, narrow_pair)
                }
                // What sorting takes does not depend on the range.
                Limits::Measured if wide => self.order_by(keys, K::order, starts, wide_pair),
                Limits::Measured => self.order_by(keys, K::order, starts, narrow_pair),
                Limits::Approximate => {
                    let float = |k: &K| float_of_order(k.order());
                    let finite = || keys.par_iter().map(float).filter(|k| k.is_finite());
                    let low = finite().reduce(|| f32::INFINITY, f32::min);
                    let high = finite().reduce(|| f32::NEG_INFINITY, f32::max);
                    let places = Places::new(low, high);
                    self.order_by(keys, |k| places.of(float(&k)), starts, narrow_pair)
                }
            }
        })
    }

    fn order_by<K: SortKey, P: Pair>(
        &self,
        keys: &[K],
        number: impl Fn(K) -> u64 + Sync,
        starts: &[u32],
        pair: impl Fn(u64, u32) -> P + Sync,
    ) -> Result<Vec<u32>> {
        let mut pairs = room(keys.len())?;
        let positions = keys.par_iter().enumerate();
        pairs.par_extend(positions.map(|(i, &key)| pair(number(key), i as u32)));
        let mut rest = &mut pairs[..];
        let mut segments = Vec::new();
        for Range { start, end } in segments_of(starts, keys.len()) {
            let (segment, after) = std::mem::take(&mut rest).split_at_mut(end - start);
            segments.push(segment);
            rest = after;
        }
        segments.into_par_iter().for_each(|segment| segment.par_sort_unstable());
        let mut order = room(keys.len())?;
        order.par_extend(pairs.par_iter().map(|pair| pair.position()));
        Ok(order)
    }
}

/// The parts of `0..len` that begin at the starts, without those that are empty.
fn segments_of(starts: &[u32], len: usize) -> impl Iterator<Item = Range<usize>> {
    let mut first = 0;
    starts.iter().map(|&s| s as usize).chain([len]).filter_map(move |start| {
        let range = first..start.clamp(first, len);
        first = range.end;
        (!range.is_empty()).then_some(range)
    })
}

/// An order number and a position in one integer.
trait Pair: Ord + Copy + Send + Sync {
    fn position(self) -> u32;
}

impl Pair for u64 {
    fn position(self) -> u32 {
        self as u32
    }
}

impl Pair for u128 {
    fn position(self) -> u32 {
        self as u32
    }
}

fn narrow_pair(number: u64, position: u32) -> u64 {
    number << 32 | u64::from(position)
}

fn wide_pair(number: u64, position: u32) -> u128 {
    u128::from(number) << 32 | u128::from(position)
}
