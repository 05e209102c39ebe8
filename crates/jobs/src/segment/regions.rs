//! Regions as they ended: tidied, and measured.

use super::options::TidyOptions;
use crate::error::Result;
use std::collections::BTreeMap;
use voxalign_image::{Grid, memory};
use voxalign_report::segment::{FrontRecord, RegionRecord, TidiedRecord};
use voxalign_segment::tidy::{self, Removed};
use voxalign_segment::{Evidence, Lattice};

/// What of the labels is one of them.
fn set_of(labels: &[u8], label: u8) -> Result<Vec<bool>> {
    Ok(memory::collected(labels.iter().map(|l| *l == label))?)
}

/// The volume of a voxel, mm³, or in the plane the area of a pixel, mm².
fn unit(grid: &Grid) -> f64 {
    match grid.is_2d() {
        false => grid.voxel_volume(),
        true => {
            let matrix = grid.to_world().matrix;
            matrix.column(0).cross(&matrix.column(1)).norm()
        }
    }
}

/// Removes parts and fills holes, of each region but the background; what is removed becomes that.
pub(super) fn tidied(
    lattice: &Lattice,
    grid: &Grid,
    labels: &mut [u8],
    regions: usize,
    of: &TidyOptions,
) -> Result<Option<TidiedRecord>> {
    if of.smallest_island == 0.0 && !of.largest_component && !of.fill_holes {
        return Ok(None);
    }
    let least = (of.smallest_island / unit(grid)).ceil() as usize;
    let mut record = TidiedRecord::default();
    for label in (1..regions).filter_map(|l| u8::try_from(l).ok()) {
        let mut set = set_of(labels, label)?;
        let Removed { parts, points } = match (of.largest_component, least) {
            (true, _) => tidy::keep_largest(lattice, &mut set)?,
            (false, 0 | 1) => Removed::default(),
            (false, least) => tidy::remove_islands(lattice, &mut set, least)?,
        };
        record.parts_removed += parts;
        record.voxels_removed += points;
        if points > 0 {
            let gone = labels.iter_mut().zip(&set).filter(|(l, s)| **l == label && !**s);
            gone.for_each(|(l, _)| *l = 0);
        }
        if of.fill_holes && tidy::fill_holes(lattice, &mut set)? > 0 {
            // Holes may have voxels of other regions, which stay.
            for (own, _) in labels.iter_mut().zip(&set).filter(|(l, s)| **l == 0 && **s) {
                *own = label;
                record.voxels_filled += 1;
            }
        }
    }
    Ok(Some(record))
}

/// Measures all regions, the background first.
pub(super) fn measured(
    lattice: &Lattice,
    grid: &Grid,
    image: &[f32],
    labels: &[u8],
    regions: usize,
    names: &BTreeMap<i32, String>,
) -> Result<Vec<RegionRecord>> {
    let mut all = Vec::new();
    let is_constant = image.iter().all(|v| *v == image[0]);
    for label in (0..regions).filter_map(|l| u8::try_from(l).ok()) {
        let set = set_of(labels, label)?;
        let voxels = set.iter().filter(|s| **s).count();
        let values = || image.iter().zip(&set).filter(|(_, s)| **s).map(|(v, _)| f64::from(*v));
        let mean = (voxels > 0).then(|| values().sum::<f64>() / voxels as f64);
        let deviation = mean.map(|mean| {
            let sum = values().map(|v| (v - mean).powi(2)).sum::<f64>();
            (sum / voxels as f64).sqrt()
        });
        let volume = voxels as f64 * grid.voxel_volume();
        let evidence = match label == 0 || voxels == 0 || is_constant {
            true => None,
            false => Some(front(&Evidence::of(lattice, image, &set)?)),
        };
        all.push(RegionRecord {
            label: i32::from(label),
            name: names.get(&i32::from(label)).cloned(),
            voxels,
            volume_mm3: volume,
            volume_ml: volume / 1000.0,
            area_mm2: grid.is_2d().then(|| voxels as f64 * unit(grid)),
            parts: tidy::parts(lattice, &set)?,
            mean,
            deviation,
            at_border: (0..set.len()).any(|p| set[p] && tidy::at_border(lattice, p)),
            evidence,
        });
    }
    Ok(all)
}

fn front(of: &Evidence) -> FrontRecord {
    FrontRecord {
        contrast: of.contrast,
        contrast_inside: of.shifted[0],
        contrast_outside: of.shifted[1],
        edge: of.edge(),
        separation: of.separation,
        separable: of.separable,
        threshold: of.threshold,
        held_out: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_segment::Neighbourhood;

    #[test]
    fn regions_are_tidied_each_by_itself() {
        let grid = Grid::axis_aligned([7, 5, 1], [2.0, 1.0, 5.0]).unwrap();
        let lattice = Lattice::new(grid.dims(), Neighbourhood::Four).unwrap();
        let rows = ["1110002", "1.12022", "1110.22", ".......", "1...2.."];
        let of = |c: u8| if c == b'.' { 0 } else { c - b'0' };
        let original: Vec<u8> = rows.iter().flat_map(|r| r.bytes().map(of)).collect();
        let tidy = |options: &TidyOptions| {
            let mut labels = original.clone();
            let record = tidied(&lattice, &grid, &mut labels, 3, options).unwrap();
            (labels, record)
        };
        assert_eq!(tidy(&TidyOptions::USUAL), (original.clone(), None));
        // Parts of less than 4 mm²: of less than two pixels of 2 mm².
        let (labels, record) = tidy(&TidyOptions { smallest_island: 4.0, ..TidyOptions::USUAL });
        let record = record.unwrap();
        assert_eq!((record.parts_removed, record.voxels_removed), (3, 3));
        assert_eq!((labels[10], labels[28], labels[32], labels[0]), (0, 0, 0, 1));
        let most = TidyOptions { largest_component: true, fill_holes: true, ..TidyOptions::USUAL };
        let (labels, record) = tidy(&most);
        assert_eq!(record.unwrap().voxels_filled, 1);
        assert_eq!((labels[8], labels.iter().filter(|l| **l == 1).count()), (1, 9));
        let names = BTreeMap::from([(2, "two".to_owned())]);
        let image: Vec<f32> = labels.iter().map(|l| f32::from(*l) * 10.0).collect();
        let found = measured(&lattice, &grid, &image, &labels, 4, &names).unwrap();
        assert_eq!(found.iter().map(|r| r.label).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!((found[1].area_mm2, found[1].volume_mm3), (Some(18.0), 90.0));
        assert_eq!((found[1].mean, found[1].deviation, found[1].parts), (Some(10.0), Some(0.0), 1));
        assert_eq!((found[2].name.as_deref(), found[3].mean), (Some("two"), None));
        assert!(found[1].at_border && found[3].evidence.is_none() && found[1].evidence.is_some());
    }
}
