//! Label maps of subjects on the grid of an atlas.

use crate::atlas::subjects::away::failed;
use crate::error::Result;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use voxalign_image::{Grid, LabelMap, Volume, memory};
use voxalign_register::RegisterError;
use voxalign_register::compare::{OverlapRule, compare_labels};

/// The mean over all pairs of subjects of the mean Dice of the labels of which both have 50 voxels or
/// more; none where no pair has one.
///
/// # Errors
/// Maps on different grids, or without any label.
pub fn mean_overlap(labels: &[LabelMap]) -> Result<Option<f64>> {
    let (mut sum, mut count) = (0.0, 0);
    let rule = OverlapRule { min_voxels: 50, ..OverlapRule::default() };
    for (i, a) in labels.iter().enumerate() {
        for b in &labels[..i] {
            if let Some(dice) =
                compare_labels(a, b, None, &rule).map_err(RegisterError::from)?.mean_dice
            {
                sum += dice;
                count += 1;
            }
        }
    }
    Ok((count > 0).then(|| sum / f64::from(count)))
}

/// The label that most maps have at each voxel, of several the smallest.
#[must_use]
pub fn most_frequent(labels: &[LabelMap]) -> Option<LabelMap> {
    most_weight(labels, &vec![1.0; labels.len()])
}

/// The label with the most weight at each voxel, the smallest of several: each map is counted with its weight. None
/// without maps, or if the number of weights differs.
#[must_use]
pub fn most_weight(labels: &[LabelMap], weights: &[f64]) -> Option<LabelMap> {
    let first = labels.first().filter(|_| weights.len() == labels.len())?;
    let mut votes: BTreeMap<i32, f64> = BTreeMap::new();
    let data = (0..first.data().len())
        .map(|i| most(&mut votes, labels.iter().map(|m| m.data()[i]).zip(weights.iter().copied())))
        .collect();
    Volume::new(first.grid().clone(), data).ok()
}

/// The most subjects of which all pairs are compared; of more, each is compared with as many others, less
/// one.
const COMPARED: usize = 21;
/// Voxels of all maps that are looked at together.
const SLAB: usize = 1 << 18;

/// Label maps of one grid in files of their own, however many there are.
#[derive(Debug, Clone)]
pub struct LabelFiles {
    folder: PathBuf,
    grid: Grid,
}

impl LabelFiles {
    /// In a folder that is there.
    #[must_use]
    pub fn new(folder: &Path, grid: &Grid) -> Self {
        Self { folder: folder.to_owned(), grid: grid.clone() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.labels"))
    }

    /// Keeps a map under a name.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn put(&self, name: &str, map: &LabelMap) -> Result<()> {
        let path = self.path(name);
        fs::write(&path, bytemuck::cast_slice(map.data())).map_err(|e| failed(&path, "write", &e))
    }

    fn get(&self, name: &str) -> Result<LabelMap> {
        let mut data = memory::zeroed::<i32>(self.grid.len())?;
        self.read(name, 0, &mut data)?;
        Ok(Volume::new(self.grid.clone(), data)?)
    }

    /// Reads voxels from a number on.
    fn read(&self, name: &str, first: usize, into: &mut [i32]) -> Result<()> {
        let path = self.path(name);
        let mut read = || {
            let mut file = fs::File::open(&path)?;
            file.seek(SeekFrom::Start(4 * first as u64))?;
            file.read_exact(bytemuck::cast_slice_mut(into))
        };
        read().map_err(|e| failed(&path, "read", &e))
    }

    /// As [`mean_overlap`]; of more than 21 maps each is compared with the 20 that follow it, the first
    /// after the last.
    ///
    /// # Errors
    /// Files that cannot be read; maps without any label.
    pub fn mean_overlap(&self, names: &[String]) -> Result<Option<f64>> {
        let n = names.len();
        let most = n.min(COMPARED);
        let rule = OverlapRule { min_voxels: 50, ..OverlapRule::default() };
        let (mut sum, mut count) = (0.0, 0);
        let mut window: VecDeque<LabelMap> = VecDeque::new();
        let rounds = if n <= COMPARED { n } else { n + COMPARED - 1 };
        for i in 0..rounds {
            let map = self.get(&names[i % n])?;
            // The first ones come once more after the last, to meet those before them.
            let first = i - window.len();
            for (_, other) in window.iter().enumerate().filter(|(j, _)| first + j < n) {
                let found =
                    compare_labels(&map, other, None, &rule).map_err(RegisterError::from)?;
                if let Some(dice) = found.mean_dice {
                    sum += dice;
                    count += 1;
                }
            }
            window.push_back(map);
            if window.len() >= most {
                window.pop_front();
            }
        }
        Ok((count > 0).then(|| sum / f64::from(count)))
    }

