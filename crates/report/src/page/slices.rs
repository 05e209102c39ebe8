//! The report on a registration of a volume to slices by an elastic body.

use super::comparison::{Comparison, comparison_of};
use super::html::{Columns, Section, file_name, note, percent, section};
use super::words::{Card, count};
use super::{Heading, Page, deform, elastic};
use crate::draw::Key;
use crate::draw::check_grids;
use crate::draw::gallery::columns;
use crate::draw::jacobian::VolumeChange;
use crate::draw::meshes::{Colour, Layer, Row, Scale, Scene, Sections, overlay};
use crate::draw::picture::{Picture, diverging_style};
use crate::draw::placed::Placed;
use crate::draw::plane::Plane;
use crate::draw::studio::{Drawn, Images, Studio};
use crate::error::Result;
use crate::record::RunRecord;
use crate::record::elastic::SliceRecord;
use crate::text::{escape, fixed, measured, number, thousands};
use voxalign_image::{Mesh, TetraMesh, Vector3, Volume, memory};
use voxalign_register::diffeo::SliceEvidence;

/// What a slice shows.
#[derive(Debug, Clone, Copy)]
pub struct SlicePictures<'a> {
    /// Its name, such as that of its file.
    pub name: &'a str,
    /// The slice: exactly one dimension of its grid, whichever, is 1. It lies anywhere in the fixed world.
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
    /// The volume as it was found, on a grid of its own in the fixed world.
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

/// A slice of the same contrast as the volume has at least this correlation with it.
const SAME_CONTRAST: f64 = 0.5;

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
    let change = VolumeChange::new(&studio, jacobian);
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

/// Slices as they are drawn, with what the record has of them.
struct Shown<'s, 'a> {
    record: &'a RunRecord,
    slices: &'s [Placed<'a>],
}

/// A table of pictures of slices: its identifier, and the number and the heading of each column.
struct Table<'t>(&'t str, &'t [(usize, &'t str)]);

