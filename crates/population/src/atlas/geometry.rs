//! Surfaces, curves, points and landmarks of the subjects and of the template.
//!
//! The template has each of them, too: it begins as that of the subject nearest to all, and its vertices move with the
//! template, so that the sum of all energies falls. At every few iterations all subjects say where they pull each vertex,
//! `g = Σᵢ wᵢ (A (1 + ∂uᵢ))ᵀ cᵢ` with the covectors `cᵢ` where their maps bring it, and how stiff they are there,
//! `h = Σᵢ wᵢ hᵢ`. With a Gaussian `K` of the width of the kernel that shapes are compared by, vertices go by
//! `−K g / K h`: along a smooth field, as what is narrower than kernels is not seen, and not beyond the place where the energy is
//! least (`register::model` has why). Corresponding points go each by itself, to the mean of their subjects.

use crate::error::{PopulationError, Result};
use std::sync::Arc;
use voxalign_compute::ops::pairwise::{KernelShape, RadialKernel};
use voxalign_compute::ops::splat::{Beyond, Lattice};
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_image::{Affine, Grid, PointSet, Vector3};
use voxalign_register::attachment::currents::{Shape, ShapeDistance, ShapeOptions, Shapes, decide};
use voxalign_register::attachment::{
    Attachment, Attachments, LandmarkAttachment, Landmarks, middle, relative,
};
use voxalign_register::fit::PointPairs;
use voxalign_register::model::{CohortModel, Sources, TemplatePoints};
use voxalign_register::multiscale::Scale;

/// Units of a value 1 in sums over images, and of a displacement of one voxel: the sums have room for
/// four million of them, and are exact to 12 digits.
pub(super) const UNIT: f64 = (1u64 << 40) as f64;

/// Something that all subjects have.
#[derive(Debug, Clone)]
pub struct Geometry {
    /// Its name, for messages.
    pub name: String,
    /// Its kind, and the geometry of each subject in their order.
    pub forms: Forms,
}

/// The kind of an item that all subjects have.
#[derive(Debug, Clone)]
pub enum Forms {
    /// Surfaces, curves or points without correspondence.
    Shapes {
        /// How they are compared.
        options: ShapeOptions,
        /// In the world of each subject.
        subjects: Vec<Arc<Shape>>,
    },
    /// Corresponding points.
    Landmarks {
        /// The factor of their energy, 1/mm².
        weight: f64,
        /// In the world of each subject, with what each counts.
        subjects: Vec<(PointSet, Vec<f64>)>,
    },
}

/// Something of the template.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateGeometry {
    /// The subject whose elements it has.
    pub from: usize,
    /// Its vertices, mm in the world of the atlas.
    pub vertices: Vec<Vector3<f64>>,
}

/// Something of the template in the world of a subject.
#[derive(Debug, Clone, PartialEq)]
pub struct CarriedGeometry {
    /// The subject whose elements it has.
    pub from: usize,
    /// Its vertices after the affine map alone, mm.
    pub before: Vec<Vector3<f64>>,
    /// Its vertices after the deformation, mm.
    pub after: Vec<Vector3<f64>>,
}

/// Iterations from one step of the template's vertices to the next.
pub(super) const EVERY: usize = 5;

/// Steps of the template's vertices once all subjects have come to rest.
pub(super) const AT_END: usize = 5;

impl Geometry {
    /// That of some of the subjects, by their numbers.
    #[must_use]
    pub fn of(&self, numbers: &[usize]) -> Self {
        fn some<T: Clone>(all: &[T], numbers: &[usize]) -> Vec<T> {
            numbers.iter().filter_map(|&n| all.get(n).cloned()).collect()
        }
        let forms = match &self.forms {
            Forms::Shapes { options, subjects } => {
                Forms::Shapes { options: *options, subjects: some(subjects, numbers) }
            }
            Forms::Landmarks { weight, subjects } => {
                Forms::Landmarks { weight: *weight, subjects: some(subjects, numbers) }
            }
        };
        Self { name: self.name.clone(), forms }
    }

