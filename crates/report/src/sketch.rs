//! Sketches of how X-ray images were taken: sources, detectors and the CT, from above and from the side.

use crate::chart::ticks;
use crate::html::{escape, number};
use crate::record::GridRecord;
use crate::xray::ViewRecord;
use std::fmt::Write as _;
use voxalign_image::{Affine, Vector3};

/// Colours that there are in the style sheet.
const COLOURS: usize = 6;
/// Width of a sketch, and the most height of what is drawn.
const WIDTH: f64 = 420.0;
const MOST: f64 = 330.0;
/// Room on all sides.
const MARGIN: f64 = 34.0;

/// The axes of the room to the right and upwards, and how it is looked at.
const LOOKS: [(usize, usize, &str); 2] = [(0, 1, "From above"), (1, 2, "From the side")];
const AXES: [&str; 3] = ["x", "y", "z"];

/// The corners of a grid in the room, where a pose maps the room to the world of the grid, mm; none where the pose
/// cannot be inverted.
pub(crate) fn corners(grid: &GridRecord, pose: &[[f64; 4]; 3]) -> Option<[Vector3<f64>; 8]> {
    let [x, y, z, _] = grid.index_to_world;
    let to_world: Affine = Affine::from_rows([x, y, z]);
    let pose: Affine = Affine::from_rows(*pose);
    let to_room = pose.inverse().ok()?;
    Some(std::array::from_fn(|i| {
        let index =
            Vector3::from_fn(|a, _| if i >> a & 1 == 0 { -0.5 } else { grid.dims[a] as f64 - 0.5 });
        to_room.apply(to_world.apply(index))
    }))
}

/// The corners of a detector, around it, mm.
fn detector(view: &ViewRecord) -> [Vector3<f64>; 4] {
    let [origin, column, row] = [view.origin, view.column, view.row].map(Vector3::from);
    let [w, h] = view.size.map(|n| n as f64 - 0.5);
    [(-0.5, -0.5), (w, -0.5), (w, h), (-0.5, h)].map(|(c, r)| origin + column * c + row * r)
}

/// Two sketches side by side of views and of the box of the CT, with the same scale; nothing where a place is no number.
pub(crate) fn sketches(views: &[&ViewRecord], ct: Option<&[Vector3<f64>; 8]>) -> String {
    let mut low = Vector3::repeat(f64::INFINITY);
    let mut high = -low;
    let mut finite = !views.is_empty();
    let sources = views.iter().map(|v| Vector3::from(v.source));
    let all = sources.chain(views.iter().flat_map(|v| detector(v)));
    for place in all.chain(ct.into_iter().flatten().copied()) {
        finite &= place.iter().all(|v| v.is_finite());
        low = low.inf(&place);
        high = high.sup(&place);
    }
    let extent = (high - low).map(|v| v.max(1e-3));
    if !finite || extent.iter().any(|v| !v.is_finite()) {
        return String::new();
    }
    let scale = LOOKS.iter().fold(f64::INFINITY, |scale, &(across, up, _)| {
        scale.min((WIDTH - 2.0 * MARGIN) / extent[across]).min(MOST / extent[up])
    });
    let mut out = "<div class=\"two sketches\">".to_owned();
    for (across, up, name) in LOOKS {
        let height = extent[up] * scale + 2.0 * MARGIN;
        let middle = (low + high) / 2.0;
        let place = |p: &Vector3<f64>| {
            let x = WIDTH / 2.0 + (p[across] - middle[across]) * scale;
            let y = height / 2.0 - (p[up] - middle[up]) * scale;
            format!("{x:.1} {y:.1}")
        };
        let around = |all: &[Vector3<f64>]| all.iter().map(place).collect::<Vec<_>>().join("L");
        let names: Vec<String> = views.iter().map(|v| escape(&v.name)).collect();
        let _ = write!(
            out,
            "<svg class=\"chart sketch\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
             aria-label=\"{name}: sources and detectors of {}, and the CT\">\
             <text class=\"name\" x=\"{:.0}\" y=\"16\" text-anchor=\"middle\">{name}</text>",
            names.join(", "),
            WIDTH / 2.0
        );
        if let Some(c) = ct {
            out.push_str("<g class=\"box\"><title>CT</title>");
            for [a, b, c, d] in FACES.map(|face| face.map(|i| c[i])) {
                let _ = write!(out, "<path d=\"M{}z\"/>", around(&[a, b, c, d]));
            }
            out.push_str("</g>");
        }
        for (i, view) in views.iter().enumerate() {
            let corners = detector(view);
            let source = Vector3::from(view.source);
            let from = place(&source);
            let (x, y) = from.split_once(' ').unwrap_or(("0", "0"));
            let rays: Vec<String> =
                corners.iter().map(|c| format!("M{from}L{}", place(c))).collect();
            let _ = write!(
                out,
                "<g class=\"s{}\"><title>{}</title><path class=\"rays\" d=\"{}\"/>\
                 <path class=\"detector\" d=\"M{}z\"/><circle cx=\"{x}\" cy=\"{y}\" r=\"4.5\"/></g>",
                i % COLOURS,
                names[i],
                rays.concat(),
                around(&corners),
            );
        }
        out += &rule(height, scale, [AXES[across], AXES[up]]);
        out.push_str("</svg>");
    }
    out + "</div>"
}

