//! The input of a step: data terms and the state that they apply to.

use super::Attachments;
use crate::attachment::images::DeviceImage;
use crate::attachment::moving_mask::MovingMask;
use crate::attachment::{Attachment, Gradient, Maps};
use crate::error::{RegisterError, Result};
use crate::similarity::{Images, PendingEnergies};
use std::ops::Range;
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::{Device, DeviceBuffer, Dims, Memory};
use voxalign_image::Grid;

/// The data terms, which have been [set to the scale](Attachment::to_scale).
pub struct Sources<'a, D: Device> {
    /// Those of all subjects of a device.
    pub shared: &'a mut Attachments<D>,
    /// Those of this one alone.
    pub own: &'a mut Attachments<D>,
    /// The factor of the energy of points: the fraction of the image voxels that the object has.
    pub share: f64,
    /// The volume over which images are compared at this scale, mm³: the sum of the weights of all voxels times the
    /// volume of a voxel. A mean over it times this is an integral. Of an atlas, that of the template's grid.
    pub counted_volume: f64,
}

/// The points of one side of an attachment: where they have been [carried](Maps::carried), and room for the covectors
/// there.
pub type Carried<'p, D> = (&'p <D as Memory>::Buffer<f32>, &'p mut <D as Memory>::Buffer<f32>);

impl<D: Device> Sources<'_, D> {
    /// All of them, in the same order at each step.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Box<dyn Attachment<D>>> {
        self.shared.iter_mut().chain(self.own.iter_mut())
    }

    /// Whether [one of them](Attachment::leaves_out_what_left) leaves out at each step what images do not show any more.
    pub fn leave_out_what_left(&mut self) -> bool {
        self.all().any(|attachment| attachment.leaves_out_what_left())
    }

    /// The energies of all attachments, in their order: of `images`, one a channel, and of the `points` of those that need
    /// some, with the sides that were carried of each. Their covectors are written where these have room.
    ///
    /// The derivatives of images, each of the length of its image, are written to `room`, which has a list a side that moves
    /// and grows as needed. After each attachment of images `take` is given its channels and the room, where their derivatives are the first ones of
    /// each list until the next attachment is evaluated.
    ///
    /// # Errors
    /// An attachment of channels that there are not; what fails on the device; what `take` returns.
    pub fn evaluate<'p>(
        &mut self,
        device: &D,
        images: &[Images<'_, D>],
        points: impl IntoIterator<Item = Vec<Carried<'p, D>>>,
        room: &mut [Vec<D::Buffer<f32>>],
        mut take: impl FnMut(Range<usize>, &mut [Vec<D::Buffer<f32>>]) -> Result<()>,
    ) -> Result<PendingEnergies>
    where
        D: 'p,
    {
        let mut energies = PendingEnergies::default();
        let (mut points, share) = (points.into_iter(), self.share);
        for attachment in self.all() {
            let needs = attachment.needs();
            let channels = needs.channels.clone();
            let points = needs.places.and_then(|_| points.next());
            let images = images.get(channels.clone()).ok_or_else(|| {
                let what = format!("there are {}, counted from 0", images.len());
                RegisterError::option("channel", channels.end.saturating_sub(1), what)
            })?;
            for list in room.iter_mut() {
                make_room(device, images, list)?;
            }
            let [mut none, mut other_none] = [device.alloc(0)?, device.alloc(0)?];
            let (mut carried, mut covectors) = ([None, None], [&mut none, &mut other_none]);
            let has_points = points.is_some();
            for (side, (there, room)) in points.into_iter().flatten().enumerate() {
                (carried[side], covectors[side]) = (Some(there), room);
            }
            let mut lists = room.iter_mut().map(|list| &mut list[..images.len()]);
            let [derivatives, reference_derivatives] =
                std::array::from_fn(|_| lists.next().unwrap_or_default());
            let mut out = Gradient { derivatives, reference_derivatives, covectors };
            let energy = attachment.evaluate(device, &Maps { images, carried }, &mut out)?;
            match has_points {
                true => energies.points.push(energy.times(share)),
                false => energies.images.add(energy),
            }
            if !channels.is_empty() {
                energies.has_images = true;
                take(channels, room)?;
            }
        }
        Ok(energies)
    }
}

/// Makes the first buffers of a list as long as their images, one each; those that are stay as they are.
fn make_room<D: Device>(
    device: &D,
    images: &[Images<'_, D>],
    list: &mut Vec<D::Buffer<f32>>,
) -> Result<()> {
    for (i, image) in images.iter().enumerate() {
        let voxels = image.dims.iter().product();
        match list.get_mut(i) {
            Some(buffer) if buffer.len() == voxels => {}
            Some(buffer) => *buffer = device.alloc(voxels)?,
            None => list.push(device.alloc(voxels)?),
        }
    }
    Ok(())
}

/// The data terms of a subject at a step, and their images.
pub struct Pull<'a, D: Device> {
    /// The data terms.
    pub sources: Sources<'a, D>,
    /// The images that the subject is compared with, one a channel: for a pair they stay, of an atlas they are the
    /// template of the moment.
    pub fixed: &'a [FixedImage<'a, D>],
    /// The warped images of one of several subjects, from [`warp`](super::CohortModel::warp), for a model that
    /// [needs](super::CohortModel::needs_warped) them; else none.
    pub warped: &'a [D::Buffer<f32>],
    /// The weights of voxels.
    pub counts: Counts<'a, D>,
}

