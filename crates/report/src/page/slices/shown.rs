//! Tables of slices on their page: their pictures beside those of the volume, the mesh in them, how they agree.

use crate::draw::Key;
use crate::draw::gallery::columns;
use crate::draw::meshes::{Colour, Layer, overlay};
use crate::draw::picture::{Picture, diverging_style};
use crate::draw::placed::Placed;
use crate::draw::plane::Plane;
use crate::draw::studio::Drawn;
use crate::error::Result;
use crate::page::html::{Columns, Section, file_name, note, percent, section};
use crate::page::{Page, elastic};
use crate::record::RunRecord;
use crate::record::elastic::SliceRecord;
use crate::text::{escape, fixed, measured, number, thousands};
use voxalign_image::{TetraMesh, memory};
use voxalign_register::diffeo::SliceEvidence;

/// A slice of the same contrast as the volume has at least this correlation with it.
const SAME_CONTRAST: f64 = 0.5;

/// Slices as they are drawn, with what the record has of them.
pub(super) struct Shown<'s, 'a> {
    pub(super) record: &'a RunRecord,
    pub(super) slices: &'s [Placed<'a>],
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
    pub(super) fn pictures(&self, page: &mut Page) -> Result<()> {
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
    pub(super) fn agreement(&self) -> Section {
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
    pub(super) fn meshes(
        &self,
        page: &mut Page,
        rest: &TetraMesh,
        moved: &TetraMesh,
    ) -> Result<()> {
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

const SLICES: &str = "each slice beside the volume at its pixels, under the affine part only and under what was found, in true \
    proportion. Pictures follow the radiological convention as far as a slice allows: the patient\u{2019}s right (R) or front (A) is on \
    the left, and the letters name the directions of the sides; of two letters the first is the main one. Below are the numbers of each \
    slice before and after. Good alignment: the last picture matches the first in outlines, folds and cavities, whatever its contrast, \
    and looks like a real image; the local agreement has risen and is well above that elsewhere, which chance gives. Where the \
    volume is even and dark up to a border, its field of view may have ended.";

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
}
