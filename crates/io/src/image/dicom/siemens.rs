//! What Siemens scanners write beside the standard: the CSA header, and mosaics, in which the slices of a
//! volume lie beside each other in one picture.

use super::dataset::DataSet;
use super::header::Frame;
use super::tags;
use nalgebra::Vector3;

/// The elements of a CSA header: a list of names with texts, in either of its two layouts.
#[derive(Debug)]
pub(super) struct Csa<'a>(Vec<(&'a str, Vec<&'a str>)>);

/// Most names, and most texts of one, that are believed.
const NAMES: u32 = 1000;
const TEXTS: u32 = 100_000;

impl<'a> Csa<'a> {
    /// The header of the image of a file; nothing where there is none or it is damaged.
    pub(super) fn of(set: &'a DataSet) -> Option<Csa<'a>> {
        Self::parse(set.bytes(tags::SIEMENS_CSA)?)
    }

    fn parse(bytes: &'a [u8]) -> Option<Csa<'a>> {
        let second = bytes.starts_with(b"SV10");
        let mut at = if second { 8 } else { 0 };
        let number = |at: usize| -> Option<u32> {
            let own = bytes.get(at..at.checked_add(4)?)?;
            Some(u32::from_le_bytes(own.try_into().ok()?))
        };
        let count = number(at)?;
        let first_items = number(at + 4 + 4 + 76)?;
        if !(1..=NAMES).contains(&count) {
            return None;
        }
        at += 8;
        let text = |from: usize, length: usize| -> Option<&'a str> {
            let own = bytes.get(from..from.checked_add(length)?)?;
            let end = own.iter().position(|&b| b == 0).unwrap_or(own.len());
            Some(std::str::from_utf8(&own[..end]).unwrap_or_default().trim())
        };
        let mut found = Vec::new();
        for _ in 0..count {
            let name = text(at, 64)?;
            let items = number(at + 76)?;
            if items > TEXTS {
                return None;
            }
            at += 84;
            let mut texts = Vec::new();
            for _ in 0..items {
                // The first layout counts lengths from the number of items of the first element.
                let length = match second {
                    true => number(at + 4)?,
                    false => number(at)?.saturating_sub(first_items),
                };
                number(at + 12)?;
                let length = length as usize;
                at += 16;
                let value = text(at, length)?;
                if !value.is_empty() {
                    texts.push(value);
                }
                at = at.checked_add(length)?.checked_next_multiple_of(4)?;
            }
            found.push((name, texts));
        }
        Some(Csa(found))
    }

    /// The numbers of an element; nothing where it has none.
    pub(super) fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        let (_, texts) = self.0.iter().find(|(own, _)| *own == name)?;
        let numbers: Option<Vec<f64>> = texts.iter().map(|t| t.parse().ok()).collect();
        numbers.filter(|n| !n.is_empty() && n.iter().all(|v: &f64| v.is_finite()))
    }
}

/// When each slice of a mosaic is excited, ms, by the protocol of software that does not write their times: one after
/// the other, before a pause. Nothing where their order is not known.
pub(super) fn times_by_protocol(
    set: &DataSet,
    slices: usize,
    repetition_ms: f64,
) -> Option<Vec<f64>> {
    let protocol = set.bytes(tags::SIEMENS_PROTOCOL)?;
    let pause = setting(protocol, "lDelayTimeInTR").unwrap_or(0) as f64 / 1000.0;
    let order: Vec<usize> = match setting(protocol, "sSliceArray.ucMode")? {
        1 => (0..slices).collect(),
        2 => (0..slices).rev().collect(),
        // An even number begins with the second slice.
        4 => {
            let first = (slices + 1) % 2;
            (first..slices).step_by(2).chain((1 - first..slices).step_by(2)).collect()
        }
        _ => return None,
    };
    let step = (repetition_ms - pause) / slices as f64;
    let mut times = vec![0.0; slices];
    order.iter().enumerate().for_each(|(place, &slice)| times[slice] = place as f64 * step);
    (step > 0.0).then_some(times)
}

/// A whole number of the protocol, a text with lines as `name = 0x1`.
fn setting(protocol: &[u8], name: &str) -> Option<i64> {
    let at = protocol.windows(name.len()).position(|own| own == name.as_bytes())?;
    let line = protocol[at + name.len()..].split(|&b| b == b'\n').next()?;
    let value = std::str::from_utf8(line).ok()?.trim().strip_prefix('=')?.trim();
    match value.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    }
}

/// How the slices of a volume lie in a picture: in rows from left to right, beginning at the upper left.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mosaic {
    pub(super) slices: usize,
    /// Slices in a row of the picture, and in a column.
    pub(super) across: usize,
    /// Columns and rows of a slice.
    pub(super) size: [usize; 2],
    /// From a slice to the next, LPS; as the header says, or the normal of the picture.
    pub(super) normal: Option<Vector3<f64>>,
}

