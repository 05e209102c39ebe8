//! Overlaps and distances of the parts of anatomies, and the verdict on them.

use super::matched::Matched;
use super::read::{Data, Thing};
use crate::error::Result;
use rayon::prelude::*;
use voxalign_image::{Affine, Mesh, Transform, Vector3, Volume, memory};
use voxalign_register::compare::compare_meshes;
use voxalign_register::limits::ANATOMY;
use voxalign_register::{Check, Remedy, Verdict};
use voxalign_report::{ClassRecord, MarksRecord, ShapeRecord};

/// From which probability on a voxel belongs to a class.
const BELONGS: f32 = 0.5;

/// How a class fares, of the fixed probability and the moving one on its grid before and after.
pub(super) fn class(
    name: &str,
    fixed: &Volume<f32>,
    [before, after]: [&Volume<f32>; 2],
) -> ClassRecord {
    let voxel = fixed.grid().voxel_volume();
    let [before, after] = [before, after].map(|m| Sums::of(fixed.data(), m.data()));
    ClassRecord {
        name: name.to_owned(),
        volume_fixed_mm3: voxel * before.fixed,
        volume_before_mm3: voxel * before.moving,
        volume_after_mm3: voxel * after.moving,
        overlap_before: before.overlap(),
        overlap_after: after.overlap(),
        dice_before: before.dice(),
        dice_after: after.dice(),
    }
}

/// Sums over the voxels of two probabilities.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    fixed: f64,
    moving: f64,
    /// Of the smaller of both.
    common: f64,
    /// Voxels of the fixed class, of the moving one, and of both.
    voxels: [u64; 3],
}

impl Sums {
    /// Over chunks of fixed sizes, in their order.
    fn of(fixed: &[f32], moving: &[f32]) -> Self {
        const CHUNK: usize = 1 << 16;
        let chunks = fixed.par_chunks(CHUNK).zip(moving.par_chunks(CHUNK));
        let parts: Vec<Self> = chunks.map(|(f, m)| Self::of_chunk(f, m)).collect();
        parts.iter().fold(Self::default(), |a, b| Self {
            fixed: a.fixed + b.fixed,
            moving: a.moving + b.moving,
            common: a.common + b.common,
            voxels: [0, 1, 2].map(|i| a.voxels[i] + b.voxels[i]),
        })
    }

    fn of_chunk(fixed: &[f32], moving: &[f32]) -> Self {
        let mut sums = Self::default();
        for (&f, &m) in fixed.iter().zip(moving) {
            sums.fixed += f64::from(f);
            sums.moving += f64::from(m);
            sums.common += f64::from(f.min(m));
            let [f, m] = [f >= BELONGS, m >= BELONGS];
            for (count, belongs) in sums.voxels.iter_mut().zip([f, m, f && m]) {
                *count += u64::from(belongs);
            }
        }
        sums
    }

    fn overlap(&self) -> f64 {
        self.common / self.fixed.max(f64::MIN_POSITIVE)
    }

    fn dice(&self) -> f64 {
        2.0 * self.voxels[2] as f64 / (self.voxels[0] + self.voxels[1]).max(1) as f64
    }
}

/// A mesh brought from one world to the other; where the map mirrors, faces stay as they are seen from outside.
pub(super) fn carried(
    mesh: &Mesh,
    map: impl Fn(Vector3<f64>) -> Vector3<f64> + Sync,
    mirrors: bool,
) -> Result<Mesh> {
    let places: Vec<Vector3<f64>> =
        memory::par_collected(mesh.vertices().par_iter().map(|v| map(*v)))?;
    let mut places = places.into_iter();
    let mesh = mesh.map(|v| places.next().unwrap_or(*v))?;
    Ok(if mirrors { mesh.flipped() } else { mesh })
}

