//! Charts, pictures and slices: plain data in, SVG or HTML out.
//!
//! Charts are SVG texts. [`Plot`] draws series of points over a pair of [axes](Axis), which are linear or logarithmic and
//! find their round marks themselves; [`beside`] sets plots in a row; [`Rows`] draws bars and what ran when. A further
//! chart is made of an [`Svg`] and of what [`axis`] has. [`Key`] says in HTML what colours mean, where a chart does not.
//! Their colours are those of a style sheet, [`STYLE`], which pages hold once; [`standalone`] makes a file of a chart.
//!
//! [`Animation`] makes an animated PNG of frames, as they come.
//!
//! [`meshes`] are figures of surfaces and curves. All else here draws the pictures of reports: planes through images,
//! windows of intensities, edges, contours.
//!
//! ```
//! use voxalign_report::draw::{Axis, KeyPlace, Plot, Point, Scale, Series, Shape, standalone};
//!
//! let times = [(64.0, 0.8e-3), (128.0, 6.1e-3), (256.0, 55e-3)];
//! let plot = Plot {
//!     what: "Time over the size".into(),
//!     across: Axis::new("voxels along each side"),
//!     up: Axis { scale: Scale::Logarithmic, ..Axis::new("time, s") },
//!     size: [640.0, 320.0],
//!     series: vec![Series {
//!         shape: Shape::Line,
//!         name: "smoothing".into(),
//!         points: times.iter().map(|&(x, y)| Point::at(x, y)).collect(),
//!         ..Series::default()
//!     }],
//!     key: KeyPlace::Right,
//!     ..Plot::default()
//! };
//! let svg = plot.svg().ok_or("nothing to draw")?;
//! assert!(svg.starts_with("<svg") && svg.contains("smoothing"));
//! assert!(standalone(&svg).contains("xmlns"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod animation;
pub mod axis;
pub(crate) mod body;
pub(crate) mod contour;
pub(crate) mod edges;
pub(crate) mod field;
pub(crate) mod fronts;
pub(crate) mod gallery;
pub(crate) mod intensity;
pub(crate) mod jacobian;
mod key;
pub(crate) mod mask;
pub mod meshes;
pub(crate) mod picture;
pub(crate) mod placed;
pub(crate) mod plane;
mod plot;
mod rows;
mod series;
pub(crate) mod sketch;
pub(crate) mod slices;
pub(crate) mod studio;
mod svg;
mod timeline;
pub(crate) mod window;
pub mod xray;

pub use animation::{Animation, AnimationOptions, FrameColours};
pub use axis::{Axis, Marks, Scale};
pub use key::Key;
pub use plot::{Band, KeyPlace, Plot, beside};
pub use rows::{RowBox, Rows};
pub use series::{Point, Series, Shape};
pub use svg::{Anchor, COLOURS, Svg, along, colour};
pub use timeline::{Timeline, TimelineTask};

use crate::error::{ReportError, Result};
use voxalign_image::Grid;

/// The style sheet of charts, with their colours for light and dark windows.
pub const STYLE: &str = include_str!("chart.css");

/// A chart as a file of its own: the text of an SVG with its style sheet within.
#[must_use]
pub fn standalone(svg: &str) -> String {
    let begin = "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" ";
    match svg.strip_prefix("<svg ").and_then(|rest| rest.split_once('>')) {
        Some((attributes, rest)) => format!("{begin}{attributes}><style>{STYLE}</style>{rest}"),
        None => svg.to_owned(),
    }
}

/// Checks that images, each with its role, are on the grid of the image called `of`.
pub(crate) fn check_grids(
    of: &'static str,
    grid: &Grid,
    images: &[(&'static str, &Grid)],
) -> Result<()> {
    let tolerance = grid.spacing().into_iter().fold(f64::INFINITY, f64::min) * 0.01;
    match images.iter().find(|(_, other)| !other.approx_eq(grid, tolerance)) {
        None => Ok(()),
        Some((role, found)) => {
            let (found, grid) = (found.to_string(), grid.to_string());
            Err(ReportError::OtherGrid { role, found, of, grid })
        }
    }
}
