//! The tables of surfaces.

use crate::output::{self, Print, Table};
use std::path::Path;
use voxalign_register::Verdict;
use voxalign_report::{SurfaceRecord, SurfacesRecord};

/// The surface that was made.
pub(crate) fn surface(record: &SurfaceRecord, path: &Path) {
    let (exact, made) = (&record.isosurface, &record.surface);
    let flat = made.length_mm.is_some();
    let mut table = match flat {
        false => Table::new(["", "isosurface", "surface"]),
        true => Table::new(["", "exact", "outlines"]),
    };
    let mut row = |name: &str, values: [String; 2]| {
        let [a, b] = values;
        table.row([name.to_owned(), a, b]);
    };
    let size = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
    if flat {
        row("lines", [exact, made].map(|f| f.components.to_string()));
        row("vertices", [exact, made].map(|f| f.vertices.to_string()));
        row("length, mm", [exact, made].map(|f| size(f.length_mm)));
    } else {
        row("triangles", [exact, made].map(|f| f.triangles.to_string()));
        row("vertices", [exact, made].map(|f| f.vertices.to_string()));
        row("parts", [exact, made].map(|f| f.components.to_string()));
        row("handles", [exact, made].map(|f| f.genus.map_or("-".to_owned(), |g| g.to_string())));
    }
    row("area, mm²", [exact, made].map(|f| size(Some(f.area_mm2))));
    if !flat {
        row("volume, mm³", [exact, made].map(|f| size(f.volume_mm3)));
    }
    table.print();
    let object = &record.object;
    let voxels = object.voxels;
    output::line(&match object.area_mm2 {
        Some(area) => format!("pixels: {voxels}, {area:.1} mm²"),
        None => format!("voxels: {voxels}, {:.1} mm³", object.volume_mm3),
    });
    if let Some(parts) = object.parts.filter(|n| *n > 1) {
        output::line(&format!("the largest of {parts} parts"));
    }
    if let Some(filled) = object.filled_voxels.filter(|n| *n > 0) {
        output::line(&format!("{filled} voxels of cavities are filled"));
    }
    if let Some(d) = &record.distance {
        output::line(&format!(
            "distance to {}: mean {:.3} mm, 95 % {:.3} mm, largest {:.3} mm",
            if flat { "the exact outlines" } else { "the isosurface" },
            d.mean,
            d.p95,
            d.hausdorff
        ));
    }
    if let Some(most) = record.most_triangles.filter(|n| *n < made.triangles) {
        output::note(&format!(
            "{} triangles are left instead of {most}: fewer would change the topology of the surface",
            made.triangles
        ));
    }
    judged(&record.verdict, &record.provenance.host.device);
    output::line(&format!("written to {}", path.display()));
}

/// The surfaces of many labels.
pub(crate) fn surfaces(record: &SurfacesRecord, path: &Path) {
    let flat = record.surfaces.iter().any(|s| s.found.surface.length_mm.is_some());
    let named = record.surfaces.iter().any(|s| s.name.is_some());
    let mut headings = vec!["label"];
    headings.extend(named.then_some("name"));
    headings.extend(match flat {
        false => ["triangles", "parts", "area, mm²", "volume, mm³", "voxels, mm³"],
        true => ["vertices", "lines", "length, mm", "area, mm²", "pixels, mm²"],
    });
    headings.push("verdict");
    let mut table = Table::new(headings);
    for of in &record.surfaces {
        let (made, object) = (&of.found.surface, &of.found.object);
        let mut row = vec![of.label.to_string()];
        row.extend(named.then(|| of.name.clone().unwrap_or_default()));
        let amount = if flat { made.vertices } else { made.triangles };
        row.extend([amount, made.components].map(|n| n.to_string()));
        let sizes = match flat {
            false => [Some(made.area_mm2), made.volume_mm3, Some(object.volume_mm3)],
            true => [made.length_mm, Some(made.area_mm2), object.area_mm2],
        };
        row.extend(sizes.map(|v| v.map_or("-".to_owned(), |v| format!("{v:.1}"))));
        row.push(if of.found.verdict.good { "good" } else { "bad" }.to_owned());
        table.row(row);
    }
    table.print();
    judged(&record.verdict, &record.provenance.host.device);
    output::line(&format!("written to {}", path.display()));
}

/// What the verdict says, and what it was found on.
pub(super) fn judged(verdict: &Verdict, device: &str) {
    for remark in &verdict.remarks {
        output::line(&format!("remark: {remark}"));
    }
    output::line(&format!("device: {device}"));
    output::line(&format!("verdict: {}", verdict.summary()));
    for remedy in verdict.remedies() {
        output::line(&format!("try: {remedy}"));
    }
}