impl Mosaic {
    /// The mosaic of a file, where its kind is one; otherwise what is wrong.
    pub(super) fn of(
        set: &DataSet,
        csa: Option<&Csa<'_>>,
        [columns, rows]: [usize; 2],
    ) -> Result<Option<Mosaic>, String> {
        let kind = set.text(tags::IMAGE_TYPE).unwrap_or_default();
        if !kind.split('\\').any(|word| word.trim().eq_ignore_ascii_case("MOSAIC")) {
            return Ok(None);
        }
        let own = set.numbers(tags::SIEMENS_IMAGES)?.first().copied();
        let by_csa = || csa?.numbers("NumberOfImagesInMosaic")?.first().copied();
        let Some(count) = own.or_else(by_csa).filter(|&n| n >= 1.0 && n.fract() == 0.0) else {
            return Err("it is a mosaic, but the number of its slices (NumberOfImagesInMosaic, \
                        (0019,100A)) is missing"
                .into());
        };
        let count = count.min(1e9) as usize;
        let across = (count as f64).sqrt().ceil() as usize;
        if columns % across != 0 || rows % across != 0 || columns < across || rows < across {
            return Err(format!(
                "it is a mosaic of {count} slices, which do not divide a picture of {columns} x {rows}"
            ));
        }
        let normal =
            csa.and_then(|csa| csa.numbers("SliceNormalVector")).and_then(|v| match v[..] {
                [x, y, z] => Some(Vector3::new(x, y, z)),
                _ => None,
            });
        let size = [columns / across, rows / across];
        Ok(Some(Mosaic { slices: count, across, size, normal }))
    }

    /// The column and row at which a slice begins.
    fn corner(&self, slice: usize) -> [usize; 2] {
        [slice % self.across * self.size[0], slice / self.across * self.size[1]]
    }

    /// The slices of a picture of which the header has one frame: the picture as if it were a slice.
    pub(super) fn tiles(
        &self,
        frames: &[Frame],
        [columns, rows]: [usize; 2],
    ) -> Result<Vec<Frame>, String> {
        let [picture] = frames else {
            return Err(format!("it is a mosaic of {} frames instead of one", frames.len()));
        };
        let (Some(position), Some([along, down]), Some([dx, dy]), Some(depth)) =
            (picture.position, picture.orientation, picture.spacing, picture.depth)
        else {
            return Err("it is a mosaic without position, orientation, PixelSpacing or \
                    SpacingBetweenSlices"
                .into());
        };
        // The picture lies about the middle of its first slice.
        let aside = dx * (columns - self.size[0]) as f64 / 2.0;
        let below = dy * (rows - self.size[1]) as f64 / 2.0;
        let first = position + along * aside + down * below;
        let across = along.cross(&down);
        let normal = match self.normal {
            Some(normal) if (normal.dot(&across).abs() - 1.0).abs() > 1e-3 => {
                return Err(
                    "the normal of its slices (SliceNormalVector) is not that of its picture"
                        .into(),
                );
            }
            Some(normal) => across * normal.dot(&across).signum(),
            None => across,
        };
        let slice = |k: usize| Frame {
            position: Some(first + normal * (depth * k as f64)),
            corner: self.corner(k),
            ..picture.clone()
        };
        Ok((0..self.slices).map(slice).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CSA header of one element with such texts.
    fn header(second: bool, texts: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        if second {
            out.extend(b"SV10\x04\x03\x02\x01");
        }
        let mut put = |v: u32| out.extend(v.to_le_bytes());
        put(1);
        put(77);
        let mut name = b"SliceNormalVector".to_vec();
        name.resize(64, 0);
        out.extend(name);
        for v in [3, u32::from_le_bytes(*b"FD\0\0"), 3, texts.len() as u32, 77] {
            out.extend(v.to_le_bytes());
        }
        for text in texts {
            let n = text.len() as u32;
            let own = if second { n } else { n + texts.len() as u32 };
            for v in [own, n, 77, n] {
                out.extend(v.to_le_bytes());
            }
            out.extend(text.as_bytes());
            out.resize(out.len().next_multiple_of(4), 0);
        }
        out
    }

    #[test]
    fn both_layouts_are_read_and_damage_is_none() {
        for second in [true, false] {
            let bytes = header(second, &["0.5", "-0.25 ", "1e-3"]);
            let csa = Csa::parse(&bytes).unwrap();
            assert_eq!(csa.numbers("SliceNormalVector"), Some(vec![0.5, -0.25, 1e-3]));
            assert_eq!(csa.numbers("B_value"), None);
            for cut in [0, 3, 7, 20, 90, bytes.len() - 3] {
                assert!(Csa::parse(&bytes[..cut]).is_none(), "{second} {cut}");
            }
        }
    }
}
