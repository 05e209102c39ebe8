//! The driver of a deformable registration: preparation, optimisation, results.

use super::calibrate::{HistogramMatch, match_histogram_on};
use super::clip::{Guard, IndexBox, box_of, common_box, crop, in_view};
use super::input::{ChannelInput, DeformInput, Intensities, Preparation, ShapeInput};
use super::pair::Prepared;
use super::part::Part;
use super::prepared::{Parts, PreparedPair};
use super::result::DeformResult;
use crate::attachment::images::DeviceImage;
use crate::attachment::moving_mask::{MovingMask, fill};
use crate::attachment::{Attachments, ChannelSimilarity, LandmarkAttachment, Shapes};
use crate::error::{RegisterError, Result, Role, check_grid};
use crate::fields::multiply;
use crate::measures::FieldMeasures;
use crate::model::mend::{ERROR, invert_consistently, mend};
use crate::model::{DeformModel, Matching, Model, Multiscale, UseModel, with_model};
use crate::progress::Progress;
use crate::scores::Object;
use crate::similarity::Similarity;
use crate::there::{foreground, slice_counts, uploaded};
use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_image::{Affine, Grid, ImageView, Vector3, VectorField, Volume};
use voxalign_options::Choice;

fn option(option: &'static str, value: impl ToString, remedy: &str) -> RegisterError {
    RegisterError::option(option, value, remedy)
}

/// Whether images and an affine map can be registered, whatever the model.
pub(super) fn check_input(input: &DeformInput<'_>) -> Result<()> {
    if input.channels.is_empty() {
        return Err(option("channel", "none", "give at least one pair of images"));
    }
    for channel in &input.channels {
        let others = input.landmarks.is_some()
            || !input.shapes.is_empty()
            || input.channels.iter().any(|c| c.weight > 0.0);
        let remedy = match others {
            true => "give a number of 0 or more",
            false => "give a number above 0",
        };
        let fits = channel.weight > 0.0 || channel.weight == 0.0 && others;
        if !(fits && channel.weight.is_finite()) {
            return Err(option(
                "channel",
                format!("a pair of images with the weight {}", channel.weight),
                remedy,
            ));
        }
        check_similarity(&channel.similarity)?;
    }
    check_affine(&input.affine)
}

/// Whether a similarity can drive a deformation, with the parameters that it has.
///
/// # Errors
/// [`Option`](crate::RegisterError::Option) that says what can be given.
pub fn check_similarity(similarity: &Similarity) -> Result<()> {
    if !similarity.has_energy() {
        let able = Similarity::ALL.iter().filter(|s| s.has_energy()).map(|s| s.name());
        let able = able.collect::<Vec<_>>().join(", ");
        let remedy = format!("it is only for affine registration; give one of {able}");
        return Err(option("similarity", similarity.name(), &remedy));
    }
    Ok(similarity.check()?)
}

/// Whether a deformation can start from an affine map: it is finite, changes lengths less than tenfold,
/// and has a half-way map where the model is symmetric.
///
/// # Errors
/// [`Option`](crate::RegisterError::Option) that names what does not fit.
pub fn check_start(affine: &Affine, model: DeformModel) -> Result<()> {
    check_affine(affine)?;
    model.check_start(affine)
}

pub(super) fn check_affine(affine: &Affine) -> Result<()> {
    let remedy = "no deformation can start from it; use another transform, or none if the headers already agree";
    let finite = affine.matrix.iter().chain(affine.offset.iter()).all(|v| v.is_finite());
    if !finite {
        return Err(option("affine", "a transform that is not finite", remedy));
    }
    for factor in affine.matrix.svd(false, false).singular_values.iter() {
        if !(LENGTHS.0..=LENGTHS.1).contains(factor) {
            let value = format!("a transform that scales lengths by a factor of {factor:.4}");
            return Err(option("affine", value, remedy));
        }
    }
    Ok(())
}

/// The range of scale factors that an affine start may have.
const LENGTHS: (f64, f64) = (0.1, 10.0);

