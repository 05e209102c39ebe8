//! The numbers that a file gives to nodes and elements.

use crate::error::{IoError, Result};
use std::path::Path;
use voxalign_image::memory;

/// Numbers of things in the order of the file, and where each is once they are sorted.
#[derive(Debug, Default)]
pub(super) struct Tags(Vec<(u64, u32)>);

impl Tags {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, path: &Path, tag: u64) -> Result<()> {
        let index = u32::try_from(self.0.len()).map_err(|_| {
            let what = "there are more than 2^32 nodes or elements";
            IoError::unsupported(path, what, "make a coarser mesh")
        })?;
        memory::push(&mut self.0, (tag, index)).map_err(|e| IoError::memory(path, e))
    }

    /// Sorts them, and gives one that is there twice.
    pub(super) fn sort(&mut self) -> Option<u64> {
        self.0.sort_unstable();
        self.0.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0)
    }

    /// Where a number is in the file; only once they are sorted.
    pub(super) fn find(&self, tag: u64) -> Option<u32> {
        let (first, _) = *self.0.first()?;
        // Most files count without gaps.
        let at = usize::try_from(tag.checked_sub(first)?).ok()?;
        match self.0.get(at) {
            Some(&(found, index)) if found == tag => Some(index),
            _ => {
                let at = self.0.binary_search_by_key(&tag, |&(tag, _)| tag).ok()?;
                self.0.get(at).map(|&(_, index)| index)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_with_gaps_and_in_any_order() {
        for tags in [[5, 6, 7, 8], [8, 1, 900, 3]] {
            let mut all = Tags::default();
            assert_eq!(all.find(1), None);
            tags.iter().for_each(|&tag| all.push(Path::new("a"), tag).unwrap());
            assert_eq!(all.sort(), None);
            tags.iter().zip(0..).for_each(|(&tag, i)| assert_eq!(all.find(tag), Some(i)));
            assert!([0, 2, 9, 901].iter().all(|&tag| all.find(tag).is_none()));
            all.push(Path::new("a"), 8).unwrap();
            assert_eq!(all.sort(), Some(8));
        }
    }
}
