//! Encoding of layers in a page: positions of 16 bits per axis, indices of 16 bits, values of 8, in base64
//! within JSON.

use super::Layer;
use super::reduce::Reduced;
use super::scale::Bar;
use crate::error::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use voxalign_image::{Vector3, memory};

/// All of a scene, for its script.
#[derive(Debug, Serialize)]
pub(super) struct SceneData {
    /// Where the position 0 is, mm.
    pub(super) origin: [f64; 3],
    /// The length of a step of positions, mm.
    pub(super) step: f64,
    /// The colours of values, from the low end to the high one.
    pub(super) colours: Vec<[u8; 3]>,
    pub(super) layers: Vec<LayerData>,
}

/// One layer.
#[derive(Debug, Serialize)]
pub(super) struct LayerData {
    kind: &'static str,
    colour: &'static str,
    opacity: f64,
    shown: bool,
    /// Three 16-bit numbers a vertex, little endian.
    vertices: String,
    /// Three 16-bit indices a face.
    faces: String,
    /// The number of points of each line, 32 bits; lines have their points one after the other.
    lines: String,
    /// A byte a vertex; 255 where there is none.
    values: String,
}

impl LayerData {
    pub(super) fn new(
        layer: &Layer<'_>,
        reduced: &Reduced,
        bar: Option<&Bar>,
        (origin, step): (Vector3<f64>, f64),
    ) -> Result<Self> {
        let place = |v: f64| (v.round().clamp(0.0, 65535.0) as u16).to_le_bytes();
        let vertices = reduced
            .vertices
            .iter()
            .flat_map(|v| <[f64; 3]>::from((v - origin) / step))
            .flat_map(place);
        let index = |&i: &u32| (i.min(65535) as u16).to_le_bytes();
        let lengths = reduced.lines.iter().flat_map(|l| (l.len() as u32).to_le_bytes());
        let values = reduced.values.iter().filter_map(|&v| Some(bar?.byte(v)));
        let kind = match (reduced.are_points, reduced.faces.is_empty()) {
            (true, _) => "points",
            (_, true) => "lines",
            _ => "surface",
        };
        Ok(Self {
            kind,
            colour: layer.colour.hex(),
            opacity: layer.opacity.clamp(0.0, 1.0),
            shown: layer.shown,
            vertices: base64(6 * reduced.vertices.len(), vertices)?,
            faces: base64(6 * reduced.faces.len(), reduced.faces.iter().flatten().flat_map(index))?,
            lines: base64(4 * reduced.lines.len(), lengths)?,
            values: base64(reduced.values.len(), values)?,
        })
    }
}

fn base64(len: usize, bytes: impl Iterator<Item = u8>) -> Result<String> {
    let mut all = memory::room(len)?;
    all.extend(bytes);
    Ok(STANDARD.encode(all))
}
