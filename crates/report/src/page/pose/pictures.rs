//! The pictures of a report on a pose: X-ray images beside simulated ones, and with their edges.

use super::{PoseRecord, PoseViewRecord};
use crate::draw::Key;
use crate::draw::edges::edges;
use crate::draw::gallery::columns;
use crate::draw::picture::Picture;
use crate::draw::window::Window;
use crate::draw::xray::{self, Pixels, ViewRecord, XrayPicture};
use crate::error::Result;
use crate::page::drr::{MANY, PIXELS};
use crate::text::{escape, fixed, measured};
use std::fmt::Write as _;

/// Colour of the edges of simulated images.
const EDGE: [u8; 3] = [255, 170, 20];
/// Colour of pixels that were left out.
const LEFT_OUT: [u8; 3] = [170, 60, 200];
/// The longest side of a picture with edges, pixels: lines of one pixel have to be seen.
const PIXELS_EDGES: usize = 512;

/// The images of a view, all of the same part of the detector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PosePictures<'a> {
    /// The X-ray image.
    pub xray: XrayPicture<'a>,
    /// The image that is simulated for the start.
    pub before: XrayPicture<'a>,
    /// The image that is simulated for the result.
    pub after: XrayPicture<'a>,
    /// 1 where the X-ray image shows what the CT does not and was left out, else 0; none where nothing was.
    pub left_out: Option<XrayPicture<'a>>,
}

/// A view as it is drawn.
struct Drawn<'a> {
    record: &'a PoseViewRecord,
    /// What the pictures show: the detector, or the region of it that counted.
    geometry: ViewRecord,
    /// The region that counted, upon pictures of the whole detector.
    region: Option<[usize; 4]>,
    images: [Pixels; 3],
    /// The part of each pixel of the X-ray image that was left out, where some were.
    left_out: Option<Pixels>,
    /// Of the X-ray image, and of both simulated ones.
    windows: [Window; 2],
}

impl<'a> Drawn<'a> {
    /// The region that counted alone, where there is one and `whole` is not asked for; else the whole detector.
    fn new(
        record: &'a PoseViewRecord,
        pictures: &PosePictures<'_>,
        most: usize,
        whole: bool,
    ) -> Result<Self> {
        let PosePictures { xray, before, after, left_out } = pictures;
        let part = |picture: &XrayPicture<'_>, region| picture.part(region, record.view.size);
        let parts = record.region.filter(|_| !whole).and_then(|region| {
            let all = [part(xray, region)?, part(before, region)?, part(after, region)?];
            Some((region, all, left_out.and_then(|picture| part(&picture, region))))
        });
        let (geometry, region, [xray, before, after], left_out) = match &parts {
            Some((region, all, left_out)) => {
                let left_out = left_out.as_ref().map(|part| part.picture());
                (record.view.part(*region), None, all.each_ref().map(|p| p.picture()), left_out)
            }
            None => (record.view.clone(), record.region, [*xray, *before, *after], *left_out),
        };
        let images = [xray.reduced(most)?, before.reduced(most)?, after.reduced(most)?];
        let left_out = left_out.map(|picture| picture.reduced(most)).transpose()?;
        let counted = |i: usize| images[i].counted(region, geometry.size);
        let simulated: Vec<f32> = counted(1).into_iter().chain(counted(2)).collect();
        let windows = [Window::robust(&counted(0)), Window::robust(&simulated)];
        Ok(Self { record, geometry, region, images, left_out, windows })
    }

    fn window(&self, image: usize) -> Window {
        self.windows[image.min(1)]
    }

    /// The X-ray image with the edges of a simulated image of as many pixels; the X-ray image alone where it has others.
    fn overlay(&self, image: usize) -> Picture {
        let (xray, simulated) = (&self.images[0], &self.images[image]);
        let units: Vec<f32> = simulated.unit(self.window(image)).collect();
        let mut lines = edges(&units, simulated.width, simulated.height);
        if (simulated.width, simulated.height) != (xray.width, xray.height) {
            lines = vec![false; xray.values.len()];
        }
        let left_out = |i: usize| {
            self.left_out.as_ref().and_then(|r| r.values.get(i)).is_some_and(|part| *part > 0.5)
        };
        let (size, greys) = ([xray.width, xray.height], xray.unit(self.window(0)));
        Picture::painted(size, greys, 0.85, &[LEFT_OUT, EDGE], |i| match lines[i] {
            true => Some(1),
            false => left_out(i).then_some(0),
        })
    }
}

/// The picture of the whole X-ray image, next to those of the region that counted.
const WHOLE: usize = 9;

