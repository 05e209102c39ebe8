//! Evidence for a deformation from the images, independent of the similarity that drove it.
//!
//! A deformation brings anything to the outline of anything, so that what the images share after it is more than chance has
//! of unbent images. So [evidence](mod@crate::evidence) is taken three times: of the affine map that the deformation starts from, of the
//! affine map that is nearest to all that was found, in which no bending helps, and of the deformed image.

use crate::evidence::{Evidence, Seen, Unmasked};
use crate::limits::{AFFINE, DEFORMATION};
use crate::verdict::{Check, Remedy};
use nalgebra::{Matrix4, Matrix4x3};
use serde::{Deserialize, Serialize};
use voxalign_image::{Affine, Transform, Vector3};

/// Evidence for a deformation.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DeformationEvidence {
    /// Of the affine map that it starts from.
    pub start: Evidence,
    /// Of the affine map that is nearest to the whole over what is foreground in the fixed image.
    pub straight: Evidence,
    /// Of the deformed moving image, resampled onto the fixed one.
    pub deformed: Evidence,
    /// Evidence of the whole images under the affine map nearest to the transform over the whole foreground, where
    /// masks exclude part of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmasked: Option<Unmasked>,
    /// How far the whole transform is from that affine map: the root mean square over the foreground, as a fraction
    /// of its mean distance from its centre.
    pub bent: f64,
}

impl DeformationEvidence {
    /// Of a transform from the fixed to the moving world that starts from an affine map.
    #[must_use]
    pub fn new(seen: &Seen, start: &Affine, whole: &Transform) -> Self {
        let points = seen.foreground();
        let (straight, left) = nearest(start, whole, &points);
        let all = seen.whole().map(|seen| nearest(start, whole, &seen.foreground()).0);
        let one = Affine::identity();
        Self {
            start: seen.evidence(start, &one),
            straight: seen.evidence(&straight, &one),
            unmasked: all.and_then(|map| seen.unmasked(&map, &one)),
            deformed: seen.through(whole).evidence(&one, &one),
            bent: left / seen.radius().max(f64::MIN_POSITIVE),
        }
    }

    /// Whether the deformation confirms the affine map that it starts from, although the images agree too little under that map alone: after
    /// the deformation they agree by far more than what is bent by force, and nearly agree without its bending.
    #[must_use]
    pub fn confirms_start(&self) -> bool {
        self.straight.agreement() >= DEFORMATION.straight
            && self.deformed.agreement() >= DEFORMATION.confirms
    }

    /// Whether the images agree: as they lie after the deformation, and under the affine map that is nearest to it; there, where they
    /// are not two `plain` shapes, also within their tissue.
    #[must_use]
    pub fn checks(&self, plain: bool) -> Vec<Check> {
        let after = "agreement of edges, information and tissue after the deformation";
        let straight = "agreement under the nearest affine map, without any bending";
        let tissue = "information within the tissue under the nearest affine map";
        let after = Check::at_least(after, self.deformed.agreement(), DEFORMATION.agreement);
        let straight = Check::at_least(straight, self.straight.agreement(), DEFORMATION.straight);
        // What agrees but without bending does not was far off at the start.
        let straight = if after.passed { straight.or(Remedy::BetterStart) } else { straight };
        let mut all = vec![after, straight];
        all.extend(self.unmasked.and_then(|whole| whole.check(DEFORMATION.unmasked)));
        if !plain {
            let value = self.straight.found.tissue;
            all.push(Check::at_least(tissue, value, DEFORMATION.tissue).in_unit("nats"));
        }
        let remedy = |check: Check| match check.remedy_code {
            Some(_) => check,
            None => check.or(Remedy::SameTissue),
        };
        all.into_iter().map(remedy).collect()
    }
}

/// The most harmonic energy for each nat that a deformation with this evidence may have: more where the images agree without any deformation.
#[must_use]
pub fn energy_allowed(evidence: Option<&DeformationEvidence>) -> f64 {
    let aligned = evidence.is_some_and(|e| e.start.agreement() >= AFFINE.agreement);
    if aligned { DEFORMATION.energy_where_aligned } else { DEFORMATION.energy_per_information }
}

/// The information within tissue, nats, that a deformation with this evidence is asked for: less where next to nothing bends and the images agree under the
/// nearest affine map, which then proves what is inside.
#[must_use]
pub fn information_asked(evidence: Option<&DeformationEvidence>) -> f64 {
    let (bent, information) = DEFORMATION.unbent;
    let is_straight =
        |e: &DeformationEvidence| e.bent <= bent && e.straight.agreement() >= AFFINE.agreement;
    if evidence.is_some_and(is_straight) { information } else { DEFORMATION.information }
}

