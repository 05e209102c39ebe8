//! The record of the pose of a CT by X-ray images.

use super::{GridRecord, Provenance, RunRecord, ViewRecord};
use serde::{Deserialize, Serialize};
use voxalign_register::Choice;
use voxalign_register::numbers::null_is_nan;
use voxalign_register::projection::register::{PARAMETERS, Refined};
use voxalign_register::projection::{PoseResult, motion_of};
use voxalign_register::search::StageRecord;

record! {
    /// All that is worth keeping of the pose of a CT by X-ray images: what its `result.json` holds. Numbers that are not
    /// finite are written as `null`.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    PoseRecord {
        /// The grid of the CT.
        pub grid: GridRecord,
        /// The X-ray images.
        pub views: Vec<PoseViewRecord>,
        /// The pose: rows of the 3x4 matrix from the room to the world of the CT, mm.
        pub pose: [[f64; 4]; 3],
        /// Where the search began, alike.
        pub start: [[f64; 4]; 3],
        /// The rotation of the CT in the room relative to its own world, about axes through `centre_mm` along x, y
        /// and z, applied in this order, degrees.
        pub rotation_degrees: [f64; 3],
        /// The translation in the room after that along x, y and z, mm.
        pub translation_mm: [f64; 3],
        /// The same rotation where the search began.
        pub start_rotation_degrees: [f64; 3],
        /// The same translation where the search began.
        pub start_translation_mm: [f64; 3],
        /// The point of the CT about which rotations are counted, in its own world, mm.
        pub centre_mm: [f64; 3],
        /// The cost of the start at the finest scale.
        #[serde(deserialize_with = "null_is_nan")]
        pub cost_before: f64,
        /// The cost of the result at the finest scale.
        #[serde(deserialize_with = "null_is_nan")]
        pub cost_after: f64,
        /// The expected errors of points of the CT, its centre first; empty where the images do not determine them.
        #[serde(default)]
        pub expected_error: Vec<ExpectedErrorRecord>,
        /// How certain the pose is.
        pub uncertainty: PoseUncertaintyRecord,
        /// The shift of the pose with a part of the geometry of the views free; empty where the images do not
        /// determine it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub geometry_freed: Vec<GeometryFreedRecord>,
        /// The cost along each of six parameters through the result.
        pub landscape: Vec<LandscapeRecord>,
        /// The scales, coarse to fine.
        pub stages: Vec<StageRecord>,
        /// Steps of the optimiser that led to the result.
        pub iterations: usize,
        /// Simulated images of one view.
        pub renders: usize,
    }
}

/// An X-ray image that a pose was found by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoseViewRecord {
    /// Source and detector.
    pub view: ViewRecord,
    /// The cost of the result in it.
    #[serde(deserialize_with = "null_is_nan")]
    pub cost: f64,
    /// The correlation of its gradients with those of the result.
    #[serde(deserialize_with = "null_is_nan")]
    pub correlation_of_gradients: f64,
    /// The first column and row and the numbers of columns and rows that counted; all where there is none.
    pub region: Option<[usize; 4]>,
    /// The part of its pixels that was left out, as it shows what the CT does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<f64>,
    /// Whether its values are a bent function of attenuations, and were straightened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub straightened: bool,
    /// The distance of outlines from those of the result, mm at the place of the CT: the median over blocks.
    #[serde(default, deserialize_with = "null_is_nan")]
    pub outlines_apart_mm: f64,
    /// The correlation of gradients within blocks, and what chance gives: medians.
    #[serde(default, deserialize_with = "null_is_nan")]
    pub correlation_of_blocks: [f64; 2],
    /// The distance of the pose from this view alone from the result, in its image, mm at the place of the CT; none
    /// with a single view.
    #[serde(default)]
    pub alone_mm: Option<f64>,
    /// The standard deviation of the image of the body in it, mm at the place of the CT.
    #[serde(default, deserialize_with = "null_is_nan")]
    pub deviation_mm: f64,
    /// The refined part of its geometry, where refinement was asked for; `view` is the refined one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refined: Option<RefinedRecord>,
}

/// The refined part of the geometry of a view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefinedRecord {
    /// The distance of the detector from the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_to_detector: Option<RefinedNumberRecord>,
    /// The shift of the detector along its columns and rows from the given geometry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<[RefinedNumberRecord; 2]>,
}

/// A number that was refined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefinedNumberRecord {
    /// The value given, mm.
    pub given_mm: f64,
    /// The refined value, mm.
    pub found_mm: f64,
    /// The 95 % bound on its error, mm; `null` where the images do not determine it.
    #[serde(deserialize_with = "null_is_nan")]
    pub within_mm: f64,
}