/// Registers the moving images to the fixed ones by a diffeomorphism after an affine map.
///
/// A fixed point `x` goes to the moving point `A(x + u(x))` with the affine map `A` of the input: see
/// [`DeformResult`]. The result has the same bits for any number of threads. The overlap that the
/// verdict judges is that of the first channel.
///
/// # Errors
/// [`Option`](crate::RegisterError::Option) for options out of range and an affine map that changes
/// lengths tenfold; an error that names the image for images that are constant or not finite, and for
/// fixed images or a mask on other grids; [`Diverged`](crate::RegisterError::Diverged) where the energy
/// is no longer a number; [`Compute`](crate::RegisterError::Compute) when memory runs out;
/// [`Stopped`](crate::RegisterError::Stopped) when the listener asks for it.
pub fn register_deformable<D: Device>(
    device: &D,
    input: &DeformInput<'_>,
    matching: &Matching,
    progress: &dyn Progress,
) -> Result<DeformResult> {
    matching.check()?;
    check_start(&input.affine, matching.model)?;
    let suits = |n: usize| matching.solver.suits(n);
    let parts = match matching.model.meets_half_way() {
        true => Parts::Between,
        false => Parts::Suiting(&suits),
    };
    let pair = PreparedPair::new(device, input, parts)?;
    with_model(matching, Run { pair, multiscale: &matching.multiscale, progress })
}

/// The values that the foregrounds of the fixed and of the moving image of a channel are above.
pub(super) struct Foregrounds(pub(super) [Option<f32>; 2]);

impl Foregrounds {
    pub(super) fn of<D: Device>(device: &D, channel: &ChannelInput<'_>) -> Result<Self> {
        Ok(Self([foreground(device, channel.fixed)?, foreground(device, channel.moving)?]))
    }
}

/// The volume of the object in the fixed and in the moving image, mm³: what a mask keeps, or the foreground of the first
/// channel that has one; without one all of the image.
fn volumes<D: Device>(
    device: &D,
    input: &DeformInput<'_>,
    foregrounds: &[Foregrounds],
) -> Result<[f64; 2]> {
    let count = |image: ImageView<'_>, above: f32| {
        let [_, _, slices] = slice_counts(device, image, above)?;
        let voxels = slices.iter().sum::<u64>() as f64;
        Ok::<_, RegisterError>(voxels * image.grid().voxel_volume())
    };
    let of = |side: usize, mask: Option<ImageView<'_>>| {
        if let Some(mask) = mask {
            return count(mask, 0.0);
        }
        let mut whole = 1.0;
        for (channel, foreground) in input.channels.iter().zip(foregrounds) {
            let image = [channel.fixed, channel.moving][side];
            if let Some(above) = foreground.0[side] {
                return count(image, above);
            }
            whole = image.grid().len() as f64 * image.grid().voxel_volume();
        }
        Ok(whole)
    };
    if input.landmarks.is_none() && input.shapes.is_empty() {
        return Ok([1.0; 2]);
    }
    Ok([of(0, input.fixed_mask)?, of(1, input.moving_mask)?])
}

/// The points of all data terms in the fixed world, mm, after the affine map.
fn points_of(input: &DeformInput<'_>) -> Result<Vec<Vector3<f64>>> {
    let back = input.affine.inverse()?;
    let mut all = Vec::new();
    let mut add = |[fixed, moving]: [&[Vector3<f64>]; 2]| {
        all.extend_from_slice(fixed);
        all.extend(moving.iter().map(|p| back.apply(*p)));
    };
    if let Some(landmarks) = &input.landmarks {
        add(landmarks.points());
    }
    input.shapes.iter().for_each(|s| add([s.fixed.vertices(), s.moving.vertices()]));
    Ok(all)
}

/// Whether the images of a channel are warped: those without a data term only where there are no others.
fn takes_part(channel: &ChannelInput<'_>, input: &DeformInput<'_>) -> bool {
    channel.weight > 0.0 || input.channels.iter().all(|c| c.weight == 0.0)
}

/// The data terms: the images of channels in their order, then the landmarks, then the shapes.
fn attachments<D: Device>(input: &DeformInput<'_>) -> Result<Attachments<D>> {
    let mut all: Attachments<D> = Vec::new();
    for (channel, c) in input.channels.iter().filter(|c| c.weight > 0.0).enumerate() {
        let &ChannelInput { similarity, weight, .. } = c;
        all.push(Box::new(ChannelSimilarity { channel, similarity, weight }));
    }
    if let Some(landmarks) = &input.landmarks {
        all.push(Box::new(LandmarkAttachment::new(landmarks.clone())));
    }
    for ShapeInput { fixed, moving, options } in &input.shapes {
        all.push(Box::new(Shapes::new(Arc::clone(fixed), Arc::clone(moving), *options)?));
    }
    Ok(all)
}

/// The end of every deformable registration: a field without folds, its inverse, and what they do.
pub struct Conclusion<D: Device> {
    /// The displacement and the one that takes it back, voxels of the grid.
    pub fields: [D::Buffer<f32>; 2],
    /// The determinant of the Jacobian of the first.
    pub jacobian: D::Buffer<f32>,
    /// Voxels that were smoothed, near extreme changes of volume and where the inverse missed too far, summed over rounds.
    pub mended: usize,
}

