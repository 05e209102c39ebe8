//! The extent of the measurements.

use super::scene::Sizes;

/// A number of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// This many random ones.
    Some(usize),
    /// All of the region.
    All,
}

/// The measurements and their subjects.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Launches of a measurement.
    pub(super) repeat: usize,
    /// The factor by which voxels are longer than they should be.
    pub(super) coarser: usize,
    pub(super) volumes: Vec<Sizes>,
    /// Columns and rows of the region.
    pub(super) region: [usize; 2],
    /// Numbers of pixels over the rules, and over the threads of a block.
    pub(super) rules: Vec<Count>,
    pub(super) blocks: Vec<Count>,
    pub(super) threads: Vec<usize>,
    /// Poses of a batch, and columns and rows of its images.
    pub(super) poses: usize,
    pub(super) frame: usize,
}

/// The numbers of pixels of table 2.3.
const RULES: [usize; 9] = [1024, 1536, 2048, 3072, 4096, 10240, 20480, 30720, 40960];
/// Those of figures 2.6 to 2.14 and C.1 to C.4, and of table 2.4.
const BLOCKS: [usize; 14] =
    [1024, 1536, 2048, 3072, 4096, 6144, 8192, 10240, 15360, 20480, 25600, 30720, 35840, 40960];
/// The threads of blocks there.
const THREADS: [usize; 15] = [8, 10, 12, 14, 16, 32, 64, 96, 128, 160, 192, 224, 256, 384, 512];

impl Default for Plan {
    fn default() -> Self {
        let counts = |numbers: &[usize]| {
            numbers.iter().map(|&n| Count::Some(n)).chain([Count::All]).collect()
        };
        Self {
            repeat: 100,
            coarser: 1,
            volumes: vec![Sizes::Spine],
            region: [400, 225],
            rules: counts(&RULES),
            blocks: counts(&BLOCKS),
            threads: THREADS.to_vec(),
            poses: 32,
            frame: 200,
        }
    }
}

impl Plan {
    /// A few numbers of pixels and sizes of blocks.
    pub(super) fn quick() -> Self {
        let few = vec![Count::Some(1024), Count::Some(10240), Count::All];
        Self {
            repeat: 10,
            rules: few.clone(),
            blocks: few,
            threads: vec![8, 32, 64, 256],
            ..Self::default()
        }
    }

    /// The pixels of a count.
    pub(super) fn pixels(&self, count: Count) -> usize {
        match count {
            Count::Some(n) => n,
            Count::All => self.region[0] * self.region[1],
        }
    }
}
