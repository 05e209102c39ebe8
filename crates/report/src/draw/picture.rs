//! Pictures: 8-bit grey or palette images, embedded in a page as PNG.

use super::plane::Plane;
use super::window::Window;
use crate::error::{ReportError, Result};
use crate::text::escape;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::Write;

/// An 8-bit picture, rows from the top. Without a palette the values are grey levels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<u8>,
    pub(crate) palette: Option<Vec<[u8; 3]>>,
}

impl Picture {
    /// A grey picture from values between 0 and 1.
    pub(crate) fn grey(width: usize, height: usize, values: impl Iterator<Item = f32>) -> Self {
        let pixels = values.map(|v| (v.clamp(0.0, 1.0) * 255.0 + 0.5) as u8).collect();
        Self { width, height, pixels, palette: None }
    }

    /// A picture for a plane from the numbers of colours.
    pub(crate) fn coloured(plane: &Plane, pixels: Vec<u8>, palette: Vec<[u8; 3]>) -> Self {
        Self { width: plane.width(), height: plane.height(), pixels, palette: Some(palette) }
    }

    /// An image on a plane, from black to white over a window.
    pub(crate) fn of(plane: &Plane, values: &[f32], window: Window) -> Self {
        Self::grey(plane.width(), plane.height(), values.iter().map(|&v| window.unit(v)))
    }

    /// Greys from 0 to 1, `dim` times as bright, with some pixels in one of some colours: that of the number that `paint`
    /// gives for a place in the list of pixels.
    pub(crate) fn painted(
        [width, height]: [usize; 2],
        greys: impl Iterator<Item = f32>,
        dim: f32,
        colours: &[[u8; 3]],
        paint: impl Fn(usize) -> Option<usize>,
    ) -> Self {
        let first = 256 - colours.len();
        let pixel = |(i, grey): (usize, f32)| match paint(i) {
            Some(number) => (first + number) as u8,
            None => grey_index(grey * dim, colours.len()),
        };
        let pixels = greys.enumerate().map(pixel).collect();
        Self { width, height, pixels, palette: Some(grey_and(colours)) }
    }

    /// An image on a plane with the pixels of some lines in a colour.
    pub(crate) fn with_lines(
        plane: &Plane,
        values: &[f32],
        window: Window,
        lines: &[bool],
        colour: [u8; 3],
    ) -> Self {
        let greys = values.iter().map(|&v| window.unit(v));
        Self::painted(plane.size(), greys, 0.85, &[colour], |i| lines[i].then_some(0))
    }

    /// The compressed file.
    pub(crate) fn png(&self) -> Result<Vec<u8>> {
        let fail = |source| ReportError::Png { width: self.width, height: self.height, source };
        let mut bytes = Vec::new();
        let size = [self.width as u32, self.height as u32];
        let encoder = encoder(&mut bytes, size, self.palette.as_deref());
        let mut writer = encoder.write_header().map_err(fail)?;
        writer.write_image_data(&self.pixels).map_err(fail)?;
        writer.finish().map_err(fail)?;
        Ok(bytes)
    }

    /// The picture as an address that holds all of it.
    pub(crate) fn data_uri(&self) -> Result<String> {
        let mut uri = "data:image/png;base64,".to_owned();
        STANDARD.encode_string(self.png()?, &mut uri);
        Ok(uri)
    }

    /// The picture as HTML.
    pub(crate) fn html(&self, shown: &Shown<'_>) -> Result<String> {
        let Shown { id, group, alt, style, over, sides } = shown;
        let attribute = |name: &str, value: &str| match value {
            "" => String::new(),
            value => format!(" {name}=\"{}\"", escape(value)),
        };
        let letters: String = ["l", "r", "t", "b"]
            .iter()
            .zip(sides)
            .filter(|(_, text)| !text.is_empty())
            .map(|(class, text)| format!("<i class=\"{class}\">{text}</i>"))
            .collect();
        Ok(format!(
            "<div class=\"pic\"{}><img{} alt=\"{}\" width=\"{}\" height=\"{}\"{} src=\"{}\">{over}{letters}</div>",
            attribute("data-plane", group),
            attribute("id", id),
            escape(alt),
            self.width,
            self.height,
            attribute("style", style),
            self.data_uri()?,
        ))
    }
}

/// What packs pictures of 8 bits: of the colours of a palette, or grey.
pub(crate) fn encoder<W: Write>(
    sink: W,
    [width, height]: [u32; 2],
    palette: Option<&[[u8; 3]]>,
) -> png::Encoder<'static, W> {
    let mut encoder = png::Encoder::new(sink, width, height);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    if let Some(palette) = palette {
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_palette(palette.concat());
    } else {
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_filter(png::Filter::Paeth);
    }
    encoder
}

/// The attributes of a picture on a page besides its pixels.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown<'a> {
    /// Its identifier; may be empty.
    pub(crate) id: &'a str,
    /// The name by which the script finds pictures that belong together; may be empty.
    pub(crate) group: &'a str,
    /// Alternative text.
    pub(crate) alt: &'a str,
    /// Its style; may be empty.
    pub(crate) style: &'a str,
    /// HTML upon it.
    pub(crate) over: &'a str,
    /// The letters at its left, right, top and bottom; may be empty.
    pub(crate) sides: [String; 4],
}

