//! The subjects of an atlas on a device, and the template that is their mean.

use super::matching::{Matching, Template};
use super::options::Sharpness;
use super::source::{Images, Source, Subject, check_subjects};
use crate::error::{PopulationError, Result};
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_compute::ops::flow::Inversion;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_image::{Affine, Grid};
use voxalign_register::RegisterError;
use voxalign_register::diffeo::calibrated;
use voxalign_register::diffeo::channel::{DeviceImage, Moved, PendingEnergy, coarser, factors_for};
use voxalign_register::diffeo::greedy::finest;
use voxalign_register::diffeo::multiscale::{Deformation, Iteration, Scale};

/// Units of a value 1 in sums over images, and of a displacement of one voxel: the sums have room for
/// four million of them, and are exact to 12 digits.
pub(super) const UNIT: f64 = (1u64 << 40) as f64;

/// A subject on the device.
pub(super) struct Member<D: Device, S> {
    pub(super) index: usize,
    /// Its part of the sum of all weights.
    pub(super) weight: f64,
    /// What counts of its images, where that is not all: its mask, and where a field of view that ends
    /// within tissue shows something.
    mask: Option<DeviceImage<D>>,
    mask_at: Option<Moved<D>>,
    /// The images on the grid of the template, where they are now.
    pub(super) warped: Vec<D::Buffer<f32>>,
    /// What their voxels count there.
    pub(super) weights: Option<D::Buffer<f32>>,
    pub(super) state: S,
}

/// The subjects of an atlas.
pub(super) struct Cohort<'a, D: Device, M: Matching<D>> {
    pub(super) device: D,
    pub(super) grid: Grid,
    finest: f64,
    source: &'a dyn Source,
    pub(super) matching: M,
    pub(super) members: Vec<Member<D, M::State>>,
    channels: usize,
    /// Whether any subject has voxels that do not count.
    masked: bool,
    pub(super) template: Template<D>,
    sums: Vec<D::Buffer<i64>>,
    /// Sums of what voxels count, where that is not the same everywhere.
    counted: Option<D::Buffer<i64>>,
    /// Units of the subjects that count everywhere.
    everywhere: i64,
    pub(super) sharpness: Vec<Sharpness>,
    factor: usize,
}

/// The parts of the sum of all weights.
pub(super) fn parts(subjects: &[Subject]) -> Vec<f64> {
    let total: f64 = subjects.iter().map(|s| s.weight).sum();
    subjects.iter().map(|s| s.weight / total).collect()
}

impl<'a, D: Device, M: Matching<D>> Cohort<'a, D, M> {
    /// Reads the subjects and brings them to the device.
    pub(super) fn new(
        device: &D,
        grid: &Grid,
        source: &'a dyn Source,
        mut matching: M,
    ) -> Result<Self> {
        let subjects = source.subjects();
        check_subjects(subjects)?;
        let mut members = Vec::with_capacity(subjects.len());
        let mut channels = None;
        for (index, weight) in parts(subjects).into_iter().enumerate() {
            let (subject, file) = (&subjects[index], source.label(index));
            let wrong = |what: String| PopulationError::Input { file: file.clone(), what };
            let loaded = source.load(index)?;
            let count = *channels.get_or_insert(loaded.channels.len());
            if loaded.channels.len() != count || count == 0 {
                let found = loaded.channels.len();
                return Err(wrong(format!("it has {found} channels, the first subject {count}")));
            }
            if loaded.mask.is_some() && !matching.takes_masks() {
                return Err(wrong(
                    "the model symmetric takes no masks of subjects; use greedy or lddmm"
                        .to_owned(),
                ));
            }
            let images = calibrated_channels(device, &loaded, &file)?;
            let mut mask = match &loaded.mask {
                Some(mask) => Some(mask_on(device, mask, &loaded.channels[0], &file)?),
                None => None,
            };
            if mask.is_none() && images.iter().any(|i| i.open) {
                let ones = vec![1.0; images[0].grid.len()];
                let (grid, values) = (images[0].grid.clone(), device.upload_vec(ones)?);
                mask = Some(DeviceImage { grid, values, outside: 0.0, open: false });
            }
            let state = matching.begin(device, images, subject.affine)?;
            members.push(Member {
                index,
                weight,
                mask,
                mask_at: None,
                warped: Vec::new(),
                weights: None,
                state,
            });
        }
        let masked = members.iter().any(|m| m.mask.is_some());
        Ok(Self {
            device: device.clone(),
            grid: grid.clone(),
            finest: finest(grid),
            source,
            matching,
            members,
            channels: channels.unwrap_or(0),
            masked,
            template: Template { grid: grid.clone(), channels: Vec::new() },
            sums: Vec::new(),
            counted: None,
            everywhere: 0,
            sharpness: Vec::new(),
            factor: 0,
        })
    }

