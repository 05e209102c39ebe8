//! Sketches of the geometry of X-ray images: sources, detectors and the CT, from above and from the side.

use super::axis::ticks;
use super::key::Key;
use super::series::Shape;
use super::svg::{Anchor, COLOURS, Svg, along};
use crate::record::{GridRecord, ViewRecord};
use crate::text::number;
use voxalign_image::{Affine, Vector3};

/// Width of a sketch, and the largest height of the drawing.
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

/// Two sketches side by side of views and of the box of the CT, with the same scale; nothing where a place is not a number.
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
    let drawn = LOOKS.map(|(across, up, name)| {
        let height = extent[up] * scale + 2.0 * MARGIN;
        let middle = (low + high) / 2.0;
        let place = |p: &Vector3<f64>| {
            let x = WIDTH / 2.0 + (p[across] - middle[across]) * scale;
            [x, height / 2.0 - (p[up] - middle[up]) * scale]
        };
        let around = |all: &[Vector3<f64>]| along(&all.iter().map(place).collect::<Vec<_>>()) + "z";
        let names: Vec<&str> = views.iter().map(|v| v.name.as_str()).collect();
        let what = format!("{name}: sources and detectors of {}, and the CT", names.join(", "));
        let mut svg = Svg::new("", [WIDTH, height], &what);
        svg.text([WIDTH / 2.0, 16.0], Anchor::Middle, "class=\"name\"", name);
        if let Some(c) = ct {
            svg.open("class=\"box\"", "CT");
            for face in FACES {
                svg.path(&around(&face.map(|i| c[i])), "", "");
            }
            svg.close();
        }
        for (i, view) in views.iter().enumerate() {
            let corners = detector(view);
            let source = place(&Vector3::from(view.source));
            let rays = corners.map(|c| along(&[source, place(&c)])).concat();
            svg.open(&format!("class=\"s{}\"", i % COLOURS), &view.name);
            svg.path(&rays, "class=\"rays\"", "");
            svg.path(&around(&corners), "class=\"detector\"", "");
            svg.circle(source, 4.5, "", "");
            svg.close();
        }
        rule(&mut svg, height, scale, [AXES[across], AXES[up]]);
        svg.finish()
    });
    format!("<div class=\"two sketches\">{}</div>", drawn.concat())
}

/// The corners around each side of a box.
const FACES: [[usize; 4]; 6] =
    [[0, 1, 3, 2], [4, 5, 7, 6], [0, 1, 5, 4], [2, 3, 7, 6], [0, 2, 6, 4], [1, 3, 7, 5]];

/// A scale and the names of the axes.
fn rule(svg: &mut Svg, height: f64, scale: f64, [across, up]: [&str; 2]) {
    let most = 0.3 * WIDTH / scale;
    let length = ticks(0.0, 2.0 * most).into_iter().filter(|t| *t <= most).fold(0.0, f64::max);
    let (y, end) = (height - 12.0, 10.0 + length * scale);
    let path = format!("M10 {:.1}v6M10 {y:.1}H{end:.1}M{end:.1} {:.1}v6", y - 3.0, y - 3.0);
    svg.path(&path, "class=\"rule\"", "");
    let length = format!("{} mm", number(length));
    svg.text([end + 8.0, y + 4.0], Anchor::Start, "", &length);
    svg.text([WIDTH - 8.0, y + 4.0], Anchor::End, "", &format!("{across} \u{2192}"));
    svg.text([8.0, 16.0], Anchor::Start, "", &format!("{up} \u{2191}"));
}

/// The legend of sketches of these views.
pub(crate) fn key(views: &[&ViewRecord]) -> String {
    let names = views.iter().enumerate();
    let key = names.fold(Key::new(), |key, (i, v)| key.series(Shape::Curve, i, &v.name));
    key.line("var(--soft)", "the bounding box of the CT").html()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::xray::tests::arm;
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
