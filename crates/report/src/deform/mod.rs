//! The report on a deformable registration.

mod energy;
mod field;

use crate::affine::words::transform;
use crate::error::Result;
use crate::html::{escape, fixed, number, table, thousands};
use crate::page::{self, figure};
use crate::record::RunRecord;
use crate::studio::{Images, Studio};
use crate::words;
use field::Deformation;
use voxalign_image::{LabelMap, VectorField, Volume};

/// What a report on a deformable registration is made of.
///
/// All images and the field are on the grid of the fixed image.
#[derive(Debug, Clone, Copy)]
pub struct DeformReport<'a> {
    /// The record of the run; its transform is the affine part.
    pub record: &'a RunRecord,
    /// The fixed image.
    pub fixed: &'a Volume<f32>,
    /// The moving image, resampled onto the fixed grid by the affine part only.
    pub moving_affine: &'a Volume<f32>,
    /// The moving image, resampled onto the fixed grid by the whole transform.
    pub warped: &'a Volume<f32>,
    /// The Jacobian determinant of the deformation, without the affine part.
    pub jacobian: &'a Volume<f32>,
    /// The displacements of the deformation, without the affine part, in mm: a point `x` of the
    /// fixed world is found at `x + u(x)` of the moving image as the affine part has it.
    pub field: &'a VectorField,
    /// The energies of each scale, coarse to fine.
    pub energies: &'a [EnergyScale],
    /// The measures of the result, one a row.
    pub measures: &'a [MeasureRow],
    /// Regions of the fixed image.
    pub fixed_labels: Option<&'a LabelMap>,
    /// Regions of the moving image under the affine part only.
    pub before_labels: Option<&'a LabelMap>,
    /// Regions of the moving image under the whole transform.
    pub after_labels: Option<&'a LabelMap>,
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
    /// Iterations of this scale and energies.
    pub points: Vec<(usize, f64)>,
}

/// One line of the table of measures.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MeasureRow {
    /// What was measured.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit; empty where it has none.
    pub unit: String,
}

impl From<voxalign_register::diffeo::measures::MeasureRow> for MeasureRow {
    fn from(row: voxalign_register::diffeo::measures::MeasureRow) -> Self {
        Self { name: row.name.to_owned(), value: row.value, unit: row.unit.to_owned() }
    }
}

/// The sections that the page links to.
const SECTIONS: [(&str, &str); 11] = [
    ("verdict", "Verdict"),
    ("fig-compare", "Compare"),
    ("fig-slices", "Slices"),
    ("fig-grid", "Grid"),
    ("fig-jacobian", "Volume change"),
    ("fig-displacement", "Displacement"),
    ("fig-difference", "Difference"),
    ("fig-edges", "Edges"),
    ("fig-energy", "Energy"),
    ("measures", "Measures"),
    ("details", "Details"),
];

/// Names of the figures of the record that are shown large where they are known.
const HIGHLIGHTS: [&str; 7] =
    ["label_overlap", "landmark_error_mm", "ncc", "lncc", "mi", "similarity", "energy"];

