//! The description of the frames in the header of a DICOM file.

use super::codec;
use super::dataset::{self, DataSet, Parsed, Pixels};
use super::distinct::{self, Diffusion, Distinctions};
use super::ge;
use super::siemens::{Csa, Mosaic};
use super::stream::allowance;
use super::tags::{self, Packing, Syntax, Tag};
use super::tomogram;
use crate::error::{IoError, Result, shorten};
use crate::image::options::DataType;
use crate::source::Source;
use nalgebra::Vector3;
use std::path::PathBuf;
use voxalign_image::memory;

/// How the values of a frame are stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Bits from one value to the next.
    pub(super) allocated: usize,
    /// Bits of a value, and the uppermost of them.
    pub(super) stored: usize,
    pub(super) high: usize,
    pub(super) signed: bool,
    /// 32- or 64-bit floats.
    pub(super) float: bool,
}

impl Layout {
    /// The type that holds the values.
    pub(super) fn data_type(&self) -> DataType {
        match (self.float, self.allocated, self.signed) {
            (true, 64, _) => DataType::F64,
            (true, ..) => DataType::F32,
            (_, 32, true) => DataType::I32,
            (_, 32, false) => DataType::U32,
            (_, 16, true) => DataType::I16,
            (_, 16, false) => DataType::U16,
            (_, 8, true) => DataType::I8,
            _ => DataType::U8,
        }
    }

    /// Number of values of a frame.
    pub(super) fn len(&self) -> usize {
        self.rows * self.columns
    }
}

/// The largest number of rows and columns: both have 16 bits.
const LARGEST: usize = 65_535;

/// What is said of MONOCHROME1 where values are not inverted.
pub(super) const DARK: &str =
    "large values are dark (MONOCHROME1); they are read as they are stored";

/// One frame.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// Its number within the file, from 0.
    pub(super) number: usize,
    /// World position of the first pixel's centre, LPS mm.
    pub(super) position: Option<Vector3<f64>>,
    /// Unit vectors along a row and along a column, LPS.
    pub(super) orientation: Option<[Vector3<f64>; 2]>,
    /// Distance of neighbouring pixels along a row and along a column, mm.
    pub(super) spacing: Option<[f64; 2]>,
    /// Distance to the next slice, or thickness, mm, as far as the header says.
    pub(super) depth: Option<f64>,
    pub(super) slope: f64,
    pub(super) intercept: f64,
    /// Whether the scale is that of a real-world mapping, as there is no other.
    pub(super) real_world: bool,
    pub(super) diffusion: Diffusion,
    pub(super) instance_number: Option<i64>,
    /// Column and row of its first pixel in the picture that is stored.
    pub(super) corner: [usize; 2],
    pub(super) distinctions: Distinctions,
}

/// The header of a file that belongs to a series.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) path: PathBuf,
    pub(super) series: String,
    pub(super) series_number: Option<i64>,
    pub(super) description: String,
    pub(super) modality: String,
    /// Tells copies of one image.
    pub(super) instance: String,
    pub(super) syntax: Syntax,
    pub(super) begin: u64,
    /// Nothing where the file holds no image.
    pub(super) layout: Option<Layout>,
    pub(super) frames: Vec<Frame>,
    /// Pictures that are stored, of which each is a frame, or all frames of a mosaic.
    pub(super) pictures: usize,
    /// Columns and rows of a frame.
    pub(super) size: [usize; 2],
    pub(super) pixels: Pixels,
    /// Why it cannot be read.
    pub(super) problem: Option<IoError>,
    pub(super) oddities: Vec<String>,
}

impl Header {
    /// Reads the header of a file; what is wrong with its image goes into [`Header::problem`].
    pub(super) fn read(source: &Source<'_>) -> Result<Header> {
        let parsed = dataset::parse(source)?;
        let Some(series) = parsed.set.text(tags::SERIES_UID) else {
            return Err(parsed.problem.unwrap_or_else(|| {
                IoError::malformed(
                    source.path(),
                    "the attribute SeriesInstanceUID (0020,000E) is missing, so that the series of the \
                     file is not known",
                    "check that it is a complete DICOM image; a DICOMDIR is only a list of files",
                )
            }));
        };
        Ok(Self::of(parsed, series, source).0)
    }

