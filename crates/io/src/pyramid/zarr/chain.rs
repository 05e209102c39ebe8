//! The codecs of a chunk, one after the other.

use super::metadata::{Json, said};
use super::packing::Packing;
use crate::error::Result;
use crate::image::DataType;
use serde_json::Value;
use voxalign_image::memory;

/// How the values of a chunk become bytes.
#[derive(Debug)]
pub(super) struct Chain {
    /// Which axis of the array is the first, the second and so on of what is stored.
    pub(super) order: Vec<usize>,
    pub(super) big_endian: bool,
    /// In the order of writing.
    pub(super) packed: Vec<Packing>,
}

/// A file that holds several parts, each with codecs of its own.
#[derive(Debug)]
pub(super) struct Shard {
    /// Sizes of a part.
    pub(super) inner: Vec<usize>,
    pub(super) chain: Chain,
    pub(super) index: Chain,
    pub(super) index_first: bool,
}

/// Why a chunk is not unpacked.
#[derive(Debug)]
pub(super) enum Damage {
    Memory(memory::OutOfMemory),
    Wrong(String),
}

impl From<memory::OutOfMemory> for Damage {
    fn from(refused: memory::OutOfMemory) -> Self {
        Damage::Memory(refused)
    }
}

impl From<String> for Damage {
    fn from(problem: String) -> Self {
        Damage::Wrong(problem)
    }
}

impl Chain {
    /// The codecs of the third version; what packs a shard as a whole is the first of both.
    pub(super) fn read(json: &Json, list: &Value, axes: usize) -> Result<(Chain, Option<Shard>)> {
        let mut chain = Chain { order: (0..axes).collect(), big_endian: false, packed: Vec::new() };
        let (mut shard, mut bytes) = (None, false);
        for codec in list.as_array().map(Vec::as_slice).unwrap_or_default() {
            let name = codec["name"].as_str().or(codec.as_str()).unwrap_or_default();
            let settings = &codec["configuration"];
            match (name, bytes) {
                ("transpose", false) => chain.transpose(json, settings)?,
                ("bytes", false) => {
                    chain.big_endian = settings["endian"] == "big";
                    bytes = true;
                }
                ("sharding_indexed", false) => {
                    if shard.is_some() || chain.order.iter().enumerate().any(|(i, &a)| i != a) {
                        return Err(json.unsupported("shards that are transposed or in shards"));
                    }
                    shard = Some(Shard::read(json, settings)?);
                    bytes = true;
                }
                (_, true) => match Packing::of(name) {
                    Some(packing) if shard.is_none() => chain.packed.push(packing),
                    _ => return Err(json.unsupported(format!("the codec {}", said(codec)))),
                },
                _ => return Err(json.unsupported(format!("the codec {}", said(codec)))),
            }
        }
        if bytes { Ok((chain, shard)) } else { Err(json.wrong("there is no codec 'bytes'")) }
    }

    fn transpose(&mut self, json: &Json, settings: &Value) -> Result<()> {
        let order = match settings["order"].as_str() {
            Some("F") => (0..self.order.len()).rev().collect(),
            Some("C") => (0..self.order.len()).collect(),
            _ => json.sizes(settings, "order")?,
        };
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..self.order.len()) {
            return Err(json.wrong(format!("the order {order:?} of axes is none")));
        }
        self.order = order.iter().map(|&a| self.order[a]).collect();
        Ok(())
    }

    /// The values of a chunk of these sizes in the order of the array's axes and in this machine's order of bytes.
    pub(super) fn unpack(
        &self,
        packed: Vec<u8>,
        shape: &[usize],
        data_type: DataType,
    ) -> std::result::Result<Vec<u8>, Damage> {
        let size = data_type.size();
        let expected = shape.iter().product::<usize>() * size;
        let mut bytes = self.bytes(packed, expected)?;
        if size > 1 && self.big_endian != cfg!(target_endian = "big") {
            bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        if self.order.iter().copied().eq(0..shape.len()) {
            return Ok(bytes);
        }
        let mut out = memory::zeroed(expected)?;
        self.reorder(&bytes, shape, size, &mut out);
        Ok(out)
    }

    /// Unpacked bytes of a known number.
    pub(super) fn bytes(
        &self,
        mut bytes: Vec<u8>,
        expected: usize,
    ) -> std::result::Result<Vec<u8>, Damage> {
        // What one codec makes for the next may be a little longer: checksums, and what could not be packed.
        let room = |left: usize| if left == 0 { expected } else { expected + expected / 8 + 1024 };
        for (left, packing) in self.packed.iter().enumerate().rev() {
            bytes = packing.unpack(&bytes, room(left))?;
        }
        if bytes.len() == expected {
            return Ok(bytes);
        }
        Err(format!("it has {} bytes of values, but {expected} are needed", bytes.len()).into())
    }

    fn reorder(&self, from: &[u8], shape: &[usize], size: usize, to: &mut [u8]) {
        // Steps in the array for each stored axis.
        let mut steps = vec![1; shape.len()];
        for a in (0..shape.len().saturating_sub(1)).rev() {
            steps[a] = steps[a + 1] * shape[a + 1];
        }
        let stored: Vec<(usize, usize)> =
            self.order.iter().map(|&a| (shape[a], steps[a])).collect();
        let mut at = vec![0; shape.len()];
        let mut place = 0;
        for value in from.chunks_exact(size) {
            to[place * size..][..size].copy_from_slice(value);
            for axis in (0..at.len()).rev() {
                let (n, step) = stored[axis];
                at[axis] += 1;
                place += step;
                if at[axis] < n {
                    break;
                }
                place -= n * step;
                at[axis] = 0;
            }
        }
    }
}

impl Shard {
    fn read(json: &Json, settings: &Value) -> Result<Shard> {
        let inner = json.sizes(settings, "chunk_shape")?;
        let (chain, nested) = Chain::read(json, &settings["codecs"], inner.len())?;
        let (index, odd) = Chain::read(json, &settings["index_codecs"], 1)?;
        let plain = index.packed.iter().all(|p| *p == Packing::Crc32c);
        if nested.is_some() || odd.is_some() || !plain || index.big_endian {
            return Err(json.unsupported(format!("the shards {}", said(settings))));
        }
        let index_first = settings["index_location"] == "start";
        Ok(Shard { inner, chain, index, index_first })
    }

    /// Bytes of the index of so many parts.
    pub(super) fn index_size(&self, parts: usize) -> Option<usize> {
        parts.checked_mul(16)?.checked_add(4 * self.index.packed.len())
    }
}
