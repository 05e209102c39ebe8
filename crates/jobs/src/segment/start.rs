//! Where fronts begin: the labels of all voxels.

use super::options::{DenseOptions, DenseShape, Init, ShapeOptions};
use super::preset::Prepared;
use super::settings::Settings;
use crate::error::{Error, Result};
use voxalign_image::{Grid, LabelMap, Vector3, Volume, memory};
use voxalign_options::{Choice as _, text};
use voxalign_report::segment::StartRecord;
use voxalign_segment::{
    Bounds, Lattice, Partition, Shape, chessboard, dense, patchwork, shifted, single_of, within,
};

/// The side of squares of a dense start in the plane and in a volume, voxels: 64 voxels each.
const SIDES: [usize; 2] = [8, 4];

/// Masks that a start is made of.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Masks<'a> {
    /// What a dense start is kept to.
    pub(super) prior: Option<&'a Volume<f32>>,
    /// What is inside.
    pub(super) initial: Option<&'a Volume<f32>>,
}

/// A start.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub(super) labels: Vec<u8>,
    /// What the record says of it.
    pub(super) record: StartRecord,
}

/// The labels that fronts begin with. Of a dense start, `moved` by half the distance of its shapes; of other starts there is no other one.
pub(super) fn start(
    lattice: &Lattice,
    grid: &Grid,
    settings: &Settings,
    masks: Masks<'_>,
    moved: bool,
) -> Result<Option<Start>> {
    let regions = settings.evolution.regions;
    let labels = match settings.init {
        Init::Dense(of) => dense_start(lattice, of, regions, masks.prior, moved)?,
        _ if moved => return Ok(None),
        Init::Circle(of) => whole(one(lattice, grid, of, Shape::Ball)?)?,
        Init::Box(of) => whole(one(lattice, grid, of, Shape::Box)?)?,
        Init::Mask => {
            let mask = masks.initial.ok_or_else(|| Error::Internal("no mask".to_owned()))?;
            whole(inside(mask)?)?
        }
    };
    let error = |none| no_front(settings.init, none, masks.prior.is_some());
    begun(lattice, labels, regions, settings.init.name(), error).map(Some)
}

/// The start with these labels, unless it is empty (then `error` of true) or everything.
fn begun(
    lattice: &Lattice,
    labels: Vec<u8>,
    regions: usize,
    kind: &str,
    error: impl Fn(bool) -> Error,
) -> Result<Start> {
    let voxels = labels.iter().filter(|l| **l != 0).count();
    let everywhere = voxels == labels.len() && regions == 2;
    if voxels == 0 || everywhere {
        return Err(error(voxels == 0));
    }
    let bound = match regions {
        2 => {
            let set = memory::collected(labels.iter().map(|l| *l != 0))?;
            Bounds::of(lattice, &set)?.max_region_size
        }
        _ => Partition::bound(lattice, &labels)?,
    };
    Ok(Start { labels, record: StartRecord { kind: kind.to_owned(), voxels, bound } })
}

/// The start of a preset: where its force is outwards, or to see whether that matters a dense one, within what its object may be.
pub(super) fn start_of_preset(
    lattice: &Lattice,
    prepared: &Prepared,
    dense: bool,
) -> Result<Start> {
    let usual = DenseOptions::USUAL;
    let (kind, labels) = match dense {
        false => ("force", bytes(&prepared.start)?),
        true => {
            let labels = dense_start(lattice, usual, 2, None, false)?;
            let is_in = labels.iter().zip(&prepared.mask).map(|(l, m)| if *m { *l } else { 0 });
            (Init::DENSE.name(), memory::collected(is_in)?)
        }
    };
    begun(lattice, labels, 2, kind, |none| {
        let what = if none { "no voxel has" } else { "all voxels have" };
        Error::input(text!(
            "the start is {}: {what} intensities of the object; check that the image is what the preset is for",
            if none { "empty" } else { "the whole image" }
        ))
    })
}