    /// Checks that each of this many subjects has it, and that corresponding points have equal numbers.
    pub(super) fn check(&self, count: usize) -> Result<()> {
        let wrong = |what: String| PopulationError::Input { file: (&*self.name).into(), what };
        let found = match &self.forms {
            Forms::Shapes { subjects, .. } => {
                if subjects.windows(2).any(|pair| !pair[0].is_like(&pair[1])) {
                    return Err(wrong(
                        "it does not have the same kind of elements in all subjects".to_owned(),
                    ));
                }
                subjects.len()
            }
            Forms::Landmarks { subjects, .. } => {
                let mut lens = subjects.iter().map(|(points, each)| (points.len(), each.len()));
                let first = lens.next().unwrap_or_default();
                if first.0 == 0 || first.0 != first.1 || lens.any(|other| other != first) {
                    return Err(wrong(
                        "it does not have the same number of points in all subjects".to_owned(),
                    ));
                }
                subjects.len()
            }
        };
        match found == count {
            true => Ok(()),
            false => {
                Err(wrong(format!("{found} of {count} subjects have it; give it for all of them")))
            }
        }
    }

    /// The data terms that draw a subject to the template, before they are set to a scale.
    fn attachment<D: Device>(
        &self,
        subject: usize,
        template: &TemplateGeometry,
    ) -> Result<Box<dyn Attachment<D>>> {
        Ok(match &self.forms {
            Forms::Shapes { options, subjects } => {
                let fixed = subjects[template.from].with_vertices(template.vertices.clone())?;
                Box::new(Shapes::new(Arc::new(fixed), Arc::clone(&subjects[subject]), *options)?)
            }
            Forms::Landmarks { weight, subjects } => {
                let (points, each) = &subjects[subject];
                let fixed = PointSet::new(template.vertices.clone());
                let pairs = PointPairs::new(&fixed, points)?.with_weights(each.clone())?;
                Box::new(LandmarkAttachment::new(Landmarks::of(pairs, *weight)?))
            }
        })
    }

    /// The order of magnitude of the second derivatives of its energy at a scale: a unit for sums.
    fn unit(&self, factor: usize) -> f64 {
        match &self.forms {
            Forms::Shapes { options, .. } => {
                options.weight / (options.width * factor as f64).powi(2)
            }
            Forms::Landmarks { weight, subjects } => {
                weight / subjects.first().map_or(1, |s| s.0.len()) as f64
            }
        }
    }

    /// The width of the field that vertices move along, mm; none where each goes by itself.
    fn width(&self, factor: usize) -> Option<f64> {
        match &self.forms {
            Forms::Shapes { options, .. } => Some(options.width * factor as f64),
            Forms::Landmarks { .. } => None,
        }
    }

    /// That of the template before the first iteration: of the subject whose shape is nearest to the sum of all after their
    /// affine maps, or the means of corresponding points.
    fn start<D: Device>(
        &self,
        device: &D,
        affines: &[Affine],
        weights: &[f64],
        factor: usize,
    ) -> Result<TemplateGeometry> {
        let backs = affines.iter().map(|a| Ok(a.inverse()?)).collect::<Result<Vec<_>>>()?;
        match &self.forms {
            Forms::Landmarks { subjects, .. } => {
                let count = subjects.first().map_or(0, |s| s.0.len());
                let mut vertices = vec![Vector3::zeros(); count];
                for (((points, _), back), weight) in subjects.iter().zip(&backs).zip(weights) {
                    for (mean, point) in vertices.iter_mut().zip(points.points()) {
                        *mean += back.apply(*point) * *weight;
                    }
                }
                Ok(TemplateGeometry { from: 0, vertices })
            }
            Forms::Shapes { options, subjects } => {
                let placed = subjects.iter().zip(&backs).map(|(shape, back)| {
                    let vertices = shape.vertices().iter().map(|v| back.apply(*v)).collect();
                    Ok(Arc::new(shape.with_vertices(vertices)?))
                });
                let placed = placed.collect::<Result<Vec<Arc<Shape>>>>()?;
                let all: Vec<&Shape> = placed.iter().map(|shape| &**shape).collect();
                let all = Arc::new(Shape::union(&all)?);
                let width = options.width * factor as f64;
                let kernel = RadialKernel { shape: options.kernel, width };
                let sums = decide(options.summation, &kernel, [&all, &all])?;
                let origin = middle(all.vertices());
                let between = |one: &Arc<Shape>, other: &Arc<Shape>| {
                    let (one, other) = (Arc::clone(one), Arc::clone(other));
                    ShapeDistance::new(device, one, other, origin, kernel, sums)
                };
                let (mut best, mut from) = (f64::INFINITY, 0);
                for (number, shape) in placed.iter().enumerate() {
                    // |S − U|² = |S|² − 2 ⟨S, U⟩ + |U|², and the nearest to U / n has the least |S|² − 2 ⟨S, U⟩ / n.
                    let mut to_all = between(shape, &all)?;
                    let squared = to_all.evaluate_at(device, shape.vertices())?.squared;
                    let own = between(shape, shape)?.target_norm(device)?;
                    let product = (own + to_all.target_norm(device)? - squared) / 2.0;
                    let apart = own - 2.0 * product / placed.len() as f64;
                    if apart < best {
                        (best, from) = (apart, number);
                    }
                }
                Ok(TemplateGeometry { from, vertices: placed[from].vertices().to_vec() })
            }
        }
    }
}

