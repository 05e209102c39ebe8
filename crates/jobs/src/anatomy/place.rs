//! Checks that shapes and points lie on the images of their anatomy.

use super::read::{Data, Own};
use crate::error::{Error, Result};
use voxalign_image::{Grid, Vector3};
use voxalign_options::text;

/// The part of vertices that has to lie on the image.
const LEAST: f64 = 0.5;

/// The part that lies on it where another reading of the coordinates is right.
const MOST: f64 = 0.9;

/// Refuses shapes and points of which most lie outside of the image on this grid, with what they may be; gives what to say
/// of others that partly do. The anatomy and its image are called so.
///
/// # Errors
/// Names the first.
pub(super) fn check(
    things: &[Own<'_>],
    [anatomy, image]: [&str; 2],
    grid: &Grid,
) -> Result<Vec<String>> {
    let mut remarks = Vec::new();
    for thing in things.iter().filter(|t| !t.of.kind.is_image()) {
        let places = thing.data.places();
        let part = part_within(places, grid, |p| *p);
        let words = format!("{} of {anatomy}", thing.of.words());
        if part < LEAST {
            let outside = (100.0 * (1.0 - part)).round();
            return Err(Error::input(text!(
                "{words}: {outside} % of its points lie outside of {image}; {}",
                remedy(thing.data, grid)
            )));
        }
        if part < 1.0 {
            let outside = places.len() - (part * places.len() as f64).round() as usize;
            remarks.push(format!(
                "{words}: {outside} of {} points lie outside of {image}",
                places.len()
            ));
        }
    }
    Ok(remarks)
}

/// The part of places that lie on a grid, once they are read in a way.
fn part_within(
    places: &[Vector3<f64>],
    grid: &Grid,
    way: impl Fn(&Vector3<f64>) -> Vector3<f64>,
) -> f64 {
    let dims = grid.dims();
    let within = |p: &&Vector3<f64>| {
        let index = grid.world_to_index(way(p));
        let fits = |a: usize| index[a] > -0.501 && index[a] < dims[a] as f64 - 0.499;
        fits(0) && fits(1) && (grid.is_2d() || fits(2))
    };
    places.iter().filter(within).count() as f64 / places.len().max(1) as f64
}

/// What coordinates may be that lie elsewhere.
fn remedy(data: &Data, grid: &Grid) -> String {
    let places = data.places();
    let fits = |way: &dyn Fn(&Vector3<f64>) -> Vector3<f64>| part_within(places, grid, way) >= MOST;
    let turned = |p: &Vector3<f64>| Vector3::new(-p[0], -p[1], p[2]);
    let centre = grid.centre();
    if fits(&turned) {
        return "they lie on it with the signs of x and y exchanged: give space = 'lps', or 'ras' where that is given; a \
                file that states its space is believed, and has to be corrected"
            .to_owned();
    }
    if fits(&|p| grid.index_to_world(*p)) {
        return "they look like voxel indices: bring them to mm by the matrix that `voxalign info IMAGE` prints"
            .to_owned();
    }
    if fits(&|p| p + centre) {
        return format!(
            "they lie on it relative to its centre, as FreeSurfer's surfaces (tkRAS) do: add {:.2}, {:.2}, {:.2} to \
             them, or convert the surface by FreeSurfer's `mris_convert --to-scanner`",
            centre[0], centre[1], centre[2]
        );
    }
    "check that it belongs to this image, and that its coordinates are world coordinates in mm, RAS unless space = 'lps' \
     says otherwise"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::{Affine, Matrix3, Mesh};

    #[test]
    fn other_readings_of_coordinates_are_found() {
        let to_world =
            Affine::new(Matrix3::from_diagonal_element(2.0), Vector3::new(-30.0, 60.0, 300.0));
        let grid = Grid::new([40, 30, 20], to_world).unwrap();
        let right: Vec<_> =
            [[3.0, 4.0, 5.0], [30.0, 20.0, 15.0], [20.0, 9.0, 3.0]].map(Vector3::from).into();
        let world: Vec<_> = right.iter().map(|i| grid.index_to_world(*i)).collect();
        let said = |places: Vec<Vector3<f64>>| {
            remedy(&Data::Mesh(Mesh::new(places, Vec::new()).unwrap()), &grid)
        };
        assert_eq!(part_within(&world, &grid, |p| *p), 1.0);
        assert_eq!(part_within(&right, &grid, |p| *p), 0.0);
        let of = |f: &dyn Fn(&Vector3<f64>) -> Vector3<f64>| world.iter().map(f).collect();
        assert!(said(of(&|p| Vector3::new(-p[0], -p[1], p[2]))).contains("'lps'"));
        assert!(said(right).contains("voxel indices"));
        assert!(said(of(&|p| p - grid.centre())).contains("tkRAS"));
        assert!(said(of(&|p| p * 1000.0)).contains("check that it belongs"));
    }
}
