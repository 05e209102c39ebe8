//! DICOM images: the slices of a series, in one file or many (PS3.3, PS3.5 and PS3.10).
//!
//! The world is LPS, as [`text::flip_lps`](super::text::flip_lps) turns it. The distance of slices comes
//! from their positions, not from their thickness.

mod bids;
mod codec;
mod copies;
mod dataset;
mod distinct;
mod ge;
mod header;
mod pictures;
mod pixels;
mod series;
mod siemens;
mod stack;
mod stream;
pub(crate) mod tags;
mod timing;
mod tomogram;
mod uneven;

use super::access::{ImageSource, Sidecar, not_a_label};
use super::convert;
use super::info::{GridSource, ImageInfo, SeriesInfo};
use super::options::{ByteOrder, Compression, Format, ReadOptions};
use super::region::Region;
use crate::error::{IoError, Result};
use crate::source::Source;
use header::{Frame, Header};
pub(crate) use pictures::Pictures;
use series::{Folder, Series};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tags::Packing;
use uneven::Between;

/// Whether a file begins as DICOM files do.
pub(crate) fn is_dicom(source: &Source<'_>) -> Result<bool> {
    let mut head = Vec::new();
    source
        .raw_with(0, 256)?
        .take(132)
        .read_to_end(&mut head)
        .map_err(|e| IoError::reading(source.path(), e))?;
    Ok(dataset::is_dicom(&head))
}

/// An image of DICOM files.
#[derive(Debug)]
pub(crate) struct DicomImage<'a> {
    info: ImageInfo,
    files: Vec<Header>,
    /// For each volume its slices: the number of the file and of the frame in it.
    volumes: Vec<Vec<(usize, usize)>>,
    /// Where slices are interpolated, for each between which of those it lies.
    between: Option<Vec<Between>>,
    /// What distinguishes volumes.
    by: Vec<&'static str>,
    memory: Option<&'a [u8]>,
}

/// The series of a folder.
pub(crate) fn list(folder: &Path) -> Result<Vec<SeriesInfo>> {
    let found = Folder::read(folder)?;
    Ok(series::group(&found.files).into_iter().map(|s| s.info).collect())
}

/// The image of a folder.
pub(crate) fn open_folder(path: &Path, options: &ReadOptions) -> Result<DicomImage<'static>> {
    let folder = Folder::read(path)?;
    if folder.files.is_empty() {
        if crate::pyramid::is_zarr(path) {
            let remedy = "give it where images are read in blocks, or write it in another format, such as NIfTI";
            return Err(IoError::malformed(
                path,
                "this is a Zarr folder, an image in blocks",
                remedy,
            ));
        }
        let none = |e: IoError| match e {
            IoError::Malformed { path, problem, remedy } => IoError::Malformed {
                path,
                problem: format!("{problem} without DICOM images"),
                remedy,
            },
            other => other,
        };
        return Err(none(IoError::folder(path)));
    }
    DicomImage::new(path, folder, options, None, None)
}

/// The image to whose series a file belongs: with the other files of its folder, or of it alone.
pub(crate) fn open_file<'a>(
    source: &Source<'a>,
    bytes: Option<&'a [u8]>,
    options: &ReadOptions,
) -> Result<DicomImage<'a>> {
    let path = source.path();
    let own = Header::read(source)?;
    if let Some(problem) = own.problem {
        return Err(problem);
    }
    if !own.is_image() {
        return Err(IoError::malformed(
            path,
            format!("this DICOM file holds no image (its modality is '{}')", own.modality),
            "name a file of a series of images",
        ));
    }
    if options.alone || bytes.is_some() {
        let folder = Folder { files: vec![own], others: Vec::new(), copies: Vec::new() };
        return DicomImage::new(path, folder, options, Some(0), bytes);
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut folder = Folder::read(parent)?;
    // Other copies of this image are not other slices.
    let name = path.file_name();
    folder.files.retain(|f| {
        f.path.file_name() == name || f.series != own.series || f.instance != own.instance
    });
    folder.others.clear();
    let named = folder.files.iter().position(|f| f.path.file_name() == name);
    DicomImage::new(path, folder, options, named, None)
}

