//! The report on a deformable registration.

use super::affine::evidence::of_deformation;
use super::comparison::{FIXED_AND_MOVING, comparison};
use super::html::{Columns, Section, figure, note, scroll, section};
use super::words::Card;
use super::{Heading, Page, course, pair, words};
use crate::draw::check_grids;
use crate::draw::field::Deformation;
use crate::draw::jacobian::VolumeChange;
use crate::draw::studio::{Images, Studio};
use crate::error::Result;
use crate::record::{Figure, RunRecord};
use crate::text::{escape, fixed, plain, sentence, thousands};
use voxalign_image::{Grid, VectorField, Volume};
use voxalign_register::diffeo::PathRecord;
use voxalign_register::multiscale::ScaleRecord;

/// The content of a report on a deformable registration.
///
/// All images are on the grid of the fixed image; displacements and their determinant as well, or on a grid that
/// [divides](Grid::parts_of) its voxels.
#[derive(Debug, Clone, Copy)]
pub struct DeformReport<'a> {
    /// The record of the run; its transform is the affine part.
    pub record: &'a RunRecord,
    /// The images by the affine part only (before) and by the whole transform (after).
    pub images: Images<'a>,
    /// The Jacobian determinant of the deformation, without the affine part.
    pub jacobian: &'a Volume<f32>,
    /// The displacements of the deformation, without the affine part, in mm: a point `x` of the
    /// fixed world is found at `x + u(x)` of the moving image as the affine part has it.
    pub field: &'a VectorField,
    /// The energies of each scale, coarse to fine.
    pub energies: &'a [EnergyScale],
}

/// The course of the energy at one scale.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EnergyScale {
    /// Its name, such as `4 mm`.
    pub name: String,
    /// Wall time, seconds.
    pub seconds: f64,
    /// The energy, and its parts where they are known; the curves of one name belong together over
    /// all scales.
    pub curves: Vec<EnergyCurve>,
}

/// One energy over the iterations of a scale.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EnergyCurve {
    /// Its name, such as `total`, `similarity` or `regularity`.
    pub name: String,
    /// Iterations of this scale, from 1 on, and the energies before them.
    pub points: Vec<(usize, f64)>,
}

/// The energies as the report shows them; of a path, with their parts.
///
/// `weight` is what the similarity along a path is multiplied by in the energy. Scales are named by the length of their
/// voxels on the `fixed` grid.
#[must_use]
pub fn energies(
    scales: &[ScaleRecord],
    path: Option<&PathRecord>,
    weight: f64,
    fixed: &Grid,
) -> Vec<EnergyScale> {
    let curve = |name: &str, values: &mut dyn Iterator<Item = f64>| EnergyCurve {
        name: name.to_owned(),
        points: (1..).zip(values).collect(),
    };
    let mut parts = path.map(|p| p.energies.as_slice()).unwrap_or_default();
    let mut all = Vec::with_capacity(scales.len());
    for scale in scales {
        let mut curves = vec![curve("total", &mut scale.energies.iter().copied())];
        let (own, rest) = parts.split_at(scale.energies.len().min(parts.len()));
        parts = rest;
        if !own.is_empty() {
            let similarity = &mut own.iter().map(|e| weight * e.similarity);
            curves.push(curve("similarity", similarity));
            curves.push(curve("regularity", &mut own.iter().map(|e| e.path)));
        }
        let name = scale_name(scale.factor, fixed);
        all.push(EnergyScale { name, seconds: scale.seconds, curves });
    }
    all
}

/// A scale by the length of its voxels.
pub(crate) fn scale_name(factor: usize, fixed: &Grid) -> String {
    let (spacing, dims) = (fixed.spacing(), fixed.dims());
    let used = (0..3).filter(|&a| dims[a] > 1).map(|a| spacing[a]);
    let finest = used.fold(f64::INFINITY, f64::min);
    if !finest.is_finite() {
        return format!("1/{factor}");
    }
    format!("{} mm", plain(finest * factor as f64))
}

/// Names of the figures of the record that are shown large where they are known.
const HIGHLIGHTS: [Figure; 3] = [Figure::LabelOverlap, Figure::Ncc, Figure::Mi];

/// The report as one HTML file that needs nothing else, as that of an
/// [affine registration](crate::affine::render).
///
/// # Errors
/// [`ReportError::OtherGrid`](crate::ReportError::OtherGrid) where an image or the field is on
/// another grid, [`ReportError::Png`](crate::ReportError::Png) where a picture cannot
/// be compressed.
pub fn render(report: &DeformReport<'_>) -> Result<String> {
    render_with(report, |_, _| Ok(()))
}

