//! X-ray images on pages.

pub use crate::record::ViewRecord;

use super::contour::over;
use super::picture::{Picture, Shown};
use super::window::Window;
use crate::error::{ReportError, Result};
use voxalign_image::memory;

/// An X-ray image for a page. It may have fewer pixels than its detector, as long as it shows all of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct XrayPicture<'a> {
    /// Columns and rows.
    pub dims: [usize; 2],
    /// The values, row by row.
    pub values: &'a [f32],
    /// Whether values are smaller where more is absorbed, as intensities are. It is drawn so that bone is bright all
    /// the same.
    pub inverted: bool,
}

impl<'a> XrayPicture<'a> {
    /// An image whose values are larger where more is absorbed.
    #[must_use]
    pub fn new(dims: [usize; 2], values: &'a [f32]) -> Self {
        Self { dims, values, inverted: false }
    }

    /// The same where values are smaller where more is absorbed.
    #[must_use]
    pub fn inverted(self) -> Self {
        Self { inverted: true, ..self }
    }

    /// A region of a detector of this size: the values of an image, and its columns and rows; nothing where the
    /// numbers of values and pixels differ, or the region has no pixels.
    pub(crate) fn part(&self, region: [usize; 4], size: [usize; 2]) -> Option<Pixels> {
        let [columns, rows] = self.dims;
        let ([left, right], [top, bottom]) = within(region, size, self.dims);
        if columns.checked_mul(rows) != Some(self.values.len()) || left >= right || top >= bottom {
            return None;
        }
        let lines = self.values.chunks_exact(columns).take(bottom).skip(top);
        let values = lines.flat_map(|line| &line[left..right]).copied().collect();
        Some(Pixels { width: right - left, height: bottom - top, values, inverted: self.inverted })
    }

    /// The image downsampled to at most this many pixels along each side: means of squares of pixels.
    ///
    /// # Errors
    /// [`ReportError::Pixels`] where values and pixels are not as many, [`ReportError::OutOfMemory`].
    pub(crate) fn reduced(&self, most: usize) -> Result<Pixels> {
        let [columns, rows] = self.dims;
        if self.values.is_empty() || columns.checked_mul(rows) != Some(self.values.len()) {
            let found = self.values.len();
            return Err(ReportError::Pixels { width: columns, height: rows, found });
        }
        let factor = columns.max(rows).div_ceil(most.max(1)).max(1);
        let (width, height) = (columns.div_ceil(factor), rows.div_ceil(factor));
        let mut values = memory::room(width * height)?;
        for lines in self.values.chunks(factor * columns) {
            for first in (0..columns).step_by(factor) {
                let end = (first + factor).min(columns);
                let (mut sum, mut count) = (0f64, 0u32);
                for line in lines.chunks_exact(columns) {
                    for value in line[first..end].iter().filter(|v| v.is_finite()) {
                        sum += f64::from(*value);
                        count += 1;
                    }
                }
                values.push(if count > 0 { (sum / f64::from(count)) as f32 } else { f32::NAN });
            }
        }
        Ok(Pixels { width, height, values, inverted: self.inverted })
    }
}

/// The first column and row of a region of a detector of this size, and those after the last, in pictures of other sizes.
fn within(region: [usize; 4], size: [usize; 2], picture: [usize; 2]) -> ([usize; 2], [usize; 2]) {
    let range = |a: usize| {
        let part = |v: usize| v as f64 / size[a].max(1) as f64 * picture[a] as f64;
        let end = region[a].saturating_add(region[a + 2]);
        [region[a], end].map(|v| (part(v).round() as usize).min(picture[a]))
    };
    (range(0), range(1))
}

/// A part of an image, or the whole image at the size at which it is drawn.
pub(crate) struct Pixels {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) values: Vec<f32>,
    inverted: bool,
}

impl Pixels {
    pub(crate) fn picture(&self) -> XrayPicture<'_> {
        let dims = [self.width, self.height];
        XrayPicture { dims, values: &self.values, inverted: self.inverted }
    }

    /// From 0, black, to 1, which most is absorbed at; what is not a number is black.
    pub(crate) fn unit(&self, window: Window) -> impl Iterator<Item = f32> {
        self.values.iter().map(move |&v| match window.unit(v) {
            part if self.inverted && !v.is_nan() => 1.0 - part,
            part => part,
        })
    }

    pub(crate) fn grey(&self, window: Window) -> Picture {
        Picture::grey(self.width, self.height, self.unit(window))
    }

    /// The values in a region of a detector of this size; all where there is none.
    pub(crate) fn counted(&self, region: Option<[usize; 4]>, size: [usize; 2]) -> Vec<f32> {
        let Some(region) = region else { return self.values.clone() };
        let ([left, right], [top, bottom]) = within(region, size, [self.width, self.height]);
        let rows = self.values.chunks_exact(self.width).take(bottom).skip(top);
        let inside: Vec<f32> =
            rows.flat_map(|row| row.get(left..right).unwrap_or(&[])).copied().collect();
        if inside.is_empty() { self.values.clone() } else { inside }
    }
}

/// The sides of the patient at the left and the right of a picture, in room coordinates, where rows run along one
/// of its axes.
fn letters(view: &ViewRecord) -> [String; 4] {
    const ALONG: f64 = 0.8;
    let length = view.column.iter().map(|v| v * v).sum::<f64>().sqrt();
    let sides = [["L", "R"], ["P", "A"], ["F", "H"]];
    let along = view.column.iter().zip(sides).find(|(v, _)| v.abs() > ALONG * length);
    let [left, right] = match along {
        None => [""; 2],
        Some((&v, ends)) if v > 0.0 => ends,
        Some((_, [low, high])) => [high, low],
    };
    [left, right, "", ""].map(str::to_owned)
}

