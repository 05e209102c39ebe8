//! Messages: samples whose moving pixels another rank has.

use super::{Block, Decomposition, JointRule};
use crate::device::Memory;
use crate::error::{ComputeError, Result, check_len};

/// How the numbers of messages lie in memory. A message is a fixed bin and the coordinates of a sample, two where the moving image has one plane
/// and else three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MessageLayout {
    /// A structure of arrays: bins as bytes, from a whole word on, then all coordinates along x, y and z, a word each. 9 or 13 bytes a message.
    #[default]
    Arrays,
    /// An array of structures: a word for the bin, then one for each coordinate. 12 or 16 bytes a message.
    Structures,
}

impl MessageLayout {
    /// The words of room for so many messages.
    #[must_use]
    pub fn words(self, messages: usize, axes: usize) -> usize {
        match self {
            Self::Arrays => messages.div_ceil(4) + axes * messages,
            Self::Structures => (1 + axes) * messages,
        }
    }
}

/// How a device collects messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Collect {
    /// Every pixel writes to a slot of its own; if any has sent, a second pass brings the messages of each rank together. One list of as many
    /// messages as pixels.
    Compacted,
    /// Every message goes to the end of the list of its receiver: one atomic addition for each warp and receiver. A list of as many messages as
    /// pixels for each rank.
    #[default]
    Atomic,
}

/// Where messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sending {
    /// The blocks of the moving image; a sample belongs to the rank that has the lowest pixel of its cell.
    pub owners: Decomposition,
    /// The own rank, which gets no messages.
    pub own: usize,
    /// The cells that need no messages, as they are here, beside the own ones: those of the own block with its halo.
    pub here: Block,
    /// How messages lie in memory.
    pub layout: MessageLayout,
    /// How they are collected.
    pub collect: Collect,
    /// The most pixels of a part.
    pub most: usize,
    /// The numbers of a coordinate.
    pub axes: usize,
}

impl Sending {
    /// The room for messages in the lists of all ranks together.
    #[must_use]
    pub fn room(&self) -> usize {
        match self.collect {
            Collect::Compacted => self.most,
            Collect::Atomic => self.most * self.owners.ranks(),
        }
    }

    /// The words of the lists.
    #[must_use]
    pub fn words(&self) -> usize {
        self.layout.words(self.room(), self.axes)
    }

    /// The numbers of memory that collecting needs beside.
    #[must_use]
    pub fn scratch(&self) -> usize {
        match self.collect {
            // The receiver and the bin of every pixel, and its coordinates.
            Collect::Compacted => self.most * (1 + self.axes) + self.owners.ranks(),
            Collect::Atomic => 0,
        }
    }

    /// Where the list of each rank begins, in messages.
    #[must_use]
    pub fn starts(&self, counts: &[u32]) -> Vec<usize> {
        let mut next = 0;
        let start = |(rank, &count): (usize, &u32)| match self.collect {
            Collect::Atomic => rank * self.most,
            Collect::Compacted => {
                let start = next;
                next += count as usize;
                start
            }
        };
        counts.iter().enumerate().map(start).collect()
    }

    /// Checks that lists fit.
    pub(crate) fn check(
        &self,
        rule: &JointRule,
        part: usize,
        [words, counts, scratch]: [usize; 3],
    ) -> Result<()> {
        if self.axes != rule.axes() || self.owners.dims() != rule.moving {
            let value = format!("{:?} in {} axes", self.owners.dims(), self.axes);
            return Err(ComputeError::argument("the image of messages", value, "the moving image"));
        }
        if part > self.most || self.most >= 1 << 31 || self.owners.ranks() >= 1 << 23 {
            let expected = "at most as many as there is room for, and below 2^31";
            return Err(ComputeError::argument("the pixels of a chunk", part, expected));
        }
        check_len("messages", self.words(), words)?;
        check_len("numbers of messages, one of each rank", self.owners.ranks(), counts)?;
        check_len("scratch of messages", self.scratch(), scratch)
    }
}

/// The memory of a device for messages.
#[derive(Debug)]
pub struct Outbox<D: Memory> {
    /// The lists of all ranks.
    pub words: D::Buffer<u32>,
    /// The number of messages for each rank.
    pub counts: D::Buffer<u32>,
    /// What collecting needs beside.
    pub scratch: D::Buffer<u32>,
}

impl<D: Memory> Outbox<D> {
    /// Room for what is sent.
    ///
    /// # Errors
    /// [`OutOfMemory`](ComputeError::OutOfMemory).
    pub fn new(device: &D, sending: &Sending) -> Result<Self> {
        Ok(Self {
            words: device.alloc(sending.words())?,
            counts: device.alloc(sending.owners.ranks())?,
            scratch: device.alloc(sending.scratch())?,
        })
    }

    /// The messages for each rank as bytes to be sent: for each rank the words of one list.
    ///
    /// # Errors
    /// What failed on the device.
    pub fn bytes(&self, device: &D, sending: &Sending) -> Result<Vec<Vec<u8>>> {
        let counts = device.download(&self.counts)?;
        let starts = sending.starts(&counts);
        let list =
            |(&start, &count): (&usize, &u32)| self.list(device, sending, start, count as usize);
        starts.iter().zip(&counts).map(list).collect()
    }