impl<'a> DicomImage<'a> {
    fn new(
        path: &Path,
        folder: Folder,
        options: &ReadOptions,
        named: Option<usize>,
        memory: Option<&'a [u8]>,
    ) -> Result<Self> {
        let Folder { mut files, others, copies } = folder;
        let wanted = options.series.as_deref();
        let chosen = series::choose(path, series::group(&files), wanted, named)?;
        if let Some(&broken) = chosen.broken.first() {
            return Err(files[broken].problem.take().unwrap_or_else(|| {
                IoError::malformed(path, "a file of the series is damaged", "copy it again")
            }));
        }
        let (info, volumes, between, by) =
            describe(path, &files, [&others, &copies], &chosen, options.even)?;
        Ok(Self { info, files, volumes, between, by, memory })
    }

    fn frame(&self, (f, i): (usize, usize)) -> &Frame {
        &self.files[f].frames[i]
    }

    fn source(&self, file: usize) -> Result<Source<'a>> {
        let path = &self.files[file].path;
        match self.memory {
            Some(bytes) => Ok(Source::memory(path, bytes)),
            None => Source::open(path),
        }
    }

    /// The true values of some rows of a stored slice, all columns of its picture, into `values`; where
    /// the slice begins among them, and how many columns the picture has.
    fn slice(
        &self,
        (f, i): (usize, usize),
        rows: &Range<usize>,
        values: &mut Vec<f64>,
    ) -> Result<(usize, usize)> {
        let file = &self.files[f];
        let Some(layout) = &file.layout else { return Ok((0, 1)) };
        let Frame { number, slope, intercept, corner, .. } = file.frames[i];
        let source = self.source(f)?;
        let rows = rows.start + corner[1]..rows.end + corner[1];
        pixels::rows(file, layout, &source, number, rows, values)?;
        if (slope, intercept) != (1.0, 0.0) {
            values.iter_mut().for_each(|v| *v = *v * slope + intercept);
        }
        Ok((corner[0], layout.columns))
    }

    /// Gives the true values of each row of a region to `take`.
    fn rows(
        &self,
        region: &Region,
        volume: usize,
        mut take: impl FnMut(&[f64]) -> Result<()>,
    ) -> Result<()> {
        let rows = region.start[1]..region.start[1] + region.size[1];
        let slices = &self.volumes[volume];
        let (mut values, mut above) = (Vec::new(), Vec::new());
        for z in region.start[2]..region.start[2] + region.size[2] {
            let Between { below, part } = match &self.between {
                Some(between) => between[z],
                None => Between { below: z, part: 0.0 },
            };
            let (corner, width) = self.slice(slices[below], &rows, &mut values)?;
            if part > 0.0 {
                self.slice(slices[below + 1], &rows, &mut above)?;
                values.iter_mut().zip(&above).for_each(|(v, next)| *v += part * (next - *v));
            }
            let from = corner + region.start[0];
            for row in values.chunks_exact(width) {
                take(&row[from..from + region.size[0]])?;
            }
        }
        Ok(())
    }
}

impl ImageSource for DicomImage<'_> {
    fn info(&self) -> &ImageInfo {
        &self.info
    }

    fn sidecar(&self, volume: Option<usize>) -> Result<Option<Sidecar>> {
        bids::sidecar(self, volume).map(Some)
    }

    fn read(&self, region: &Region, volume: usize, out: &mut [f32]) -> Result<()> {
        region.check(&self.info, volume, out.len())?;
        if region.is_empty() {
            return Ok(());
        }
        let mut done = out.chunks_exact_mut(region.size[0]);
        self.rows(region, volume, |row| {
            for (to, &from) in done.next().unwrap_or_default().iter_mut().zip(row) {
                *to = from as f32;
            }
            Ok(())
        })
    }

    fn read_labels(&self, region: &Region, volume: usize, out: &mut [i32]) -> Result<()> {
        region.check(&self.info, volume, out.len())?;
        if region.is_empty() {
            return Ok(());
        }
        let mut done = 0;
        self.rows(region, volume, |row| {
            for &value in row {
                let label = convert::label(value);
                out[done] = label.ok_or_else(|| not_a_label(&self.info, region, done, value))?;
                done += 1;
            }
            Ok(())
        })
    }
}

