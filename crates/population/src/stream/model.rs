//! Streaming models: how the stages of a run are assigned to queues, and in which order they are submitted (Ha
//! 2011, section 4.4).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The engine that does the work of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Threads that read and unpack files.
    Reader,
    /// The copies from the host to the device.
    Upload,
    /// The computing units of the device.
    Compute,
    /// The copies from the device to the host.
    Download,
    /// The thread that packs and writes files.
    Writer,
}

impl Engine {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Upload => "upload",
            Self::Compute => "compute",
            Self::Download => "download",
            Self::Writer => "writer",
        }
    }

    /// Whether the device does it: a forced synchronisation waits for such work, and not for files.
    #[must_use]
    pub fn is_device(self) -> bool {
        matches!(self, Self::Upload | Self::Compute | Self::Download)
    }
}

/// The order in which upload, execution and download are asked for in each turn of the loop
/// (Ha 2011, section 4.5.2). It matters where a stage forces a synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    /// Upload, execution, download.
    UED,
    /// Upload, download, execution.
    UDE,
    /// Execution, upload, download.
    EUD,
    /// Execution, download, upload.
    EDU,
    /// Download, upload, execution.
    DUE,
    /// Download, execution, upload.
    DEU,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::UED, Self::UDE, Self::EUD, Self::EDU, Self::DUE, Self::DEU];

    /// The engines in this order.
    #[must_use]
    pub fn engines(self) -> [Engine; 3] {
        use Engine::{Compute as E, Download as D, Upload as U};
        match self {
            Self::UED => [U, E, D],
            Self::UDE => [U, D, E],
            Self::EUD => [E, U, D],
            Self::EDU => [E, D, U],
            Self::DUE => [D, U, E],
            Self::DEU => [D, E, U],
        }
    }

    /// Its name, such as `UED`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::UED => "UED",
            Self::UDE => "UDE",
            Self::EUD => "EUD",
            Self::EDU => "EDU",
            Self::DUE => "DUE",
            Self::DEU => "DEU",
        }
    }
}

/// Which of upload (U), execution (E) and download (D) share a queue, `_` between queues (Ha 2011,
/// section 4.4.4): the developer's guess at the engines of the hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(non_camel_case_types)] // the literature's names
pub enum Mapping {
    /// Upload concurrent with execution and download.
    U_ED,
    /// Upload and execution concurrent with download.
    UE_D,
    /// All three concurrent.
    U_E_D,
}

impl Mapping {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::U_ED, Self::UE_D, Self::U_E_D];

    /// The queue of an engine of the device, from 0.
    #[must_use]
    pub fn queue(self, engine: Engine) -> usize {
        match (self, engine) {
            (Self::U_ED, Engine::Compute | Engine::Download)
            | (Self::UE_D, Engine::Download)
            | (Self::U_E_D, Engine::Compute) => 1,
            (Self::U_E_D, Engine::Download) => 2,
            _ => 0,
        }
    }

    /// Its name, such as `U_ED`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::U_ED => "U_ED",
            Self::UE_D => "UE_D",
            Self::U_E_D => "U_E_D",
        }
    }
}

/// A streaming model (Ha 2011, section 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Model {
    /// One queue, one item after the other (algorithm 6).
    Synchronous,
    /// A stream an image (algorithm 8): all uploads are asked for, then all executions, then all
    /// downloads. All images are held at once.
    Implicit {
        /// The number of streams where it is not one per image: item `k` is in stream `k mod streams`, behind all
        /// uploads of that stream.
        streams: Option<usize>,
    },
    /// Queues that represent the engines of the hardware.
    HardwareAware(Mapping),
    /// A queue a stage, whatever the hardware is (algorithms 9 and 10).
    HardwareIndependent(Order),
}

impl Default for Model {
    fn default() -> Self {
        Self::HardwareIndependent(Order::UED)
    }
}

impl Model {
    /// One of each kind: synchronous, implicit, all mappings, all orders.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Synchronous, Self::Implicit { streams: None }];
        all.extend(Mapping::ALL.map(Self::HardwareAware));
        all.extend(Order::ALL.map(Self::HardwareIndependent));
        all
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Synchronous => f.write_str("synchronous"),
            Self::Implicit { streams: None } => f.write_str("implicit"),
            Self::Implicit { streams: Some(streams) } => write!(f, "implicit:{streams}"),
            Self::HardwareAware(mapping) => f.write_str(mapping.name()),
            Self::HardwareIndependent(order) => f.write_str(order.name()),
        }
    }
}

/// The most streams, each with a thread.
const MOST_STREAMS: usize = 1024;

impl FromStr for Model {
    type Err = String;

    /// `synchronous`, `implicit`, `implicit:N`, a mapping such as `U_ED` or an order such as `UED`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(streams) = text.strip_prefix("implicit:") {
            let streams = streams.parse().ok().filter(|n| (1..=MOST_STREAMS).contains(n));
            return streams
                .map(|n| Self::Implicit { streams: Some(n) })
                .ok_or_else(|| format!("give a number of streams from 1 to {MOST_STREAMS}"));
        }
        let all = Self::all();
        all.iter().find(|m| m.to_string() == text).copied().ok_or_else(|| {
            let names: Vec<_> = all.iter().map(ToString::to_string).collect();
            format!("use one of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for model in Model::all() {
            assert_eq!(model.to_string().parse(), Ok(model));
        }
        assert_eq!("implicit:9".parse(), Ok(Model::Implicit { streams: Some(9) }));
        for bad in ["", "implicit:0", "implicit:x", "UEDD", "DU_E"] {
            assert!(bad.parse::<Model>().is_err(), "{bad}");
        }
    }
}
