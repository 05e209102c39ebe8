//! Presets: what is moved, from where, and what must hold of the result, for one kind of object each.

use super::options::Preset;
use super::settings::Settings;
use super::start::inside;
use crate::error::{Error, Result};
use serde_json::{Map, Value};
use voxalign_image::{Affine, Grid, Matrix3, Vector3, Volume, memory};
use voxalign_options::{Choice as _, text};
use voxalign_report::segment::{ClassRecord, CutOutRecord, PresetRecord};
use voxalign_segment::presets::{Bone, Head, Mosaic, SharedDeviation, Wave, depths, shares};
use voxalign_segment::{Lattice, Neighbourhood, tidy};

/// The weight of the curvature, nats times the smallest spacing.
const CURVATURE: f64 = 1.0;

/// Most iterations.
pub(super) const ITERATIONS: usize = 100;

/// The part of the values of a brain whose histogram its tissues are from.
const QUANTILE: f64 = 0.9995;

/// The speed where there is no brain, nats.
const NOWHERE: f32 = -30.0;

/// The rim of a brain, mm.
const RIM: f32 = 4.0;

/// Voxels between slices that are beside each other: more than the Gaussian of the curvature reaches.
const GAP: usize = 8;

/// The part of an image without brain that there is at least where a skull has been removed.
const AROUND: f64 = 0.05;

/// The part of an image whose intensities are at most that of air, and what is less than any air and so beyond the field of view, HU.
const AIR: f64 = 0.01;
const BEYOND: f32 = -1200.0;

/// What is denser than this is tissue, HU.
const TISSUE: f32 = -500.0;

/// The least part of upwards in the direction of slices of a head.
const UPWARDS: f64 = 0.8;

/// As far as Gaussians of curvatures reach at most, points.
const REACH: f64 = 31.0;

/// An image made ready for a preset.
pub(super) struct Prepared {
    preset: Preset,
    /// Slices of the image beside each other, where fronts move in those.
    slices: Option<Slices>,
    /// Where fronts move: the grid of the image, or that of the slices.
    pub(super) speed: Volume<f32>,
    /// What is inside at the start, and where anything may be.
    pub(super) start: Vec<bool>,
    pub(super) mask: Vec<bool>,
    /// The weight of the curvature, nats times mm.
    pub(super) curvature: f64,
    /// The tissues that were found.
    pub(super) classes: Vec<ClassRecord>,
    /// The parameters as they are used.
    pub(super) parameters: Map<String, Value>,
    known: Known,
}

/// What is known of the object.
enum Known {
    Brain {
        tissues: SharedDeviation,
    },
    Head {
        head: Head,
        values: Vec<f32>,
    },
    Bone {
        noise: f64,
        air: Option<f64>,
        tissue: Option<f64>,
        above: f64,
        cut_out: Option<CutOutRecord>,
    },
}

impl Prepared {
    /// Of an image with intensities, and the mask of a brain.
    pub(super) fn new(
        settings: &Settings,
        image: &Volume<f32>,
        prior: Option<&Volume<f32>>,
    ) -> Result<Option<Self>> {
        let grid = image.grid();
        let made = match settings.preset {
            Preset::None => return Ok(None),
            _ if grid.is_2d() => {
                return Err(Error::input(text!(
                    "`preset = {}` is for images of three dimensions, and the image has {:?} pixels; give a `force`",
                    settings.preset.name(),
                    &grid.dims()[..2]
                )));
            }
            Preset::WhiteMatter => Self::brain(image, prior)?,
            Preset::WhiteMatterHead => Self::head(image, settings)?,
            Preset::Bone(of) => Self::bone(image, of.bone_threshold)?,
        };
        let mut parameters = settings.preset.as_json();
        let curvature = CURVATURE * Settings::spacing(grid).0;
        parameters.insert("curvature".into(), curvature.into());
        Ok(Some(Self { preset: settings.preset, curvature, parameters, ..made }))
    }

    /// Without what is the same for all presets.
    fn of(speed: Volume<f32>, mask: Vec<bool>, known: Known) -> Result<Self> {
        let start = speed.data().iter().zip(&mask).map(|(s, m)| *s > 0.0 && *m);
        Ok(Self {
            preset: Preset::None,
            slices: None,
            start: memory::collected(start)?,
            mask,
            speed,
            curvature: 0.0,
            classes: Vec::new(),
            parameters: Map::new(),
            known,
        })
    }