/// The strength of the prior that draws the nearest map to the start, relative to the data: coplanar points do not
/// determine the direction across their plane.
const RIDGE: f64 = 1e-6;

/// The affine map nearest to a transform at given points of the fixed world, and the root mean square of the
/// residuals, mm.
fn nearest(start: &Affine, whole: &Transform, points: &[Vector3<f64>]) -> (Affine, f64) {
    let n = points.len().max(1) as f64;
    let centre = points.iter().sum::<Vector3<f64>>() / n;
    let moved: Vec<[Vector3<f64>; 2]> =
        points.iter().map(|p| [p - centre, whole.apply(*p) - start.apply(*p)]).collect();
    let (mut own, mut other) = (Matrix4::<f64>::zeros(), Matrix4x3::<f64>::zeros());
    for [p, by] in &moved {
        let p = p.push(1.0);
        own += p * p.transpose();
        other += p * by.transpose();
    }
    own += Matrix4::identity() * (RIDGE * own.trace()).max(f64::MIN_POSITIVE);
    let found = own.cholesky().map(|own| own.solve(&other).transpose());
    let Some(found) = found else { return (*start, 0.0) };
    let matrix = found.fixed_view::<3, 3>(0, 0).into_owned();
    let offset = found.column(3).into_owned() - matrix * centre;
    let left = moved.iter().map(|[p, by]| (by - found * p.push(1.0)).norm_squared()).sum::<f64>();
    let map = Affine::new(start.matrix + matrix, start.offset + offset);
    (map, (left / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scores::{Agreement, Scores};
    use voxalign_image::{Displacement, Grid, Matrix3, VectorField, Volume};

    const SIZE: usize = 40;

    fn grid() -> Grid {
        let to_world = Affine::new(Matrix3::identity() * 2.0, Vector3::repeat(1.0 - SIZE as f64));
        Grid::new([SIZE; 3], to_world).unwrap()
    }

    /// A ball with blobs that another seed has elsewhere.
    fn ball(seed: f64) -> Vec<f32> {
        let image = Volume::from_fn(grid(), |x, y, z| {
            let p = grid().index_to_world(Vector3::new(x as f64, y as f64, z as f64));
            let inside = ((1.0 - p.norm() / 32.0) * 8.0).clamp(0.0, 1.0);
            let q = p * (0.22 + 0.01 * seed) + Vector3::new(seed, 2.0 * seed, 3.0 * seed);
            let blobs = q[0].sin() * (1.3 * q[1]).sin() + (0.8 * q[2]).sin() * (q[0] + q[1]).cos();
            (inside * (0.6 + 0.2 * blobs)) as f32
        });
        image.into_parts().1
    }

    fn seen(seeds: [f64; 2]) -> Seen {
        let [fixed, moving] = seeds.map(ball);
        Seen::new((grid(), fixed, None), (grid(), moving, None))
    }

    #[test]
    fn a_mask_does_not_hide_the_whole() {
        let ([fixed, moving], none) = ([1.0, 5.0].map(ball), Affine::identity());
        // One slab in which they are the same.
        let slab = |i: usize| (15..20).contains(&(i / (SIZE * SIZE)));
        let mixed: Vec<f32> =
            (0..fixed.len()).map(|i| if slab(i) { fixed[i] } else { moving[i] }).collect();
        let mask: Vec<f32> = (0..fixed.len()).map(|i| f32::from(slab(i))).collect();
        let images = |mask| Seen::new((grid(), fixed.clone(), mask), (grid(), mixed.clone(), None));
        let seen = images(Some(mask)).beside(images(None));
        let found = DeformationEvidence::new(&seen, &none, &Transform::identity());
        let whole = found.unmasked.unwrap();
        assert!(whole.kept < 0.3 && found.straight.agreement() > 1.0, "{found:?}");
        assert!(whole.evidence.agreement() < found.straight.agreement() - 3.0, "{found:?}");
        // As a whole it is turned over while the slab stays where it is.
        let over = |p: Vector3<f64>| if p[2].abs() < 10.0 { Vector3::zeros() } else { p * -1.5 };
        let bent =
            Transform::Displacement(Displacement::new(VectorField::from_world_fn(grid(), over)));
        let found = DeformationEvidence::new(&seen, &none, &bent);
        let failed: Vec<Check> = found.checks(false).into_iter().filter(|c| !c.passed).collect();
        assert!(failed.iter().any(|c| c.remedy_code == Some(Remedy::WiderMask)), "{failed:?}");
        // Without a mask there is nothing to hide.
        assert!(DeformationEvidence::new(&images(None), &none, &bent).unmasked.is_none());
    }

    fn shifted(by: Vector3<f64>) -> Transform {
        let field = VectorField::from_world_fn(grid(), |_| by);
        Transform::Displacement(Displacement::new(field))
    }

    #[test]
    fn the_nearest_affine_map_is_that_of_a_shift_and_its_start_tells_that_it_is_wrong() {
        let by = Vector3::new(9.0, -5.0, 0.0);
        let start = Affine::translation(-by);
        // The field takes the wrong start back.
        let whole = Transform::Composite(vec![shifted(by), Transform::Affine(start)]);
        let found = DeformationEvidence::new(&seen([1.0, 1.0]), &start, &whole);
        assert!(found.bent < 0.05, "{}", found.bent);
        assert!(found.start.agreement() < 0.0 && found.straight.agreement() > 1.0, "{found:?}");
        assert!(found.checks(false).iter().all(|c| c.passed), "{:?}", found.checks(false));
        // And one that stays where it was put.
        let left = DeformationEvidence::new(&seen([1.0, 1.0]), &start, &Transform::Affine(start));
        assert!(left.checks(true).iter().all(|c| !c.passed), "{:?}", left.checks(true));
    }

    #[test]
    fn what_has_another_inside_does_not_agree() {
        let none = Affine::identity();
        let of = |seeds| DeformationEvidence::new(&seen(seeds), &none, &Transform::identity());
        let (same, other) = (of([1.0, 1.0]), of([1.0, 5.0]));
        assert!(same.checks(false).iter().all(|c| c.passed), "{same:?}");
        assert!(other.checks(false).iter().any(|c| !c.passed), "{:?}", other.checks(false));
        assert!(other.deformed.found.foreground > 0.9, "{other:?}");
        // What bending alone brings within an outline.
        let mut bent = same;
        bent.straight.found.tissue = 0.045;
        let failed: Vec<Check> = bent.checks(false).into_iter().filter(|c| !c.passed).collect();
        assert!(failed.len() == 1 && failed[0].name.contains("tissue under"), "{failed:?}");
        assert!(bent.checks(true).iter().all(|c| c.passed));
    }

    /// Images that bending alone makes agree, as it does where they are bent much.
    #[test]
    fn a_deformation_confirms_a_start_that_agrees_too_little() {
        let none = Affine::identity();
        let of = |seeds| DeformationEvidence::new(&seen(seeds), &none, &Transform::identity());
        let (same, other) = (of([1.0, 1.0]), of([1.0, 5.0]));
        assert!(same.deformed.agreement() > DEFORMATION.confirms, "{same:?}");
        assert!(other.straight.agreement() < DEFORMATION.straight, "{other:?}");
        assert!(same.confirms_start() && !other.confirms_start());
        // Next to the affine map something else agrees, or nothing does after all.
        assert!(!DeformationEvidence { straight: other.straight, ..same }.confirms_start());
        assert!(!DeformationEvidence { deformed: other.deformed, ..same }.confirms_start());
        let allowed = |evidence: Option<&DeformationEvidence>| energy_allowed(evidence);
        assert_eq!(allowed(None), DEFORMATION.energy_per_information);
        assert_eq!(allowed(Some(&other)), DEFORMATION.energy_per_information);
        assert_eq!(allowed(Some(&same)), DEFORMATION.energy_where_aligned);
    }

    /// What hardly bends is held to less information, where its images agree without bending.
    #[test]
    fn little_information_is_enough_where_nothing_bends() {
        let none = Affine::identity();
        let of = |seeds| DeformationEvidence::new(&seen(seeds), &none, &Transform::identity());
        let (same, other) = (of([1.0, 1.0]), of([1.0, 5.0]));
        let scores = |information: f64| {
            let agreement = Agreement { information, object: 9000, voxels: 8000, plain: false };
            Scores { agreement: Some(agreement), ..Scores::default() }
        };
        let passes = |information: f64, evidence: Option<&DeformationEvidence>| {
            scores(information).agrees(information_asked(evidence)).unwrap().passed
        };
        assert!(other.straight.agreement() < 0.0, "{other:?}");
        assert!(passes(0.12, Some(&same)) && !passes(0.08, Some(&same)));
        assert!(!passes(0.12, Some(&other)) && !passes(0.12, None) && passes(0.18, None));
        assert!(!passes(0.12, Some(&DeformationEvidence { bent: 0.05, ..same })));
    }
}