/// That there is nothing inside at the start, or everything.
fn no_front(init: Init, none: bool, masked: bool) -> Error {
    Error::input(match (init, none) {
        (Init::Dense(_), true) if masked => text!(
            "the start is empty: no shape of it is within `prior_mask`; give a larger mask, or a smaller `init_size`"
        ),
        (Init::Dense(_), true) => {
            text!("the start is empty; give a larger `init_size`, or a smaller `init_spacing`")
        }
        (Init::Dense(_), false) => {
            text!("the start is the whole image; give a smaller `init_size`")
        }
        (Init::Mask, true) => {
            text!("the start is empty: no voxel of `initial_mask` is above 0; give another mask")
        }
        (Init::Mask, false) => text!(
            "the start is the whole image: all voxels of `initial_mask` are above 0; give another mask"
        ),
        (_, true) => text!(
            "the start is empty: the shape has no voxel of the image; check `init_centre`, or give a larger `init_size`, mm"
        ),
        (_, false) => {
            text!(
                "the start is the whole image; give a smaller `init_size`, mm, or another `init_centre`"
            )
        }
    })
}

/// The parameters of a start as they are used.
pub(super) fn used(grid: &Grid, settings: &Settings) -> serde_json::Map<String, serde_json::Value> {
    let mut all = settings.init.as_json();
    match settings.init {
        Init::Dense(of) => {
            let (size, spacing) = dense_sizes(grid.is_2d(), &of);
            all.insert("init_size".into(), size.into());
            let apart = of.init_shape != DenseShape::Checkerboard;
            all.insert("init_spacing".into(), apart.then_some(spacing).into());
        }
        Init::Circle(of) | Init::Box(of) => {
            let centre = centre_of(grid, &of);
            all.insert("init_centre".into(), centre.as_slice().into());
            all.insert("init_size".into(), size_of(grid, &of).into());
        }
        Init::Mask => {}
    }
    all
}

/// Size and distance of dense shapes, voxels.
fn dense_sizes(flat: bool, of: &DenseOptions) -> (f64, f64) {
    let size = of.init_size.unwrap_or(SIDES[usize::from(!flat)] as f64);
    (size, of.init_spacing.unwrap_or(2.0 * size))
}

/// The size of a single shape, mm.
fn size_of(grid: &Grid, of: &ShapeOptions) -> f64 {
    let axes = if grid.is_2d() { 2 } else { 3 };
    let shortest = grid.extent()[..axes].iter().copied().fold(f64::INFINITY, f64::min);
    of.init_size.unwrap_or(shortest / 2.0)
}

/// Its centre, world mm.
fn centre_of(grid: &Grid, of: &ShapeOptions) -> [f64; 3] {
    let centre = grid.centre();
    of.init_centre.map_or(centre.into(), |c| c.with_z(centre[2]))
}

/// Many shapes, of as many labels as there are regions.
fn dense_start(
    lattice: &Lattice,
    of: DenseOptions,
    regions: usize,
    prior: Option<&Volume<f32>>,
    moved: bool,
) -> Result<Vec<u8>> {
    let (size, spacing) = dense_sizes(lattice.is_2d(), &of);
    let side = size.round().max(1.0) as usize;
    let shape = match of.init_shape {
        DenseShape::Ball => Shape::Ball,
        _ => Shape::Box,
    };
    let make = |lattice: &Lattice| -> voxalign_segment::Result<Vec<u8>> {
        Ok(match (regions, of.init_shape) {
            (2, DenseShape::Checkerboard) => bytes(&chessboard(lattice, side)?)?,
            (2, _) => bytes(&dense(lattice, shape, size, spacing)?)?,
            _ => patchwork(lattice, side, regions)?,
        })
    };
    let mut labels = match (moved, of.init_shape) {
        (false, _) => make(lattice)?,
        // The pattern of squares repeats after as many as there are labels.
        (true, DenseShape::Checkerboard) => {
            shifted(lattice, side.saturating_mul(regions), side / 2, make)?
        }
        (true, _) => {
            let period = spacing.round().max(1.0) as usize;
            shifted(lattice, period, period / 2, make)?
        }
    };
    if let Some(prior) = prior {
        let mask = inside(prior)?;
        if regions == 2 {
            let set = memory::collected(labels.iter().map(|l| *l != 0))?;
            labels = bytes(&within(&set, &mask)?)?;
        } else {
            labels.iter_mut().zip(&mask).filter(|(_, m)| !**m).for_each(|(l, _)| *l = 0);
        }
    }
    Ok(labels)
}

/// One shape, whose sizes are in mm.
fn one(lattice: &Lattice, grid: &Grid, of: ShapeOptions, shape: Shape) -> Result<Vec<bool>> {
    if let Some(centre) = of.init_centre.filter(|c| c.is_flat() && !grid.is_2d()) {
        return Err(Error::input(text!(
            "`init_centre` is {centre}, and the image is 3D; give X,Y,Z in mm"
        )));
    }
    let (size, centre) = (size_of(grid, &of), Vector3::from(centre_of(grid, &of)));
    let index = grid.world_to_index(centre);
    Ok(single_of(lattice, shape, index.into(), grid.spacing().map(|s| size / s))?)
}