    fn brain(image: &Volume<f32>, prior: Option<&Volume<f32>>) -> Result<Self> {
        let values = image.data();
        let mask = match prior {
            Some(prior) => inside(prior)?,
            None => memory::collected(values.iter().map(|v| *v > 0.0))?,
        };
        let around = mask.iter().filter(|m| !**m).count() as f64 / mask.len() as f64;
        if prior.is_none() && around < AROUND {
            return Err(Error::input(text!(
                "`preset = white-matter` is for brains with zeros around them, and {:.1} % of the voxels are 0 or less; remove the skull first, give \
                 the brain as `prior_mask`, or choose `preset = white-matter-head`",
                100.0 * around
            )));
        }
        let low = mask.iter().zip(values).filter(|(m, v)| **m && **v <= 0.0).count();
        let all = mask.iter().filter(|m| **m).count();
        if low as f64 > AROUND * all as f64 {
            return Err(Error::input(text!(
                "`prior_mask`: {low} of its {all} voxels are 0 or less in the image; give a mask of the brain alone, or an image whose intensities are above 0 there"
            )));
        }
        let of_brain = (0..mask.len()).filter(|p| mask[*p]).map(|p| values[p]);
        let tissues = SharedDeviation::fit(&memory::collected(of_brain)?, QUANTILE)?;
        let mut speeds = tissues.speeds(values)?;
        speeds.iter_mut().zip(&mask).filter(|(_, m)| !**m).for_each(|(s, _)| *s = NOWHERE);
        let speed = Volume::new(image.grid().clone(), speeds)?;
        let classes = classes(&tissues);
        Ok(Self { classes, ..Self::of(speed, mask, Known::Brain { tissues })? })
    }

    fn head(image: &Volume<f32>, settings: &Settings) -> Result<Self> {
        let slices = Slices::new(image.grid(), settings)?;
        let values = slices.ordered(image.data())?;
        let head = Head::of(slices.dims, slices.spacing, &values)?;
        let mut speeds = head.tissues.speeds(&values)?;
        speeds.iter_mut().zip(&head.set).filter(|(_, h)| !**h).for_each(|(s, _)| *s = NOWHERE);
        let speed = Volume::new(slices.grid()?, slices.mosaic.spread(&speeds, NOWHERE)?)?;
        let mask = slices.mosaic.spread(&head.set, false)?;
        let classes = classes(&head.tissues);
        let made = Self::of(speed, mask, Known::Head { head, values })?;
        Ok(Self { classes, slices: Some(slices), ..made })
    }

    fn bone(image: &Volume<f32>, threshold: f64) -> Result<Self> {
        let values = image.data();
        let lattice = Lattice::new(image.dims(), Neighbourhood::Six)?;
        let bone = Bone::of(&lattice, values, threshold)?;
        let (air, tissue) = (part(values, BEYOND, AIR)?, part(values, TISSUE, 0.5)?);
        let above = share_above(values, threshold, values.len());
        let cut_out = cut_out(values, threshold)?;
        let speed = Volume::new(image.grid().clone(), bone.speeds(values)?)?;
        let mask = memory::filled(values.len(), true)?;
        Self::of(speed, mask, Known::Bone { noise: bone.noise, air, tissue, above, cut_out })
    }

    /// The points on which fronts move.
    pub(super) fn lattice(&self, settings: &Settings) -> Result<Lattice> {
        super::evolve::lattice(self.speed.grid(), settings)
    }

    /// Of a voxel of the image the point where the front moves.
    pub(super) fn point(&self, voxel: usize) -> usize {
        match &self.slices {
            None => voxel,
            Some(slices) => slices.mosaic.point(slices.place(voxel)),
        }
    }

    /// The object on the grid of the image, from where the front came to rest.
    pub(super) fn object(&self, labels: Vec<u8>) -> Result<Vec<u8>> {
        // Smoothing knows no mask.
        let mut labels = labels;
        labels.iter_mut().zip(&self.mask).filter(|(_, m)| !**m).for_each(|(l, _)| *l = 0);
        let (Some(slices), Known::Head { head, values }) = (&self.slices, &self.known) else {
            return Ok(labels);
        };
        let inside = memory::collected(labels.iter().map(|l| *l != 0))?;
        let object = slices.mosaic.gathered(&inside)?;
        let brain = Wave::default().brain(head, values, &object)?;
        let label = |voxel| u8::from(brain[slices.place(voxel)]);
        Ok(memory::collected((0..brain.len()).map(label))?)
    }

    /// The part of an object that is connected with its largest part, where that has to be much.
    pub(super) fn connected(&self, grid: &Grid, labels: &[u8]) -> Result<Option<f64>> {
        let Known::Brain { .. } = &self.known else { return Ok(None) };
        let mut set = memory::collected(labels.iter().map(|l| *l != 0))?;
        let all = set.iter().filter(|s| **s).count();
        let lattice = Lattice::new(grid.dims(), Neighbourhood::Six)?;
        let removed = tidy::keep_largest(&lattice, &mut set)?;
        Ok((all > 0).then(|| 1.0 - removed.points as f64 / all as f64))
    }