impl<D: Device> Conclusion<D> {
    /// Of a field and an inverse that is near; fields that are `settled` stay as they are, others are
    /// [mended](crate::model::mend::mend) and inverted by Newton's method, which is exact at the voxels.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn new(
        device: &D,
        grid: &Grid,
        fields: [D::Buffer<f32>; 2],
        settled: bool,
    ) -> Result<Self> {
        let [mut field, mut inverse] = fields;
        let mut mended = 0;
        if !settled {
            mended += mend(device, &mut field, grid.dims())?;
            mended += invert_consistently(device, &mut field, grid, &mut inverse, ERROR)?;
        }
        let mut jacobian = device.alloc::<f32>(grid.len())?;
        device.jacobian_determinant(&field, grid.dims(), &mut jacobian)?;
        Ok(Self { fields: [field, inverse], jacobian, mended })
    }

    /// Numbers of both fields, over the grid and where the `object` is above 0.
    ///
    /// # Errors
    /// An object of another length than the grid, memory that runs out.
    pub fn measures(
        &self,
        device: &D,
        grid: &Grid,
        object: Option<&D::Buffer<f32>>,
    ) -> Result<FieldMeasures> {
        let [field, inverse] = &self.fields;
        FieldMeasures::new(device, grid, field, Some(inverse), object)
    }
}

/// The registration of a pair with a model of the list.
struct Run<'a, D: Device> {
    pair: PreparedPair<'a, D>,
    multiscale: &'a Multiscale,
    progress: &'a dyn Progress,
}

impl<D: Device> UseModel<D> for Run<'_, D> {
    type Out = Result<DeformResult>;

    fn with<M: Model<D>>(self, make: impl Fn(&Grid) -> M + Sync) -> Self::Out {
        let Self { pair, multiscale, progress } = self;
        Ok(pair.run_with(multiscale, progress, make)?.0)
    }
}

/// The parts of the fixed and of the moving grid that are registered: the same of the world, as far as the grids go.
pub(super) fn clip_boxes<D: Device>(
    device: &D,
    input: &DeformInput<'_>,
    foregrounds: &[Foregrounds],
    parts: Parts<'_>,
) -> Result<[IndexBox; 2]> {
    let grids = [input.channels[0].fixed.grid(), input.channels[0].moving.grid()];
    let suits: &dyn Fn(usize) -> bool = match parts {
        Parts::Suiting(suits) => suits,
        Parts::Between => &|_| false,
        Parts::Whole => return Ok(grids.map(IndexBox::whole)),
    };
    if !input.preparation.clip {
        return Ok(grids.map(IndexBox::whole));
    }
    let (guard, ways) = (Guard::default(), [input.affine, input.affine.inverse()?]);
    let mut found: [Option<IndexBox>; 2] = [None, None];
    for (channel, foreground) in input.channels.iter().zip(foregrounds) {
        let of = |image: ImageView<'_>, above: Option<f32>| {
            let counts = above.map(|above| slice_counts(device, image, above)).transpose()?;
            let found = counts.and_then(|counts| box_of(image.dims(), &counts));
            Ok::<_, RegisterError>((image.grid().clone(), found))
        };
        let images = [of(channel.fixed, foreground.0[0])?, of(channel.moving, foreground.0[1])?];
        for (side, found) in found.iter_mut().enumerate() {
            let [own, other] = [&images[side], &images[1 - side]];
            let one = common_box((&own.0, own.1), (&other.0, other.1), &ways[side], guard)?;
            let one = in_view(&own.0, one, (&other.0, other.1), &ways[side], Guard::VIEW)?;
            // Moving images of several channels may be on grids of their own.
            let one = if own.0 == *grids[side] { one } else { IndexBox::whole(grids[side]) };
            *found = Some(found.map_or(one, |all| all.with(&one)));
        }
    }
    let of_fixed = points_of(input)?;
    let of_moving: Vec<_> = of_fixed.iter().map(|p| input.affine.apply(*p)).collect();
    let [fixed, moving] = [0, 1].map(|side| {
        let all = found[side].unwrap_or_else(|| IndexBox::whole(grids[side]));
        // Points pull wherever they are.
        let points = if side == 0 { &of_fixed } else { &of_moving };
        all.around(grids[side], points, guard)
    });
    Ok([fixed.grown(grids[0], suits), moving.grown(grids[1], suits)])
}

