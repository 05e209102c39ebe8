//! Bytes that are copied between the host and devices, counted.

use super::Cuda;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that were copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transfers {
    /// From the host to a device.
    pub to_device: u64,
    /// From a device to the host.
    pub to_host: u64,
    /// Within a device.
    pub within_device: u64,
    /// Of those to the host, the ones of images that were in the memory of a device and were needed on the host.
    pub images_to_host: u64,
}

/// What bytes are counted as.
#[derive(Debug, Clone, Copy)]
pub(in crate::cuda) enum Way {
    ToDevice,
    ToHost,
    WithinDevice,
    ImageToHost,
}

/// Counters of bytes.
#[derive(Debug, Default)]
pub(in crate::cuda) struct Moved([AtomicU64; 4]);

/// Those of all devices of this process.
static ALL: Moved = Moved([const { AtomicU64::new(0) }; 4]);

impl Moved {
    fn add(&self, way: Way, bytes: u64) {
        self.0[way as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    fn transfers(&self) -> Transfers {
        let [to_device, to_host, within_device, images_to_host] =
            std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed));
        Transfers { to_device, to_host, within_device, images_to_host }
    }
}

/// The bytes that all devices of this process have copied since it began. Copies by libraries and between processes are not
/// counted.
#[must_use]
pub fn transfers() -> Transfers {
    ALL.transfers()
}

impl Cuda {
    /// The same of this handle and those derived from it.
    #[must_use]
    pub fn transfers(&self) -> Transfers {
        self.0.ledger.moved.transfers()
    }

    /// Counts bytes that are copied.
    pub(in crate::cuda) fn moves(&self, way: Way, bytes: u64) {
        self.0.ledger.moved.add(way, bytes);
        ALL.add(way, bytes);
    }
}
