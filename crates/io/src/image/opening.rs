//! Opening an image of any format.

use super::access::{FileImage, ImageSource};
use super::decode::Plan;
use super::dicom::{self, DicomImage};
use super::info::{ImageInfo, SeriesInfo};
use super::options::{Format, ReadOptions, is_dicom_name};
use super::region::{Region, check_volume};
use crate::checksum::sha256_file;
use crate::error::{IoError, Result};
use crate::source::Source;
use bytemuck::Zeroable;
use std::path::{Path, PathBuf};
use voxalign_image::{LabelMap, Volume, memory};

/// Opens an image, of which then any part can be read; no value is read yet.
///
/// # Errors
/// A missing, empty, cut or malformed file; an unknown format; a geometry that is not one; several
/// series of DICOM images of which none is chosen; a choice that the image does not have.
pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Box<dyn ImageSource>> {
    Ok(match opened(path.as_ref(), options)? {
        Opened::File(plan, source) => Box::new(FileImage::new(*plan, source)),
        Opened::Dicom(image) => image,
    })
}

/// The series of DICOM images among the files of a folder, those that cannot be read included.
///
/// # Errors
/// A folder that cannot be read; a DICOM file of which not even the series can be told.
pub fn list_series(folder: impl AsRef<Path>) -> Result<Vec<SeriesInfo>> {
    dicom::list(folder.as_ref())
}

/// What the header says of the image that the options choose; no voxel is read.
///
/// # Errors
/// As [`open`].
pub fn read_info_of(path: impl AsRef<Path>, options: &ReadOptions) -> Result<ImageInfo> {
    Ok(opened(path.as_ref(), options)?.into_info())
}

/// The volume that the options choose, with scaled values, and what the header says.
///
/// # Errors
/// As [`read_volume`](super::read_volume) and [`open`].
pub fn read_volume_of(
    path: impl AsRef<Path>,
    options: &ReadOptions,
) -> Result<(Volume<f32>, ImageInfo)> {
    volume(opened(path.as_ref(), options)?, options)
}

/// As [`read_volume_of`], into values that the caller has.
///
/// # Errors
/// As [`read_volume_of`]; another number of voxels than that of `out`.
pub fn read_volume_into_of(
    path: impl AsRef<Path>,
    options: &ReadOptions,
    out: &mut [f32],
) -> Result<ImageInfo> {
    let image = opened(path.as_ref(), options)?;
    if let (Opened::File(plan, source), None) = (&image, options.volume) {
        plan.one_volume()?;
        super::decode::floats_into(plan, source, out)?;
        return Ok(image.into_info());
    }
    let image = image.into_source();
    let (region, volume) = chosen(image.info(), options)?;
    image.read(&region, volume, out)?;
    Ok(image.info().clone())
}

/// As [`read_volume_into_of`], with the SHA-256 of all files that the image is in. The values of one file
/// are hashed while they are read; other files are read twice.
///
/// # Errors
/// As [`read_volume_into_of`].
pub fn read_volume_into_hashing_of(
    path: impl AsRef<Path>,
    options: &ReadOptions,
    out: &mut [f32],
) -> Result<(ImageInfo, Vec<(PathBuf, String)>)> {
    let path = path.as_ref();
    let hashed = |file: &PathBuf| Ok((file.clone(), sha256_file(file)?));
    match (opened(path, options)?, options.volume) {
        (Opened::File(plan, source), None) => {
            plan.one_volume()?;
            let mut sums = Vec::new();
            let values = if plan.info.data_path == plan.info.path {
                source
            } else {
                sums.push((path.to_owned(), sha256_file(path)?));
                Source::named_by(path, &plan.info.data_path)?
            };
            let values = values.hashing()?;
            super::decode::floats_into(&plan, &values, out)?;
            let data_path = plan.info.data_path.clone();
            sums.extend(values.checksum()?.map(|sum| (data_path, sum)));
            Ok((plan.info, sums))
        }
        (image, _) => {
            let image = image.into_source();
            let (region, volume) = chosen(image.info(), options)?;
            image.read(&region, volume, out)?;
            let sums = image.info().files.iter().map(hashed).collect::<Result<_>>()?;
            Ok((image.info().clone(), sums))
        }
    }
}

/// The label map that the options choose.
///
/// # Errors
/// As [`read_labels`](super::read_labels) and [`open`].
pub fn read_labels_of(path: impl AsRef<Path>, options: &ReadOptions) -> Result<LabelMap> {
    labels(opened(path.as_ref(), options)?, options)
}

/// Voxels that are read at a time.
const SLAB: usize = 1 << 22;

/// An image of which the header was read.
pub(crate) enum Opened<'a> {
    File(Box<Plan>, Source<'a>),
    Dicom(Box<DicomImage<'a>>),
}

impl<'a> Opened<'a> {
    pub(crate) fn into_info(self) -> ImageInfo {
        match self {
            Opened::File(plan, _) => plan.info,
            Opened::Dicom(image) => image.info().clone(),
        }
    }

    pub(crate) fn into_source(self) -> Box<dyn ImageSource + 'a> {
        match self {
            Opened::File(plan, source) => Box::new(FileImage::new(*plan, source)),
            Opened::Dicom(image) => image,
        }
    }
}

