//! Two pads that press the breast, by finite elements.

use super::organ::{FAT, GLAND, LESION, MUSCLE, Organ};
use crate::error::Result;
use voxalign_elasticity::{Bins, Body, Fixed, Material, Materials, equilibrium, fitted, snapped};
use voxalign_image::{Grid, LabelMap, TetraMesh, Vector3, memory};

/// Edge length of the cells, mm.
const SPACING: f64 = 7.0;

/// How far the mesh reaches beyond the tissue, mm, so that all of that is in it.
const MARGIN: f64 = 4.0;

/// Young's modulus of each tissue, Pa, and Poisson's ratio: fat, gland and carcinoma (T. A. Krouskop et al., 1998).
const YOUNG: [(i32, f64); 4] =
    [(FAT, 18_000.0), (GLAND, 28_000.0), (LESION, 106_000.0), (MUSCLE, 28_000.0)];
const POISSON: f64 = 0.45;
const DENSITY: f64 = 1000.0;

/// Where a pad begins to press and from where on it presses fully, mm: before the muscle, and from the middle.
const FORWARD: [f64; 2] = [4.0, 42.0];
const SIDEWAYS: [f64; 2] = [18.0, 50.0];

/// The breast between the pads.
pub(super) struct Pressed {
    /// As it is between them.
    mesh: TetraMesh,
    bins: Bins,
    /// From there to rest, mm, of each vertex.
    back: Vec<Vector3<f64>>,
}

/// From 0 to 1 between two places, smoothly.
fn ramp(x: f64, [from, to]: [f64; 2]) -> f64 {
    let t = ((x - from) / (to - from)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// How far a place on the surface is pushed, mm, by two pads that come nearer to each other by so much; nothing where there is no pad.
fn push(at: &Vector3<f64>, compression: f64) -> Option<Vector3<f64>> {
    let part = ramp(at.y, FORWARD) * ramp(at.x.abs(), SIDEWAYS);
    (part > 0.0).then(|| Vector3::x() * (-at.x.signum() * part * compression / 2.0))
}

impl Pressed {
    /// Presses it between two pads that stick to its sides and come nearer to each other by so many mm. The muscle stands still.
    pub(super) fn new(organ: &Organ, grid: &Grid, compression: f64) -> Result<Self> {
        let labels = super::each(grid, |_, x| organ.tissue_around(x, MARGIN))?;
        let mask = LabelMap::new(grid.clone(), labels)?;
        let mesh = snapped(&fitted(&mask, SPACING)?, &mask)?;
        let of = |&(label, young): &(i32, f64)| {
            Ok::<_, crate::Error>((label, Material::new(young, POISSON, DENSITY)?))
        };
        let materials = YOUNG.iter().map(of).collect::<Result<Vec<_>>>()?;
        let body = Body::new(mesh, &Materials::ByLabel(materials))?;
        let moved = pressed(&body, compression)?;
        let places = body.mesh().vertices().iter().zip(&moved);
        let places = memory::collected(places.map(|(x, u)| x + u))?;
        let mesh = body.mesh().clone().with_vertices(places)?;
        let bins = Bins::new(&mesh)?;
        Ok(Self { mesh, bins, back: memory::collected(moved.iter().map(|u| -u))? })
    }

    /// From a place between the pads to where its tissue is at rest, mm; nothing outside of the mesh.
    pub(super) fn back(&self, x: Vector3<f64>) -> Option<Vector3<f64>> {
        let found = self.bins.locate(x);
        found.map(|l| l.interpolated(self.mesh.tetrahedra(), &self.back))
    }
}

/// The displacements in which the body is at rest between the pads, mm.
fn pressed(body: &Body, compression: f64) -> Result<Vec<Vector3<f64>>> {
    let mesh = body.mesh();
    let mut held = Fixed::label(mesh, MUSCLE)?;
    let mut given = memory::filled(mesh.vertices().len(), Vector3::zeros())?;
    let mut surface: Vec<u32> = mesh.boundary()?.into_iter().flatten().collect();
    surface.sort_unstable();
    surface.dedup();
    surface.retain(|&i| !held.mask()[i as usize]);
    let mut under = Vec::new();
    for &i in &surface {
        if let Some(by) = push(&mesh.vertices()[i as usize], compression) {
            given[i as usize] = by;
            memory::push(&mut under, i)?;
        }
    }
    held = held.or(&Fixed::vertices(mesh, &under)?);
    let forces = memory::filled(mesh.vertices().len(), Vector3::zeros())?;
    Ok(equilibrium(body, &held, &given, &forces)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::elastic::{AIR, COMPRESSION_MM, SEED, each, grid};
    use voxalign_image::tetra::volume;

    /// Pads push the surface by what is said, no tetrahedron collapses, and all tissue is in the mesh.
    #[test]
    fn pads_press_what_is_between_them() {
        let (organ, grid) = (Organ::new(SEED), grid().unwrap());
        let pressed = Pressed::new(&organ, &grid, COMPRESSION_MM).unwrap();
        let rest = pressed.mesh.vertices().iter().zip(&pressed.back).map(|(x, back)| x + back);
        let rest = pressed.mesh.clone().with_vertices(rest.collect()).unwrap();
        let volumes = (0..rest.tetrahedra().len()).map(|e| {
            let [now, before] = [&pressed.mesh, &rest].map(|mesh| volume(mesh.corners(e)));
            now / before
        });
        let least = volumes.fold(f64::INFINITY, f64::min);
        let farthest = pressed.back.iter().map(|u| u.x.abs()).fold(0.0, f64::max);
        println!(
            "{} tetrahedra, {} vertices, least volume {least:.3}, sideways {farthest:.2} mm",
            rest.tetrahedra().len(),
            rest.vertices().len()
        );
        assert!(least > 0.3, "{least}");
        assert!((farthest - COMPRESSION_MM / 2.0).abs() < 0.5, "{farthest}");
        let bins = Bins::new(&rest).unwrap();
        let outside =
            each(&grid, |_, x| organ.tissue(x) != AIR && bins.locate(x).is_none()).unwrap();
        assert_eq!(outside.iter().filter(|out| **out).count(), 0);
    }
}