/// The geometry of the template before the first iteration.
pub(super) fn starts<D: Device>(
    device: &D,
    all: &[Geometry],
    affines: &[Affine],
    weights: &[f64],
    factor: usize,
) -> Result<Vec<TemplateGeometry>> {
    let start = |geometry: &Geometry| {
        geometry.check(affines.len())?;
        geometry.start(device, affines, weights, factor)
    };
    all.iter().map(start).collect()
}

/// Where all subjects pull the vertices of one thing of the template, and how stiff they are there, units of [`UNIT`].
pub(super) struct Tugs<D: Device> {
    /// All x, then all y, then all z.
    pub(super) forces: D::Buffer<i64>,
    pub(super) stiffness: D::Buffer<i64>,
}

/// The geometry that the subjects of a device share, at a scale.
pub(super) struct Shared<D: Device> {
    pub(super) all: Arc<[Geometry]>,
    pub(super) template: Arc<Vec<TemplateGeometry>>,
    /// At iterations after which the template moves, what pulls it.
    pub(super) tugs: Vec<Tugs<D>>,
    /// The factor of the energy of points: the fraction of the voxels that the object has.
    pub(super) share: f64,
    scale: Scale,
}

impl<D: Device> Shared<D> {
    pub(super) fn new(all: Arc<[Geometry]>, template: Arc<Vec<TemplateGeometry>>) -> Self {
        let scale = Scale { factor: 1, iterations: 0 };
        Self { all, template, tugs: Vec::new(), share: 1.0, scale }
    }