    /// Warps a subject to where it is now.
    fn warp(&mut self, m: usize) -> Result<()> {
        let (device, dims) = (&self.device, self.template.grid.dims());
        let member = &mut self.members[m];
        self.matching.warp(device, &mut member.state, &mut member.warped)?;
        if let Some(mask) = &member.mask_at {
            let mut weights = device.alloc::<f32>(self.template.grid.len())?;
            self.matching.warp_along(device, &mut member.state, mask, dims, &mut weights)?;
            whole(device, &mut weights)?;
            member.weights = Some(weights);
        }
        Ok(())
    }

    /// Warps a subject by a displacement of the full grid instead of its own.
    pub(super) fn place(&mut self, m: usize, field: &D::Buffer<f32>) -> Result<()> {
        let (device, grid) = (self.device.clone(), self.grid.clone());
        let affine = self.source.subjects()[self.members[m].index].affine;
        let index = self.members[m].index;
        let loaded = self.source.load(index)?;
        let images = calibrated_channels(&device, &loaded, &self.source.label(index))?;
        let member = &mut self.members[m];
        for (image, out) in images.iter().zip(&mut member.warped) {
            *out = onto(&device, image, &grid, &affine, field)?;
        }
        if let Some(mask) = &member.mask_at {
            let mut weights = device.alloc::<f32>(grid.len())?;
            mask.warp_to(&device, field, grid.dims(), &mut weights)?;
            whole(&device, &mut weights)?;
            member.weights = Some(weights);
        }
        Ok(())
    }

    /// How sharp an image of the full grid is.
    pub(super) fn sharpness_of(&self, image: &D::Buffer<f32>) -> Result<Sharpness> {
        Ok(Sharpness {
            factor: 1,
            iteration: 0,
            entropy: entropy(&self.device, image)?,
            gradient_energy: gradient_energy(&self.device, image, &self.grid)?,
        })
    }

    /// Begins a new average.
    pub(super) fn clear(&mut self) -> Result<()> {
        let n = self.template.grid.len();
        self.sums.clear();
        for _ in 0..self.channels {
            self.sums.push(self.device.alloc(n)?);
        }
        self.counted = if self.masked { Some(self.device.alloc(n)?) } else { None };
        self.everywhere = 0;
        Ok(())
    }

    /// Adds a subject, where it is now, to the average.
    pub(super) fn add(&mut self, m: usize) -> Result<()> {
        let (device, member) = (&self.device, &self.members[m]);
        let factor = member.weight * UNIT;
        for (image, sums) in member.warped.iter().zip(&mut self.sums) {
            match &member.weights {
                None => device.add_fixed(image, factor, sums)?,
                Some(weights) => {
                    let mut seen = device.alloc::<f32>(self.template.grid.len())?;
                    device.eval(&(x(0) * x(1)), &[image, weights], &[], None, &mut seen)?;
                    device.add_fixed(&seen, factor, sums)?;
                }
            }
        }
        match (&mut self.counted, &member.weights) {
            (Some(counted), Some(weights)) => device.add_fixed(weights, factor, counted)?,
            (Some(_), None) => self.everywhere += factor.round_ties_even() as i64,
            (None, _) => {}
        }
        Ok(())
    }

    /// Makes the average the template.
    pub(super) fn average(&mut self) -> Result<()> {
        let (device, n) = (&self.device, self.template.grid.len());
        self.template.channels.clear();
        for sums in &self.sums {
            let mut mean = device.alloc::<f32>(n)?;
            device.fixed_to_float(sums, 1.0 / UNIT, &mut mean)?;
            if let Some(counted) = &self.counted {
                let mut count = device.alloc::<f32>(n)?;
                device.fixed_to_float(counted, 1.0 / UNIT, &mut count)?;
                // What nobody shows is background.
                let mean_of_those = x(0) / (x(1) + param(0)).max(1e-6);
                let everywhere = (self.everywhere as f64 / UNIT) as f32;
                device.eval_in_place(&mean_of_those, &mut mean, &[&count], &[everywhere], None)?;
            }
            self.template.channels.push(mean);
        }
        Ok(())
    }

    /// Warps all subjects, and averages them.
    fn average_all(&mut self) -> Result<()> {
        self.clear()?;
        for m in 0..self.members.len() {
            self.warp(m)?;
            self.add(m)?;
        }
        self.average()
    }