    /// The header, and all attributes that are looked at.
    pub(super) fn of(parsed: Parsed, series: String, source: &Source<'_>) -> (Header, DataSet) {
        let set = parsed.set;
        let mut header = Header {
            path: source.path().into(),
            series,
            series_number: set.number(tags::SERIES_NUMBER).ok().flatten().map(|n| n as i64),
            description: set.text(tags::SERIES_DESCRIPTION).unwrap_or_default(),
            modality: set.text(tags::MODALITY).unwrap_or_default(),
            instance: set.text(tags::SOP_INSTANCE).unwrap_or_default(),
            syntax: parsed.syntax,
            begin: parsed.begin,
            layout: None,
            frames: Vec::new(),
            pictures: 0,
            size: [0; 2],
            pixels: parsed.pixels,
            problem: parsed.problem,
            oddities: Vec::new(),
        };
        if header.problem.is_none() && header.pixels != Pixels::None {
            header.problem = header.image(&set, source).err();
        }
        (header, set)
    }

    /// Whether the file holds an image, or would if it were not damaged.
    pub(super) fn is_image(&self) -> bool {
        self.problem.is_some() || self.pixels != Pixels::None
    }

    fn image(&mut self, set: &DataSet, source: &Source<'_>) -> Result<()> {
        let path = source.path();
        let wrong = |problem: String| {
            IoError::malformed(
                path,
                problem,
                "the header is probably damaged; export the series again",
            )
        };
        let layout = layout(set, self.pixels_tag()).map_err(|e| match e {
            Refusal::Wrong(problem) => wrong(problem),
            Refusal::Unsupported(what, remedy) => IoError::unsupported(path, what, remedy),
        })?;
        let count = set.count(tags::FRAMES).map_err(wrong)?.unwrap_or(1).max(1);
        if let Pixels::Fragments { offsets, .. } = &mut self.pixels
            && offsets.is_empty()
        {
            let long = set.numbers(tags::EXTENDED_OFFSETS).map_err(wrong)?;
            offsets.extend(long.iter().map(|&at| at as u64));
        }
        self.check_length(&layout, count, source)?;
        if set.text(tags::PHOTOMETRIC).as_deref() == Some("MONOCHROME1") {
            self.oddities.push(DARK.into());
        }
        if set.text(tags::LOSSY).as_deref() == Some("01") {
            self.oddities.push("the values were compressed with loss".into());
        }
        self.check_count(set, &layout, count, source)?;
        self.frames = frames(set, count).map_err(wrong)?;
        if self.frames.iter().any(|f| f.real_world) {
            self.oddities.push(
                "there is no rescale; values are those of the real-world mapping (0040,9096)"
                    .into(),
            );
        }
        self.oddities.extend(ge::oddities(set, &self.frames));
        self.oddities.extend(philips_scale(set));
        self.pictures = count;
        self.size = [layout.columns, layout.rows];
        let csa = Csa::of(set);
        if let Some(mosaic) = Mosaic::of(set, csa.as_ref(), self.size).map_err(wrong)? {
            self.frames = mosaic.tiles(&self.frames, self.size).map_err(wrong)?;
            self.size = mosaic.size;
            if mosaic.normal.is_none() {
                self.oddities.push(
                    "the direction of the mosaic's slices (SliceNormalVector) is not known; the normal of the \
                     picture is assumed"
                        .into(),
                );
            }
        }
        let has_table = set.item(tags::MODALITY_LUT_SEQUENCE).is_some();
        if has_table && set.numbers(tags::SLOPE).map_err(wrong)?.is_empty() {
            return Err(IoError::unsupported(
                path,
                "its values become true ones by a table (Modality LUT), which is not supported",
                "convert it with a program that applies the table",
            ));
        }
        self.layout = Some(layout);
        Ok(())
    }

    fn pixels_tag(&self) -> Tag {
        match self.pixels {
            Pixels::Plain { tag, .. } => tag,
            _ => tags::PIXELS,
        }
    }

    /// Whether as many frames as the header claims can be kept, with what each repeats of the header.
    fn check_count(
        &self,
        set: &DataSet,
        layout: &Layout,
        count: usize,
        source: &Source<'_>,
    ) -> Result<()> {
        let each = set.weight().saturating_add(size_of::<Frame>());
        if each.saturating_mul(count) as u64 <= allowance(source.length()) {
            return Ok(());
        }
        Err(IoError::malformed(
            source.path(),
            format!(
                "the header says {count} frames of {} x {} pixels, too many for a file of {}",
                layout.columns,
                layout.rows,
                memory::amount(source.length())
            ),
            "the header is probably damaged; export the series again",
        ))
    }