    /// As [`most_weight`].
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn most_weight(&self, names: &[String], weights: &[f64]) -> Result<Option<LabelMap>> {
        if names.is_empty() || names.len() != weights.len() {
            return Ok(None);
        }
        let mut data = memory::room(self.grid.len())?;
        while data.len() < self.grid.len() {
            let (first, len) = (data.len(), SLAB.min(self.grid.len() - data.len()));
            let mut maps = memory::zeroed::<i32>(len * names.len())?;
            for (name, map) in names.iter().zip(maps.chunks_mut(len)) {
                self.read(name, first, map)?;
            }
            let mut votes: BTreeMap<i32, f64> = BTreeMap::new();
            data.extend((0..len).map(|i| {
                let of = (0..names.len()).map(|m| (maps[m * len + i], weights[m]));
                most(&mut votes, of)
            }));
        }
        Ok(Some(Volume::new(self.grid.clone(), data)?))
    }
}

/// The label of the most weight, of several the smallest.
fn most(votes: &mut BTreeMap<i32, f64>, all: impl Iterator<Item = (i32, f64)>) -> i32 {
    votes.clear();
    for (label, weight) in all {
        *votes.entry(label).or_default() += weight;
    }
    let most = votes.iter().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)));
    most.map_or(0, |(label, _)| *label)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of few maps all pairs are compared, of many each with the ones that follow.
    #[test]
    fn files_of_labels() {
        let folder = tempfile::tempdir().unwrap();
        let grid = Grid::axis_aligned([20, 20, 2], [1.0; 3]).unwrap();
        let maps: Vec<LabelMap> = (0..25)
            .map(|i| {
                Volume::from_fn(grid.clone(), |x, y, _| {
                    i32::from(x > i % 7) + i32::from(y > i % 5 + x / 9)
                })
            })
            .collect();
        let names: Vec<String> = (0..25).map(|i| i.to_string()).collect();
        let files = LabelFiles::new(folder.path(), &grid);
        for (name, map) in names.iter().zip(&maps) {
            files.put(name, map).unwrap();
        }
        for n in [1, 2, 9, 21] {
            let found = files.mean_overlap(&names[..n]).unwrap();
            let expected = mean_overlap(&maps[..n]).unwrap();
            match (found, expected) {
                (Some(a), Some(b)) => assert!((a - b).abs() < 1e-12, "{n}: {a} {b}"),
                both => assert_eq!(both, (None, None)),
            }
        }
        let (mut sum, mut count) = (0.0, 0);
        let rule = OverlapRule { min_voxels: 50, ..OverlapRule::default() };
        for i in 0..25 {
            for k in 1..=20 {
                let (a, b) = (&maps[i], &maps[(i + k) % 25]);
                sum += compare_labels(a, b, None, &rule).unwrap().mean_dice.unwrap();
                count += 1;
            }
        }
        let found = files.mean_overlap(&names).unwrap().unwrap();
        assert!((found - sum / f64::from(count)).abs() < 1e-12, "{found} {sum} {count}");
        let weights: Vec<f64> = (0..25).map(|i| 1.0 + 0.1 * f64::from(i)).collect();
        let most = files.most_weight(&names, &weights).unwrap();
        assert_eq!(most, most_weight(&maps, &weights));
        assert_eq!(files.most_weight(&[], &[]).unwrap(), None);
    }

    #[test]
    fn labels_are_voted_for() {
        let grid = Grid::axis_aligned([4, 1, 1], [1.0; 3]).unwrap();
        let map = |data: [i32; 4]| Volume::new(grid.clone(), data.to_vec()).unwrap();
        let maps = [map([1, 2, 0, 5]), map([1, 3, 7, 4]), map([2, 3, 7, 6])];
        assert_eq!(most_frequent(&maps).unwrap().data(), [1, 3, 7, 4]);
        assert_eq!(most_weight(&maps, &[1.0, 1.0, 2.5]).unwrap().data(), [2, 3, 7, 6]);
        assert_eq!(most_weight(&maps, &[1.0, 1.0, 2.0]).unwrap().data(), [1, 3, 7, 6]);
        assert_eq!(most_weight(&maps, &[1.0]), None);
        assert_eq!(most_frequent(&[]), None);
    }
}