    /// The displacement that takes back the weighted mean of displacements of the template's grid.
    pub(super) fn back_to_mean(&mut self) -> Result<D::Buffer<f32>> {
        let (device, grid) = (&self.device, &self.template.grid);
        let mut sums = device.alloc::<i64>(3 * grid.len())?;
        for member in &mut self.members {
            let field = self.matching.displacement(device, &mut member.state)?;
            device.add_fixed(&field, member.weight * UNIT, &mut sums)?;
        }
        let mut mean = device.alloc::<f32>(3 * grid.len())?;
        device.fixed_to_float(&sums, 1.0 / UNIT, &mut mean)?;
        let mut back = device.alloc::<f32>(3 * grid.len())?;
        device.eval(&(-x(0)), &[&mean], &[], None, &mut back)?;
        device.invert_field(&mean, grid.dims(), Inversion::default(), &mut back)?;
        Ok(back)
    }

    /// Takes the mean displacement back from all subjects, where the model can.
    fn centre(&mut self) -> Result<()> {
        if !self.matching.takes_shifts() {
            return Ok(());
        }
        let device = self.device.clone();
        let back = self.back_to_mean()?;
        for member in &mut self.members {
            self.matching.precede(&device, &back, &mut member.state)?;
        }
        self.average_all()
    }

    /// Notes how sharp the template is.
    fn look(&mut self, iteration: usize) -> Result<()> {
        let Some(first) = self.template.channels.first() else { return Ok(()) };
        let (device, grid) = (&self.device, &self.template.grid);
        let gradient_energy = gradient_energy(device, first, grid)?;
        let entropy = entropy(device, first)?;
        let factor = self.factor;
        self.sharpness.push(Sharpness { factor, iteration, entropy, gradient_energy });
        Ok(())
    }
}

/// The images of a subject at full resolution, calibrated; `file` is for errors.
pub(super) fn calibrated_channels<D: Device>(
    device: &D,
    images: &Images,
    file: &std::path::Path,
) -> Result<Vec<DeviceImage<D>>> {
    let on = |volume: &std::sync::Arc<voxalign_image::Volume<f32>>| {
        calibrated(device, "subject's", volume).map_err(|e| of_file(e, file))
    };
    images.channels.iter().map(on).collect()
}

/// An image on a grid, after a displacement of that grid and an affine map.
pub(super) fn onto<D: Device>(
    device: &D,
    image: &DeviceImage<D>,
    grid: &Grid,
    affine: &Affine,
    field: &D::Buffer<f32>,
) -> Result<D::Buffer<f32>> {
    let image = image.at(device, finest(grid))?;
    let moved = Moved::without_values(device, image, grid, affine)?;
    let mut out = device.alloc::<f32>(grid.len())?;
    moved.warp_to(device, field, grid.dims(), &mut out)?;
    Ok(out)
}

/// An error of an image, with its file.
pub(super) fn of_file(error: RegisterError, file: &std::path::Path) -> PopulationError {
    match error {
        RegisterError::Compute(error) => error.into(),
        other => PopulationError::Input { file: file.to_owned(), what: other.to_string() },
    }
}

/// A mask as 0 and 1, on the grid of its image.
fn mask_on<D: Device>(
    device: &D,
    mask: &voxalign_image::Volume<f32>,
    image: &voxalign_image::Volume<f32>,
    file: &std::path::Path,
) -> Result<DeviceImage<D>> {
    let wrong =
        |what: &str| PopulationError::Input { file: file.to_owned(), what: what.to_owned() };
    if !mask.grid().approx_eq(image.grid(), 1e-3) {
        return Err(wrong(
            "its mask is on another grid; bring it there by `voxalign apply -i MASK -r IMAGE \
             --interpolation nearest`",
        ));
    }
    let mut values = device.upload(mask.data())?;
    device.eval_in_place(&x(0).gt(0.0), &mut values, &[], &[], None)?;
    if device.reduce(&[&values], &[Reduction::Sum(0)])?[0] <= 0.0 {
        return Err(wrong("its mask selects no voxel"));
    }
    Ok(DeviceImage { grid: mask.grid().clone(), values, outside: 0.0, open: false })
}

/// Lets a voxel count only where all that its value was interpolated from does.
fn whole<D: Device>(device: &D, weights: &mut D::Buffer<f32>) -> Result<()> {
    Ok(device.eval_in_place(&x(0).gt(0.99), weights, &[], &[], None)?)
}

/// The mean square of an image's gradient, 1/mm².
pub(super) fn gradient_energy<D: Device>(
    device: &D,
    image: &D::Buffer<f32>,
    grid: &Grid,
) -> Result<f64> {
    let mut gradient = device.alloc::<f32>(3 * grid.len())?;
    device.gradient(image, grid.dims(), grid.spacing(), &mut gradient)?;
    let sum = device.reduce(&[&gradient], &[Reduction::SumSquares(0)])?[0];
    Ok(sum / grid.len() as f64)
}