/// A picture of a view in true proportion, with HTML upon it, and the sides of the patient. `of` names the view among others.
pub(crate) fn frame(
    id: &str,
    of: &str,
    alt: &str,
    view: &ViewRecord,
    picture: &Picture,
    over: &str,
) -> Result<String> {
    let [across, down] = view.extent();
    let (ratio, plain) = (across / down, picture.width as f64 / picture.height as f64);
    let style = if ratio.is_finite() && ratio > 0.0 && (ratio / plain - 1.0).abs() > 0.01 {
        format!("aspect-ratio:{ratio:.4}")
    } else {
        String::new()
    };
    picture.html(&Shown { id, group: of, alt, style: &style, over, sides: letters(view) })
}

/// The outline of a region of the detector upon its pictures; nothing where there is none.
pub(crate) fn outline(region: Option<[usize; 4]>, size: [usize; 2]) -> String {
    region.map_or_else(String::new, |[x, y, width, height]| {
        let path = format!("<path d=\"M{x} {y}h{width}v{height}h-{width}z\"/>");
        over("over mask", size, &path)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use voxalign_image::{CArm, Vector3, XrayGeometry};

    pub(crate) fn arm(primary: f64, dims: [usize; 2]) -> XrayGeometry {
        let arm = CArm {
            source_to_isocentre: 700.0,
            source_to_detector: 1000.0,
            isocentre: Vector3::new(10.0, -5.0, 20.0),
            primary: primary.to_radians(),
            secondary: 0.0,
            pixel_size: [300.0 / dims[0] as f64, 300.0 / dims[0] as f64],
            dims,
            centre: None,
        };
        arm.geometry().unwrap()
    }

    #[test]
    fn records_of_views_come_back() {
        let view = arm(30.0, [60, 40]);
        let record = ViewRecord::from(("<AP>", &view));
        assert_eq!((record.size, record.pixel_mm[0].round()), ([60, 40], 5.0));
        let part = ViewRecord::new("<AP>", &view.part([7, 5], [20, 10]).unwrap());
        let found = record.part([7, 5, 20, 10]);
        let off = (0..3).map(|a| (found.origin[a] - part.origin[a]).abs()).fold(0.0, f64::max);
        assert!(off < 1e-9 && (found.size, found.pixel_mm) == (part.size, part.pixel_mm));
        assert!((record.source_to_detector_mm - 1000.0).abs() < 1e-9);
        let back: ViewRecord =
            serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(back, record);
    }

    #[test]
    fn large_pictures_are_reduced() {
        let values: Vec<f32> = (0..7 * 5).map(|i| (i % 7) as f32).collect();
        let picture = XrayPicture::new([7, 5], &values);
        assert_eq!(picture.reduced(7).unwrap().values, values);
        let half = picture.reduced(4).unwrap();
        assert_eq!((half.width, half.height), (4, 3));
        assert_eq!(half.values[..5], [0.5, 2.5, 4.5, 6.0, 0.5]);
        let part = half.counted(Some([2, 0, 2, 2]), [7, 5]);
        assert_eq!(part, [2.5]);
        let part = picture.inverted().part([2, 1, 3, 2], [7, 5]).unwrap();
        assert_eq!(
            (part.picture().dims, &part.values[..], part.inverted),
            ([3, 2], &[2., 3., 4., 2., 3., 4.][..], true)
        );
        // Of a picture with half as many pixels as its detector.
        assert_eq!(picture.part([4, 2, 6, 4], [14, 10]).unwrap().values, [2., 3., 4., 2., 3., 4.]);
        assert!(picture.part([7, 0, 2, 2], [7, 5]).is_none());
        assert!(XrayPicture::new([7, 6], &values).part([0, 0, 2, 2], [7, 5]).is_none());
        let window = Window { low: 0.5, high: 6.0 };
        let inverted = picture.inverted().reduced(4).unwrap();
        let units = |r: &Pixels| r.unit(window).take(4).collect::<Vec<_>>();
        assert_eq!([units(&half)[3], units(&inverted)[3]], [1.0, 0.0]);
        let holes = [f32::NAN, 2.0, f32::NAN, f32::NAN];
        let reduced = XrayPicture::new([4, 1], &holes).reduced(2).unwrap();
        assert!(reduced.values[0] == 2.0 && reduced.values[1].is_nan());
        for wrong in [[3, 1], [0, 0], [usize::MAX, 2]] {
            assert!(XrayPicture::new(wrong, &holes).reduced(2).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn pictures_have_true_proportions() {
        let view = arm(0.0, [60, 40]);
        let mut record = ViewRecord::new("<i>", &view);
        let picture = Picture::grey(60, 40, (0..2400).map(|_| 0.5));
        let page = frame("a", "v1", "<i>", &record, &picture, "").unwrap();
        assert!(page.contains("&lt;i&gt;") && !page.contains("aspect-ratio"));
        // As a C-arm at 0 degrees shows it: the patient's right is on the left.
        assert!(record.column[0] < 0.0, "{:?}", record.column);
        assert!(page.contains("<i class=\"l\">R</i><i class=\"r\">L</i>"), "{page}");
        let mirrored = ViewRecord { column: record.column.map(|v| -v), ..record.clone() };
        let other = frame("a", "v1", "", &mirrored, &picture, "").unwrap();
        assert!(other.contains("<i class=\"l\">L</i><i class=\"r\">R</i>"), "{other}");
        record.pixel_mm[1] *= 0.5;
        let page = frame("a", "v1", "", &record, &picture, "").unwrap();
        assert!(page.contains("aspect-ratio:3.0000"));
    }
}