/// An image that a subject is compared with, at the current scale.
pub struct FixedImage<'a, D: Device> {
    /// Its grid: that of the model, except for models that sample both images [on other
    /// grids](super::Model::samples).
    pub grid: &'a Grid,
    /// Its values.
    pub values: &'a D::Buffer<f32>,
    /// The value outside of its grid.
    pub outside: f32,
    /// Whether values beyond its grid are unknown.
    pub open: bool,
}

impl<D: Device> Clone for FixedImage<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for FixedImage<'_, D> {}

impl<'a, D: Device> From<&'a DeviceImage<D>> for FixedImage<'a, D> {
    fn from(image: &'a DeviceImage<D>) -> Self {
        let DeviceImage { grid, values, outside, open } = image;
        Self { grid, values, outside: *outside, open: *open }
    }
}

/// The weights of the voxels of the grid at a step.
pub struct Counts<'a, D: Device> {
    /// Their weights wherever the subject is; 1 where there are none.
    pub given: Option<&'a D::Buffer<f32>>,
    /// The mask of the moving images, which flows with them.
    pub moving: Option<&'a MovingMask<D>>,
}

impl<D: Device> Clone for Counts<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for Counts<'_, D> {}

impl<D: Device> Counts<'_, D> {
    /// Everything counts.
    pub const ALL: Self = Self { given: None, moving: None };

    /// Does something with what voxels count where the moving images are displaced by `field`, of those that images
    /// [show](crate::attachment::images::seen) something at `now`; `None` where that is not asked, and where none of both is left.
    ///
    /// # Errors
    /// What fails on the device; what the work returns.
    pub fn under<R>(
        &self,
        device: &D,
        field: &D::Buffer<f32>,
        dims: Dims,
        mut now: Option<D::Buffer<f32>>,
        work: impl FnOnce(Option<&D::Buffer<f32>>) -> Result<R>,
    ) -> Result<R> {
        if let (Some(shown), Some(given)) = (&mut now, self.given) {
            device.eval_in_place(&(x(0) * x(1)), shown, &[given], &[], None)?;
            if device.reduce(&[shown], &[Reduction::Max(0)])?[0] <= 0.0 {
                now = None;
            }
        }
        let given = now.as_ref().or(self.given);
        match self.moving {
            None => work(given),
            Some(mask) => work(mask.weights(device, field, dims, given)?.as_ref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachment::ChannelSimilarity;
    use crate::similarity::Similarity;
    use voxalign_compute::cpu::Cpu;

    fn ssd(channel: usize) -> Box<dyn Attachment<Cpu>> {
        Box::new(ChannelSimilarity { channel, similarity: Similarity::SSD, weight: 1.0 })
    }

    /// Energy and derivatives of one attachment a channel.
    fn evaluated(dims: &[Dims]) -> (f64, Vec<Vec<f32>>) {
        let device = Cpu::new(Some(2)).unwrap();
        let values = |n: usize, phase: f32| {
            let all: Vec<f32> = (0..n).map(|i| (0.3 * i as f32 + phase).sin()).collect();
            device.upload(&all).unwrap()
        };
        let pairs: Vec<_> = dims
            .iter()
            .map(|d| d.iter().product())
            .map(|n| (values(n, 0.0), values(n, 0.7)))
            .collect();
        let images: Vec<_> = pairs
            .iter()
            .zip(dims)
            .map(|((reference, moved), &dims)| Images {
                reference,
                moved,
                weights: None,
                dims,
                reference_moves: false,
            })
            .collect();
        let mut shared: Attachments<Cpu> = (0..dims.len()).map(ssd).collect();
        let own = &mut Vec::new();
        let mut sources = Sources { shared: &mut shared, own, share: 1.0, counted_volume: 1.0 };
        let (mut room, mut found) = ([Vec::new()], Vec::new());
        let none = std::iter::empty();
        let energies = sources.evaluate(&device, &images, none, &mut room, |channels, room| {
            assert_eq!(channels.len(), 1);
            found.push(device.download(&room[0][0])?);
            Ok(())
        });
        (energies.unwrap().wait().unwrap().total, found)
    }

    /// What is shown now counts as it was given to; where nothing would be left, what was given does.
    #[test]
    fn what_is_not_shown_now_is_left_out() {
        let device = Cpu::new(Some(1)).unwrap();
        let up = |values: &[f32]| device.upload(values).unwrap();
        let (given, field) = (up(&[0.0, 0.5, 1.0]), up(&[0.0; 9]));
        let counts = Counts { given: Some(&given), moving: None };
        let under = |now: Option<&[f32]>| {
            let work = |weights: Option<&_>| Ok(device.download(weights.unwrap())?);
            counts.under(&device, &field, [3, 1, 1], now.map(up), work).unwrap()
        };
        assert_eq!(under(Some(&[1.0, 1.0, 0.0])), [0.0, 0.5, 0.0]);
        assert_eq!(under(Some(&[1.0, 0.0, 0.0])), [0.0, 0.5, 1.0]);
        assert_eq!(under(None), [0.0, 0.5, 1.0]);
    }

    /// Images of several sizes, larger and smaller ones after each other, pull as each does alone.
    #[test]
    fn images_have_sizes_of_their_own() {
        let all = [[5, 4, 3], [7, 6, 5], [4, 1, 1]];
        let (energy, derivatives) = evaluated(&all);
        let alone: Vec<_> = all.iter().map(|d| evaluated(&[*d])).collect();
        for ((found, alone), dims) in derivatives.iter().zip(&alone).zip(&all) {
            assert_eq!(found.len(), dims.iter().product::<usize>());
            assert_eq!(found, &alone.1[0]);
        }
        let sum: f64 = alone.iter().map(|a| a.0).sum();
        assert!((energy - sum).abs() < 1e-12 * sum, "{energy} is not {sum}");
    }
}