fn opened(path: &Path, options: &ReadOptions) -> Result<Opened<'static>> {
    if path.is_dir() {
        let image = dicom::open_folder(path, options)?;
        if options.alone {
            return Err(IoError::malformed(
                path,
                "a single file is expected, but this is a folder",
                "name the file",
            ));
        }
        return checked(Opened::Dicom(Box::new(image)), options);
    }
    of_source(Source::open(path)?, None, options)
}

/// The image of a source; of `bytes`, where it is in memory.
pub(crate) fn of_source<'a>(
    source: Source<'a>,
    bytes: Option<&'a [u8]>,
    options: &ReadOptions,
) -> Result<Opened<'a>> {
    let path = source.path();
    let is_dicom =
        Format::from_path(path).is_err() && (is_dicom_name(path) || dicom::is_dicom(&source)?);
    let opened = if is_dicom {
        Opened::Dicom(Box::new(dicom::open_file(&source, bytes, options)?))
    } else {
        Opened::File(Box::new(super::plan(&source)?), source)
    };
    checked(opened, options)
}

/// An error where a choice does not suit the image.
fn checked<'a>(opened: Opened<'a>, options: &ReadOptions) -> Result<Opened<'a>> {
    let info = match &opened {
        Opened::File(plan, _) => {
            if options.series.is_some() || options.alone || options.even {
                return Err(IoError::malformed(
                    &plan.info.path,
                    format!(
                        "a choice is made that is for DICOM, but this is a {} image",
                        plan.info.format
                    ),
                    "leave the choice out",
                ));
            }
            &plan.info
        }
        Opened::Dicom(image) => image.info(),
    };
    if let Some(volume) = options.volume {
        check_volume(info, volume)?;
    }
    Ok(opened)
}

/// The volume that is chosen: the only one, where none is.
fn chosen(info: &ImageInfo, options: &ReadOptions) -> Result<(Region, usize)> {
    let volumes = info.volumes();
    let (path, dims) = (info.path.clone(), info.dims.clone());
    match options.volume {
        None if volumes > 1 => Err(IoError::SeveralVolumes { path, dims, volumes }),
        volume => Ok((Region::whole(info.grid.dims()), volume.unwrap_or(0))),
    }
}

/// Reads a volume whole.
pub(crate) fn volume(image: Opened<'_>, options: &ReadOptions) -> Result<(Volume<f32>, ImageInfo)> {
    if let (Opened::File(plan, source), None) = (&image, options.volume) {
        plan.one_volume()?;
        let data = super::decode::floats(plan, source)?;
        let info = image.into_info();
        return whole(data, info);
    }
    let image = image.into_source();
    let data = values(&*image, options, |region, volume, out| image.read(region, volume, out))?;
    whole(data, image.info().clone())
}

/// Reads labels whole.
pub(crate) fn labels(image: Opened<'_>, options: &ReadOptions) -> Result<LabelMap> {
    if let (Opened::File(plan, source), None) = (&image, options.volume) {
        plan.one_volume()?;
        let data = super::decode::labels(plan, source)?;
        return Ok(whole(data, image.into_info())?.0);
    }
    let image = image.into_source();
    let data =
        values(&*image, options, |region, volume, out| image.read_labels(region, volume, out))?;
    Ok(whole(data, image.info().clone())?.0)
}

fn whole<T>(data: Vec<T>, info: ImageInfo) -> Result<(Volume<T>, ImageInfo)> {
    let volume = Volume::new(info.grid.clone(), data).map_err(|e| IoError::image(&info.path, e))?;
    Ok((volume, info))
}

/// Memory for all voxels, slab by slab as they are read: what a cut file claims is not asked for.
fn values<T: Zeroable + Clone>(
    image: &dyn ImageSource,
    options: &ReadOptions,
    read: impl Fn(&Region, usize, &mut [T]) -> Result<()>,
) -> Result<Vec<T>> {
    let info = image.info();
    let (region, volume) = chosen(info, options)?;
    let [nx, ny, nz] = region.size;
    let no_memory = |refused| IoError::memory(&info.path, refused);
    let mut out: Vec<T> = Vec::new();
    let slices = (SLAB / (nx * ny)).max(1);
    for z in (0..nz).step_by(slices) {
        let slab = Region { start: [0, 0, z], size: [nx, ny, slices.min(nz - z)] };
        let start = out.len();
        let total = start + slab.len();
        if total > out.capacity() {
            // Twice what is there, and no more than all.
            let target = total.max(2 * start).max(SLAB).min(region.len());
            let more = target - start;
            memory::ask::<T, ()>(target, || out.try_reserve_exact(more).ok()).map_err(no_memory)?;
        }
        out.resize(total, T::zeroed());
        read(&slab, volume, &mut out[start..])?;
    }
    Ok(out)
}
