//! Memory: bounded, and told before.

use crate::{emulated, grid, images, with};
use std::sync::atomic::{AtomicUsize, Ordering};
use voxalign_compute::cuda::MemoryLimit;
use voxalign_image::Grid;
use voxalign_population::Result;
use voxalign_population::stream::operators::{Extreme, Mean, WindowMean};
use voxalign_population::stream::{
    Kept, Loaded, Model, Source, StreamOptions, miso, sliding_window,
};

/// A source that makes its images, and counts how many are asked for at once.
struct Made {
    grid: Grid,
    count: usize,
    read: AtomicUsize,
}

impl Source for Made {
    fn count(&self) -> usize {
        self.count
    }
    fn grid(&self) -> &Grid {
        &self.grid
    }
    fn read(&self, item: usize, out: &mut [f32]) -> Result<()> {
        self.read.fetch_add(1, Ordering::SeqCst);
        out.fill(item as f32);
        Ok(())
    }
    fn bound(&self) -> Option<f64> {
        Some(self.count as f64)
    }
}

/// The memory of the device is the same for 10 and for 300 images, and its buffers are made once.
#[test]
fn memory_does_not_grow() {
    let mut found = Vec::new();
    for count in [10, 300] {
        let Some(cuda) = emulated() else { return };
        let made = Made { grid: grid([4, 3, 2]), count, read: AtomicUsize::new(0) };
        let before = cuda.pool();
        let operator = Mean::new(&[], count as f64).unwrap();
        let mean = miso(&cuda, &made, &operator, &with(None), &()).unwrap();
        let first = cuda.pool();
        let kept = Kept::default();
        let window = WindowMean { radius: 1 };
        let done = sliding_window(&cuda, &made, &window, &kept, &with(None), &()).unwrap();
        let second = cuda.pool();
        // Each image is brought once, for all the windows that it is in.
        assert_eq!(made.read.load(Ordering::SeqCst), 2 * count);
        assert_eq!(second.live, before.live);
        found.push([
            first.allocations - before.allocations,
            second.allocations - first.allocations,
            second.peak,
            mean.bytes[0] + mean.bytes[1],
            done.bytes[0] + done.bytes[1],
        ]);
    }
    assert_eq!(found[0], found[1]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(cuda) = emulated() else { return };
    let images = images([9, 6, 5], 20);
    let source = Loaded::new(&images).unwrap();
    let run = |options: &StreamOptions| miso(&cuda, &source, &Extreme::Max, options, &());
    cuda.limit_memory(MemoryLimit::Bytes(20_000));
    assert!(run(&with(None)).is_ok());
    let implicit = with(Some(Model::Implicit { streams: None }));
    let said = run(&implicit).err().unwrap().to_string();
    assert!(said.contains("all 20 images at once") && said.contains("21 KiB"), "{said}");
    cuda.limit_memory(MemoryLimit::Bytes(1500));
    assert!(run(&with(None)).err().unwrap().to_string().contains("1.5 KiB"));
    cuda.limit_memory(MemoryLimit::Device);
    let given = StreamOptions { memory: Some(1000), ..with(None) };
    assert!(run(&given).is_err());
    assert!(run(&StreamOptions { memory: Some(2160), ..given }).is_ok());
}