impl<'a> Shown<'_, 'a> {
    fn evidence(&self, number: usize) -> Option<&'a SliceEvidence> {
        let all = &self.record.elastic.as_ref()?.slices;
        all.get(number).map(|slice| &slice.evidence)
    }

    /// Whether the intensities of a slice and of the volume mean the same.
    fn same_contrast(&self, number: usize) -> bool {
        let similarity = &self.record.parameters["similarity"];
        similarity.as_str().is_none_or(|name| name == "ssd")
            && self.evidence(number).is_some_and(|e| e.correlation[1] >= SAME_CONTRAST)
    }

    /// A row for each of some slices, with remarks above and below, which are HTML.
    fn table(
        &self,
        Table(id, headings): &Table<'_>,
        wanted: impl Fn(usize) -> bool,
        said: impl Fn(usize, &Placed<'_>) -> [String; 2],
        draw: impl Fn(&Placed<'_>, usize, &Plane, &Drawn) -> Picture,
        over: impl Fn(&Placed<'_>, usize) -> String,
    ) -> Result<String> {
        let names: Vec<&str> = headings.iter().map(|(_, name)| *name).collect();
        let mut out = String::new();
        for (number, slice) in self.slices.iter().enumerate().filter(|(i, _)| wanted(*i)) {
            let [above, below] = said(number, slice);
            out += &slice.line(&above);
            for (column, heading) in *headings {
                let id = format!("{id}-{column}-s{number}");
                let draw = |plane: &Plane, drawn: &Drawn| draw(slice, *column, plane, drawn);
                let names = [id.as_str(), &format!("s{number}"), heading];
                out += &slice.picture(names, draw, &over(slice, *column))?;
            }
            if !below.is_empty() {
                out += &format!("<p class=\"row under\">{below}</p>");
            }
        }
        if out.is_empty() {
            return Ok(out);
        }
        Ok(columns(&names, "minmax(0,1fr)") + &out + "</div>")
    }

    /// The slices, and how the volume differs from them.
    fn pictures(&self, page: &mut Page) -> Result<()> {
        let nothing = |_: &Placed<'_>, _| String::new();
        let headings = [(0, "Slice"), (1, "Volume, affine part only"), (2, "Volume, deformed")];
        let body = self.table(
            &Table("slice", &headings),
            |_| true,
            |number, slice| {
                let [ours, theirs] = [slice.studio.fixed_window, slice.studio.moving_window]
                    .map(|w| measured(&[w.low, w.high].map(f64::from)).join(" to "));
                let windows = format!("shown from {ours}, the volume from {theirs}");
                let above = format!("{}; {}; {windows}", slice.place(), slice.pixels());
                [above, self.evidence(number).map_or_else(String::new, said)]
            },
            |slice, column, plane, drawn| slice.studio.plain(column, plane, drawn),
            nothing,
        )?;
        page.figure("Slices", "fig-slices", "Slices and the volume at their pixels", &body, SLICES);
        let pairs = [(0, "Before"), (1, "After")];
        let differs = self.table(
            &Table("difference", &pairs),
            |number| self.same_contrast(number),
            |_, slice| {
                let most = number(f64::from(slice.studio.difference_scale));
                [format!("full colour at \u{b1}{most}"), String::new()]
            },
            |slice, column, plane, drawn| slice.studio.difference(column, plane, drawn),
            nothing,
        )?;
        if !differs.is_empty() {
            let key = Key::new().ramp(&diverging_style(), ["volume brighter", "slice brighter"]);
            let body = differs + &key.html();
            page.figure("Difference", "fig-difference", "Difference", &body, DIFFERENCE);
        }
        let boards = self.table(
            &Table("checker", &pairs),
            |number| !self.same_contrast(number),
            |_, _| Default::default(),
            |slice, column, plane, drawn| slice.studio.checkerboard(column, plane, drawn),
            nothing,
        )?;
        page.figure("Checkerboard", "fig-checker", "Checkerboard", &boards, CHECKER);
        let edges = self.table(
            &Table("edge", &pairs),
            |_| true,
            |_, _| Default::default(),
            |slice, column, plane, drawn| slice.studio.edge_overlay(column, plane, drawn),
            nothing,
        )?;
        if !edges.is_empty() {
            let body = edges + &Key::new().line("#ffaa14", "edges of the slice").html();
            page.figure("Edges", "fig-edges", "Edges of the slices over the volume", &body, EDGES);
        }
        Ok(())
    }

    /// A table of how slices and volume agree.
    fn agreement(&self) -> Section {
        let all = self.record.elastic.as_ref().map_or(&[][..], |e| &e.slices);
        let to =
            |[before, after]: [f64; 2]| format!("{} {TO} {}", fixed(before, 3), fixed(after, 3));
        let name = |(i, slice): &(usize, &SliceRecord)| match self.slices.get(*i) {
            Some(placed) => escape(placed.name),
            None => file_name(&slice.file),
        };
        let table = Columns::of(all.iter().enumerate())
            .column("Slice", name)
            .column("#Pixels", |(_, s)| thousands(s.evidence.pixels as f64))
            .column("#In the body", |(_, s)| inside(s.evidence.inside))
            .column("#Correlation", |(_, s)| to(s.evidence.correlation))
            .column("#Local agreement", |(_, s)| to(s.evidence.local))
            .column("#Elsewhere", |(_, s)| fixed(s.evidence.elsewhere, 3))
            .long("slices");
        if table.is_empty() {
            return Section::default();
        }
        section("agreement", "Agreement of slices and volume", &(table + &note(AGREEMENT)))
    }

    /// The mesh where it crosses the slices, at rest and as it ended.
    fn meshes(&self, page: &mut Page, rest: &TetraMesh, moved: &TetraMesh) -> Result<()> {
        let before = elastic::faces(rest, memory::copied(rest.vertices())?)?;
        let after = elastic::faces(rest, memory::copied(moved.vertices())?)?;
        let layers =
            [("mesh at rest", &before, Colour::Blue), ("mesh at the end", &after, Colour::Orange)]
                .map(|(name, mesh, colour)| {
                    [Layer::new(name, mesh, colour).with_opacity(elastic::THIN)]
                });
        let headings = [
            (0, "Volume, affine part only, and the mesh at rest"),
            (1, "Slice and the mesh at the end"),
        ];
        let body = self.table(
            &Table("mesh", &headings),
            |_| true,
            |_, slice| [slice.place(), String::new()],
            |slice, column, plane, drawn| {
                let (values, window) = match column {
                    0 => (&drawn.moving[0], slice.studio.moving_window),
                    _ => (&drawn.fixed, slice.studio.fixed_window),
                };
                let [width, height] = plane.size();
                Picture::grey(width, height, values.iter().map(|&v| 0.9 * window.unit(v)))
            },
            |slice, column| {
                let lines = |plane| overlay(slice.studio.grid_of_fixed(), plane, &layers[column]);
                slice.plane().map_or_else(String::new, lines)
            },
        )?;
        if body.is_empty() {
            return Ok(());
        }
        let key = layers
            .iter()
            .flatten()
            .fold(Key::new(), |key, layer| key.line(layer.colour.hex(), &layer.name));
        page.figure("Mesh", "fig-mesh", "The mesh in the slices", &(body + &key.html()), MESH);
        Ok(())
    }
}

/// An arrow.
const TO: &str = "\u{2192}";

/// The parts of a slice that lie in the body, at rest and at the end.
fn inside([rest, end]: [f64; 2]) -> String {
    format!("{} {TO} {}", percent(rest, 0), percent(end, 0))
}

/// The numbers of a slice, as HTML.
fn said(of: &SliceEvidence) -> String {
    let to = |[before, after]: [f64; 2]| format!("{} {TO} {}", fixed(before, 2), fixed(after, 2));
    format!(
        "local agreement {}, elsewhere {}; correlation {}; in the body {}",
        to(of.local),
        fixed(of.elsewhere, 2),
        to(of.correlation),
        inside(of.inside)
    )
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

const SLICES: &str = "each slice beside the volume at its pixels, under the affine part only and under what was found, in true \
    proportion. Pictures follow the radiological convention as far as a slice allows: the patient\u{2019}s right (R) or front (A) is on \
    the left, and the letters name the directions of the sides; of two letters the first is the main one. Below are the numbers of each \
    slice before and after. Good alignment: the last picture matches the first in outlines, folds and cavities, whatever its contrast, \
    and looks like a real image; the local agreement has risen and is well above that elsewhere, which chance gives. Black regions \
    of the volume are outside of its field of view.";

const DIFFERENCE: &str = "slice minus volume in intensities of the slice, on the same scale before and after. Each intensity of the volume \
    was replaced by the median intensity of the slice at the same pixels after alignment. Good alignment: the picture after \
    registration is dark, without outlines; pairs of blue and orange lines along a border mean a shift across it. Large spots of one \
    colour mean tissue that only one of both shows, or a shift out of the slice.";

const CHECKER: &str = "squares of the slice and of the volume in turn, each in its own grey scale, for their intensities do not mean the \
    same or hardly go together. Good alignment: outlines continue across the squares, whatever is bright and dark; broken outlines \
    show how far they are apart.";

const EDGES: &str = "the lines are edges of the slice, the grey picture is the volume. Good alignment: the lines after registration lie on \
    the volume\u{2019}s own borders, around the outside and inside.";

const MESH: &str = "where the faces of the tetrahedra cross the slices: at rest over the volume where the affine part alone puts it, and as \
    the body ended over the slice itself. Good: no cell is crushed, and cells are finer than the bends of the tissue. A slice may cross \
    other cells at the end, for the body also moves through it. No lines mean that the slice misses the body.";

const AGREEMENT: &str = "Arrows lead from the affine part alone to what was found. The local agreement is the part of the variance of a slice \
    around each of its pixels that a linear function of the volume there explains: 1 where both show the same, in whatever contrast. \
    Elsewhere is the largest of these where the volume is shifted along the slice by a quarter of its extent, such as chance gives: a \
    slice whose agreement is not above that says nothing for the result. They are compared where pixels count and lie in the body; a \
    slice of which little does proves little.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::elastic::ElasticRecord;
    use voxalign_image::Grid;

    fn record(similarity: &str, correlation: f64) -> RunRecord {
        let evidence =
            SliceEvidence { correlation: [0.0, correlation], ..SliceEvidence::default() };
        let slices = vec![SliceRecord { file: "a/<b>.nii".into(), evidence }];
        RunRecord {
            parameters: serde_json::json!({ "similarity": similarity }),
            elastic: Some(ElasticRecord { slices, ..ElasticRecord::default() }),
            ..RunRecord::default()
        }
    }

    #[test]
    fn only_slices_of_the_same_contrast_are_subtracted() {
        for (similarity, correlation, same) in
            [("ssd", 0.9, true), ("ssd", -0.9, false), ("ssd", 0.3, false), ("mi", 0.9, false)]
        {
            let record = record(similarity, correlation);
            let shown = Shown { record: &record, slices: &[] };
            assert_eq!(shown.same_contrast(0), same, "{similarity} {correlation}");
            assert!(!shown.same_contrast(1));
            assert!(shown.agreement().html.contains("&lt;b&gt;.nii"));
        }
    }

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
