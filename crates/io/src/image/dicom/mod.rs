//! DICOM images: the slices of a series, in one file or many (PS3.3, PS3.5 and PS3.10).
//!
//! The world is LPS, as [`text::flip_lps`](super::text::flip_lps) turns it. The distance of slices comes
//! from their positions, not from their thickness.

mod codec;
mod dataset;
mod header;
mod pictures;
mod pixels;
mod series;
mod stack;
mod stream;
pub(crate) mod tags;

use super::access::{ImageSource, not_a_label};
use super::convert;
use super::info::{GridSource, ImageInfo, SeriesInfo};
use super::options::{ByteOrder, Compression, Format};
use super::region::Region;
use crate::error::{IoError, Result};
use crate::source::Source;
use header::{Frame, Header};
pub(crate) use pictures::Pictures;
use series::{Folder, Series};
use std::io::Read;
use std::path::{Path, PathBuf};
use tags::Packing;

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
    memory: Option<&'a [u8]>,
}

/// The series of a folder.
pub(crate) fn list(folder: &Path) -> Result<Vec<SeriesInfo>> {
    let found = Folder::read(folder)?;
    Ok(series::group(&found.files).into_iter().map(|s| s.info).collect())
}

/// The image of a folder.
pub(crate) fn open_folder(path: &Path, wanted: Option<&str>) -> Result<DicomImage<'static>> {
    let folder = Folder::read(path)?;
    if folder.files.is_empty() {
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
    DicomImage::new(path, folder, wanted, None, None)
}

/// The image to whose series a file belongs: with the other files of its folder, or of it alone.
pub(crate) fn open_file<'a>(
    source: &Source<'a>,
    bytes: Option<&'a [u8]>,
    wanted: Option<&str>,
    alone: bool,
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
    if alone || bytes.is_some() {
        let folder = Folder { files: vec![own], others: Vec::new() };
        return DicomImage::new(path, folder, wanted, Some(0), bytes);
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
    DicomImage::new(path, folder, wanted, named, None)
}

impl<'a> DicomImage<'a> {
    fn new(
        path: &Path,
        folder: Folder,
        wanted: Option<&str>,
        named: Option<usize>,
        memory: Option<&'a [u8]>,
    ) -> Result<Self> {
        let Folder { mut files, others } = folder;
        let chosen = series::choose(path, series::group(&files), wanted, named)?;
        if let Some(&broken) = chosen.broken.first() {
            return Err(files[broken].problem.take().unwrap_or_else(|| {
                IoError::malformed(path, "a file of the series is damaged", "copy it again")
            }));
        }
        let (info, volumes) = describe(path, &files, &others, &chosen)?;
        Ok(Self { info, files, volumes, memory })
    }

    fn source(&self, file: usize) -> Result<Source<'a>> {
        let path = &self.files[file].path;
        match self.memory {
            Some(bytes) => Ok(Source::memory(path, bytes)),
            None => Source::open(path),
        }
    }

    /// Gives the true values of each row of a region to `take`.
    fn rows(
        &self,
        region: &Region,
        volume: usize,
        mut take: impl FnMut(&[f64]) -> Result<()>,
    ) -> Result<()> {
        let columns = region.start[0]..region.start[0] + region.size[0];
        let rows = region.start[1]..region.start[1] + region.size[1];
        let mut values = Vec::new();
        for z in region.start[2]..region.start[2] + region.size[2] {
            let (f, i) = self.volumes[volume][z];
            let file = &self.files[f];
            let Some(layout) = &file.layout else { continue };
            let Frame { number, slope, intercept, .. } = file.frames[i];
            let source = self.source(f)?;
            pixels::rows(file, layout, &source, number, rows.clone(), &mut values)?;
            if (slope, intercept) != (1.0, 0.0) {
                values.iter_mut().for_each(|v| *v = *v * slope + intercept);
            }
            for row in values.chunks_exact(layout.columns) {
                take(&row[columns.clone()])?;
            }
        }
        Ok(())
    }
}

impl ImageSource for DicomImage<'_> {
    fn info(&self) -> &ImageInfo {
        &self.info
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
    others: &[PathBuf],
    series: &Series,
) -> Result<(ImageInfo, Vec<Vec<(usize, usize)>>)> {
    let frames: Vec<&Frame> = series.frames.iter().map(|&(f, i)| &files[f].frames[i]).collect();
    let name = |frame: usize| {
        let (f, i) = series.frames[frame];
        let name = files[f].path.file_name().unwrap_or_default().to_string_lossy();
        if files[f].frames.len() > 1 { format!("{name}, frame {i}") } else { name.into_owned() }
    };
    let stack = stack::stack(&frames, series.info.size, &name)
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
            "{} files of the folder hold no DICOM image ('{name}' is the first); they are left out",
            others.len()
        ));
    }
    let (slope, intercept) = (frames[0].slope, frames[0].intercept);
    let one_scale = frames.iter().all(|f| (f.slope, f.intercept) == (slope, intercept));
    if !one_scale {
        oddities.push("slices have scales of their own; each is applied".into());
    }
    if used
        .iter()
        .any(|&f| files[f].layout.as_ref().map(|l| l.data_type()) != Some(layout.data_type()))
    {
        oddities.push("slices are stored in several types; that of the first is named".into());
    }
    if let Some((what, values)) = &stack.by {
        let some: Vec<&str> = values.iter().take(6).map(String::as_str).collect();
        let more = if values.len() > 6 { ", …" } else { "" };
        oddities.push(format!(
            "it has {} volumes, which the {what} distinguishes: {}{more}",
            volumes.len(),
            some.join(", ")
        ));
    }
    let [columns, rows] = series.info.size;
    let mut dims = vec![columns, rows, volumes[0].len()];
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
    Ok((info, volumes))
}
