//! The report on a registration of a volume to slices by an elastic body.

mod shown;

use super::comparison::{Comparison, comparison_of};
use super::html::file_name;
use super::words::{Card, count};
use super::{Heading, Page, deform, elastic};
use crate::draw::check_grids;
use crate::draw::jacobian::VolumeChange;
use crate::draw::meshes::{Colour, Layer, Row, Scale, Scene, Sections};
use crate::draw::placed::Placed;
use crate::draw::studio::{Images, Studio};
use crate::error::Result;
use crate::record::RunRecord;
use crate::text::fixed;
use shown::Shown;
use voxalign_image::{Mesh, TetraMesh, Vector3, Volume, memory};
use voxalign_register::diffeo::SliceEvidence;

/// What a slice shows.
#[derive(Debug, Clone, Copy)]
pub struct SlicePictures<'a> {
    /// Its name, such as that of its file.
    pub name: &'a str,
    /// The slice: exactly one dimension of its grid, whichever, is 1. It lies anywhere in the world of the body.
    pub slice: &'a Volume<f32>,
    /// The volume at its pixels under the affine part alone, on its grid.
    pub before: &'a Volume<f32>,
    /// The same under what was found.
    pub after: &'a Volume<f32>,
}

/// The content of a report on a registration of a volume to slices by an elastic body.
#[derive(Debug, Clone, Copy)]
pub struct SlicesReport<'a> {
    /// The record of the run; the evidence of each slice is that of its [elastic](RunRecord::elastic) part, in the order
    /// of the slices.
    pub record: &'a RunRecord,
    /// The slices.
    pub slices: &'a [SlicePictures<'a>],
    /// The mesh at rest, in the fixed world.
    pub mesh: &'a TetraMesh,
    /// How far each of its vertices went, mm.
    pub displacements: &'a [Vector3<f64>],
    /// The norm of the strain of each tetrahedron.
    pub strain: &'a [f32],
    /// The volume as it was found, on a grid of its own in the world of the body.
    pub warped: &'a Volume<f32>,
    /// The Jacobian determinant of the deformation there, without the affine part.
    pub jacobian: &'a Volume<f32>,
}

/// The comparison of slices with the volume.
const COMPARISON: Comparison<'_> = Comparison {
    images: "slice and volume",
    rows: &[(2, "slice and volume after"), (1, "slice and volume before")],
    first: "slice",
    caption: "drag the slider or a picture: the slice is on the left, the volume at its pixels on the right. Good \
        alignment: nothing jumps when the images blink, and borders continue across the seam.",
};

/// The report as one HTML file that needs nothing else.
///
/// # Errors
/// [`ReportError::OtherGrid`](crate::ReportError::OtherGrid) where pictures of a slice are on another grid than it, or the
/// Jacobian on another one than the volume; [`ReportError::Mesh`](crate::ReportError::Mesh) where displacements do not fit
/// the mesh; [`ReportError::OutOfMemory`](crate::ReportError::OutOfMemory),
/// [`ReportError::Png`](crate::ReportError::Png) where a picture cannot be compressed.
pub fn render(report: &SlicesReport<'_>) -> Result<String> {
    let SlicesReport { record, warped, jacobian, .. } = report;
    check_grids("warped volume", warped.grid(), &[("Jacobian", jacobian.grid())])?;
    let of = report.slices.len();
    let pictures = report.slices.iter();
    let slices = pictures.map(|s| Placed::new(s.name, Images::new(s.slice, s.before, s.after), of));
    let slices: Vec<Placed<'_>> = slices.collect::<Result<_>>()?;
    let moved = moved(report)?;
    let studio = Studio::new(Images::new(warped, warped, warped))?;
    let change = VolumeChange::new(&studio, jacobian)?;
    let shown = Shown { record, slices: &slices };

    let mut page = Page::on(record, cards(report, &change));
    if !slices.is_empty() {
        let widths = slices.iter().take(3).map(|s| (1e3 * s.ratio()).clamp(100.0, 1e4) as usize);
        page.add("Compare", comparison_of(&widths.collect::<Vec<_>>(), &COMPARISON));
    }
    shown.pictures(&mut page)?;
    page.add("Agreement", shown.agreement());
    shown.meshes(&mut page, report.mesh, &moved)?;
    whole(&mut page, report, &slices, &moved)?;
    volume_change(&mut page, &change)?;
    page.figure(
        "Strain",
        "fig-strain",
        "Strain",
        &elastic::strains(&studio, "Strain over the deformed volume", &moved, report.strain)?,
        "the norm of the strain of each tetrahedron as the body ended, over the volume as it was found. Good: it is small, and \
         large only where tissue really stretches or slides. Linear elasticity is for small strains, up to about 0.1; spots of \
         single tetrahedra mean that noise moves the body. Slices pull only where they are: large strain on both sides of a \
         slice means that a thin layer is torn out of a body that stays behind, and that stiffer tissue or a weaker force is due.",
    );
    numbers(&mut page, record, warped);
    let moving = record.inputs.iter().find(|i| i.role == "moving");
    let moving = moving.map_or_else(|| "a volume".to_owned(), |i| file_name(&i.path));
    let line = format!("{moving} onto {}", count(slices.len(), "slice", "slices"));
    let window = format!("{line}: elastic registration");
    Ok(page.finish(record, &Heading::new(&window, "Elastic registration", &line, record)))
}