    /// Whether there is any.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn go_to_scale(&mut self, scale: &Scale) {
        self.scale = *scale;
        self.tugs.clear();
    }

    /// The data terms a subject.
    pub(super) fn attachments(
        &self,
        device: &D,
        subject: usize,
        grid: &Grid,
        sides: usize,
    ) -> Result<Attachments<D>> {
        let made = self.all.iter().zip(&*self.template).map(|(geometry, template)| {
            let mut attachment = geometry.attachment(subject, template)?;
            attachment.to_scale(device, &self.scale, grid, sides)?;
            Ok(attachment)
        });
        made.collect()
    }

    /// Begins to sum what pulls the template.
    pub(super) fn begin(&mut self, device: &D) -> Result<()> {
        let tugs = self.template.iter().map(|t| {
            let n = t.vertices.len();
            Ok(Tugs { forces: device.alloc(3 * n)?, stiffness: device.alloc(n)? })
        });
        self.tugs = tugs.collect::<Result<_>>()?;
        Ok(())
    }

    /// Adds what a subject pulls by, with what it counts.
    pub(super) fn pull<M: CohortModel<D>>(
        &mut self,
        device: &D,
        (model, state, affine): (&mut M, &mut M::State, &Affine),
        attachments: &mut Attachments<D>,
        grid: &Grid,
        weight: f64,
    ) -> Result<()> {
        let sides = model.sides() as f64;
        let (tugs, all, factor) = (&mut self.tugs, &self.all, self.scale.factor);
        model.lend_displacement(device, state, &mut |field, _| {
            let mut pulled = Vec::new();
            for ((attachment, geometry), tugs) in attachments.iter().zip(&**all).zip(&mut *tugs) {
                let Some([places, others]) = attachment.needs().places else { continue };
                let origins = [places.origin(), others.origin()];
                let points = TemplatePoints::new(device, grid, affine, places.at(), origins)?;
                let there = points.carried(device, field)?;
                let covectors = device.alloc::<f32>(there.len())?;
                let stiffness = places.stiffness().to_vec();
                pulled.push((points, there, covectors, stiffness, geometry, tugs));
            }
            let at = pulled.iter_mut().map(|(_, there, room, ..)| vec![(&*there, room)]);
            let (shared, own) = (&mut *attachments, &mut Vec::new());
            let counted_volume = grid.len() as f64 * grid.voxel_volume();
            let mut sources = Sources { shared, own, share: 1.0, counted_volume };
            sources.evaluate(device, &[], at, &mut [], |_, _| Ok(()))?;
            for (points, _, covectors, stiffness, geometry, tugs) in pulled {
                let back = points.pulled_back(device, field, &covectors)?;
                let unit = weight * UNIT / geometry.unit(factor);
                device.add_fixed(&back, unit, &mut tugs.forces)?;
                // Of two sides each has a part of it.
                let stiffness = device.upload_vec(stiffness)?;
                device.add_fixed(&stiffness, sides * unit, &mut tugs.stiffness)?;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// The template after a step, once all subjects have pulled; no vertex goes farther than `most`, mm.
    pub(super) fn moved(&mut self, device: &D, most: f64) -> Result<Vec<TemplateGeometry>> {
        let tugs = std::mem::take(&mut self.tugs);
        let all = self.all.iter().zip(&*self.template).zip(tugs);
        all.map(|((geometry, template), tugs)| {
            let n = template.vertices.len();
            let mut sums = [device.alloc::<f32>(3 * n)?, device.alloc::<f32>(n)?];
            device.fixed_to_float(&tugs.forces, 1.0 / UNIT, &mut sums[0])?;
            device.fixed_to_float(&tugs.stiffness, 1.0 / UNIT, &mut sums[1])?;
            if let Some(width) = geometry.width(self.scale.factor) {
                let kernel = RadialKernel { shape: KernelShape::Gaussian, width };
                let origin = middle(&template.vertices);
                let at = device.upload_vec(relative(&template.vertices, &origin)?)?;
                for (sums, len) in sums.iter_mut().zip([3 * n, n]) {
                    let mut smooth = device.alloc::<f32>(len)?;
                    device.pair_sums(&kernel, &at, &at, sums, &mut smooth)?;
                    *sums = smooth;
                }
            }
            let [forces, stiffness] = sums;
            let (forces, stiffness) = (device.into_host(forces)?, device.into_host(stiffness)?);
            let vertices = template.vertices.iter().enumerate().map(|(i, v)| {
                let h = f64::from(stiffness[i]);
                let step = Vector3::from_fn(|a, _| -f64::from(forces[a * n + i]));
                let goes = h > 0.0 && step.iter().all(|s| s.is_finite());
                let step = if goes { step / h } else { Vector3::zeros() };
                v + step * (most / step.norm().max(most))
            });
            Ok(TemplateGeometry { from: template.from, vertices: vertices.collect() })
        })
        .collect()
    }

    /// The template moved by a displacement of its grid, voxels.
    pub(super) fn shifted(
        &self,
        device: &D,
        grid: &Grid,
        field: &D::Buffer<f32>,
    ) -> Result<Vec<TemplateGeometry>> {
        let (to_mm, lattice) =
            (grid.to_world().matrix, Lattice::linear(grid.dims(), Beyond::Nearest));
        let all = self.template.iter().map(|t| {
            let n = t.vertices.len();
            let voxels: Vec<_> = t.vertices.iter().map(|v| grid.world_to_index(*v)).collect();
            let at = device.upload_vec(relative(&voxels, &Vector3::zeros())?)?;
            let mut by = device.alloc::<f32>(3 * n)?;
            device.gather(field, lattice, &at, None, &mut by)?;
            let by = device.into_host(by)?;
            let vertices = t
                .vertices
                .iter()
                .enumerate()
                .map(|(i, v)| v + to_mm * Vector3::from_fn(|a, _| f64::from(by[a * n + i])));
            Ok(TemplateGeometry { from: t.from, vertices: vertices.collect() })
        });
        all.collect()
    }
}

/// Bytes of a device that the geometry of one of the subjects takes, roughly: what pulls it, and what the model keeps of its
/// points.
pub(super) fn bytes_each(all: &[Geometry]) -> u64 {
    let vertices = |shape: &Arc<Shape>| (shape.vertices().len() + shape.len()) as u64;
    let of = |geometry: &Geometry| match &geometry.forms {
        Forms::Shapes { subjects, .. } => {
            600 * subjects.iter().map(vertices).max().unwrap_or_default()
        }
        Forms::Landmarks { subjects, .. } => 200 * subjects.first().map_or(0, |s| s.0.len()) as u64,
    };
    all.iter().map(of).sum()
}
