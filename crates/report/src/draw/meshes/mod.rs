//! Meshes in reports: as lines over slices of an image, and in a 3D view that opens offline.
//!
//! A [`Layer`] is a mesh with a name and a colour: a surface, curves, or points, as the mesh has them. A [`Scene`] shows
//! layers in 3D, turned by the mouse; [`Sections`] draw where layers cut slices. Each becomes a figure, HTML for a page
//! that has the style sheet and, after its last section, nothing else: figures bring the script that they need.
//!
//! ```
//! use voxalign_image::{Grid, Mesh, Vector3, Volume};
//! use voxalign_report::meshes::{Colour, Layer, Row, Scale, Scene, Sections};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let corners = [[2., 2., 2.], [12., 2., 2.], [2., 12., 2.], [2., 2., 12.]].map(Vector3::from);
//! let mesh = Mesh::new(corners.into(), vec![[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])?;
//! let distances = [0.5, 1.5, 0.0, f32::NAN];
//!
//! let layers = vec![
//!     Layer::new("fixed", &mesh, Colour::Blue).with_opacity(0.4),
//!     Layer::new("moving after", &mesh, Colour::Orange).with_values(&distances),
//! ];
//! let scale = Scale::new("distance", "mm");
//! let scene = Scene { layers, scale: Some(scale) };
//! let html = scene.figure("fig-surfaces", "Surfaces", "What it shows, as HTML.")?;
//! assert!(html.starts_with("<figure id=\"fig-surfaces\""));
//!
//! let image = Volume::filled(Grid::axis_aligned([16, 16, 16], [1.0; 3])?, 1.0);
//! let layers = vec![Layer::new("fixed", &mesh, Colour::Blue)];
//! let sections = Sections { rows: vec![Row { name: "Fixed".into(), image: &image, layers }] };
//! let html = sections.figure("fig-sections", "Sections", "Lines are cuts of surfaces.")?;
//! assert!(html.contains("<path"));
//! # Ok(())
//! # }
//! ```

mod cut;
mod encode;
mod reduce;
mod scale;
mod sections;
mod view;

pub use scale::Scale;
pub(crate) use sections::overlay;
pub use sections::{Row, Sections};
pub use view::Scene;

use crate::error::{ReportError, Result};
use voxalign_image::{Mesh, Vector3, memory};

/// The colour of a layer, one that is visible on black and next to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Colour {
    /// As reports draw what is fixed.
    Blue,
    /// As reports draw what moves.
    Orange,
    /// Another one.
    Teal,
    /// Another one.
    Violet,
    /// Another one.
    Red,
    /// Another one.
    Yellow,
    /// For what is in the background.
    Grey,
}

impl Colour {
    /// All of them, in an order in which neighbours differ.
    pub const ALL: [Self; 7] =
        [Self::Blue, Self::Orange, Self::Teal, Self::Violet, Self::Red, Self::Yellow, Self::Grey];

    /// The colour of a layer by its number: after the last the first again, grey left out.
    #[must_use]
    pub fn of(number: usize) -> Self {
        Self::ALL[number % (Self::ALL.len() - 1)]
    }

    /// As a style has it.
    pub(crate) fn hex(self) -> &'static str {
        match self {
            Self::Blue => "#56b4ff",
            Self::Orange => "#ff9d42",
            Self::Teal => "#43d6b5",
            Self::Violet => "#c99bff",
            Self::Red => "#ff6f7f",
            Self::Yellow => "#e3dc5a",
            Self::Grey => "#b4bcc6",
        }
    }
}

/// A mesh as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer<'a> {
    /// Its name in keys.
    pub name: String,
    /// The mesh: its faces as a surface, its lines as curves; where it has neither, its vertices as points. World, mm.
    pub mesh: &'a Mesh,
    /// Its colour.
    pub colour: Colour,
    /// A value for each vertex, by which surfaces, curves and points are coloured in 3D; grey where it is not finite.
    pub values: Option<&'a [f32]>,
    /// From 0, where it cannot be seen, to 1, where nothing shows through; of surfaces in 3D, where it can be changed; upon slices
    /// lines of less than 1 are thin.
    pub opacity: f64,
    /// Whether it is shown in 3D before anybody asks for it.
    pub shown: bool,
}

impl<'a> Layer<'a> {
    /// A layer that is shown, in one colour, and opaque.
    #[must_use]
    pub fn new(name: impl Into<String>, mesh: &'a Mesh, colour: Colour) -> Self {
        Self { name: name.into(), mesh, colour, values: None, opacity: 1.0, shown: true }
    }

    /// The same, coloured by a value for each vertex.
    #[must_use]
    pub fn with_values(self, values: &'a [f32]) -> Self {
        Self { values: Some(values), ..self }
    }

    /// The same, of another opacity.
    #[must_use]
    pub fn with_opacity(self, opacity: f64) -> Self {
        Self { opacity, ..self }
    }

    /// The same, not shown until it is asked for.
    #[must_use]
    pub fn hidden(self) -> Self {
        Self { shown: false, ..self }
    }

    fn check(&self) -> Result<()> {
        match self.values {
            Some(values) if values.len() != self.mesh.vertices().len() => {
                Err(ReportError::MeshValues {
                    name: self.name.clone(),
                    found: values.len(),
                    vertices: self.mesh.vertices().len(),
                })
            }
            _ => Ok(()),
        }
    }
}

/// Short lines from each point of one list to that of another, such as corresponding landmarks, up to the length of
/// the shorter list.
///
/// # Errors
/// [`ReportError::Mesh`] where a point is not finite or there are too many; [`ReportError::OutOfMemory`].
pub fn segments(from: &[Vector3<f64>], to: &[Vector3<f64>]) -> Result<Mesh> {
    let pairs = from.len().min(to.len());
    let vertices = from.iter().zip(to).flat_map(|(&a, &b)| [a, b]);
    let mut all = memory::room(2 * pairs)?;
    all.extend(vertices);
    let ends = memory::collected((1..=pairs).map(|i| 2 * i))?;
    let indices = memory::collected((0..2 * pairs).map(|i| i as u32))?;
    Ok(Mesh::new(all, Vec::new())?.with_lines(ends, indices)?)
}

/// The smallest and the largest coordinates of all layers, mm; nothing where none has a vertex.
fn bounds<'a>(layers: impl IntoIterator<Item = &'a Layer<'a>>) -> Option<[Vector3<f64>; 2]> {
    let all = layers.into_iter().filter_map(|layer| layer.mesh.bounds());
    all.reduce(|[a, b], [low, high]| [a.inf(&low), b.sup(&high)])
}