impl<D: Device> Prepared<D> {
    /// The images of an input on a part of the fixed grid, and what pulls.
    pub(super) fn new(
        device: &D,
        input: &DeformInput<'_>,
        foregrounds: &[Foregrounds],
        to: &IndexBox,
    ) -> Result<Self> {
        let moving_mask = match input.moving_mask {
            Some(mask) => {
                check_grid(Role::MovingMask, mask, input.channels[0].moving.grid())?;
                Some(MovingMask::new(device, mask)?)
            }
            None => None,
        };
        let whole = input.channels[0].fixed.grid();
        let mut prepared = Self {
            fixed: Vec::new(),
            moving: Vec::new(),
            mask: None,
            moving_mask,
            attachments: attachments(input)?,
            volumes: volumes(device, input, foregrounds)?,
        };
        for channel in &input.channels {
            check_grid(Role::FixedChannel, channel.fixed, whole)?;
            if takes_part(channel, input) {
                prepared.add(device, channel, to, input.preparation)?;
            }
        }
        if let Some(mask) = input.fixed_mask {
            check_grid(Role::FixedMask, mask, whole)?;
            prepared.mask = Some(mask_on(device, mask, to)?);
        }
        Ok(prepared)
    }

    fn add(
        &mut self,
        device: &D,
        channel: &ChannelInput<'_>,
        to: &IndexBox,
        preparation: Preparation,
    ) -> Result<()> {
        let &ChannelInput { fixed, moving, intensities, .. } = channel;
        let kept = intensities == Intensities::AsTheyAre;
        let prepare = |part: Part<'_, D>| match kept {
            true => part.unchanged(device, Role::Fixed),
            false => part.calibrated(device, Role::Fixed, None),
        };
        let fixed = match (to.is_whole(fixed.grid()), fixed.elsewhere()) {
            (true, _) => prepare(Part::whole(device, fixed)?)?,
            (false, None) => prepare(Part::whole(device, (&crop(fixed, to)?).into())?)?,
            (false, Some(_)) => prepare(Part::within(device, fixed, to)?)?,
        };
        let counts = match &self.moving_mask {
            Some(mask) => Some(mask.on(device, moving.grid())?),
            None => None,
        };
        let moving = Part::whole(device, moving)?;
        let mut moving = match kept {
            true => moving.unchanged(device, Role::Moving)?,
            false => moving.calibrated(device, Role::Moving, counts.as_ref())?,
        };
        if preparation.histogram_match && !kept {
            let how = HistogramMatch::default();
            let map = match_histogram_on(device, &moving.values, None, &fixed.values, None, &how)?;
            map.apply_on(device, &mut moving.values)?;
            moving.outside = map.apply(moving.outside);
        }
        if let Some(counts) = &counts {
            fill(device, &mut moving, counts)?;
        }
        self.fixed.push(fixed);
        self.moving.push(moving);
        Ok(())
    }
}

/// The region of interest of a registration: the region inside the fixed mask, or the
/// [foreground](DeformResult::foreground) of the fixed image. `None` where that is constant.
#[must_use]
pub fn object_of<'a>(
    fixed: &'a Volume<f32>,
    foreground: Option<f32>,
    mask: Option<&'a Volume<f32>>,
) -> Option<Object<'a>> {
    match mask {
        Some(image) => Some(Object { image, above: 0.0 }),
        None => foreground.map(|above| Object { image: fixed, above }),
    }
}

/// 1 where the object [is](object_of), else 0.
pub(super) fn object_on<D: Device>(
    device: &D,
    (fixed, foreground): (ImageView<'_>, Option<f32>),
    mask: Option<ImageView<'_>>,
) -> Result<Option<D::Buffer<f32>>> {
    let (image, above) = match (mask, foreground) {
        (Some(mask), _) => (mask, 0.0),
        (None, Some(above)) => (fixed, above),
        (None, None) => return Ok(None),
    };
    let mut found = uploaded(device, image)?;
    device.eval_in_place(&x(0).gt(param(0)), &mut found, &[], &[above], None)?;
    Ok(Some(found))
}

fn mask_on<D: Device>(device: &D, mask: ImageView<'_>, to: &IndexBox) -> Result<DeviceImage<D>> {
    let mask = crop(mask, to)?;
    let mut values = device.upload(mask.data())?;
    device.eval_in_place(&x(0).gt(param(0)), &mut values, &[], &[0.0], None)?;
    if device.reduce(&[&values], &[Reduction::Sum(0)])?[0] <= 0.0 {
        return Err(RegisterError::EmptyMask { role: Role::FixedMask });
    }
    Ok(DeviceImage { grid: mask.grid().clone(), values, outside: 0.0, open: false })
}

/// Displacements in voxels as displacements in mm.
///
/// # Errors
/// A field of another length than the grid asks for.
pub fn to_world(grid: &Grid, mut field: Vec<f32>) -> Result<VectorField> {
    multiply(&grid.to_world().matrix, &mut field);
    Ok(VectorField::new(grid.clone(), field)?)
}