impl From<Refined> for RefinedNumberRecord {
    fn from(number: Refined) -> Self {
        Self { given_mm: number.given, found_mm: number.found, within_mm: number.within }
    }
}

impl PoseViewRecord {
    /// A view, with the region of it that counted, of which nothing is known yet.
    pub(crate) fn new((view, region): (ViewRecord, Option<[usize; 4]>)) -> Self {
        Self {
            view,
            cost: f64::NAN,
            correlation_of_gradients: f64::NAN,
            region,
            left_out: None,
            straightened: false,
            outlines_apart_mm: f64::NAN,
            correlation_of_blocks: [f64::NAN; 2],
            alone_mm: None,
            deviation_mm: f64::NAN,
            refined: None,
        }
    }

    /// A sentence on the refined part of its geometry; none where nothing was refined.
    #[must_use]
    pub fn refined_words(&self) -> Option<String> {
        let refined = self.refined.as_ref()?;
        let within = |n: &RefinedNumberRecord| match n.within_mm {
            mm if mm.is_finite() => format!("within {mm:.2} mm"),
            _ => "which the images do not determine".to_owned(),
        };
        let mut parts = Vec::new();
        if let Some(n) = &refined.source_to_detector {
            parts.push(format!(
                "is {:.2} mm from the source ({}), not {:.2} mm",
                n.found_mm,
                within(n),
                n.given_mm
            ));
        }
        if let Some([u, v]) = &refined.shift {
            parts.push(format!(
                "is shifted along its columns by {:.2} mm ({}) and along its rows by {:.2} mm ({})",
                u.found_mm,
                within(u),
                v.found_mm,
                within(v)
            ));
        }
        Some(format!("{}: the detector {}.", self.view.name, parts.join(", and ")))
    }
}

/// The shift of the pose with a part of the geometry of the views free: one step of Newton's method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeometryFreedRecord {
    /// The part of the geometry: `distance` or `principal-point`.
    pub what: String,
    /// The shift: the root mean square over the body, mm.
    #[serde(deserialize_with = "null_is_nan")]
    pub pose_moves_mm: f64,
    /// The standard deviation of that.
    #[serde(deserialize_with = "null_is_nan")]
    pub deviation_mm: f64,
    /// By what the geometry of each view would change, mm: the distance of the detector from the source, its shift along columns and along
    /// rows.
    pub views_mm: Vec<[f64; 3]>,
    /// The standard deviations of these; 0 of those that are not free.
    pub views_deviation_mm: Vec<[f64; 3]>,
}

/// The uncertainty of a pose, in six numbers: translation of the centre along the axes of the room, mm, and
/// rotation of the CT about them, degrees.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PoseUncertaintyRecord {
    /// Standard deviations by the curvature of the cost; `null` where the cost has no minimum along a parameter.
    #[serde(deserialize_with = "null_is_nan")]
    pub curvature: [f64; 6],
    /// Standard deviations of the results of restarts; none without two of them.
    #[serde(deserialize_with = "null_is_nan")]
    pub restarts: Option<[f64; 6]>,
    /// The distance of the end of each restart from the result: the root mean square over the body, mm.
    #[serde(deserialize_with = "null_is_nan")]
    pub restarts_apart_mm: Vec<f64>,
}

/// The distance of a point of the CT from where the pose puts it in the room: its 95th percentile, as far as the
/// images tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExpectedErrorRecord {
    /// Its name.
    pub name: String,
    /// Where it is in the world of the CT, mm.
    pub point_mm: [f64; 3],
    /// In space, mm.
    #[serde(deserialize_with = "null_is_nan")]
    pub within_mm: f64,
    /// In the plane of each view, mm at the place of the point.
    #[serde(deserialize_with = "null_is_nan")]
    pub in_plane_mm: Vec<f64>,
    /// Along the ray of each view, mm.
    #[serde(deserialize_with = "null_is_nan")]
    pub depth_mm: Vec<f64>,
}

/// The cost along a parameter through the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LandscapeRecord {
    /// The parameter, such as `rotation x`.
    pub parameter: String,
    /// The unit of its offsets: `mm` or `degrees`.
    pub unit: String,
    /// Offsets from the result.
    #[serde(deserialize_with = "null_is_nan")]
    pub offsets: Vec<f64>,
    /// The costs there.
    #[serde(deserialize_with = "null_is_nan")]
    pub costs: Vec<f64>,
}