    /// Whether there are as many bytes or fragments as frames need.
    fn check_length(&mut self, layout: &Layout, count: usize, source: &Source<'_>) -> Result<()> {
        let path = source.path();
        match &self.pixels {
            Pixels::Plain { .. } if self.syntax.packing != Packing::None => {
                Err(IoError::malformed(
                    path,
                    "the pixels are compressed by the transfer syntax, but they are not in fragments",
                    "export the series again, or correct the transfer syntax",
                ))
            }
            Pixels::Plain { at, length, .. } => {
                let bits = (layout.len() as u64).saturating_mul(layout.allocated as u64);
                let needed = bits.saturating_mul(count as u64).div_ceil(8);
                if needed > *length {
                    let base = if self.syntax.deflated { 0 } else { *at };
                    return Err(IoError::Truncated {
                        path: path.into(),
                        expected: base.saturating_add(needed),
                        found: base.saturating_add(*length),
                    });
                }
                if *length - needed > 1 {
                    let rest = length - needed;
                    self.oddities.push(format!("{rest} bytes follow the values; they are ignored"));
                }
                Ok(())
            }
            Pixels::Fragments { .. } if self.syntax.packing == Packing::None => {
                Err(IoError::malformed(
                    path,
                    "the pixels are in fragments, but the transfer syntax says that they are not compressed",
                    "export the series again, or correct the transfer syntax",
                ))
            }
            Pixels::Fragments { pieces, .. } if pieces.len() < count => Err(IoError::malformed(
                path,
                format!("{count} frames are expected, but there are {} fragments", pieces.len()),
                "the file is cut short: copy or download it again",
            )),
            Pixels::Fragments { pieces, .. } => {
                let packed = pieces.iter().fold(0, |n: u64, (_, length)| n.saturating_add(*length));
                let possible = packed
                    .saturating_mul(codec::PIXELS_OF_A_BYTE as u64)
                    .saturating_add((codec::PIXELS as u64).saturating_mul(count as u64));
                if (layout.len() as u64).saturating_mul(count as u64) <= possible {
                    return Ok(());
                }
                Err(IoError::malformed(
                    path,
                    format!(
                        "the header says {count} x {} x {} pixels, which the {packed} bytes of packed \
                         frames cannot hold",
                        layout.columns, layout.rows
                    ),
                    "the header is probably damaged; export the series again",
                ))
            }
            Pixels::None => Ok(()),
        }
    }
}

/// What is odd about a file of Philips that has no standard scale, but a private one that changes values.
fn philips_scale(set: &DataSet) -> Option<String> {
    let maker = set.text(tags::MANUFACTURER)?.to_ascii_lowercase();
    let scale = set.number(tags::PHILIPS_SCALE).ok()??;
    let private = maker.starts_with("philips") && scale != 1.0 && scale != 0.0;
    (private && !set.has(tags::SLOPE) && !set.has(tags::REAL_WORLD_SEQUENCE)).then(|| {
        "there is no rescale but a private one of Philips (2005,100E); values are as they are stored"
            .into()
    })
}

