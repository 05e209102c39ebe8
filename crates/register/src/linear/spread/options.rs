//! Options of a registration of images that are spread over ranks, and what it gives.

use crate::error::{RegisterError, Result};
use crate::linear::{AffineOptions, AffineResult};
use crate::search::StageRecord;
use crate::search::distributed::{
    Estimate, LEAST_MEMORY, ListOptions, Machine, StrategyKind, Traffic,
};
use crate::search::optimiser::OptimiserKind;
use crate::similarity::Similarity;
use voxalign_compute::Dims;
use voxalign_compute::ops::joint::{BlockRule, Halo, MOST_BINS, PixelsPerThread, Window};
use voxalign_image::{Affine, memory};
use voxalign_options::Choice;

/// How images that are spread over ranks are registered.
#[derive(Debug, Clone, PartialEq)]
pub struct SpreadOptions {
    /// The search of whole images at a coarse scale, with the degrees of freedom and the optimiser of all scales.
    pub affine: AffineOptions,
    /// What is compared at the finer scales: mutual information or its normalised form.
    pub similarity: Similarity,
    /// Where moving pixels are.
    pub placement: Placement,
    /// What devices and hosts may hold.
    pub memory: SpreadMemory,
    /// How images are cut into blocks.
    pub blocks: BlockRule,
    /// How messages are sent, by [`StrategyKind::List`].
    pub list: ListOptions,
    /// How pixels are shared among the threads of a GPU.
    pub pixels_per_thread: PixelsPerThread,
}

/// Which strategy is taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Placement {
    /// This one at all scales.
    Given(StrategyKind),
    /// At each scale the first that [serves](crate::search::distributed::estimates), with this halo.
    Auto(Halo),
}

/// What images may take of the memory of a rank, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpreadMemory {
    /// Of its device; seven tenths of what is free where nothing is said.
    pub device: Option<u64>,
    /// Of its host; half of what is free, shared by all ranks, where nothing is said.
    pub host: Option<u64>,
}

/// What was compared at a scale.
#[derive(Debug, Clone, PartialEq)]
pub struct SpreadScale {
    /// The sizes of the fixed and of the moving image.
    pub dims: [Dims; 2],
    /// The strategy that was taken.
    pub strategy: StrategyKind,
    /// What each would take.
    pub estimates: Vec<Estimate>,
    /// The machine that was reckoned with.
    pub machine: Machine,
    /// What was moved between ranks in one evaluation under the map that was found.
    pub traffic: Traffic,
}

impl SpreadOptions {
    /// The window over moving bins: what leads down derivatives needs a smooth one.
    #[must_use]
    pub fn window(&self) -> Window {
        if self.optimiser().needs_gradient() { Window::Cubic } else { Window::Plain }
    }

    /// The optimiser of the finer scales.
    #[must_use]
    pub fn optimiser(&self) -> OptimiserKind {
        self.affine.optimiser
    }

    /// What can be told without the images.
    ///
    /// # Errors
    /// Those of [`bins`](Self::bins), and memory of a device that not even the smallest chunks of a stream have room in.
    pub fn check(&self) -> Result<()> {
        match self.memory.device {
            Some(bytes) if bytes < LEAST_MEMORY => Err(RegisterError::option(
                "device_memory",
                memory::amount(bytes),
                format!("give at least {}", memory::amount(LEAST_MEMORY)),
            )),
            _ => self.bins().map(drop),
        }
    }

    /// The number of bins of each image.
    ///
    /// # Errors
    /// A similarity without a joint histogram, and more bins than 128.
    pub fn bins(&self) -> Result<usize> {
        let bins = match self.similarity {
            Similarity::Mi(_) | Similarity::Nmi(_) => self.similarity.bins().unwrap_or_default(),
            _ => {
                let name = self.similarity.name().to_owned();
                return Err(RegisterError::option(
                    "cost",
                    name,
                    "for images that are spread over ranks give mi or nmi",
                ));
            }
        };
        if !(2..=MOST_BINS).contains(&bins) {
            return Err(RegisterError::option(
                "bins",
                bins,
                "for images that are spread over ranks give 2 to 128",
            ));
        }
        Ok(bins)
    }
}

/// The result of a registration of images that are spread over ranks; but for what is said to be at the first rank, the same at every rank.
#[derive(Debug, Clone)]
pub struct SpreadResult {
    /// Fixed world to moving world, mm.
    pub transform: Affine,
    /// What the search of whole images at a coarse scale found; at the first rank.
    pub whole: Option<AffineResult>,
    /// The scales of images that are compared in blocks, coarse to fine.
    pub stages: Vec<StageRecord>,
    /// How far corners of the fixed image moved since the coarse scale, at most, mm.
    pub moved: f64,
    /// Cost at the finest scale where it began and where it ended.
    pub costs: [f64; 2],
    /// How these scales were spread over ranks.
    pub scales: Vec<SpreadScale>,
    /// The transform as the images at the coarse scale see it, with evidence and the verdict; at the first rank.
    pub judged: Option<AffineResult>,
}