/// The mesh as it ended.
fn moved(report: &SlicesReport<'_>) -> Result<TetraMesh> {
    let rest = report.mesh.vertices();
    let vertices = rest.iter().zip(report.displacements).map(|(at, by)| at + by);
    let vertices = memory::collected(vertices)?;
    let cells = memory::copied(report.mesh.tetrahedra())?;
    Ok(TetraMesh::new(memory::copied(rest)?, cells)?.with_vertices(vertices)?)
}

/// The most telling numbers.
fn cards(report: &SlicesReport<'_>, change: &VolumeChange<'_, '_>) -> Vec<Card> {
    let all = report.record.elastic.as_ref().map_or(&[][..], |e| &e.slices);
    let mut cards = Vec::new();
    let worst = all.iter().map(|s| s.evidence).min_by(|a, b| a.local[1].total_cmp(&b.local[1]));
    if let Some(SliceEvidence { local: [before, after], elsewhere, .. }) = worst {
        let of = if all.len() > 1 { "in the worst slice; before" } else { "before" };
        let said = format!("{of}: {}, elsewhere: {}", fixed(before, 2), fixed(elsewhere, 2));
        cards.push(Card::new("Local agreement", fixed(after, 2), said));
    }
    cards.push(deform::volume_change(change));
    let lengths = || report.displacements.iter().map(|d| d.norm()).filter(|v| v.is_finite());
    let mean = lengths().sum::<f64>() / lengths().count().max(1) as f64;
    let largest = format!("{}\u{a0}mm", fixed(lengths().fold(0.0, f64::max), 2));
    let said = format!("of a vertex at most; {}\u{a0}mm on average", fixed(mean, 2));
    cards.push(Card::new("Displacement", largest, said));
    cards
}

