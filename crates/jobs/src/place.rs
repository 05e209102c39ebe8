//! Checks that points and meshes lie on their image, or in which other convention they would.

use voxalign_image::{Grid, Vector3};

/// What coordinates may be that are not those of an image's world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistaken {
    /// RAS and LPS are exchanged.
    Exchanged,
    /// They count voxels.
    Voxels,
    /// They are relative to the centre of the image, as FreeSurfer's tkRAS.
    Centred,
}

/// Where points lie in relation to an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// How many lie on the image, within half a voxel; across a 2D image everything does.
    pub inside: usize,
    /// How many there are.
    pub all: usize,
    /// Where fewer than half lie on the image: what would bring most of them there.
    pub mistaken: Option<Mistaken>,
}

impl Place {
    /// Looks where points lie.
    #[must_use]
    pub fn of(points: &[Vector3<f64>], grid: &Grid) -> Self {
        let holds = |place: &dyn Fn(&Vector3<f64>) -> Vector3<f64>| {
            points.iter().filter(|p| has(grid, grid.world_to_index(place(p)))).count()
        };
        let (inside, all) = (holds(&|p| *p), points.len());
        let mut mistaken = None;
        if 2 * inside < all {
            let centre = grid.centre();
            let mut most = all / 2;
            for (kind, count) in [
                (Mistaken::Exchanged, holds(&exchanged)),
                (Mistaken::Voxels, holds(&|p| grid.index_to_world(*p))),
                (Mistaken::Centred, holds(&|p| p + centre)),
            ] {
                if count > most {
                    (mistaken, most) = (Some(kind), count);
                }
            }
        }
        Self { inside, all, mistaken }
    }

    /// Whether there are points, and none of them lies on the image.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        self.inside == 0 && self.all > 0
    }
}

/// RAS as LPS, or the other way round.
#[must_use]
pub fn exchanged(p: &Vector3<f64>) -> Vector3<f64> {
    Vector3::new(-p[0], -p[1], p[2])
}

/// Whether an index is within half a voxel of those of a grid; across a slice everything is.
pub(crate) fn has(grid: &Grid, index: Vector3<f64>) -> bool {
    let dims = grid.dims();
    let within = |a: usize| index[a] > -0.501 && index[a] < dims[a] as f64 - 0.499;
    within(0) && within(1) && (grid.is_2d() || within(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Affine;

    #[test]
    fn where_points_may_have_been_meant() {
        let far = Affine::translation(Vector3::new(300.0, 400.0, -50.0));
        let grid = Grid::axis_aligned([40, 50, 60], [1.0; 3]).unwrap().moved(&far).unwrap();
        let good: Vec<_> = (0..10).map(|i| grid.centre() + Vector3::repeat(f64::from(i))).collect();
        let of = |f: &dyn Fn(&Vector3<f64>) -> Vector3<f64>| {
            Place::of(&good.iter().map(f).collect::<Vec<_>>(), &grid)
        };
        assert_eq!(of(&|p| *p), Place { inside: 10, all: 10, mistaken: None });
        assert_eq!(of(&exchanged).mistaken, Some(Mistaken::Exchanged));
        assert_eq!(of(&|p| grid.world_to_index(*p)).mistaken, Some(Mistaken::Voxels));
        let centred = of(&|p| p - grid.centre() - Vector3::repeat(10.0));
        assert!(centred.is_elsewhere() && centred.mistaken == Some(Mistaken::Centred));
        let nowhere = of(&|p| p * 9.0);
        assert!(nowhere.is_elsewhere() && nowhere.mistaken.is_none());
        assert!(!Place::of(&[], &grid).is_elsewhere());
    }
}