/// What the headers of a series say together, and its volumes.
#[allow(clippy::type_complexity)]
fn describe(
    path: &Path,
    files: &[Header],
    [others, copies]: [&[PathBuf]; 2],
    series: &Series,
    even: bool,
) -> Result<(ImageInfo, Vec<Vec<(usize, usize)>>, Option<Vec<Between>>, Vec<&'static str>)> {
    let frames: Vec<&Frame> = series.frames.iter().map(|&(f, i)| &files[f].frames[i]).collect();
    let name = |frame: usize| {
        let (f, i) = series.frames[frame];
        let name = files[f].path.file_name().unwrap_or_default().to_string_lossy();
        if files[f].frames.len() > 1 { format!("{name}, frame {i}") } else { name.into_owned() }
    };
    let stack = stack::stack(&frames, series.info.size, even, &name)
        .map_err(|(problem, remedy)| IoError::malformed(path, problem, remedy))?;
    let volumes: Vec<Vec<(usize, usize)>> = stack
        .volumes
        .iter()
        .map(|slices| slices.iter().map(|&i| series.frames[i]).collect())
        .collect();
    let mut used: Vec<usize> = series.frames.iter().map(|&(f, _)| f).collect();
    used.dedup();
    let first = &files[used[0]];
    let Some(layout) = &first.layout else {
        return Err(IoError::malformed(path, "there is no image in it", "name another file"));
    };
    let mut oddities = stack.oddities;
    for &f in &used {
        for oddity in &files[f].oddities {
            if !oddities.contains(oddity) {
                oddities.push(oddity.clone());
            }
        }
    }
    if !others.is_empty() {
        let name = others[0].file_name().unwrap_or_default().to_string_lossy();
        oddities.push(format!(
            "{} files of the folder hold no DICOM image or are damaged ('{name}' is the first); they are left out",
            others.len()
        ));
    }
    if !copies.is_empty() {
        let name = copies[0].file_name().unwrap_or_default().to_string_lossy();
        oddities.push(format!(
            "{} files of the folder are copies of others ('{name}' is the first); they are left out",
            copies.len()
        ));
    }
    let (slope, intercept) = (frames[0].slope, frames[0].intercept);
    let one_scale = frames.iter().all(|f| (f.slope, f.intercept) == (slope, intercept));
    if !one_scale {
        oddities.push("slices have scales of their own; each is applied".into());
    }
    let one_type = used
        .iter()
        .all(|&f| files[f].layout.as_ref().map(|l| l.data_type()) == Some(layout.data_type()));
    if !one_type {
        oddities.push("slices are stored in several types; that of the first is named".into());
    }
    if volumes.len() > 1 {
        let some: Vec<&str> = stack.values.iter().take(6).map(String::as_str).collect();
        let more = if volumes.len() > 6 { ", …" } else { "" };
        let one = stack.by.len() == 1;
        oddities.push(format!(
            "it has {} volumes, which the {} {}: {}{more}",
            volumes.len(),
            stack.by.join(" and "),
            if one { "distinguishes" } else { "distinguish" },
            some.join("; ")
        ));
    }
    let [columns, rows] = series.info.size;
    let slices = stack.between.as_ref().map_or(volumes[0].len(), Vec::len);
    let mut dims = vec![columns, rows, slices];
    if volumes.len() > 1 {
        dims.push(volumes.len());
    }
    let dimensions = if dims.len() == 3 && dims[2] == 1 { 2 } else { dims.len() };
    let (slope, intercept) = if one_scale { (slope, intercept) } else { (1.0, 0.0) };
    let mut info = ImageInfo {
        path: path.into(),
        data_path: path.into(),
        files: used.iter().map(|&f| files[f].path.clone()).collect(),
        format: Format::Dicom,
        format_name: format!("DICOM {}", first.modality).trim().to_string(),
        dims,
        dimensions,
        components: 1,
        data_type: layout.data_type(),
        byte_order: if first.syntax.big_endian { ByteOrder::Big } else { ByteOrder::Little },
        compression: match first.syntax.packing {
            Packing::None if first.syntax.deflated => Compression::Deflate,
            Packing::None => Compression::None,
            Packing::Rle => Compression::RunLengths,
            Packing::Jpeg => Compression::Jpeg,
            Packing::Jpeg2000 => Compression::Jpeg2000,
        },
        slope,
        intercept,
        own_scales: !one_scale || !one_type || stack.between.is_some(),
        volume_names: stack.values,
        grid: stack.grid,
        grid_source: if stack.placed { GridSource::Slices } else { GridSource::Assumed },
        qform_code: 0,
        sform_code: 0,
        qform: None,
        sform: None,
        form_difference_mm: None,
        intent: String::new(),
        description: series.info.description.clone(),
        extensions: Vec::new(),
        oddities: oddities.into_iter().map(Into::into).collect(),
    };
    info.describe_grid();
    Ok((info, volumes, stack.between, stack.by))
}