/// How a shape fares: the moving one is brought to the fixed one before and after.
pub(crate) fn shape(
    of: &Matched,
    fixed: &Mesh,
    [before, after]: [&Mesh; 2],
    voxel: f64,
) -> Result<ShapeRecord> {
    let elements = |mesh: &Mesh| match (mesh.faces().len(), mesh.line_vertices().len()) {
        (0, 0) => mesh.vertices().len(),
        (0, all) => all - mesh.line_ends().len().min(all),
        (faces, _) => faces,
    };
    Ok(ShapeRecord {
        name: of.name.clone(),
        kind: of.kind.name().to_owned(),
        vertices: [fixed.vertices().len(), before.vertices().len()],
        elements: [elements(fixed), elements(before)],
        before: compare_meshes(fixed, before)?,
        after: compare_meshes(fixed, after)?,
        bound_mm: (ANATOMY.widths * of.width).max(ANATOMY.voxels * voxel),
    })
}

/// How landmarks fare.
pub(super) fn marks(
    thing: &Thing,
    [before, after]: [&Transform; 2],
) -> Result<Option<MarksRecord>> {
    let Some(pairs) = thing.pairs()? else { return Ok(None) };
    let [fixed, moving] = pairs.points();
    let by = |map: &Transform| fixed.iter().map(|p| map.apply(*p)).collect::<Vec<_>>();
    let each: Vec<f64> = (0..pairs.len()).map(|i| pairs.weight(i)).collect();
    Ok(Some(marks_at(&thing.of.name, [&by(before), &by(after)], moving, &each)))
}

/// How landmarks fare that were carried before and after to where others are, which count so much each.
pub(crate) fn marks_at(
    name: &str,
    [before, after]: [&[Vector3<f64>]; 2],
    others: &[Vector3<f64>],
    each: &[f64],
) -> MarksRecord {
    let of = |carried: &[Vector3<f64>]| -> (f64, f64) {
        let (mut sum, mut weights, mut most) = (0.0, 0.0, 0.0f64);
        for ((p, q), weight) in carried.iter().zip(others).zip(each) {
            let apart = (p - q).norm();
            sum += weight * apart;
            weights += weight;
            most = most.max(apart);
        }
        (sum / f64::max(weights, f64::MIN_POSITIVE), most)
    };
    let ((mean_before_mm, _), (mean_after_mm, largest_after_mm)) = (of(before), of(after));
    let (name, count) = (name.to_owned(), others.len());
    MarksRecord { name, count, mean_before_mm, mean_after_mm, largest_after_mm }
}

/// Whether a shape came nearer, and as near as is allowed; `voxel` is the length of voxels, mm. What is not finite did not.
pub(crate) fn follows(shape: &ShapeRecord, voxel: f64) -> [bool; 2] {
    [shape.after.mean <= shape.before.mean.max(voxel), shape.after.mean <= shape.bound_mm]
}

/// Pairs of names whose shapes lie where those of the other name do, by the affine part alone.
pub(super) fn exchanged(things: &[Thing], start: &Affine) -> Vec<String> {
    let centre = |data: &Data| {
        let places = data.places();
        places.iter().sum::<Vector3<f64>>() / places.len().max(1) as f64
    };
    let shapes: Vec<_> = things
        .iter()
        .filter(|t| t.of.kind.is_shape())
        .map(|t| (t, start.apply(centre(&t.data[0])), centre(&t.data[1])))
        .collect();
    let mut found = Vec::new();
    for (i, (a, fixed_a, moving_a)) in shapes.iter().enumerate() {
        for (b, fixed_b, moving_b) in shapes[i + 1..].iter().filter(|s| s.0.of.kind == a.of.kind) {
            let own = (fixed_a - moving_a).norm() + (fixed_b - moving_b).norm();
            let other = (fixed_a - moving_b).norm() + (fixed_b - moving_a).norm();
            if other < ANATOMY.exchanged * own {
                found.push(format!("{} and {}", a.of.name, b.of.name));
            }
        }
    }
    found
}