/// Bins of the entropy, of values from the lowest that counts to 1.
const BINS: usize = 64;
const LOWEST: f32 = 0.1;

/// The entropy of an image's values above a tenth, bits.
pub(super) fn entropy<D: Device>(device: &D, image: &D::Buffer<f32>) -> Result<f64> {
    let counts = device.value_counts(image, None, LOWEST, 1.0, BINS)?.counts;
    let total: u64 = counts.iter().sum();
    let bits = |&count: &u64| {
        let p = count as f64 / total as f64;
        if count == 0 { 0.0 } else { -p * p.log2() }
    };
    Ok(counts.iter().map(bits).sum())
}

impl<D: Device, M: Matching<D>> Deformation for Cohort<'_, D, M> {
    fn to_scale(&mut self, scale: &Scale) -> voxalign_register::Result<()> {
        self.bring(scale).map_err(into_register)
    }

    fn finish(&mut self) -> voxalign_register::Result<()> {
        if self.template.grid.dims() != self.grid.dims() {
            self.bring(&Scale { factor: 1, iterations: 0 }).map_err(into_register)?;
        }
        Ok(())
    }
}

impl<D: Device, M: Matching<D>> Cohort<'_, D, M> {
    fn bring(&mut self, scale: &Scale) -> Result<()> {
        let device = self.device.clone();
        let target = self.finest * scale.factor as f64;
        let grid = coarser(&self.grid, factors_for(&self.grid, target))?;
        self.factor = scale.factor;
        self.template = Template { grid: grid.clone(), channels: Vec::new() };
        self.matching.to_scale(&device, scale, &grid)?;
        for m in 0..self.members.len() {
            let member = &mut self.members[m];
            member.warped.clear();
            member.weights = None;
            self.matching.refine(&device, &mut member.state)?;
            for _ in 0..self.channels {
                member.warped.push(device.alloc(grid.len())?);
            }
            if let Some(mask) = &member.mask {
                let affine = self.source.subjects()[member.index].affine;
                let mask = mask.at(&device, target)?;
                member.mask_at = Some(Moved::without_values(&device, mask, &grid, &affine)?);
            }
        }
        self.average_all()
    }
}

/// The errors of the driver are those of a pair.
fn into_register(error: PopulationError) -> RegisterError {
    match error {
        PopulationError::Register(error) => error,
        PopulationError::Compute(error) => error.into(),
        PopulationError::Image(error) => error.into(),
        PopulationError::Stopped => RegisterError::Stopped,
        other => RegisterError::Option {
            option: "images",
            value: "used".to_owned(),
            remedy: other.to_string(),
        },
    }
}

/// One step of all subjects, and the template after it.
pub(super) struct Steps {
    pub(super) centre: bool,
    iteration: usize,
}

impl Steps {
    pub(super) fn new(centre: bool) -> Self {
        Self { centre, iteration: 0 }
    }

    fn make<D: Device, M: Matching<D>>(&mut self, cohort: &mut Cohort<'_, D, M>) -> Result<f64> {
        cohort.look(self.iteration)?;
        self.iteration += 1;
        let device = cohort.device.clone();
        let mut energies: Vec<(f64, PendingEnergy<D>)> = Vec::new();
        cohort.clear()?;
        for m in 0..cohort.members.len() {
            let member = &mut cohort.members[m];
            let (warped, weights) = (&member.warped, member.weights.as_ref());
            let (template, state) = (&cohort.template, &mut member.state);
            let energy = cohort.matching.step(&device, template, warped, weights, state)?;
            energies.push((member.weight, energy));
            cohort.warp(m)?;
            cohort.add(m)?;
        }
        cohort.average()?;
        let mut sum = 0.0;
        for (weight, energy) in &energies {
            sum += weight * energy.wait(&device)?;
        }
        Ok(sum)
    }
}

impl<D: Device, M: Matching<D>> Iteration<Cohort<'_, D, M>> for Steps {
    fn to_scale(&mut self, _: &Cohort<'_, D, M>, _: &Scale) -> voxalign_register::Result<()> {
        self.iteration = 0;
        Ok(())
    }

    fn iterate(&mut self, cohort: &mut Cohort<'_, D, M>) -> voxalign_register::Result<f64> {
        self.make(cohort).map_err(into_register)
    }

    fn end_scale(
        &mut self,
        cohort: &mut Cohort<'_, D, M>,
    ) -> voxalign_register::Result<Option<f64>> {
        if self.centre {
            cohort.centre().map_err(into_register)?;
        }
        cohort.look(self.iteration).map_err(into_register)?;
        Ok(None)
    }
}
