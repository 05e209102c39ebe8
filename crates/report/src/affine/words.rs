//! The transform and the search, in words and tables.

use crate::html::{escape, fixed, number, seconds, table, thousands};
use crate::record::{RunRecord, TransformRecord};
use std::fmt::Write as _;

/// What the transform does, in words, under a heading that is HTML.
pub(crate) fn transform(record: &TransformRecord, heading: &str) -> String {
    let [tx, ty, tz] = record.translation_mm;
    let [rx, ry, rz] = record.rotation_degrees;
    let [sx, sy, sz] = record.scale;
    let [kxy, kxz, kyz] = record.shear;
    let [cx, cy, cz] = record.centre_mm;
    let distance = (tx * tx + ty * ty + tz * tz).sqrt();
    let way = |value: f64, positive: &str, negative: &str| {
        format!(
            "{}\u{a0}mm {}",
            fixed(value.abs(), 2),
            if value < 0.0 { negative } else { positive }
        )
    };
    let change = (record.determinant.abs() - 1.0) * 100.0;
    let volume = if change.abs() < 0.005 {
        "volumes stay as they are".to_owned()
    } else {
        format!(
            "the moving anatomy is {}\u{a0}% {} by volume",
            fixed(change.abs(), 2),
            if change > 0.0 { "larger" } else { "smaller" }
        )
    };
    let mut rows = vec![
        vec![
            "Translation".to_owned(),
            format!("{}\u{a0}mm", fixed(distance, 2)),
            format!(
                "{}, {}, {}",
                way(tx, "to the right", "to the left"),
                way(ty, "to the front", "to the back"),
                way(tz, "up", "down")
            ),
        ],
        vec![
            "Rotation".to_owned(),
            format!("{}\u{b0}", fixed(record.rotation_total_degrees, 2)),
            format!(
                "x (pitch) {}\u{b0}, y (roll) {}\u{b0}, z (yaw) {}\u{b0}, applied in this order",
                fixed(rx, 2),
                fixed(ry, 2),
                fixed(rz, 2)
            ),
        ],
        vec![
            "Scale".to_owned(),
            format!("\u{d7}\u{a0}{}", fixed(record.determinant.abs().cbrt(), 4)),
            format!("x {}, y {}, z {}; {volume}", fixed(sx, 4), fixed(sy, 4), fixed(sz, 4)),
        ],
        vec![
            "Shear".to_owned(),
            fixed(kxy.abs().max(kxz.abs()).max(kyz.abs()), 4),
            format!("xy {}, xz {}, yz {}", fixed(kxy, 4), fixed(kxz, 4), fixed(kyz, 4)),
        ],
    ];
    if record.determinant < 0.0 {
        rows.push(vec![
            "Reflection".to_owned(),
            "<span class=\"fail\">\u{2717} yes</span>".to_owned(),
            "left and right are exchanged; this is almost never wanted".to_owned(),
        ]);
    }
    let mut out = format!(
        "<section id=\"transform\"><h2>{heading}</h2><p>The transform maps each point of the \
         <strong>{}</strong> to the matching point of the <strong>{}</strong>: seen from the fixed \
         image, the same anatomy is found in the moving image shifted, turned and scaled as below. \
         Images are resampled in this direction; points and surfaces of the moving image reach the \
         fixed space by the inverse.</p>",
        escape(&record.from),
        escape(&record.to)
    );
    out += &table("parts", &["Part", "In all", "In detail"], &rows);
    let _ = write!(
        out,
        "<p class=\"note\">Parts are about the centre ({}, {}, {})\u{a0}mm; shears act first, then \
         scales, then rotations, then the translation.</p>\
         <details open><summary>Matrix, fixed world to moving world, RAS+ mm</summary>\
         <div class=\"code\"><button type=\"button\" class=\"copy\" hidden>Copy</button>\
         <pre id=\"matrix\">{}</pre></div></details></section>",
        fixed(cx, 1),
        fixed(cy, 1),
        fixed(cz, 1),
        matrix(&record.matrix)
    );
    out
}

/// A matrix as aligned text that programs can read.
fn matrix(rows: &[[f64; 4]; 4]) -> String {
    let line = |row: &[f64; 4]| {
        let words: Vec<_> = row.iter().map(|v| format!("{:>14.8}", v + 0.0)).collect();
        words.join(" ")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The stages, one a row.
pub(super) fn stages(record: &RunRecord) -> String {
    let rows: Vec<_> = record
        .stages
        .iter()
        .map(|stage| {
            let [x, y, z] = stage.spacing;
            let dof: Vec<_> = stage.dof.iter().map(ToString::to_string).collect();
            let spacing = if (x - y).abs() + (y - z).abs() < 1e-6 {
                number(x)
            } else {
                format!("{} \u{d7} {} \u{d7} {}", number(x), number(y), number(z))
            };
            vec![
                escape(&stage.name),
                spacing,
                thousands(stage.samples as f64),
                stage.bins.to_string(),
                dof.join(", "),
                format!("{} \u{2192} {}", stage.candidates[0], stage.candidates[1]),
                thousands(stage.evaluations as f64),
                fixed(stage.cost_start, 5),
                fixed(stage.cost_end, 5),
                seconds(stage.seconds),
            ]
        })
        .collect();
    let head = [
        "Stage",
        "#Spacing, mm",
        "#Samples",
        "#Bins",
        "#Degrees of freedom",
        "#Candidates",
        "#Evaluations",
        "#Cost, start",
        "#Cost, end",
        "#Time",
    ];
    table("stages", &head, &rows)
}