/// A grid of pictures: a row for each view, under these headings; [whole images](WHOLE) are those of `wholes`.
fn grid(
    (views, wholes): (&[Drawn<'_>], &[Drawn<'_>]),
    id: &str,
    headings: &[(usize, &str)],
    note: impl Fn(&Drawn<'_>) -> String,
    draw: impl Fn(&Drawn<'_>, usize) -> Picture,
) -> Result<String> {
    let heads: Vec<&str> = headings.iter().map(|(_, name)| *name).collect();
    let mut out = columns(&heads, "minmax(0,1fr)");
    for (i, view) in views.iter().enumerate() {
        let _ = write!(
            out,
            "<p class=\"row\">{}<small>{}</small></p>",
            escape(&view.geometry.name),
            note(view)
        );
        for (row, heading) in headings {
            let view = wholes.get(i).filter(|_| *row == WHOLE).unwrap_or(view);
            let Drawn { geometry, region, .. } = view;
            let alt = format!("{}: {heading}", geometry.name);
            let id = format!("{id}-{row}-v{i}");
            let over = xray::outline(*region, geometry.size);
            let picture = draw(view, *row);
            out += &xray::frame(&id, &format!("v{i}"), &alt, geometry, &picture, &over)?;
        }
    }
    Ok(out + "</div>")
}

/// The legend of the region outlines, where there are some.
fn region_key(views: &[PoseViewRecord]) -> String {
    match views.iter().any(|v| v.region.is_some()) {
        true => Key::new().line("#57e389", "the region that counted").html(),
        false => String::new(),
    }
}

/// X-ray images beside simulated ones.
pub(crate) fn slices(records: &[PoseViewRecord], pictures: &[PosePictures<'_>]) -> Result<String> {
    let most = PIXELS[usize::from(3 * pictures.len() > MANY)];
    let pairs = || records.iter().zip(pictures);
    let views: Vec<_> =
        pairs().map(|(v, p)| Drawn::new(v, p, most, false)).collect::<Result<_>>()?;
    let mut headings = vec![(0, "X-ray image"), (1, "Simulated, before"), (2, "Simulated, after")];
    let mut wholes = Vec::new();
    if records.iter().any(|v| v.region.is_some()) {
        headings.push((WHOLE, "Whole X-ray image"));
        wholes = pairs().map(|(v, p)| Drawn::new(v, p, PIXELS[1], true)).collect::<Result<_>>()?;
    }
    let note = |view: &Drawn<'_>| {
        let range = |w: Window| measured(&[w.low, w.high].map(f64::from)).join(" to ");
        let cost = match view.record.cost {
            cost if cost.is_finite() => format!("cost {}, ", fixed(cost, 4)),
            _ => String::new(),
        };
        format!(
            "{cost}gradient correlation {}; shown from {}, simulated from {}",
            fixed(view.record.correlation_of_gradients, 3),
            range(view.windows[0]),
            range(view.windows[1])
        )
    };
    let body = grid((&views, &wholes), "slice", &headings, note, |view, row| {
        let row = if row == WHOLE { 0 } else { row };
        view.images[row].grey(view.window(row))
    })?;
    Ok(body + &region_key(records))
}

/// Edges of simulated images over X-ray images, of the region that counted only.
pub(crate) fn overlays(
    records: &[PoseViewRecord],
    pictures: &[PosePictures<'_>],
) -> Result<String> {
    let views = records.iter().zip(pictures);
    let views: Vec<_> =
        views.map(|(v, p)| Drawn::new(v, p, PIXELS_EDGES, false)).collect::<Result<_>>()?;
    let headings = [(1, "Before"), (2, "After")];
    let note = |view: &Drawn<'_>| match view.record.region {
        Some(_) => "the region that counted".to_owned(),
        None => String::new(),
    };
    let body = grid((&views, &[]), "edge", &headings, note, |view, row| view.overlay(row))?;
    let mut key = Key::new().line("#ffaa14", "edges of the simulated image");
    if pictures.iter().any(|p| p.left_out.is_some()) {
        key = key.line("#aa3cc8", "not in the CT: left out");
    }
    Ok(body + &key.html())
}

/// The widths of the columns in which views are compared.
pub(crate) fn widths(record: &PoseRecord, pictures: &[PosePictures<'_>]) -> Vec<usize> {
    let views = record.views.iter().zip(pictures).take(3);
    let wide = |[w, h]: [usize; 2], [x, y]: [f64; 2]| {
        let ratio = w as f64 * x / (h as f64 * y);
        if ratio.is_finite() { (1000.0 * ratio).clamp(100.0, 1e4) as usize } else { 1000 }
    };
    let size = |v: &PoseViewRecord| v.region.map_or(v.view.size, |[.., w, h]| [w, h]);
    views.map(|(v, _)| wide(size(v), v.view.pixel_mm)).collect()
}