impl PoseRecord {
    /// A sentence on the expected error at the centre of the CT.
    #[must_use]
    pub fn expected(&self) -> String {
        let Some(middle) = self.expected_error.first() else {
            return "The images do not determine how far off the pose is.".to_owned();
        };
        let views = self.views.iter().zip(&middle.in_plane_mm).zip(&middle.depth_mm);
        let each: Vec<String> = views
            .map(|((view, plane), depth)| {
                format!(
                    "{plane:.2} mm in the plane of {} and {depth:.2} mm in its depth",
                    view.view.name
                )
            })
            .collect();
        format!(
            "The {} is within {:.2} mm of where the pose puts it in 95 of 100 such registrations, as far as the \
             images tell: {}.",
            middle.name,
            middle.within_mm,
            each.join(", ")
        )
    }

    /// The record of a result that begins with program, machine, inputs and parameters of `run`. `views` are the X-ray
    /// images in the order of the result, each with the region that counted.
    #[must_use]
    pub fn new(
        mut run: RunRecord,
        grid: GridRecord,
        views: Vec<(ViewRecord, Option<[usize; 4]>)>,
        result: &PoseResult,
    ) -> Self {
        let parameters = std::mem::take(&mut run.parameters);
        let found = result.uncertainty.clone();
        let centre = result.centre;
        let moved = motion_of(&result.transform, centre);
        let began = motion_of(&result.start, centre);
        let outlines = |view: usize| result.evidence.outlines.get(view);
        let views = views.into_iter().enumerate().map(|(i, (view, region))| PoseViewRecord {
            view,
            cost: result.by_view.get(i).copied().unwrap_or(f64::NAN),
            correlation_of_gradients: result.correlations.get(i).copied().unwrap_or(f64::NAN),
            region,
            left_out: result.left_out.get(i).copied().filter(|part| *part > 0.0),
            straightened: result.straightened.get(i).copied().unwrap_or_default(),
            outlines_apart_mm: outlines(i).map_or(f64::NAN, |o| o.apart),
            correlation_of_blocks: outlines(i).map_or([f64::NAN; 2], |o| [o.alike, o.chance]),
            alone_mm: result.evidence.alone.get(i).copied(),
            deviation_mm: result.evidence.sure.get(i).copied().unwrap_or(f64::NAN),
            refined: result.geometry.get(i).map(|refined| RefinedRecord {
                source_to_detector: refined.source_to_detector.map(Into::into),
                shift: refined.shift.map(|both| both.map(Into::into)),
            }),
        });
        let freed = result.evidence.misfits.iter().map(|misfit| GeometryFreedRecord {
            what: misfit.what.name().to_owned(),
            pose_moves_mm: misfit.moves,
            deviation_mm: misfit.sure,
            views_mm: misfit.by.iter().map(|view| view.map(|n| n[0])).collect(),
            views_deviation_mm: misfit.by.iter().map(|view| view.map(|n| n[1])).collect(),
        });
        let landscape = PARAMETERS.iter().zip(&result.landscape).enumerate();
        let landscape = landscape.map(|(i, (name, along))| LandscapeRecord {
            parameter: (*name).to_owned(),
            unit: unit(i).to_owned(),
            offsets: along.offsets.iter().map(|v| shown(i, *v)).collect(),
            costs: along.costs.clone(),
        });
        Self {
            provenance: Provenance::from(run),
            parameters,
            grid,
            views: views.collect(),
            pose: result.transform.rows(),
            start: result.start.rows(),
            rotation_degrees: moved.rotation.map(f64::to_degrees).into(),
            translation_mm: moved.translation.into(),
            start_rotation_degrees: began.rotation.map(f64::to_degrees).into(),
            start_translation_mm: began.translation.into(),
            centre_mm: centre.into(),
            cost_before: result.costs[0],
            cost_after: result.costs[1],
            uncertainty: PoseUncertaintyRecord {
                curvature: degrees(found.curvature),
                restarts: found.restarts.map(degrees),
                restarts_apart_mm: found.apart,
            },
            geometry_freed: freed.collect(),
            landscape: landscape.collect(),
            stages: result.stages.clone(),
            iterations: result.iterations,
            renders: result.renders,
            verdict: result.verdict.clone(),
            ..Self::default()
        }
    }
}

/// The unit of a parameter.
pub(crate) fn unit(parameter: usize) -> &'static str {
    if parameter < 3 { "mm" } else { "degrees" }
}

/// A parameter as records have it: angles in degrees.
fn shown(parameter: usize, value: f64) -> f64 {
    if parameter < 3 { value } else { value.to_degrees() }
}

fn degrees(values: [f64; 6]) -> [f64; 6] {
    std::array::from_fn(|i| shown(i, values[i]))
}