/// The verdict with what shapes and classes say.
pub(super) fn judged(
    mut verdict: Verdict,
    (classes, shapes): (&[ClassRecord], &[ShapeRecord]),
    exchanged: &[String],
    voxel: f64,
) -> Verdict {
    let count = |names: Vec<String>, what: &str, remedy| {
        Some(Check::none(what, names.len() as u64).of(names).or(remedy))
    };
    if !classes.is_empty() {
        let less =
            classes.iter().filter(|c| c.overlap_after < c.overlap_before - ANATOMY.overlap_loss);
        let names = less.map(|c| c.name.clone()).collect();
        verdict =
            verdict.with(count(names, "classes that overlap less than before", Remedy::Smoother));
    }
    if shapes.is_empty() {
        return verdict;
    }
    let names = |fails: &dyn Fn(&ShapeRecord) -> bool| -> Vec<String> {
        shapes.iter().filter(|s| fails(s)).map(|s| s.name.clone()).collect()
    };
    // What is not finite fails.
    let farther = names(&|s| !follows(s, voxel)[0]);
    let beyond = names(&|s| !follows(s, voxel)[1]);
    verdict
        .with(count(farther, "shapes farther apart than before", Remedy::Shapes))
        .with(count(beyond, "shapes farther apart in the mean than allowed", Remedy::Shapes))
        .with(count(
            exchanged.to_vec(),
            "pairs of shapes that lie on each other's partner",
            Remedy::Shapes,
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Grid;

    #[test]
    fn overlaps_by_hand() {
        let grid = Grid::axis_aligned([4, 1, 1], [2.0, 1.0, 1.0]).unwrap();
        let of = |values: [f32; 4]| Volume::new(grid.clone(), values.to_vec()).unwrap();
        let fixed = of([1.0, 1.0, 0.5, 0.0]);
        let (before, after) = (of([0.0, 0.5, 1.0, 1.0]), of([1.0, 1.0, 0.25, 0.0]));
        let found = class("a", &fixed, [&before, &after]);
        assert_eq!(found.volume_fixed_mm3, 5.0);
        assert_eq!((found.volume_before_mm3, found.volume_after_mm3), (5.0, 4.5));
        assert_eq!((found.overlap_before, found.overlap_after), (1.0 / 2.5, 2.25 / 2.5));
        assert_eq!((found.dice_before, found.dice_after), (4.0 / 6.0, 0.8));
        // Of maps of 0 and 1 it is the part of the fixed one that is covered, and not its Dice.
        let (fixed, moving) = (of([1.0, 1.0, 0.0, 0.0]), of([0.0, 1.0, 1.0, 1.0]));
        let found = class("a", &fixed, [&moving, &moving]);
        assert_eq!((found.overlap_after, found.dice_after), (0.5, 0.4));
    }

    #[test]
    fn shapes_have_to_come_nearer_than_they_were_and_than_is_allowed() {
        let scores = |mean| voxalign_register::compare::MeshScores {
            mean,
            p95: mean,
            hausdorff: mean,
            there: mean,
            back: mean,
        };
        let of = |before, after| ShapeRecord {
            name: "left".into(),
            kind: "surface".into(),
            vertices: [3; 2],
            elements: [1; 2],
            before: scores(before),
            after: scores(after),
            bound_mm: 2.5,
        };
        let judge = |shape: ShapeRecord, exchanged: &[String]| {
            judged(Verdict::new(Vec::new(), Vec::new()), (&[], &[shape]), exchanged, 1.0)
        };
        assert!(judge(of(5.0, 1.0), &[]).good && judge(of(0.1, 0.9), &[]).good);
        for (before, after) in [(2.0, 2.4), (9.0, 3.0), (9.0, f64::NAN)] {
            let verdict = judge(of(before, after), &[]);
            assert!(!verdict.good && verdict.summary().contains("left"), "{before} {after}");
        }
        let verdict = judge(of(5.0, 1.0), &["left and right".into()]);
        assert!(verdict.summary().contains("1 pair of shapes"), "{}", verdict.summary());
    }
}