/// The slices in the deformed body.
fn whole(
    page: &mut Page,
    report: &SlicesReport<'_>,
    slices: &[Placed<'_>],
    moved: &TetraMesh,
) -> Result<()> {
    let outlines: Vec<Mesh> = slices.iter().map(Placed::outline).collect::<Result<_>>()?;
    let planes = || {
        let named = slices.iter().zip(&outlines).enumerate();
        named.map(|(i, (slice, mesh))| Layer::new(slice.name, mesh, Colour::of(i)))
    };
    let surface = moved.surface()?;
    let lengths = lengths(report)?;
    let skin = Layer::new("body", &surface, Colour::Grey);
    let mut layers = vec![skin.clone().with_values(&lengths).with_opacity(0.6)];
    layers.extend(planes().map(|layer| layer.with_opacity(0.35)));
    let scale = Some(Scale::new("displacement", "mm"));
    page.solid(
        &Scene { layers, scale },
        "Body and slices in 3D",
        "the surface of the body as it ended, coloured by how far it went from where it rests, and the slices in it. Good: large \
         displacements are near slices or follow from their pull. Far from all slices nothing but elasticity says where the \
         tissue is.",
    )?;
    let mut lines = vec![skin];
    lines.extend(planes());
    let name = "Volume as it was found".to_owned();
    let rows = vec![Row { name, image: report.warped, layers: lines }];
    page.sections(
        "Places",
        &Sections { rows },
        "Where the slices lie",
        "the lines are where the slices, and in grey the surface of the body as it ended, cross the pictures of the volume as it \
         was found; a slice that is parallel to a picture is not in it. Good: the slices lie where they were taken; one that lies \
         elsewhere has a wrong position or orientation in its header. The body should reach as far as the tissue that slices show.",
    )
}

/// How far each vertex of the surface went, in the order of [`TetraMesh::surface`].
fn lengths(report: &SlicesReport<'_>) -> Result<Vec<f32>> {
    let mut known = memory::filled(report.mesh.vertices().len(), false)?;
    let mut lengths = Vec::new();
    for index in report.mesh.boundary()?.into_iter().flatten() {
        let index = index as usize;
        if !std::mem::replace(&mut known[index], true) {
            let length = report.displacements.get(index).map_or(f64::NAN, |d| d.norm());
            lengths.push(length as f32);
        }
    }
    Ok(lengths)
}

/// The volume change of the volume.
fn volume_change(page: &mut Page, change: &VolumeChange<'_, '_>) -> Result<()> {
    page.figure(
        "Volume change",
        "fig-jacobian",
        "Volume change",
        &(change.pictures()? + &change.key()),
        "the Jacobian determinant of the deformation on a logarithmic scale, with the edges of the volume as it was found in \
         grey. Orange: the region is larger in the volume as it was given, and was compressed; blue: it is smaller there, and was \
         expanded; black: unchanged. Good: smooth patches that fade away from the slices. Stripes mean that noise was fitted; magenta \
         marks voxels where the mapping folds, which real tissue cannot do.",
    );
    Ok(())
}

/// Curves and tables of the motion, the body and the deformation.
fn numbers(page: &mut Page, record: &RunRecord, warped: &Volume<f32>) {
    page.add("Motion", elastic::motion(record, Some(warped.grid())));
    if let Some(body) = &record.elastic {
        page.add("Body", elastic::facts(body));
        page.add("Steps", elastic::steps(body));
    }
    if let Some(deformation) = &record.deformation {
        let energies = deform::energies(&deformation.scales, None, 1.0, warped.grid());
        page.add("Energy", deform::course(&energies));
    }
    page.add("Measures", deform::measures(record, "the foreground of the volume"));
    page.add("", super::words::landmarks(record));
    page.add("", super::words::figures(record));
    page.add("", deform::affine_part(record));
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Grid;

    #[test]
    fn lengths_are_those_of_the_vertices_of_the_surface() {
        let vertices: Vec<_> =
            [[9.0; 3], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
                .map(Vector3::from)
                .into();
        let mesh = TetraMesh::new(vertices, vec![[1, 2, 3, 4]]).unwrap();
        let displacements: Vec<_> = mesh.vertices().iter().map(|v| v * 2.0).collect();
        let volume = Volume::filled(Grid::axis_aligned([2, 2, 2], [1.0; 3]).unwrap(), 1.0);
        let report = SlicesReport {
            record: &RunRecord::default(),
            slices: &[],
            mesh: &mesh,
            displacements: &displacements,
            strain: &[0.0],
            warped: &volume,
            jacobian: &volume,
        };
        let surface = mesh.surface().unwrap();
        let expected: Vec<f32> = surface.vertices().iter().map(|v| 2.0 * v.norm() as f32).collect();
        assert_eq!(lengths(&report).unwrap(), expected);
        assert!(render(&report).unwrap().contains("onto 0 slices"));
        let short = SlicesReport { displacements: &displacements[..3], ..report };
        assert!(render(&short).is_err());
    }
}
