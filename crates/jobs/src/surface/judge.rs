//! Whether a surface can be used.

use super::{ObjectOptions, Shaped};
use voxalign_image::Grid;
use voxalign_register::{Check, Remedy, Verdict};
use voxalign_report::surface::ObjectRecord;

/// Most percent by which the volume within the surface may differ from that of the voxels.
const VOLUME: f64 = 10.0;
/// Most that 95 % of the surface may be away from the isosurface, in largest sides of voxels, and beside that in standard
/// deviations of the Gaussian.
const MOST_OF_IT: [f64; 2] = [0.5, 0.25];
/// Most that any of it may be, in diagonals of voxels, and beside that in standard deviations of the Gaussian, which takes
/// tips off.
const ALL_OF_IT: [f64; 2] = [1.0, 2.0];

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
    // Of images the voxels say little of the volume: the surface runs between their centres.
    let reference = match is_labels {
        true => Some(object.volume_mm3),
        false => shaped.exact_figures.volume_mm3,
    };
    let change = figures
        .volume_mm3
        .zip(reference)
        .map_or(f64::NAN, |(found, reference)| 100.0 * (found / reference - 1.0).abs());
    let of = if is_labels { "the label's volume" } else { "the isosurface's volume" };
    let mut checks = vec![
        Check::none("open edges", figures.boundary_edges as u64),
        Check::none("edges and vertices where surfaces meet", no_manifold as u64),
        Check::none("folded edges that the isosurface does not have", folds as u64)
            .or(Remedy::SmootherSurface),
        Check::at_most(format!("difference from {of}"), change, VOLUME)
            .in_unit("%")
            .or(Remedy::CloserSurface),
    ];
    if let Some(distance) = &shaped.distance {
        let spacing = grid.spacing();
        let longest = spacing.into_iter().fold(0.0, f64::max);
        let diagonal = spacing.into_iter().map(|s| s * s).sum::<f64>().sqrt();
        let most_of_it = MOST_OF_IT[0] * longest + MOST_OF_IT[1] * sigma;
        let all_of_it = ALL_OF_IT[0] * diagonal + ALL_OF_IT[1] * sigma;
        let check = |name: &str, value: f64, most: f64| {
            Check::at_most(name, value, most).in_unit("mm").or(Remedy::CloserSurface)
        };
        checks.extend([
            check("distance of 95 % to the isosurface", distance.p95, most_of_it),
            check("largest distance to the isosurface", distance.hausdorff, all_of_it),
        ]);
    }
    let mut remarks = Vec::new();
    if object.at_border {
        remarks.push(
            "what the surface is of reaches the border of the image: the surface is closed there by a side that \
             is no boundary of the object"
                .to_owned(),
        );
    }
    if figures.components > 1 && !wanted.largest_component {
        let cavities = match figures.cavities {
            0 => String::new(),
            1 => ", 1 of them a cavity".to_owned(),
            n => format!(", {n} of them cavities"),
        };
        remarks.push(format!(
            "the surface has {} parts{cavities}; `largest_component` and `fill_holes` leave one",
            figures.components
        ));
    }
    Verdict::new(checks, remarks)
}
