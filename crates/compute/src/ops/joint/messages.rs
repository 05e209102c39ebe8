//! Messages: samples whose moving pixels another rank has.

use voxalign_compute_macros::forwarded;

use super::{Block, Decomposition, JointRule};
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result, check_len, check_part};
use crate::host::zeroed;

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

/// Messages in memory: some of those that there is room for.
#[derive(Debug)]
#[forwarded]
pub struct Messages<'a, D: Memory> {
    /// The memory.
    pub words: &'a D::Buffer<u32>,
    /// How the numbers of messages lie there.
    pub layout: MessageLayout,
    /// The messages that there is room for.
    pub room: usize,
    /// The place of the first of these messages.
    pub first: usize,
    /// How many they are.
    pub count: usize,
}

impl<'a, D: Memory> Messages<'a, D> {
    /// One list of messages that fills the memory.
    #[must_use]
    pub fn list(words: &'a D::Buffer<u32>, layout: MessageLayout, count: usize) -> Self {
        Self { words, layout, room: count, first: 0, count }
    }
}

/// Checks that messages are where they are said to be.
pub(crate) fn check_messages<D: Memory>(
    rule: &JointRule,
    messages: &Messages<'_, D>,
) -> Result<()> {
    let Messages { words, layout, room, first, count } = *messages;
    check_len("messages", layout.words(room, rule.axes()), words.len())?;
    check_part(room, first, count)
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
        if u32::try_from(self.room()).is_err() {
            let expected = "below 2^32: use smaller chunks, or compacted messages";
            let (what, room) = ("the room for messages to all ranks", self.room());
            return Err(ComputeError::argument(what, room, expected));
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

    /// The messages for a rank, in a number and from a place that are known.
    #[must_use]
    pub fn messages<'a>(
        &'a self,
        sending: &Sending,
        [first, count]: [usize; 2],
    ) -> Messages<'a, D> {
        let (layout, room) = (sending.layout, sending.room());
        Messages { words: &self.words, layout, room, first, count }
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
        let mut bytes = zeroed::<u8>(4 * sending.layout.words(count, axes))?;
        let part = |first: usize, out: &mut [u8]| self.part(device, first, out);
        match sending.layout {
            MessageLayout::Structures => part(start * (1 + axes), &mut bytes)?,
            MessageLayout::Arrays => {
                let (bins, coordinates) = bytes.split_at_mut(4 * count.div_ceil(4));
                let first = start / 4;
                let mut around = zeroed::<u8>(4 * ((start + count).div_ceil(4) - first))?;
                part(first, &mut around)?;
                bins[..count].copy_from_slice(&around[start % 4..start % 4 + count]);
                for (a, out) in coordinates.chunks_mut(4 * count).enumerate() {
                    part(room.div_ceil(4) + a * room + start, out)?;
                }
            }
        }
        Ok(bytes)
    }

    /// Copies words to bytes, the lowest one first, without a detour where memory allows for it.
    fn part(&self, device: &D, first: usize, out: &mut [u8]) -> Result<()> {
        if cfg!(target_endian = "little")
            && let Ok(words) = bytemuck::try_cast_slice_mut(out)
        {
            return device.download_part(&self.words, first, words);
        }
        let mut words = zeroed::<u32>(out.len() / 4)?;
        device.download_part(&self.words, first, &mut words)?;
        for (bytes, word) in out.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Ok(())
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
        let mut words = zeroed::<u32>(self.words(all, axes))?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        let mut start = 0;
        for (list, &count) in lists.iter().zip(&counts).filter(|(_, count)| **count > 0) {
            match self {
                Self::Structures => {
                    let first = 4 * (1 + axes) * start;
                    bytes[first..first + list.len()].copy_from_slice(list);
                }
                Self::Arrays => {
                    let (bins, coordinates) = list.split_at(4 * count.div_ceil(4));
                    bytes[start..start + count].copy_from_slice(&bins[..count]);
                    for (a, own) in coordinates.chunks_exact(4 * count).enumerate() {
                        let first = 4 * (all.div_ceil(4) + a * all + start);
                        bytes[first..first + own.len()].copy_from_slice(own);
                    }
                }
            }
            start += count;
        }
        if cfg!(target_endian = "big") {
            words.iter_mut().for_each(|word| *word = u32::from_le(*word));
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
