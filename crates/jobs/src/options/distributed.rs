//! Options of images that are read in blocks, and spread over devices.

use super::text::as_text;
use crate::error::{Error, Result};
use crate::role::Role;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;
use voxalign_io::pyramid::{Missing, PyramidOptions};
use voxalign_options::{Choice, Chosen, Given, Parameters, UseOf, text};
use voxalign_population::atlas::Bytes;
use voxalign_register::linear::spread::{Placement, SpreadMemory};
use voxalign_register::search::distributed::{ListOptions, StrategyKind};

/// The pixels around a block.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Around {
    /// Pixels around its block of the moving image that each rank has as well, as a fraction of the block on each side; at
    /// least the one pixel that interpolation needs
    #[parameter(
        default = 0.0,
        unit = "FRACTION",
        least = 0.0,
        most = 1.0,
        remedy = "give a fraction from 0 to 1"
    )]
    pub halo: f64,
}

/// How samples are sent to the rank that has their pixels.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Messages {
    /// The pixels around a block.
    #[parameter(flatten)]
    pub around: Around,
    /// Pixels of a side of the chunks after each of which ranks exchange samples
    #[parameter(default = 1536, unit = "PIXELS", least = 1, most = 32768)]
    pub chunk: usize,
    /// Chunks that are worked on at once
    #[parameter(default = 4, least = 1, most = 64)]
    pub streams: usize,
}

/// Register images that are read in blocks and may be larger than memory: sections and volumes in OME-Zarr, TIFF or
/// NIfTI, spread over the devices of all processes that mpirun starts, or over all GPUs of one. Only mi and nmi, of sections by default mi
#[derive(Debug, Clone, Copy, PartialEq, Choice)]
#[choice(option = "distributed", heading = "Images larger than a device")]
pub enum Distributed {
    /// The strategy that a model of the machine predicts to be fastest, of those that memory allows.
    Auto(Around),
    /// The whole moving image on every device.
    Replicate,
    /// A block of the moving image on each device; the rest is read from host memory.
    Halo(Around),
    /// A block on each device; samples are sent to the rank that has their pixels.
    List(Messages),
    /// A block on each device; the rest is read from the memory of the others.
    Peer(Around),
    /// Nothing stays on the device: chunks of both images pass through it.
    Stream,
}

/// How images are spread where that is asked for.
#[derive(Debug)]
pub struct Spreading;

impl UseOf<Distributed> for Spreading {}

impl Distributed {
    /// As a registration takes it.
    pub(crate) fn placement(self) -> Placement {
        use voxalign_compute::ops::joint::Halo;
        let halo = |around: Around| Halo::Fraction(around.halo);
        match self {
            Self::Auto(around) => Placement::Auto(halo(around)),
            Self::Replicate => Placement::Given(StrategyKind::Replicated),
            Self::Halo(around) => Placement::Given(StrategyKind::Halo(halo(around))),
            Self::List(of) => Placement::Given(StrategyKind::List(halo(of.around))),
            Self::Peer(around) => Placement::Given(StrategyKind::Peer(halo(around))),
            Self::Stream => Placement::Given(StrategyKind::Streamed),
        }
    }

    /// How messages are sent.
    pub(crate) fn list(self) -> ListOptions {
        let usual = ListOptions::default();
        match self {
            Self::List(of) => {
                let chunk = [of.chunk, of.chunk, usual.chunk[2]];
                ListOptions { chunk, streams: of.streams, ..usual }
            }
            _ => usual,
        }
    }
}

/// What images may take of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Parameters)]
pub struct ImageMemory {
    /// Memory that images may take on each device, such as 8GiB
    #[parameter(
        says = "seven tenths of the free memory of a GPU; of a CPU half, shared by all ranks"
    )]
    pub device_memory: Option<Bytes>,
    /// Memory that images may take on the host, for each rank
    #[parameter(says = "half the free memory, shared by all ranks")]
    pub host_memory: Option<Bytes>,
}

/// What is done where a chunk of an OME-Zarr is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum MissingChunks {
    /// It is an error, which names the file.
    Error,
    /// The chunk has the fill value of the array.
    Background,
}

/// The values that become the least and the largest of 16 bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueWindow(pub [f64; 2]);