    fn list(&self, device: &D, sending: &Sending, start: usize, count: usize) -> Result<Vec<u8>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let (room, axes) = (sending.room(), sending.axes);
        let mut words = crate::host::zeroed::<u32>(sending.layout.words(count, axes))?;
        match sending.layout {
            MessageLayout::Structures => {
                device.download_part(&self.words, start * (1 + axes), &mut words)?;
            }
            MessageLayout::Arrays => {
                let (bins, coordinates) = words.split_at_mut(count.div_ceil(4));
                let first = start / 4;
                let mut around = crate::host::zeroed::<u32>((start + count).div_ceil(4) - first)?;
                device.download_part(&self.words, first, &mut around)?;
                let bytes = around.iter().flat_map(|w| w.to_le_bytes()).skip(start % 4).take(count);
                for (i, byte) in bytes.enumerate() {
                    bins[i / 4] |= u32::from(byte) << (8 * (i % 4));
                }
                for (a, out) in coordinates.chunks_mut(count).enumerate() {
                    device.download_part(&self.words, room.div_ceil(4) + a * room + start, out)?;
                }
            }
        }
        Ok(words.iter().flat_map(|w| w.to_le_bytes()).collect())
    }
}

impl MessageLayout {
    /// The messages in bytes that came from a rank.
    ///
    /// # Errors
    /// [`ComputeError::Argument`] if these are no whole messages.
    pub fn count(self, bytes: usize, axes: usize) -> Result<usize> {
        let words = bytes / 4;
        let count = match self {
            Self::Structures => words / (1 + axes),
            // ⌈n / 4⌉ + axes n words
            Self::Arrays => 4 * words / (4 * axes + 1),
        };
        if bytes == 4 * self.words(count, axes) {
            return Ok(count);
        }
        Err(ComputeError::argument(
            "messages of a rank",
            format!("{bytes} bytes"),
            "whole messages",
        ))
    }

    /// The lists of several ranks as one, and the number of its messages.
    ///
    /// # Errors
    /// As [`count`](Self::count); [`OutOfMemory`](ComputeError::OutOfMemory).
    pub fn joined(self, lists: &[Vec<u8>], axes: usize) -> Result<(Vec<u32>, usize)> {
        let counts = lists.iter().map(|l| self.count(l.len(), axes)).collect::<Result<Vec<_>>>()?;
        let all: usize = counts.iter().sum();
        let mut words = crate::host::zeroed::<u32>(self.words(all, axes))?;
        let word = |b: &[u8]| b.try_into().map_or(0, u32::from_le_bytes);
        let mut start = 0;
        for (list, &count) in lists.iter().zip(&counts) {
            match self {
                Self::Structures => {
                    let out = &mut words[start * (1 + axes)..];
                    out.iter_mut().zip(list.chunks_exact(4)).for_each(|(o, b)| *o = word(b));
                }
                Self::Arrays => {
                    let (bins, coordinates) = list.split_at(4 * count.div_ceil(4));
                    for (i, &bin) in bins.iter().take(count).enumerate() {
                        let at = start + i;
                        words[at / 4] |= u32::from(bin) << (8 * (at % 4));
                    }
                    for (a, own) in coordinates.chunks(4 * count.max(1)).enumerate() {
                        let out = &mut words[all.div_ceil(4) + a * all + start..];
                        out.iter_mut().zip(own.chunks_exact(4)).for_each(|(o, b)| *o = word(b));
                    }
                }
            }
            start += count;
        }
        Ok((words, all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_messages_say_how_many_they_are() {
        for layout in [MessageLayout::Arrays, MessageLayout::Structures] {
            for axes in [2, 3] {
                for n in 0..200 {
                    let bytes = 4 * layout.words(n, axes);
                    assert_eq!(layout.count(bytes, axes).unwrap(), n);
                    assert!(layout.count(bytes + 1, axes).is_err());
                }
            }
        }
    }

    #[test]
    fn lists_are_joined_in_order() {
        let axes = 2;
        for layout in [MessageLayout::Arrays, MessageLayout::Structures] {
            let list = |first: u32, n: u32| -> Vec<u8> {
                let mut words = vec![0u32; layout.words(n as usize, axes)];
                for i in 0..n {
                    match layout {
                        MessageLayout::Structures => {
                            for k in 0..3 {
                                words[(3 * i + k) as usize] = 10 * (first + i) + k;
                            }
                        }
                        MessageLayout::Arrays => {
                            words[i as usize / 4] |= (first + i) << (8 * (i % 4));
                            for a in 0..2 {
                                let at = n.div_ceil(4) + a * n + i;
                                words[at as usize] = 10 * (first + i) + a;
                            }
                        }
                    }
                }
                words.iter().flat_map(|w| w.to_le_bytes()).collect()
            };
            let joined = layout.joined(&[list(0, 3), vec![], list(3, 6)], axes).unwrap();
            let at_once = layout.joined(&[list(0, 9)], axes).unwrap();
            assert_eq!((&joined, joined.1), (&at_once, 9));
        }
    }
}