/// Why an image is not read.
enum Refusal {
    Wrong(String),
    Unsupported(String, &'static str),
}

impl From<String> for Refusal {
    fn from(problem: String) -> Self {
        Refusal::Wrong(problem)
    }
}

fn layout(set: &DataSet, pixels: Tag) -> std::result::Result<Layout, Refusal> {
    let needed = |tag: Tag, name: &str| {
        set.count(tag)?
            .ok_or_else(|| format!("the attribute {name} {} is missing", tags::written(tag)))
    };
    let rows = needed(tags::ROWS, "Rows")?;
    let columns = needed(tags::COLUMNS, "Columns")?;
    if !(1..=LARGEST).contains(&rows) || !(1..=LARGEST).contains(&columns) {
        return Err(format!("the image has {rows} rows and {columns} columns").into());
    }
    let samples = set.count(tags::SAMPLES)?.unwrap_or(1);
    let photometric = set.text(tags::PHOTOMETRIC).unwrap_or_else(|| "MONOCHROME2".into());
    if samples != 1 || !matches!(photometric.as_str(), "MONOCHROME1" | "MONOCHROME2") {
        return Err(Refusal::Unsupported(
            format!(
                "it is a colour image ({samples} samples per pixel, {}), and one value per pixel is needed",
                shorten(&photometric)
            ),
            "convert it to a grey image first, or choose another series",
        ));
    }
    let float = match pixels {
        tags::FLOAT_PIXELS => Some(32),
        tags::DOUBLE_PIXELS => Some(64),
        _ => None,
    };
    if let Some(bits) = float {
        let (stored, high) = (bits, bits - 1);
        return Ok(Layout {
            rows,
            columns,
            allocated: bits,
            stored,
            high,
            signed: true,
            float: true,
        });
    }
    let allocated = needed(tags::BITS_ALLOCATED, "BitsAllocated")?;
    let stored = set.count(tags::BITS_STORED)?.unwrap_or(allocated);
    let high = set.count(tags::HIGH_BIT)?.unwrap_or(stored.saturating_sub(1));
    if !matches!(allocated, 1 | 8 | 16 | 32) {
        return Err(Refusal::Unsupported(
            format!("{allocated} bits per value are not supported"),
            "export the series with 8, 16 or 32 bits per value",
        ));
    }
    if stored == 0 || stored > allocated || high >= allocated || high + 1 < stored {
        return Err(format!(
            "of {allocated} bits per value, {stored} up to bit {high} are said to be used"
        )
        .into());
    }
    let signed = match set.count(tags::PIXEL_REPRESENTATION)? {
        None | Some(0) => false,
        Some(1) => true,
        Some(other) => {
            return Err(
                format!("PixelRepresentation (0028,0103) is {other} instead of 0 or 1").into()
            );
        }
    };
    Ok(Layout { rows, columns, allocated, stored, high, signed, float: false })
}

/// The functional groups that say something of a frame, the more special first.
pub(super) struct Groups<'a>(pub(super) [Option<&'a DataSet>; 3]);

impl<'a> Groups<'a> {
    /// The first that has a sequence with an item, and that item.
    pub(super) fn item(&self, sequence: Tag) -> Option<&'a DataSet> {
        self.0.iter().flatten().find_map(|set| set.item(sequence))
    }

    /// Numbers from a sequence, else from the file itself.
    pub(super) fn numbers(&self, sequence: Tag, tag: Tag) -> std::result::Result<Vec<f64>, String> {
        if let Some(item) = self.item(sequence) {
            let found = item.numbers(tag)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        self.0[2].map_or(Ok(Vec::new()), |file| file.numbers(tag))
    }

    /// As [`numbers`](Self::numbers), the first as text; what is not a number counts as missing.
    pub(super) fn text(&self, sequence: Tag, tag: Tag) -> Option<String> {
        let numbers = self.numbers(sequence, tag).unwrap_or_default();
        numbers.first().map(|v| format!("{v:?}"))
    }
}

fn frames(set: &DataSet, count: usize) -> std::result::Result<Vec<Frame>, String> {
    let shared = set.item(tags::SHARED_GROUPS);
    let own = set.items(tags::PER_FRAME_GROUPS);
    if !own.is_empty() && own.len() != count {
        return Err(format!("there are {count} frames, but functional groups for {}", own.len()));
    }
    let offsets = set.numbers(tags::FRAME_OFFSETS)?;
    let csa = Csa::of(set);
    let tomogram = tomogram::of(set, count)?;
    let mut found = Vec::new();
    for number in 0..count {
        let groups = Groups([own.get(number), shared, Some(set)]);
        let mut frame = frame(&groups, set, csa.as_ref(), number)?;
        if own.is_empty() && count > 1 {
            // Planes of a dose are given by their distances along the normal.
            let offset = match &tomogram {
                Some((step, places)) => places.get(number).map(|place| place * step),
                None if offsets.len() == count => Some(offsets[number] - offsets[0]),
                None => None,
            };
            frame.position = match (frame.position, &frame.orientation, offset) {
                (Some(p), Some([along, down]), Some(offset)) => {
                    Some(p + along.cross(down) * offset)
                }
                _ => None,
            };
        }
        found.push(frame);
    }
    Ok(found)
}