/// A colour between stops, `t` from 0 to 1.
pub(crate) fn ramp(stops: &[[u8; 3]], t: f64) -> [u8; 3] {
    let last = stops.len() - 1;
    let position = t.clamp(0.0, 1.0) * last as f64;
    let low = (position.floor() as usize).min(last);
    let high = (low + 1).min(last);
    let part = position - low as f64;
    std::array::from_fn(|c| {
        let (a, b) = (f64::from(stops[low][c]), f64::from(stops[high][c]));
        (a + (b - a) * part).round() as u8
    })
}

const COLD: [[u8; 3]; 4] = [[0, 0, 0], [18, 62, 104], [58, 136, 200], [186, 224, 255]];
const WARM: [[u8; 3]; 4] = [[0, 0, 0], [108, 50, 16], [214, 112, 34], [255, 222, 160]];

/// 256 colours from blue over black to orange; 128 is zero.
pub(crate) fn diverging() -> Vec<[u8; 3]> {
    (0..256)
        .map(|i| {
            let t = (f64::from(i) - 128.0) / 127.0;
            if t < 0.0 { ramp(&COLD, -t) } else { ramp(&WARM, t) }
        })
        .collect()
}

/// The number among [`diverging`] colours of a value from -1 to 1, and beyond.
pub(crate) fn signed_level(value: f64) -> u8 {
    (128.0 + 127.0 * value.clamp(-1.0, 1.0)).round() as u8
}

/// The number among [`sequential`] colours of a value from 0 to 1, and beyond.
pub(crate) fn level(value: f64) -> u8 {
    (255.0 * value.clamp(0.0, 1.0)).round() as u8
}

/// Colours between stops as a style, from the left to the right.
pub(crate) fn gradient<'a>(stops: impl IntoIterator<Item = &'a [u8; 3]>) -> String {
    let colours = stops.into_iter().map(|[r, g, b]| format!("#{r:02x}{g:02x}{b:02x}"));
    format!("linear-gradient(90deg,{})", colours.collect::<Vec<_>>().join(","))
}

/// The colours of [`diverging`] as a style.
pub(crate) fn diverging_style() -> String {
    gradient(COLD[1..].iter().rev().chain(&WARM))
}

const SEQUENTIAL: [[u8; 3]; 7] = [
    [10, 8, 24],
    [52, 20, 92],
    [112, 32, 112],
    [176, 52, 92],
    [226, 96, 56],
    [248, 164, 52],
    [252, 244, 176],
];

/// 256 colours whose lightness grows evenly, from near black over violet and orange to light
/// yellow.
pub(crate) fn sequential() -> Vec<[u8; 3]> {
    (0..256).map(|i| ramp(&SEQUENTIAL, f64::from(i) / 255.0)).collect()
}

/// The colours of [`sequential`] as a style.
pub(crate) fn sequential_style() -> String {
    gradient(&SEQUENTIAL)
}

/// Grey levels with some colours at the end: value `v` below `256 - colours.len()` is a grey.
fn grey_and(colours: &[[u8; 3]]) -> Vec<[u8; 3]> {
    let greys = 256 - colours.len().min(255);
    let top = (greys - 1).max(1);
    let level = |i: usize| ((i * 255 + top / 2) / top) as u8;
    (0..greys).map(|i| [level(i); 3]).chain(colours.iter().copied()).collect()
}

/// The index of a grey, 0 to 1, in [`grey_and`] of this many colours.
fn grey_index(value: f32, colours: usize) -> u8 {
    (value.clamp(0.0, 1.0) * (255 - colours) as f32 + 0.5) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn png_holds_the_pixels() {
        let values = [0.0, 0.5, 1.0, f32::NAN, -1.0, 2.0];
        let picture = Picture::grey(3, 2, values.into_iter());
        let file = picture.png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
        let mut pixels = vec![0; 6];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height, info.color_type), (3, 2, png::ColorType::Grayscale));
        assert_eq!(pixels, [0, 128, 255, 0, 0, 255]);
        assert!(picture.data_uri().unwrap().starts_with("data:image/png;base64,iVBOR"));
    }

    #[test]
    fn palettes_are_whole() {
        assert_eq!(diverging().len(), 256);
        assert_eq!(diverging()[128], [0; 3]);
        assert_eq!(sequential().len(), 256);
        let greys = grey_and(&[[255, 0, 0]]);
        assert_eq!(
            (greys.len(), greys[0], greys[254], greys[255]),
            (256, [0; 3], [255; 3], [255, 0, 0])
        );
        assert_eq!(grey_index(1.0, 1), 254);
        assert_eq!(grey_index(f32::NAN, 1), 0);
    }

    #[test]
    fn an_empty_picture_is_an_error_not_a_panic() {
        assert!(Picture::grey(0, 0, std::iter::empty()).png().is_err());
    }
}
