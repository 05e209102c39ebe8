//! Bounding boxes of the subjects in their images, and the grid that contains all of them.

use crate::atlas::subjects::source::{Source, Subject};
use crate::error::{PopulationError, Result};
use rayon::prelude::*;
use voxalign_compute::Device;
use voxalign_compute::comm::Team;
use voxalign_image::{Affine, Grid, Matrix3, Vector3, Volume};
use voxalign_register::attachment::images::finest;
use voxalign_register::diffeo::calibrate::foreground_threshold;
use voxalign_register::diffeo::clip::foreground_box;
use voxalign_register::model::solver::SolverKind;

/// The outline of a subject in its image.
pub(super) struct Outline {
    /// The corners of the box around its foreground, its world.
    corners: [Vector3<f64>; 8],
    /// The centre of that foreground's mass.
    pub(super) centre: Vector3<f64>,
    pub(super) spacing: f64,
    pub(super) is_2d: bool,
}

impl Outline {
    fn numbers(&self) -> Vec<f64> {
        let points = self.corners.iter().chain([&self.centre]).flat_map(|p| [p[0], p[1], p[2]]);
        points.chain([self.spacing, f64::from(u8::from(self.is_2d))]).collect()
    }

    fn of_numbers(numbers: &[f64]) -> Self {
        let point = |i: usize| Vector3::new(numbers[3 * i], numbers[3 * i + 1], numbers[3 * i + 2]);
        Self {
            corners: std::array::from_fn(point),
            centre: point(8),
            spacing: numbers[OUTLINE - 2],
            is_2d: numbers[OUTLINE - 1] > 0.0,
        }
    }
}

/// Voxels around the foregrounds of all subjects.
const GUARD: f64 = 8.0;

/// Numbers of an [`Outline`].
const OUTLINE: usize = 8 * 3 + 3 + 2;

/// The outlines of the subjects; every rank computes those of its own.
pub(super) fn outlines<D: Device>(team: &Team<D>, source: &dyn Source) -> Result<Vec<Outline>> {
    let ranks = team.ranks();
    let own: Result<Vec<Vec<f64>>> = team
        .images(source.subjects().len())
        .into_par_iter()
        .map(|i| Ok(outline(first(source, i)?.as_ref(), source, i)?.numbers()))
        .collect();
    let flat: Vec<f64> = ranks.agree(own)?.into_iter().flatten().collect();
    // Ranks have their subjects in the order of all.
    let all: Vec<f64> = ranks.all_gather(&flat)?.into_iter().flatten().collect();
    Ok(all.chunks_exact(OUTLINE).map(Outline::of_numbers).collect())
}

fn outline(image: &Volume<f32>, source: &dyn Source, i: usize) -> Result<Outline> {
    let bad = image.data().iter().filter(|v| !v.is_finite()).count();
    if bad > 0 {
        return Err(PopulationError::NotFinite { file: source.label(i), count: bad, first: None });
    }
    let constant = || PopulationError::Input {
        file: source.label(i),
        what: "the image is constant, so there is nothing to align".to_owned(),
    };
    let (_, above) = foreground_threshold(image.data()).ok_or_else(constant)?;
    let found = foreground_box(image, above)?.ok_or_else(constant)?;
    let grid = image.grid();
    let (start, end) = (found.start, found.end());
    let corner = |c: usize| {
        let index = Vector3::from_fn(|a, _| match c >> a & 1 {
            0 => start[a] as f64,
            _ => (end[a] - 1) as f64,
        });
        grid.index_to_world(index)
    };
    let [nx, ny, _] = image.dims();
    let (mut mass, mut moment) = (0.0, Vector3::zeros());
    for (row, values) in image.data().chunks(nx).enumerate() {
        let (y, z) = ((row % ny) as f64, (row / ny) as f64);
        let (mut sum, mut first) = (0.0, 0.0);
        for (x, &value) in values.iter().enumerate().filter(|(_, v)| **v > above) {
            let weight = f64::from(value - above);
            sum += weight;
            first += weight * x as f64;
        }
        mass += sum;
        moment += Vector3::new(first, sum * y, sum * z);
    }
    Ok(Outline {
        corners: std::array::from_fn(corner),
        centre: grid.index_to_world(moment / mass.max(f64::MIN_POSITIVE)),
        spacing: finest(grid),
        is_2d: grid.is_2d(),
    })
}

/// A grid along the axes of the world around the foregrounds of all subjects.
pub(super) fn grid_around(
    outlines: &[Outline],
    subjects: &[Subject],
    spacing: f64,
    solver: &SolverKind,
) -> Result<Grid> {
    let (mut low, mut high) = (Vector3::repeat(f64::MAX), Vector3::repeat(f64::MIN));
    for (outline, subject) in outlines.iter().zip(subjects) {
        let back = subject.affine.inverse()?;
        for corner in &outline.corners {
            let at = back.apply(*corner);
            low = low.inf(&at);
            high = high.sup(&at);
        }
    }
    let middle = (low + high) * 0.5;
    let flat = outlines.first().is_some_and(|o| o.is_2d);
    let dims = [0, 1, 2].map(|a| {
        if flat && a == 2 {
            return 1;
        }
        let least = ((high[a] - low[a]) / spacing + 1.0 + 2.0 * GUARD).ceil().max(1.0) as usize;
        (least..least + 64).find(|&n| solver.suits(n)).unwrap_or(least)
    });
    let first = Vector3::from_fn(|a, _| middle[a] - 0.5 * (dims[a] as f64 - 1.0) * spacing);
    let matrix = Matrix3::from_diagonal(&Vector3::repeat(spacing));
    Ok(Grid::new(dims, Affine::new(matrix, first))?)
}
/// The first channel of a subject.
pub(super) fn first(source: &dyn Source, i: usize) -> Result<std::sync::Arc<Volume<f32>>> {
    let loaded = source.load(i)?;
    loaded.channels.into_iter().next().ok_or_else(|| PopulationError::Input {
        file: source.label(i),
        what: "there is no image".to_owned(),
    })
}
