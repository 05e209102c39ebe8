//! Surfaces, curves and points without correspondence: currents, and varifolds where the orientation is
//! unreliable.
//!
//! A shape is compared with another one as what both do to a smooth vector field (J. Glaunès, 2005; L. K. Ha, 2011,
//! section 3.2.2): no vertex belongs to another, and the two may have any numbers of them. [`ShapeDistance`] has the
//! squared distance and its derivative, pair by pair or on a grid; [`Shapes`] is the attachment.

mod distance;
mod particle_mesh;
mod shape;
#[cfg(test)]
mod tests;

pub use distance::{Distance, ShapeDistance, Summation, Sums, TooLarge, decide, too_large};
pub use particle_mesh::{MeshGrid, ParticleMesh, narrowest, usual};
pub use shape::{Elements, Shape};

use super::{Attachment, Gradient, Maps, Needs, Places, middle};
use crate::error::{RegisterError, Result};
use crate::multiscale::Scale;
use crate::similarity::PendingEnergy;
use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_compute::ops::pairwise::{KernelShape, RadialKernel};
use voxalign_image::Grid;

/// How a pair of shapes is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShapeOptions {
    /// How the kernel falls off.
    pub kernel: KernelShape,
    /// Its width at full resolution, mm. At a coarser scale it is wider by the factor of the scale, so that
    /// what is far apart finds each other first.
    pub width: f64,
    /// The factor of the energy.
    pub weight: f64,
    /// How sums over pairs are made.
    pub summation: Summation,
}

impl Default for ShapeOptions {
    fn default() -> Self {
        let (kernel, summation) = (KernelShape::default(), Summation::default());
        Self { kernel, width: 5.0, weight: 1.0, summation }
    }
}

/// A pair of shapes that attract each other, with the energy `w |φ(F) − M|² / (|F|² + |M|²)`: from `w` where they
/// are far apart relative to the kernel width, to 0 where they are the same. Models that treat both sides alike
/// have the mean of this and `w |F − φ⁻¹(M)|² / (|F|² + |M|²)`.
///
/// Vertices of the fixed shape are carried to the moving world by the same map that samples the moving image, with the same
/// interpolation, so that images and geometry move consistently.
pub struct Shapes<D: Device> {
    shapes: [Arc<Shape>; 2],
    options: ShapeOptions,
    at_scale: Option<AtScale<D>>,
}

/// State at one scale.
struct AtScale<D: Device> {
    places: [Places<D>; 2],
    /// The fixed shape carried to the moving world, and the moving one to the fixed world.
    distances: [ShapeDistance<D>; 2],
    /// `|F|² + |M|²`.
    norms: f64,
}

impl<D: Device> Shapes<D> {
    /// A pair of the fixed and of the moving world.
    ///
    /// # Errors
    /// Shapes that are not made of the same; a width or a weight that is not above 0.
    pub fn new(fixed: Arc<Shape>, moving: Arc<Shape>, options: ShapeOptions) -> Result<Self> {
        let refused =
            |option, value: String, remedy: &str| Err(RegisterError::option(option, value, remedy));
        for (option, value) in [("kernel width", options.width), ("shape weight", options.weight)] {
            if !(value > 0.0 && value.is_finite()) {
                return refused(option, value.to_string(), "give a number above 0");
            }
        }
        if !fixed.is_like(&moving) {
            let remedy = "compare surfaces with surfaces, curves with curves, points with points";
            return refused("shape", "a pair of shapes with different elements".to_owned(), remedy);
        }
        Ok(Self { shapes: [fixed, moving], options, at_scale: None })
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &ShapeOptions {
        &self.options
    }

    fn at_width(&self, device: &D, width: f64, sides: usize) -> Result<AtScale<D>> {
        let kernel = RadialKernel { shape: self.options.kernel, width };
        let [fixed, moving] = &self.shapes;
        let sums = decide(self.options.summation, &kernel, [fixed, moving])?;
        let origins = [fixed, moving].map(|shape| middle(shape.vertices()));
        let between = |a: &Arc<Shape>, b: &Arc<Shape>, origin| {
            ShapeDistance::new(device, Arc::clone(a), Arc::clone(b), origin, kernel, sums)
        };
        let mut distances =
            [between(fixed, moving, origins[1])?, between(moving, fixed, origins[0])?];
        let mut norms = 0.0;
        for distance in &mut distances {
            norms += distance.target_norm(device)?;
        }
        let places = |shape: &Shape, origin| {
            let stiffness = self.stiffness(shape, width, sides);
            Places::new(device, shape.vertices(), origin, stiffness)
        };
        let places = [places(fixed, origins[0])?, places(moving, origins[1])?];
        Ok(AtScale { places, distances, norms })
    }

    /// How stiff the energy is at each vertex: where a shape lies on the other one, moving it by `t` changes the energy by
    /// about `w t² / λ²`, of which each vertex has the part that its elements have of the shape; and twice that, as bending it takes more.
    fn stiffness(&self, shape: &Shape, width: f64, sides: usize) -> Vec<f32> {
        let whole = 4.0 * self.options.weight / sides as f64 / (width * width);
        shape.shares().into_iter().map(|share| (whole * share) as f32).collect()
    }
}

impl<D: Device> Attachment<D> for Shapes<D> {
    fn needs(&self) -> Needs<'_, D> {
        let places = self.at_scale.as_ref().map(|at| at.places.each_ref());
        Needs { channels: 0..0, places }
    }

    fn to_scale(&mut self, device: &D, scale: &Scale, _: &Grid, sides: usize) -> Result<()> {
        self.at_scale = None;
        let width = self.options.width * scale.factor as f64;
        self.at_scale = Some(self.at_width(device, width, sides)?);
        Ok(())
    }

    fn evaluate(
        &mut self,
        device: &D,
        at: &Maps<'_, D>,
        out: &mut Gradient<'_, D>,
    ) -> Result<PendingEnergy> {
        let mut energy = PendingEnergy::default();
        let Some(AtScale { distances, norms, .. }) = &mut self.at_scale else {
            return Ok(energy);
        };
        let sides = at.carried.iter().flatten().count().max(1);
        let factor = self.options.weight / sides as f64 / *norms;
        for (side, carried) in at.carried.into_iter().enumerate() {
            let Some(carried) = carried else { continue };
            let found = distances[side].evaluate(device, carried, factor, out.covectors[side])?;
            energy.add(found);
        }
        Ok(energy)
    }

    fn forget(&mut self, device: &D) -> Result<()> {
        let distances = self.at_scale.iter_mut().flat_map(|at| &mut at.distances);
        distances.into_iter().try_for_each(|distance| distance.forget(device))
    }

    fn bytes(&self, _: &Grid) -> u64 {
        // Elements with their centres, moments and sums, twice; the grid follows from the shapes alone and is asked for
        // when it is made.
        let of = |shape: &Arc<Shape>| 100 * (shape.len() + shape.vertices().len()) as u64;
        2 * self.shapes.iter().map(of).sum::<u64>()
    }
}
