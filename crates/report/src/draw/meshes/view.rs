//! The 3D view of layers.

use super::encode::{LayerData, SceneData};
use super::reduce::Reduced;
use super::scale::{Bar, Scale};
use super::{Layer, bounds};
use crate::error::Result;
use crate::page::html::figure;
use crate::text::{escape, number, thousands};
use std::fmt::Write as _;

/// Most faces, or points of curves, of all layers of a scene.
const MOST: usize = 90_000;

/// Layers in one view.
#[derive(Debug, Clone, Default)]
pub struct Scene<'a> {
    /// The layers.
    pub layers: Vec<Layer<'a>>,
    /// The colour scale of the values of layers; without one they are not shown.
    pub scale: Option<Scale>,
}

impl Scene<'_> {
    /// The figure, as HTML with its script: rotated by the mouse, moved with Shift, zoomed by the wheel; layers can
    /// be hidden and made translucent. Empty where no layer has a vertex. The caption is HTML and explains how to
    /// read it; a note on the reduction of large meshes is appended.
    ///
    /// # Errors
    /// [`ReportError::MeshValues`](crate::ReportError::MeshValues),
    /// [`ReportError::OutOfMemory`](crate::ReportError::OutOfMemory).
    pub fn figure(&self, id: &str, title: &str, caption: &str) -> Result<String> {
        self.layers.iter().try_for_each(Layer::check)?;
        let Some([origin, high]) = bounds(&self.layers) else { return Ok(String::new()) };
        let step = ((high - origin).max() / 65535.0).max(1e-9);
        let bar = self.scale.as_ref().map(|scale| scale.of(&self.layers));
        let with_values = self.layers.iter().any(|l| l.values.is_some());
        let mut data = SceneData {
            origin: origin.into(),
            step,
            colours: bar.as_ref().map(Bar::colours).unwrap_or_default(),
            layers: Vec::with_capacity(self.layers.len()),
        };
        let mut rows = String::new();
        let mut less = Vec::new();
        for (layer, most) in self.layers.iter().zip(shares(&self.layers)) {
            let reduced = Reduced::of(layer, most)?;
            data.layers.push(LayerData::new(layer, &reduced, bar.as_ref(), (origin, step))?);
            rows += &row(layer, bar.as_ref());
            if reduced.is_reduced {
                let shown = if reduced.faces.is_empty() {
                    reduced.vertices.len()
                } else {
                    reduced.faces.len()
                };
                less.push(format!(
                    "{} of {} of {}",
                    thousands(shown as f64),
                    amount(layer),
                    escape(&layer.name)
                ));
            }
        }
        let mut caption = caption.to_owned();
        if !less.is_empty() {
            let _ = write!(
                caption,
                " Large meshes are reduced for this view: {}; all figures are of the full meshes.",
                less.join(", ")
            );
        }
        // `<` cannot end the script early.
        let json = serde_json::to_string(&data).unwrap_or_default().replace('<', "\\u003c");
        let key = bar.filter(|_| with_values).map_or_else(String::new, |bar| bar.key());
        let buttons: String = ["Front", "Back", "Right", "Left", "Top", "Bottom"]
            .map(|name| format!("<button type=\"button\" data-look=\"{name}\">{name}</button>"))
            .concat();
        let name = escape(title);
        let body = format!(
            "<noscript><p class=\"note\">With JavaScript enabled, these meshes are shown in 3D here.</p></noscript>\
             <div class=\"view3d\" hidden><div class=\"tools\"><fieldset aria-label=\"Seen from\">{buttons}\
             <button type=\"button\" data-look=\"\">Reset</button></fieldset></div>\
             <div class=\"scene\"><canvas tabindex=\"0\" role=\"img\" aria-label=\"{name}, in 3D\"></canvas>\
             <p class=\"hint\">drag to rotate, Shift-drag to pan, click and scroll to zoom</p></div>{key}\
             <div class=\"layers\">{rows}</div>\
             <script type=\"application/json\">{json}</script></div><script>{}</script>",
            include_str!("view.js")
        );
        Ok(figure(id, title, &body, caption.trim()).html)
    }
}

/// The most faces or points that each layer may have: an equal share, and the unused shares of smaller ones.
fn shares(layers: &[Layer<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..layers.len()).collect();
    order.sort_by_key(|&i| size(&layers[i]));
    let (mut left, mut out) = (MOST, vec![0; layers.len()]);
    for (done, &i) in order.iter().enumerate() {
        out[i] = left / (layers.len() - done);
        left -= out[i].min(size(&layers[i]));
    }
    out
}

/// Its faces, points along lines, or points.
fn size(layer: &Layer<'_>) -> usize {
    let mesh = layer.mesh;
    match (mesh.faces().len(), mesh.line_vertices().len()) {
        (0, 0) => mesh.vertices().len(),
        (0, points) => points,
        (faces, _) => faces,
    }
}