    /// What must hold of an object; `largest` is what [`Prepared::connected`] said before it was tidied.
    pub(super) fn record(
        &self,
        grid: &Grid,
        labels: &[u8],
        largest: Option<f64>,
    ) -> Result<PresetRecord> {
        let name = self.preset.name().to_owned();
        let set = memory::collected(labels.iter().map(|l| *l != 0))?;
        let of_tissues = |of: &SharedDeviation| (Some(of.gap()), Some(of.span()));
        Ok(match &self.known {
            Known::Brain { tissues } => {
                let (gap, span) = of_tissues(tissues);
                let mut filled = memory::copied(&self.mask)?;
                tidy::fill_holes(&Lattice::new(grid.dims(), Neighbourhood::Six)?, &mut filled)?;
                let depths = depths(grid.dims(), &filled, grid.spacing(), false)?;
                let [part, rim] = shares(&self.mask, &depths, &set, RIM);
                let brain = filled.iter().filter(|f| **f).count() as f64 * grid.voxel_volume();
                let brain_ml = Some(brain / 1000.0);
                PresetRecord { name, gap, span, brain_ml, part, rim, largest, ..<_>::default() }
            }
            Known::Head { head, .. } => {
                let (gap, span) = of_tissues(&head.tissues);
                let all = head.set.iter().filter(|h| **h).count().max(1) as f64;
                let object = set.iter().filter(|s| **s).count() as f64;
                let (part, ml) = (object / all, object * grid.voxel_volume() / 1000.0);
                let (part, object_ml) = (Some(part), Some(ml));
                PresetRecord { name, gap, span, part, object_ml, ..<_>::default() }
            }
            Known::Bone { noise, air, tissue, above, cut_out } => PresetRecord {
                name,
                noise: Some(*noise),
                air: *air,
                tissue: *tissue,
                part: Some(*above),
                cut_out: *cut_out,
                ..<_>::default()
            },
        })
    }
}

/// The intensity that a part of what is above another is below.
fn part(values: &[f32], above: f32, part: f64) -> Result<Option<f64>> {
    let mut all = memory::collected(values.iter().copied().filter(|v| *v > above))?;
    let at = (part * all.len().saturating_sub(1) as f64) as usize;
    let is_some = !all.is_empty();
    Ok(is_some.then(|| f64::from(*all.select_nth_unstable_by(at, f32::total_cmp).1)))
}

/// How many values are above a threshold, as a part of so many.
fn share_above(values: &[f32], threshold: f64, of: usize) -> f64 {
    values.iter().filter(|v| f64::from(**v) > threshold).count() as f64 / of.max(1) as f64
}

/// What is left where more than half of an image is exactly its least value.
fn cut_out(values: &[f32], threshold: f64) -> Result<Option<CutOutRecord>> {
    let least = values.iter().copied().fold(f32::INFINITY, f32::min);
    let left = values.iter().filter(|v| **v > least).count();
    if 2 * left >= values.len() {
        return Ok(None);
    }
    let above = share_above(values, threshold, left);
    Ok(match [part(values, least, AIR)?, part(values, least, 1.0 - AIR)?] {
        [Some(least), Some(most)] => Some(CutOutRecord { least, most, above }),
        _ => None,
    })
}

fn classes(of: &SharedDeviation) -> Vec<ClassRecord> {
    let record = |k: usize| ClassRecord {
        class: k + 1,
        weight: of.weights[k],
        mean: of.means[k],
        deviation: of.deviation,
        label: i32::from(k == 3),
    };
    (0..4).map(record).collect()
}

/// The slices of an image from the neck to the vertex, beside each other.
struct Slices {
    /// Of the ordered slices: along the first two axes, and upwards.
    dims: [usize; 3],
    spacing: [f64; 3],
    /// The axis of the image along each of them, and whether it is reversed.
    axes: [(usize, bool); 3],
    of_image: [usize; 3],
    mosaic: Mosaic,
}