/// The corners around each side of a box.
const FACES: [[usize; 4]; 6] =
    [[0, 1, 3, 2], [4, 5, 7, 6], [0, 1, 5, 4], [2, 3, 7, 6], [0, 2, 6, 4], [1, 3, 7, 5]];

/// A scale and the names of the axes.
fn rule(height: f64, scale: f64, [across, up]: [&str; 2]) -> String {
    let most = 0.3 * WIDTH / scale;
    let length = ticks(0.0, 2.0 * most).into_iter().filter(|t| *t <= most).fold(0.0, f64::max);
    let (y, end) = (height - 12.0, 10.0 + length * scale);
    format!(
        "<path class=\"rule\" d=\"M10 {:.1}v6M10 {y:.1}H{end:.1}M{end:.1} {:.1}v6\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\">{} mm</text>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{across} \u{2192}</text>\
         <text x=\"8\" y=\"16\">{up} \u{2191}</text>",
        y - 3.0,
        y - 3.0,
        end + 8.0,
        y + 4.0,
        number(length),
        WIDTH - 8.0,
        y + 4.0,
    )
}

/// A name with a colour, for a key.
pub(crate) fn mark(colour: usize, name: &str) -> String {
    format!(
        "<span><span class=\"line\" style=\"background:var(--s{colour});vertical-align:middle\"></span>\
         &nbsp; {}</span>",
        escape(name)
    )
}

/// What is what in sketches of these views.
pub(crate) fn key(views: &[&ViewRecord]) -> String {
    let mut out = "<div class=\"key\">".to_owned();
    for (i, view) in views.iter().enumerate() {
        out += &mark(i % COLOURS, &view.name);
    }
    out + "<span><span class=\"line\" style=\"background:var(--soft);vertical-align:middle\"></span>&nbsp; \
           the box of the CT</span></div>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xray::tests::arm;
    use voxalign_image::Grid;

    #[test]
    fn sketches_show_source_detector_and_box() {
        let grid = Grid::axis_aligned([10, 20, 30], [2.0; 3]).unwrap();
        let record = GridRecord::from(&grid);
        let pose = [[1.0, 0.0, 0.0, 5.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
        let found = corners(&record, &pose).unwrap();
        assert_eq!(found[0], Vector3::new(-6.0, -1.0, -1.0));
        assert_eq!(found[7], Vector3::new(14.0, 39.0, 59.0));
        assert_eq!(corners(&record, &[[0.0; 4]; 3]), None);

        let views = [
            ViewRecord::new("<a>", &arm(0.0, [30, 20])),
            ViewRecord::new("b", &arm(90.0, [30, 20])),
        ];
        let both: Vec<&ViewRecord> = views.iter().collect();
        let svg = sketches(&both, Some(&found)) + &key(&both);
        assert!(svg.contains("&lt;a&gt;") && !svg.contains("<a>") && !svg.contains("NaN"));
        let count = |text: &str| svg.matches(text).count();
        assert_eq!([count("<svg"), count("</svg>"), count("<circle")], [2, 2, 4]);
        assert_eq!([count("class=\"detector\""), count("class=\"box\"")], [4, 2]);
        assert!(
            svg.contains("500 mm<") || svg.contains("200 mm<") || svg.contains("250 mm<"),
            "{svg}"
        );

        let nowhere = ViewRecord { source: [f64::NAN; 3], ..views[0].clone() };
        assert_eq!(sketches(&[&nowhere], None), "");
        assert_eq!(sketches(&[], None), "");
    }
}