/// A description of the size of a layer.
fn amount(layer: &Layer<'_>) -> String {
    let (mesh, count) = (layer.mesh, thousands(size(layer) as f64));
    match (mesh.faces().len(), mesh.line_ends().len()) {
        (0, 0) => format!("{count} points"),
        (0, _) => format!("{count} points along lines"),
        _ => format!("{count} triangles"),
    }
}

/// The switch of a layer, and how opaque it is.
fn row(layer: &Layer<'_>, bar: Option<&Bar>) -> String {
    let mesh = layer.mesh;
    let checked = if layer.shown { " checked" } else { "" };
    let name = escape(&layer.name);
    let count = |n: usize, what: &str| {
        format!("{} {what}{}", thousands(n as f64), if n == 1 { "" } else { "s" })
    };
    let count = match (mesh.faces().len(), mesh.line_ends().len()) {
        (0, 0) => count(mesh.vertices().len(), "point"),
        (0, lines) => count(lines, "line"),
        (faces, _) => count(faces, "triangle"),
    };
    let swatch = match bar.filter(|_| layer.values.is_some()) {
        Some(bar) => bar.style(),
        None => layer.colour.hex().to_owned(),
    };
    let opacity = if mesh.faces().is_empty() {
        String::new()
    } else {
        format!(
            "<input type=\"range\" min=\"5\" max=\"100\" value=\"{}\" aria-label=\"Opacity of {name}\">",
            number((layer.opacity.clamp(0.05, 1.0) * 100.0).round())
        )
    };
    format!(
        "<div><label title=\"{name}\"><input type=\"checkbox\"{checked}><span class=\"swatch\" style=\"background:{swatch}\">\
         </span><span class=\"name\">{name}</span><small>{count}</small></label>{opacity}</div>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReportError;
    use crate::draw::meshes::{Colour, segments};
    use voxalign_image::{Mesh, Vector3};

    fn square() -> Mesh {
        let at = [[0., 0., 0.], [655.35, 0., 0.], [0., 655.35, 0.], [655.35, 655.35, 0.]];
        Mesh::new(at.map(Vector3::from).into(), vec![[0, 1, 2], [1, 3, 2]]).unwrap()
    }

    #[test]
    fn a_scene_holds_its_layers_and_loads_nothing() {
        let mesh = square();
        let pairs = segments(&[Vector3::zeros(), Vector3::x()], &[Vector3::y()]).unwrap();
        assert_eq!((pairs.vertices().len(), pairs.lines().len()), (2, 1));
        let values = [0.0, 1.0, 2.0, f32::NAN];
        let layers = vec![
            Layer::new("a </script> b", &mesh, Colour::Blue).with_values(&values),
            Layer::new("pairs", &pairs, Colour::Red).hidden(),
        ];
        let scene = Scene { layers, scale: Some(Scale::new("d", "mm")) };
        let html = scene.figure("fig-3d", "Surfaces", "What it is.").unwrap();
        assert_eq!(html, scene.figure("fig-3d", "Surfaces", "What it is.").unwrap());
        // Positions are steps of 0.01 mm: 0 and 65535; values 0, 127, 254 and none.
        for part in [
            "\"step\":0.01,",
            "AAAAAAAA//8AAAAAAAD//wAA/////wAA",
            "AH/+/w==",
            "class=\"ramp\"",
            "1 line<",
        ] {
            assert!(html.contains(part), "{part} is not in\n{html}");
        }
        assert_eq!(html.matches("</script>").count(), 2);
        assert_eq!(html.matches(" checked").count(), 1);
        for part in ["://", "src=", "NaN", "What it is. The view"] {
            assert!(!html.contains(part), "{part}");
        }
        let wrong = Scene {
            layers: vec![Layer::new("a", &mesh, Colour::Blue).with_values(&values[1..])],
            scale: None,
        };
        assert!(matches!(
            wrong.figure("a", "b", "c"),
            Err(ReportError::MeshValues { found: 3, vertices: 4, .. })
        ));
        assert_eq!(Scene::default().figure("a", "b", "c").unwrap(), "");
    }

    #[test]
    fn shares_are_even_and_none_is_wasted() {
        let points = |n: usize| Mesh::new(vec![Vector3::zeros(); n], vec![]).unwrap();
        let all = [points(100_000), points(100), points(200_000)];
        let layers: Vec<_> = all.iter().map(|m| Layer::new("m", m, Colour::Grey)).collect();
        assert_eq!(shares(&layers), [44_950, 30_000, 44_950]);
        let html = Scene { layers, scale: None }.figure("a", "b", "").unwrap();
        assert!(html.contains("of 200\u{202f}000 points of m"), "{}", &html[html.len() - 400..]);
    }
}
