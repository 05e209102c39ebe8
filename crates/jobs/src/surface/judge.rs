//! Quality checks and verdict of a surface.

use super::ObjectOptions;
use crate::error::Result;
use voxalign_image::{Grid, Mesh, memory};
use voxalign_options::text;
use voxalign_register::compare::{MeshScores, distances_to};
use voxalign_register::limits::SURFACE;
use voxalign_register::{Check, Remedy, Verdict};
use voxalign_report::surface::ObjectRecord;
use voxalign_surface::Figures;

/// A surface as it was made.
pub(super) struct Shaped {
    /// Around the voxels as they are, where that is another one.
    pub(super) exact: Option<Mesh>,
    pub(super) exact_figures: Figures,
    /// What is written.
    pub(super) mesh: Mesh,
    pub(super) figures: Figures,
    /// How far these two are apart, where they differ.
    pub(super) distance: Option<MeshScores>,
}

impl Shaped {
    /// The surface around the voxels as they are.
    pub(super) fn exact(&self) -> &Mesh {
        self.exact.as_ref().unwrap_or(&self.mesh)
    }

    /// How far each vertex is from it, where the two differ.
    pub(super) fn distances(&self) -> Result<Option<Vec<f32>>> {
        let Some(exact) = &self.exact else { return Ok(None) };
        let found = distances_to(self.mesh.vertices(), exact)?;
        Ok(Some(memory::collected(found.into_iter().map(|d| d as f32))?))
    }
}

/// The verdict: whether it is closed and a manifold, whether it lies on itself, its volume and its place.
pub(super) fn verdict(
    shaped: &Shaped,
    object: &ObjectRecord,
    (wanted, sigma, grid): (&ObjectOptions, f64, &Grid),
) -> Verdict {
    let (figures, is_labels) = (&shaped.figures, !wanted.label.is_empty());
    let no_manifold = figures.non_manifold_edges + figures.non_manifold_vertices;
    // Thin sheets of voxels fold the isosurface itself.
    let folds = figures.folded_edges.saturating_sub(shaped.exact_figures.folded_edges);
    let flat = grid.is_2d();
    let measured = |figures: &Figures| match flat {
        true => Some(figures.area_mm2),
        false => figures.volume_mm3,
    };
    // Of images the voxels say little of the volume: the surface runs between their centres.
    let reference = match is_labels {
        true => object.area_mm2.or(Some(object.volume_mm3)),
        false => measured(&shaped.exact_figures),
    };
    let change = measured(figures)
        .zip(reference)
        .map_or(f64::NAN, |(found, reference)| 100.0 * (found / reference - 1.0).abs());
    let of = match (is_labels, flat) {
        (true, false) => "the label's volume",
        (true, true) => "the label's area",
        (false, false) => "the isosurface's volume",
        (false, true) => "the exact outlines' area",
    };
    let names = match flat {
        false => [
            "open edges",
            "edges and vertices where surfaces meet",
            "folded edges that the isosurface does not have",
        ],
        true => {
            ["open ends", "places where outlines meet", "folds that the exact outlines do not have"]
        }
    };
    let mut checks = vec![
        Check::none(names[0], figures.boundary_edges as u64),
        Check::none(names[1], no_manifold as u64),
        Check::none(names[2], folds as u64).or(Remedy::SmootherSurface),
        Check::at_most(format!("difference from {of}"), change, SURFACE.volume)
            .in_unit("%")
            .or(Remedy::CloserSurface),
    ];
    if let Some(distance) = &shaped.distance {
        let all = grid.spacing();
        let spacing = if flat { &all[..2] } else { &all[..] };
        let longest = spacing.iter().copied().fold(0.0, f64::max);
        let exact = if flat { "the exact outlines" } else { "the isosurface" };
        let diagonal = spacing.iter().map(|s| s * s).sum::<f64>().sqrt();
        let most_of_it = SURFACE.most_of_it[0] * longest + SURFACE.most_of_it[1] * sigma;
        let all_of_it = SURFACE.all_of_it[0] * diagonal + SURFACE.all_of_it[1] * sigma;
        let check = |name: &str, value: f64, most: f64| {
            Check::at_most(name, value, most).in_unit("mm").or(Remedy::CloserSurface)
        };
        checks.extend([
            check(&format!("distance of 95 % to {exact}"), distance.p95, most_of_it),
            check(&format!("largest distance to {exact}"), distance.hausdorff, all_of_it),
        ]);
    }
    let mut remarks = Vec::new();
    let what = if flat { "outline" } else { "surface" };
    if object.at_border {
        remarks.push(text!(
            "what the {what} is of reaches the border of the image: the {what} is closed there by a side that is no \
             boundary of the object"
        ));
    }
    if figures.components > 1 && !wanted.largest_component {
        let [one, several] = if flat { ["a hole", "holes"] } else { ["a cavity", "cavities"] };
        let cavities = match figures.cavities {
            0 => String::new(),
            1 => format!(", 1 of them {one}"),
            n => format!(", {n} of them {several}"),
        };
        remarks.push(text!(
            "the {what} has {} parts{cavities}; `largest_component` and `fill_holes` leave one",
            figures.components
        ));
    }
    Verdict::new(checks, remarks)
}
