//! The table of a surface.

use crate::output::{self, Print, Table};
use std::path::Path;
use voxalign_report::SurfaceRecord;

/// The surface that was made.
pub(crate) fn surface(record: &SurfaceRecord, path: &Path) {
    let (exact, made) = (&record.isosurface, &record.surface);
    let mut table = Table::new(["", "isosurface", "surface"]);
    let mut row = |name: &str, values: [String; 2]| {
        let [a, b] = values;
        table.row([name.to_owned(), a, b]);
    };
    row("triangles", [exact, made].map(|f| f.triangles.to_string()));
    row("vertices", [exact, made].map(|f| f.vertices.to_string()));
    row("parts", [exact, made].map(|f| f.components.to_string()));
    row("handles", [exact, made].map(|f| f.genus.map_or("-".to_owned(), |g| g.to_string())));
    row("area, mm²", [exact, made].map(|f| format!("{:.1}", f.area_mm2)));
    row(
        "volume, mm³",
        [exact, made].map(|f| f.volume_mm3.map_or("-".to_owned(), |v| format!("{v:.1}"))),
    );
    table.print();
    let object = &record.object;
    output::line(&format!("voxels: {}, {:.1} mm³", object.voxels, object.volume_mm3));
    if let Some(parts) = object.parts.filter(|n| *n > 1) {
        output::line(&format!("the largest of {parts} parts"));
    }
    if let Some(filled) = object.filled_voxels.filter(|n| *n > 0) {
        output::line(&format!("{filled} voxels of cavities are filled"));
    }
    if let Some(d) = &record.distance {
        output::line(&format!(
            "distance to the isosurface: mean {:.3} mm, 95 % {:.3} mm, largest {:.3} mm",
            d.mean, d.p95, d.hausdorff
        ));
    }
    if let Some(most) = record.most_triangles.filter(|n| *n < made.triangles) {
        output::note(&format!(
            "{} triangles are left and not {most}: fewer would change what the surface is",
            made.triangles
        ));
    }
    for remark in &record.verdict.remarks {
        output::line(&format!("remark: {remark}"));
    }
    output::line(&format!("device: {}", record.provenance.host.device));
    output::line(&format!("verdict: {}", record.verdict.summary()));
    for remedy in record.verdict.remedies() {
        output::line(&format!("try: {remedy}"));
    }
    output::line(&format!("written to {}", path.display()));
}
