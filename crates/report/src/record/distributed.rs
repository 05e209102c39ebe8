//! The record of a registration of images that are spread over ranks.

use serde::{Deserialize, Serialize};
use voxalign_register::numbers::null_is_nan;

/// How images were read, and spread over devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DistributedRecord {
    /// What was asked for: `auto`, or the name of a strategy.
    pub asked: String,
    /// The ranks.
    pub ranks: Vec<RankRecord>,
    /// The images, as they were read.
    pub images: Vec<PyramidRecord>,
    /// Sizes of the fixed and of the moving image at the scale at which they were searched as wholes, pixels.
    pub whole: [[usize; 3]; 2],
    /// The finer scales, at which they were compared in blocks, coarse to fine.
    pub scales: Vec<BlockScaleRecord>,
    /// How far corners of the fixed image moved at these scales, at most, mm.
    #[serde(deserialize_with = "null_is_nan")]
    pub moved_mm: f64,
}

/// A rank: a process, or a thread of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRecord {
    /// Where it is, such as `Open MPI 5.0 on node7`.
    pub name: String,
    /// Its device.
    pub device: String,
    /// The peak memory of its process, bytes, where the system reports it.
    pub peak_memory_bytes: Option<u64>,
    /// The most that buffers took at once of the device's own memory, bytes; of a GPU.
    #[serde(default)]
    pub device_peak_bytes: Option<u64>,
}

/// An image with its levels.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PyramidRecord {
    /// What it is: `fixed`, `moving` or `fixed_mask`.
    pub role: String,
    /// Its format, such as `OME-Zarr (Zarr 2)`.
    pub format: String,
    /// Bits of a pixel as it was registered, 8 or 16.
    pub bits: usize,
    /// Channels of the file.
    pub channels: usize,
    /// Sizes of the levels, fine to coarse, pixels.
    pub levels: Vec<[usize; 3]>,
    /// How many of them the run made, or found made by an earlier one.
    pub made: usize,
}

/// A scale at which images were compared in blocks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockScaleRecord {
    /// Sizes of the fixed and of the moving image, pixels.
    pub dims: [[usize; 3]; 2],
    /// The strategy that was taken.
    pub strategy: String,
    /// Samples of one evaluation, of all ranks.
    pub samples: u64,
    /// Those whose pixels were not in the memory of the own device.
    pub remote_reads: u64,
    /// Those that were sent to another rank.
    pub messages: u64,
    /// The bytes of all messages.
    pub message_bytes: u64,
    /// Memory of each device that images may take, bytes.
    pub device_memory_bytes: u64,
    /// Memory of the host that images of a rank may take, bytes.
    pub host_memory_bytes: u64,
    /// Whether ranks read each other's memory.
    pub peers: bool,
    /// What each strategy was reckoned to take, those that serve first, the fastest in front.
    pub estimates: Vec<EstimateRecord>,
}

/// What a strategy was reckoned to take, of the rank that takes most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EstimateRecord {
    /// Its name.
    pub strategy: String,
    /// Memory of the device for images and messages, bytes.
    pub device_bytes: u64,
    /// Memory of the host for images, bytes.
    pub host_bytes: u64,
    /// The part of the samples whose pixels another rank has.
    #[serde(deserialize_with = "null_is_nan")]
    pub remote: f64,
    /// Seconds of one joint histogram.
    #[serde(deserialize_with = "null_is_nan")]
    pub seconds: f64,
    /// Whether memory is enough, and the machine can do it.
    pub serves: bool,
}