impl Slices {
    fn new(grid: &Grid, settings: &Settings) -> Result<Self> {
        let direction = grid.direction();
        let up = |axis: usize| direction.column(axis)[2];
        let mut order = [0, 1, 2];
        // The axis that is nearest to upwards comes last.
        order.sort_by(|a, b| up(*a).abs().total_cmp(&up(*b).abs()));
        let mut in_slice = [order[0], order[1]];
        in_slice.sort_unstable();
        let last = order[2];
        if up(last).abs() < UPWARDS {
            return Err(Error::input(text!(
                "`preset = white-matter-head` needs slices that rise from the neck to the vertex, and no axis of the image ({grid}) is within 37° of upwards; check its orientation"
            )));
        }
        let axes = [(in_slice[0], false), (in_slice[1], false), (last, up(last) < 0.0)];
        let of_image = grid.dims();
        let dims = axes.map(|(a, _)| of_image[a]);
        let spacing = axes.map(|(a, _)| grid.spacing()[a]);
        let plane = Grid::axis_aligned([dims[0], dims[1], 1], spacing)?;
        let sigma = settings.sigma(&plane) / spacing[0].min(spacing[1]);
        // Gaussians end at three deviations.
        let reach = 3.0 * sigma;
        if reach > REACH {
            return Err(Error::input(text!(
                "`sigma` is {} mm, and three times that are more than {REACH} voxels; give less",
                settings.sigma(&plane)
            )));
        }
        let gap = GAP.max(reach.ceil() as usize + 2);
        let mosaic = Mosaic::new([dims[0], dims[1]], dims[2], gap);
        Ok(Self { dims, spacing, axes, of_image, mosaic })
    }

    /// The number among ordered voxels of one of the image.
    fn place(&self, voxel: usize) -> usize {
        let [nx, ny, _] = self.of_image;
        let at = [voxel % nx, voxel / nx % ny, voxel / (nx * ny)];
        let of = |i: usize| {
            let (axis, reversed) = self.axes[i];
            if reversed { self.dims[i] - 1 - at[axis] } else { at[axis] }
        };
        of(0) + self.dims[0] * (of(1) + self.dims[1] * of(2))
    }

    /// The values of an image in the order of its slices.
    fn ordered(&self, values: &[f32]) -> Result<Vec<f32>> {
        let mut all = memory::zeroed(values.len())?;
        values.iter().enumerate().for_each(|(p, v)| all[self.place(p)] = *v);
        Ok(all)
    }

    /// The grid of the plane.
    fn grid(&self) -> Result<Grid> {
        let dims = self.mosaic.lattice(Neighbourhood::Four)?.dims();
        let [x, y, _] = self.spacing;
        let matrix = Matrix3::from_diagonal(&Vector3::new(x, y, x.min(y)));
        Ok(Grid::new(dims, Affine::new(matrix, Vector3::zeros()))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::from_toml;
    use crate::segment::Options;

    fn settings(text: &str) -> Settings {
        from_toml::<Options>(text).unwrap().settings().unwrap()
    }

    #[test]
    fn slices_rise_whatever_the_orientation() {
        let text = "preset = 'white-matter-head'";
        // Columns are the directions of the axes: left, down and to the front.
        let matrix = Matrix3::new(-2.0, 0.0, 0.0, 0.0, 0.0, 1.5, 0.0, -3.0, 0.0);
        let grid = Grid::new([4, 5, 6], Affine::new(matrix, Vector3::zeros())).unwrap();
        let slices = Slices::new(&grid, &settings(text)).unwrap();
        assert_eq!((slices.dims, slices.spacing), ([4, 6, 5], [2.0, 1.5, 3.0]));
        let values: Vec<f32> = (0..120).map(|p| p as f32).collect();
        let ordered = slices.ordered(&values).unwrap();
        let height = |ordered: usize| {
            let voxel = ordered_to_voxel(&slices, ordered);
            let at = [voxel % 4, voxel / 4 % 5, voxel / 20].map(|i| i as f64);
            grid.index_to_world(at.into())[2]
        };
        assert!((1..120).all(|p| height(p) >= height(p - 1) - 1e-9));
        assert_eq!(ordered[slices.place(77)], 77.0);
        assert!(slices.grid().unwrap().is_2d());
    }

    fn ordered_to_voxel(slices: &Slices, ordered: usize) -> usize {
        (0..120).find(|v| slices.place(*v) == ordered).unwrap()
    }

    #[test]
    fn images_that_do_not_go_with_a_preset_are_refused() {
        let solid = Grid::axis_aligned([12, 12, 12], [2.0; 3]).unwrap();
        let flat = Grid::axis_aligned([12, 12, 1], [2.0; 3]).unwrap();
        let said = |text: &str, grid: &Grid, value: f32| {
            let image = Volume::filled(grid.clone(), value);
            let found = Prepared::new(&settings(text), &image, None);
            found.err().map_or_else(String::new, |e| e.to_string())
        };
        for (text, grid, value, part) in [
            ("preset = 'bone'", &flat, 5.0, "three dimensions"),
            ("preset = 'white-matter'", &solid, 5.0, "zeros around them"),
            ("preset = 'white-matter'", &solid, 0.0, "different values"),
            ("preset = 'white-matter-head'", &solid, 5.0, "different values"),
        ] {
            let said = said(text, grid, value);
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
