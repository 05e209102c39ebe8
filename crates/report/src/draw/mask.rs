//! Mask overlays on pictures.

use super::contour::{level_path, overlay};
use super::key::Key;
use super::plane::Plane;
use crate::record::RunRecord;
use voxalign_image::Volume;

/// The tolerance of drawn lines, pixels.
const TOLERANCE: f64 = 0.6;

/// The legend of the line.
pub(crate) fn key() -> String {
    Key::new().line("#57e389", "the fixed mask: only voxels inside it counted").html()
}

/// The outline of a mask (what is above 0) upon a plane, as SVG.
pub(crate) fn outline(plane: &Plane, mask: &Volume<f32>) -> String {
    let inside: Vec<f64> =
        plane.nearest(mask).into_iter().map(|v| f64::from(u8::from(v > 0.0))).collect();
    overlay("over mask", plane, &level_path(&inside, plane, 0.5, TOLERANCE))
}

/// A description of the effect of the masks and weights of a run; nothing where it had none.
pub(crate) fn sentence(record: &RunRecord) -> Option<&'static str> {
    let has = |role: &str| record.inputs.iter().any(|input| input.role == role);
    Some(match (has("fixed_mask"), has("moving_mask"), has("fixed_weight")) {
        (true, true, _) => "Only voxels inside the masks of both images counted.",
        (true, false, _) => "Only voxels inside the mask of the fixed image counted.",
        (false, true, _) => "Only voxels inside the mask of the moving image counted.",
        (false, false, true) => "Voxels of the fixed image counted according to their weights.",
        (false, false, false) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::plane::planes;
    use voxalign_image::Grid;

    #[test]
    fn the_line_goes_around_the_mask() {
        let grid = Grid::axis_aligned([64, 64, 1], [1.0; 3]).unwrap();
        let square = |x: usize, y: usize| (10..30).contains(&x) && (20..50).contains(&y);
        let mask = Volume::from_fn(grid.clone(), |x, y, _| if square(x, y) { 3.0 } else { -1.0 });
        let svg = outline(&planes(&grid, [0; 3])[0], &mask);
        let path = svg.split("d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(path.matches('M').count(), 1, "{path}");
        // Five pixels a voxel, R on the left and A on top: the corner (30, 50) comes first.
        let words: Vec<f64> = path
            .split(['M', 'l', ' '])
            .filter(|w| !w.is_empty())
            .map(|w| w.parse().unwrap())
            .collect();
        let (mut at, mut low, mut high) = ([0.0; 2], [f64::MAX; 2], [f64::MIN; 2]);
        for step in words.chunks_exact(2) {
            for a in 0..2 {
                at[a] += step[a];
                low[a] = low[a].min(at[a]);
                high[a] = high[a].max(at[a]);
            }
        }
        for (found, wanted) in low.iter().chain(&high).zip([170.0, 70.0, 270.0, 220.0]) {
            assert!((found - wanted).abs() < 1.0, "{low:?} {high:?}");
        }
        let nothing = outline(&planes(&grid, [0; 3])[0], &Volume::filled(grid.clone(), 0.0));
        assert!(nothing.contains("d=\"\""), "{nothing}");
    }
}
