//! Chunks of images that are streamed: made when they are asked for, and nowhere kept.

use super::scene::Scene;
use super::texture::Depth;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use voxalign_compute::comm::{CommError, Result};
use voxalign_compute::ops::joint::Block;
use voxalign_register::search::distributed::Supply;

/// How long something was done.
#[derive(Debug, Default)]
pub(super) struct Clocked {
    nanoseconds: AtomicU64,
}

impl Clocked {
    /// The seconds since this was called last.
    pub(super) fn take(&self) -> f64 {
        1e-9 * self.nanoseconds.swap(0, Ordering::Relaxed) as f64
    }
}

/// Chunks of a scene.
pub(super) struct Made {
    scene: Scene,
    making: Arc<Clocked>,
}

impl Made {
    /// With a clock of the making.
    pub(super) fn new(scene: Scene) -> (Self, Arc<Clocked>) {
        let making = Arc::new(Clocked::default());
        (Self { scene, making: Arc::clone(&making) }, making)
    }

    fn timed<T>(&self, work: impl FnOnce() -> voxalign_jobs::Result<T>) -> Result<T> {
        let start = Instant::now();
        let made = work().map_err(|e| CommError::Unavailable(e.to_string()));
        let nanoseconds = start.elapsed().as_nanos() as u64;
        self.making.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        made
    }
}

impl<P: Depth> Supply<P> for Made {
    fn fixed(&self, block: &Block) -> Result<Vec<u8>> {
        self.timed(|| self.scene.fixed_part::<P>(block))
    }

    fn moving(&self, block: &Block) -> Result<Vec<P>> {
        self.timed(|| self.scene.moving_part(block))
    }
}