/// The report as one HTML file that needs nothing else, as that of an
/// [affine registration](crate::affine::render).
///
/// # Errors
/// [`ReportError::OtherGrid`](crate::ReportError::OtherGrid) where an image or the field is not on
/// the grid of the fixed image, [`ReportError::Png`](crate::ReportError::Png) where a picture cannot
/// be compressed.
pub fn render(report: &DeformReport<'_>) -> Result<String> {
    let record = report.record;
    page::check_grids(
        report.fixed.grid(),
        &[("Jacobian", report.jacobian.grid()), ("displacement field", report.field.grid())],
    )?;
    let studio = Studio::new(Images {
        fixed: report.fixed,
        before: report.moving_affine,
        after: report.warped,
        fixed_labels: report.fixed_labels,
        before_labels: report.before_labels,
        after_labels: report.after_labels,
    })?;
    let deformation = Deformation::new(&studio, report.jacobian, report.field);
    let mut page = page::head(record, "deformable", &SECTIONS);
    page += &words::verdict(record);
    page += &words::cards(record, cards(record, &deformation));
    page += &page::comparison(&studio.planes);
    page += &figure(
        "fig-slices",
        "Slices",
        &format!(
            "<p class=\"convention\">{}</p>{}",
            studio.convention(),
            studio.slices(["Moving, by the affine part only", "Moving, deformed"])?
        ),
        "<b>How to read it:</b> the same slices of the fixed image, of the moving image after the \
         affine part only, and of the moving image as deformed. Good alignment: the last has the \
         outlines, folds and cavities of the first, whatever its contrast, and looks like an image \
         that could have been taken: no smears, no melted borders.",
    );
    page += &figure(
        "fig-grid",
        "The deformed grid over the moving image",
        &deformation.grids()?,
        &deformation.grid_caption(),
    );
    page += &figure(
        "fig-jacobian",
        "Change of volume",
        &format!("{}{}", deformation.jacobians()?, deformation.jacobian_key()),
        "<b>How to read it:</b> the Jacobian determinant of the deformation on a logarithmic scale, \
         the edges of the fixed image in grey. Orange: what is here is larger in the moving image \
         and was made smaller; blue: it is smaller there and was made larger; black: as large. Good: \
         smooth patches that follow the anatomy. Checks and stripes mean that noise was fitted; \
         magenta marks voxels where the mapping folds, which no real tissue does.",
    );
    page += &figure(
        "fig-displacement",
        "Displacement",
        &format!("{}{}", deformation.displacements()?, deformation.displacement_key()),
        "<b>How to read it:</b> how far each point is from its match, the affine part left out. \
         Good: it rises and falls slowly. Large values over all of the image mean that the affine \
         part is off; large values at the border of the picture, that the images show different \
         parts of the body.",
    );
    page += &figure(
        "fig-difference",
        "Difference",
        &format!("{}{}", studio.differences()?, studio.difference_key()),
        "<b>How to read it:</b> fixed minus moving, in intensities of the fixed image, with one \
         scale before and after. Each intensity of the moving image was replaced by the median \
         intensity that the fixed image has in the same places after alignment, so that images of \
         different contrast can be compared. Good alignment: the picture after is dark without outlines; \
         pairs of blue and orange lines along a border mean a shift across it.",
    );
    page += &figure(
        "fig-edges",
        "Edges of the fixed image over the moving image",
        &format!("{}{}", studio.edge_overlays()?, studio.edge_key()),
        "<b>How to read it:</b> the lines belong to the fixed image, the grey picture is the moving \
         image. Good alignment: the lines after registration lie on the moving image\u{2019}s own \
         borders all around and inside.",
    );
    if let Some(outlines) = studio.label_outlines() {
        page += &figure(
            "fig-labels",
            "Regions",
            &format!("{}{}", outlines?, studio.label_key()),
            "<b>How to read it:</b> outlines of the regions of both images over the fixed image. \
             Good alignment: blue and orange lines run close together, white where they coincide.",
        );
    }
    page += &course(report.energies);
    page += &measures(report.measures);
    page += &words::figures(record);
    let [x, y, z, _] = record.transform.matrix;
    if [x, y, z] != [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]] {
        page += &transform(&record.transform, "The affine part");
    }
    page += &page::details(record);
    page += &page::end();
    Ok(page)
}

/// The most telling numbers.
fn cards(record: &RunRecord, deformation: &Deformation<'_, '_>) -> Vec<words::Card> {
    let mut cards = words::highlights(record, &HIGHLIGHTS, 2);
    let folded = match deformation.folded {
        0 => "no voxel is folded".to_owned(),
        1 => "1 voxel is folded".to_owned(),
        n => format!("{} voxels are folded", thousands(n as f64)),
    };
    let [low, high] = deformation.jacobian_range;
    cards.push((
        "Change of volume".to_owned(),
        format!("{} to {}", fixed(low, 2), fixed(high, 2)),
        folded,
    ));
    cards.push((
        "Displacement".to_owned(),
        format!("{}\u{a0}mm", fixed(deformation.largest, 2)),
        format!("at most; {}\u{a0}mm in the mean", fixed(deformation.mean, 2)),
    ));
    cards
}

/// The course of the registration.
fn course(scales: &[EnergyScale]) -> String {
    let body = match energy::chart(scales) {
        Some(svg) => format!("<div class=\"scroll\">{svg}</div>{}", energy::table(scales)),
        None => "<p>No energy was recorded.</p>".to_owned(),
    };
    figure(
        "fig-energy",
        "Energy over iterations",
        &body,
        "<b>How to read it:</b> the energy that the registration makes smaller, scale by scale from \
         coarse to fine. It falls steeply at first and is flat at the end of each scale; it may jump \
         where a finer scale begins, as that shows more detail. A curve that still falls at the end \
         has not converged; one that rises or swings is driven by steps that are too large.",
    )
}

fn measures(rows: &[MeasureRow]) -> String {
    if rows.is_empty() {
        return "<section id=\"measures\"><h2>Measures of the deformation</h2><p>None.</p></section>"
            .to_owned();
    }
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let mut name = row.name.chars();
            let first = name.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
            vec![escape(&(first + name.as_str())), number(row.value), escape(&row.unit)]
        })
        .collect();
    format!(
        "<section id=\"measures\"><h2>Measures of the deformation</h2>{}</section>",
        table("measures", &["Measure", "#Value", "Unit"], &rows)
    )
}