impl FromStr for ValueWindow {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || "give two numbers, the lower one first, such as 0,1.5".to_owned();
        let parts: Vec<_> = text.split(',').collect();
        let [low, high] = parts[..] else { return Err(wrong()) };
        let number = |text: &str| super::number(text).map_err(|_| wrong());
        let [low, high] = [number(low)?, number(high)?];
        if low < high { Ok(Self([low, high])) } else { Err(wrong()) }
    }
}

impl Display for ValueWindow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.0[0], self.0[1])
    }
}

/// How images are read in blocks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "clap", command(next_help_heading = "Images larger than a device"))]
#[serde(default)]
pub struct DistributedOptions {
    /// How they are spread over devices.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub distributed: Chosen<Distributed, Spreading>,
    /// What they may take of memory.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub memory: Given<ImageMemory>,
    /// Channel of the fixed image, from 0 [default: the luminance of red, green and blue]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub fixed_channel: Option<usize>,
    /// Channel of the moving image, from 0 [default: the luminance of red, green and blue]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub moving_channel: Option<usize>,
    /// Values of the fixed image that become 0 and 65535; needed where they are neither 8 nor 16 bits
    #[cfg_attr(feature = "clap", arg(long, value_name = "LOW,HIGH", allow_hyphen_values = true))]
    #[serde(with = "as_text")]
    pub fixed_window: Option<ValueWindow>,
    /// The same for the moving image
    #[cfg_attr(feature = "clap", arg(long, value_name = "LOW,HIGH", allow_hyphen_values = true))]
    #[serde(with = "as_text")]
    pub moving_window: Option<ValueWindow>,
    /// What a missing chunk of an OME-Zarr is: an error, or its fill value, as some writers leave chunks of background
    /// out [default: error]
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub missing: Option<MissingChunks>,
    /// Folder for the coarser levels of files that lack them; what is there is used again, also after a run that was
    /// stopped or killed [default: pyramids in the folder of the results, removed at the end]
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR"))]
    pub work: Option<PathBuf>,
    /// GPUs of a single process [default: all of its machine]; under mpirun each process has one device
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = crate::team::from_one))]
    pub gpus: Option<usize>,
}

impl DistributedOptions {
    /// How images are spread; none where they are registered as wholes.
    ///
    /// # Errors
    /// Options that have no meaning without that, or are out of range.
    pub fn chosen(&self) -> Result<Option<Distributed>> {
        let Some(kind) = self.distributed.kind() else {
            // No kind has them: the message names those that do.
            self.distributed.check_used(&[])?;
            let given = [
                ("device_memory", self.memory.has("device_memory")),
                ("host_memory", self.memory.has("host_memory")),
                ("fixed_channel", self.fixed_channel.is_some()),
                ("moving_channel", self.moving_channel.is_some()),
                ("fixed_window", self.fixed_window.is_some()),
                ("moving_window", self.moving_window.is_some()),
                ("missing", self.missing.is_some()),
                ("work", self.work.is_some()),
                ("gpus", self.gpus.is_some()),
            ];
            let first = given.into_iter().find(|(_, given)| *given);
            return match first {
                Some((option, _)) => Err(Error::Ignored(option, text!("`distributed = auto`"))),
                None => Ok(None),
            };
        };
        let kind = self.distributed.over(kind)?;
        kind.check()?;
        self.memory()?;
        Ok(Some(kind))
    }

    /// What images may take of memory.
    ///
    /// # Errors
    /// What is no size.
    pub(crate) fn memory(&self) -> Result<SpreadMemory> {
        let given = self.memory.over(ImageMemory::USUAL)?;
        let bytes = |size: Option<Bytes>| size.map(|Bytes(bytes)| bytes);
        Ok(SpreadMemory { device: bytes(given.device_memory), host: bytes(given.host_memory) })
    }

    /// How an image is opened.
    pub(crate) fn of(&self, role: Role, volume: Option<usize>) -> PyramidOptions {
        let (channel, window) = match role {
            Role::Fixed => (self.fixed_channel, self.fixed_window),
            Role::Moving => (self.moving_channel, self.moving_window),
            _ => (None, None),
        };
        let missing = match self.missing {
            Some(MissingChunks::Background) => Missing::Background,
            Some(MissingChunks::Error) | None => Missing::Error,
        };
        PyramidOptions { channel, window: window.map(|w| w.0), missing, volume }
    }
}