fn frame(
    groups: &Groups<'_>,
    set: &DataSet,
    csa: Option<&Csa<'_>>,
    number: usize,
) -> std::result::Result<Frame, String> {
    let vector = |v: &[f64]| Vector3::new(v[0], v[1], v[2]);
    let mut place = groups.numbers(tags::POSITION_SEQUENCE, tags::POSITION)?;
    let mut axes = groups.numbers(tags::ORIENTATION_SEQUENCE, tags::ORIENTATION)?;
    if let Some(detector) = set.item(tags::DETECTOR_SEQUENCE) {
        if place.is_empty() {
            place = detector.numbers(tags::POSITION)?;
        }
        if axes.is_empty() {
            axes = detector.numbers(tags::ORIENTATION)?;
        }
    }
    let position = match place.len() {
        0 => None,
        3 => Some(vector(&place)),
        n => return Err(format!("ImagePositionPatient (0020,0032) has {n} numbers instead of 3")),
    };
    let orientation = match axes.len() {
        0 => None,
        6 => Some(orientation([vector(&axes[..3]), vector(&axes[3..])])?),
        n => {
            return Err(format!(
                "ImageOrientationPatient (0020,0037) has {n} numbers instead of 6"
            ));
        }
    };
    let mut spacing = groups.numbers(tags::MEASURES_SEQUENCE, tags::PIXEL_SPACING)?;
    if spacing.is_empty() {
        spacing = set.numbers(tags::IMAGER_PIXEL_SPACING)?;
    }
    let spacing = match spacing[..] {
        [] => None,
        [down, along] if down > 0.0 && along > 0.0 => Some([along, down]),
        _ => {
            return Err(format!(
                "PixelSpacing (0028,0030) is {spacing:?}, which is not a valid spacing"
            ));
        }
    };
    let mut depth = None;
    for tag in [tags::SPACING_BETWEEN_SLICES, tags::SLICE_THICKNESS] {
        if depth.is_none() {
            let found = groups.numbers(tags::MEASURES_SEQUENCE, tag)?;
            depth = found.first().copied().map(f64::abs).filter(|&v| v > 0.0);
        }
    }
    let scale =
        |tag| groups.numbers(tags::TRANSFORMATION_SEQUENCE, tag).map(|v| v.first().copied());
    let (mut slope, mut intercept) = (scale(tags::SLOPE)?, scale(tags::INTERCEPT)?);
    if slope.is_none() {
        slope = set.number(tags::DOSE_SCALING)?;
    }
    let mut real_world = false;
    if slope.is_none()
        && intercept.is_none()
        && let Some(mapping) = groups.item(tags::REAL_WORLD_SEQUENCE)
    {
        slope = mapping.number(tags::REAL_WORLD_SLOPE)?;
        intercept = mapping.number(tags::REAL_WORLD_INTERCEPT)?;
        real_world = slope.is_some();
    }
    if slope == Some(0.0) {
        return Err("RescaleSlope (0028,1053) is 0, so that all values are the same".into());
    }
    let diffusion = Diffusion::of(groups, set, csa, orientation.as_ref());
    let distinctions = distinct::of_frame(groups, set, number, &diffusion);
    let instance_number = set.number(tags::INSTANCE_NUMBER).ok().flatten().map(|n| n as i64);
    let (slope, intercept) = (slope.unwrap_or(1.0), intercept.unwrap_or(0.0));
    Ok(Frame {
        number,
        position,
        orientation,
        spacing,
        depth,
        slope,
        intercept,
        real_world,
        diffusion,
        instance_number,
        corner: [0; 2],
        distinctions,
    })
}

/// The directions of rows and columns as unit vectors.
fn orientation(axes: [Vector3<f64>; 2]) -> std::result::Result<[Vector3<f64>; 2], String> {
    let [along, down] = axes;
    let lengths = [along.norm(), down.norm()];
    let unit = lengths.iter().all(|n| (n - 1.0).abs() < 0.01);
    if !unit || along.dot(&down).abs() > 0.01 {
        let all: Vec<f64> = axes.iter().flat_map(|v| v.iter().copied()).collect();
        return Err(format!(
            "ImageOrientationPatient (0020,0037) is {all:?}, which are not two directions at a right angle"
        ));
    }
    Ok([along / lengths[0], down / lengths[1]])
}