/// As [`render`], with further sections after those of pictures, which `more` adds.
pub(crate) fn render_with(
    report: &DeformReport<'_>,
    more: impl FnOnce(&mut Page, &Studio<'_>) -> Result<()>,
) -> Result<String> {
    let record = report.record;
    let fixed = report.images.fixed.grid();
    let of = [("Jacobian", report.jacobian.grid()), ("displacement field", report.field.grid())];
    let others: Vec<_> = of.into_iter().filter(|(_, grid)| grid.parts_of(fixed).is_err()).collect();
    check_grids("fixed image", fixed, &others)?;
    let studio = Studio::new(report.images)?;
    let deformation = Deformation::new(&studio, report.jacobian, report.field)?;
    let mut page = Page::on(record, cards(record, &deformation));
    page.add("Compare", comparison(&studio.planes, &FIXED_AND_MOVING));
    pair::slices(
        &mut page,
        &studio,
        ["Moving, affine part only", "Moving, deformed"],
        "the same slices of the fixed image, of the moving image after the affine part only, and of the moving \
         image as deformed. Good alignment: the last matches the first in outlines, folds and cavities, \
         whatever its contrast, and looks like a real image: no smears, no melted borders.",
    )?;
    page.figure(
        "Grid",
        "fig-grid",
        "The deformed grid over the moving image",
        &deformation.grids()?,
        &deformation.grid_caption(),
    );
    page.figure(
        "Volume change",
        "fig-jacobian",
        "Volume change",
        &(deformation.change.pictures()? + &deformation.change.key()),
        "the Jacobian determinant of the deformation on a logarithmic scale, with the edges of the fixed image \
         in grey. Orange: the region is larger in the moving image and was shrunk; blue: it is smaller there \
         and was expanded; black: unchanged. Good: smooth patches that follow the anatomy. Checkerboards and \
         stripes mean that noise was fitted; magenta marks voxels where the mapping folds, which real tissue \
         cannot do.",
    );
    page.figure(
        "Displacement",
        "fig-displacement",
        "Displacement",
        &(deformation.displacements()? + &deformation.displacement_key()),
        "how far each point is from its match, without the affine part. Good: it varies slowly. Large values \
         all over the image mean that the affine part is off; large values at the border of the picture, that \
         the images show different parts of the body.",
    );
    page.add("Difference", pair::difference(&studio)?);
    let edges = pair::edges(
        &studio,
        "the lines are edges of the fixed image, the grey picture is the moving image. Good alignment: the \
         lines after registration lie on the moving image\u{2019}s own borders, around the outside and inside.",
    )?;
    page.add("Edges", edges);
    page.add("", pair::regions(&studio, record)?);
    more(&mut page, &studio)?;
    page.add("Energy", course(report.energies));
    let evidence = record.deformation.as_ref().and_then(|d| d.evidence.as_ref());
    page.add("Evidence", of_deformation(evidence));
    let object = match record.inputs.iter().any(|i| i.role == "fixed_mask") {
        true => "the region inside the fixed mask",
        false => "the foreground of the fixed image",
    };
    page.add("Measures", measures(record, object));
    page.add("", words::landmarks(record));
    page.add("", words::figures(record));
    page.add("", affine_part(record));
    let kind = if record.elastic.is_some() { "elastic" } else { "deformable" };
    Ok(page.finish(record, &Heading::of_pair(record, kind)))
}

/// The affine part; nothing where it is the identity.
pub(crate) fn affine_part(record: &RunRecord) -> Section {
    match record.transform.matrix {
        [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], _] => Section::default(),
        _ => words::transform(record, "The affine part"),
    }
}

/// The most telling numbers.
fn cards(record: &RunRecord, deformation: &Deformation<'_, '_>) -> Vec<Card> {
    let mut cards = words::highlights(record, &HIGHLIGHTS, 2);
    cards.push(volume_change(&deformation.change));
    let largest = format!("{}\u{a0}mm", fixed(deformation.largest, 2));
    let mean = format!("at most; {}\u{a0}mm on average", fixed(deformation.mean, 2));
    cards.push(Card::new("Displacement", largest, mean));
    cards
}

/// The range of the volume change, large.
pub(crate) fn volume_change(change: &VolumeChange<'_, '_>) -> Card {
    let folded = match change.folded {
        0 => "no folded voxels".to_owned(),
        1 => "1 folded voxel".to_owned(),
        n => format!("{} folded voxels", thousands(n as f64)),
    };
    let [low, high] = change.range;
    let range = format!("{} to {}", fixed(low, 2), fixed(high, 2));
    Card::new("Volume change", range, folded)
}

/// The course of the registration.
pub(crate) fn course(scales: &[EnergyScale]) -> Section {
    let body = match course::energies(scales, &course::ENERGY) {
        Some(svg) => scroll(Some(svg)) + &course::table(scales, "Energy"),
        None => "<p>No energy was recorded.</p>".to_owned(),
    };
    figure(
        "fig-energy",
        "Energy over iterations",
        &body,
        "the energy that the registration minimises, scale by scale from coarse to fine. It should fall steeply \
         at first and be flat at the end of each scale; it may jump where a finer scale begins, as it shows \
         more detail. A curve that still falls at the end has not converged; one that rises or oscillates is \
         driven by steps that are too large.",
    )
}

/// The measures of the deformation, where they were recorded, of this `object`.
pub(crate) fn measures(record: &RunRecord, object: &str) -> Section {
    let title = "Measures of the deformation";
    let Some(deformation) = &record.deformation else {
        return section("measures", title, "<p>None.</p>");
    };
    let table = Columns::of(deformation.measures.rows())
        .column("Measure", |row| escape(&sentence(row.name)))
        .column("#In the object", |row| {
            row.object.map_or_else(String::new, |value| words::one(row.name, value))
        })
        .column("#Whole grid", |row| words::one(row.name, row.grid))
        .column("Unit", |row| escape(row.unit))
        .html("measures");
    let note = note(&format!(
        "The object is {object}. Means over the whole grid are dominated by the background around it. Voxels are those of \
         the displacement field, which may divide thick slices."
    ));
    section("measures", title, &(table + &note))
}