/// What of a mask is above 0.
pub(super) fn inside(mask: &Volume<f32>) -> Result<Vec<bool>> {
    Ok(memory::collected(mask.data().iter().map(|v| *v > 0.0))?)
}

fn bytes(set: &[bool]) -> voxalign_segment::Result<Vec<u8>> {
    Ok(memory::collected(set.iter().map(|s| u8::from(*s)))?)
}

fn whole(set: Vec<bool>) -> Result<Vec<u8>> {
    Ok(bytes(&set)?)
}

/// Labels as a map.
pub(super) fn map(grid: &Grid, labels: &[u8]) -> Result<LabelMap> {
    let all = memory::collected(labels.iter().map(|l| i32::from(*l)))?;
    Ok(Volume::new(grid.clone(), all)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::from_toml;
    use crate::segment::Options;
    use voxalign_segment::Neighbourhood;

    fn made(grid: &Grid, text: &str, masks: Masks<'_>, moved: bool) -> Result<Option<Start>> {
        let options: Options = from_toml(text).unwrap();
        let settings = options.settings().unwrap();
        let kind = if grid.is_2d() { Neighbourhood::Four } else { Neighbourhood::Six };
        start(&Lattice::new(grid.dims(), kind).unwrap(), grid, &settings, masks, moved)
    }

    #[test]
    fn usual_starts_have_a_small_bound() {
        for dims in [[64, 48, 1], [20, 24, 16]] {
            let grid = Grid::axis_aligned(dims, [1.0, 1.0, 2.0]).unwrap();
            for moved in [false, true] {
                let start = made(&grid, "", Masks::default(), moved).unwrap().unwrap();
                assert_eq!(start.record.bound, 64);
                let part = start.record.voxels as f64 / grid.len() as f64;
                assert!((0.45..0.55).contains(&part), "{part}");
            }
            let of = |moved| made(&grid, "", Masks::default(), moved).unwrap().unwrap().labels;
            let same = of(false).iter().zip(&of(true)).filter(|(a, b)| a == b).count();
            assert!((same as f64 / grid.len() as f64 - 0.5).abs() < 0.1, "{same}");
            let three = made(&grid, "regions = 3", Masks::default(), true).unwrap().unwrap();
            assert!([0, 1, 2].iter().all(|l| three.labels.contains(l)));
        }
    }

    #[test]
    fn shapes_are_in_millimetres() {
        let grid = Grid::axis_aligned([40, 40, 20], [1.0, 1.0, 2.0]).unwrap();
        let text = "init = 'circle'\ninit_centre = '20,20,20'\ninit_size = 16";
        let ball = made(&grid, text, Masks::default(), false).unwrap().unwrap();
        let volume = ball.record.voxels as f64 * grid.voxel_volume();
        let exact = std::f64::consts::PI / 6.0 * 16f64.powi(3);
        assert!((volume / exact - 1.0).abs() < 0.05, "{volume} {exact}");
        let text = text.replace("circle", "box");
        let cube = made(&grid, &text, Masks::default(), false).unwrap().unwrap();
        assert_eq!(cube.record.voxels, 16 * 16 * 8);
        assert!(made(&grid, &text, Masks::default(), true).unwrap().is_none());
    }

    #[test]
    fn starts_without_a_front_say_what_helps() {
        let grid = Grid::axis_aligned([12, 12, 1], [1.0; 3]).unwrap();
        let [none, all] = [0.0, 1.0].map(|v| Volume::filled(grid.clone(), v));
        let masks = |initial, prior| Masks { initial, prior };
        let mask = "init = 'mask'\ninitial_mask = 'a'";
        for (text, masks, part) in [
            ("init = 'circle'\ninit_centre = '90,0'", masks(None, None), "`init_centre`"),
            ("init = 'box'\ninit_size = 99", masks(None, None), "smaller `init_size`"),
            (mask, masks(Some(&none), None), "above 0; give another"),
            (mask, masks(Some(&all), None), "the whole image"),
            ("prior_mask = 'a'", masks(None, Some(&none)), "within `prior_mask`"),
            ("init_size = 50", masks(None, None), "smaller `init_size`"),
            ("regions = 200", masks(None, None), "at most 144"),
        ] {
            let said = made(&grid, text, masks, false).unwrap_err().to_string();
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
