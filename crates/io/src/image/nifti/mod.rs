//! NIfTI-1, NIfTI-2 and ANALYZE 7.5 files.

mod geometry;
mod header;
mod quaternion;
mod write;

use header::NiftiHeader;
pub(crate) use write::{
    labels as write_labels, volume as write_volume, volumes as write_volumes, write_vectors,
};

use super::decode::{Plan, Start};
use super::info::{Extension, ImageInfo};
use super::options::{Compression, DataType, Format};
use crate::error::{IoError, Result};
use crate::source::Source;
use header::Version;
use std::path::{Path, PathBuf};

/// Bytes of a header file that are looked at, with its extensions.
const HEAD: usize = 1 << 20;

/// A NIfTI file that holds vectors.
#[derive(Debug)]
pub(crate) struct VectorHeader {
    pub(crate) header: NiftiHeader,
    pub(crate) plan: Plan,
}

/// Parses the header of a single file or a pair.
pub(crate) fn plan(source: &Source<'_>) -> Result<Plan> {
    Ok(with_header(source)?.plan)
}

/// As [`plan`], with the header as stored.
pub(crate) fn with_header(source: &Source<'_>) -> Result<VectorHeader> {
    let format = Format::from_path(source.path())?;
    if format == Format::NiftiPair && !source.is_memory() {
        let (header, image) = pair(source.path())?;
        let mut found = parse(&Source::open(&header)?, format)?;
        if !image.exists() {
            return Err(IoError::malformed(
                &header,
                format!("its data file '{}' does not exist", image.display()),
                "put the .img beside the .hdr",
            ));
        }
        let data = Source::open(&image)?;
        found.plan.info.compression =
            if data.stream()?.gzip { Compression::Gzip } else { Compression::None };
        found.plan.info.files = vec![header, image.clone()];
        found.plan.info.data_path = image;
        return Ok(found);
    }
    let mut found = parse(source, format)?;
    if format == Format::NiftiPair {
        // In memory there is the header only.
        found.plan.info.data_path = source.path().with_extension("img");
    }
    Ok(found)
}

/// The header and the image file of a pair, from the name of either.
fn pair(path: &Path) -> Result<(PathBuf, PathBuf)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let packed = name.to_ascii_lowercase().ends_with(".gz");
    let plain = &name[..name.len() - if packed { 3 } else { 0 }];
    let Some((stem, extension)) = plain.rsplit_once('.') else {
        return Ok((path.into(), path.into()));
    };
    let upper = extension.chars().all(|c| c.is_ascii_uppercase());
    let find = |kind: &str, itself: bool| {
        if itself {
            return path.to_path_buf();
        }
        let kind = if upper { kind.to_ascii_uppercase() } else { kind.to_string() };
        let plain = path.with_file_name(format!("{stem}.{kind}"));
        let gz = path.with_file_name(format!("{stem}.{kind}.gz"));
        // The packing of the named file first.
        let (first, second) = if packed { (gz, plain) } else { (plain, gz) };
        if !first.exists() && second.exists() { second } else { first }
    };
    let is_header = extension.eq_ignore_ascii_case("hdr");
    let header = find("hdr", is_header);
    if !is_header && !header.exists() {
        return Err(IoError::malformed(
            path,
            format!("its header file '{}' does not exist", header.display()),
            "put the .hdr beside the .img",
        ));
    }
    Ok((header, find("img", !is_header)))
}

fn parse(source: &Source<'_>, format: Format) -> Result<VectorHeader> {
    let path = source.path();
    let wrong = |problem: String| {
        IoError::malformed(path, problem, "check that this is a complete NIfTI or ANALYZE file")
    };
    let (head, gzip) = source.head(HEAD)?;
    let header = NiftiHeader::parse(&head)
        .map_err(|p| wrong(format!("this is not a NIfTI or ANALYZE header: {p}")))?;
    let single = format == Format::Nifti;
    if single && header.version == Version::Analyze {
        return Err(wrong("the NIfTI magic 'n+1' is missing".into()));
    }
    if single && !header.single {
        return Err(IoError::malformed(
            path,
            "this is the header of a pair, whose values are in an .img file",
            "name the two files .hdr and .img",
        ));
    }
    let mut oddities = Vec::new();
    if !single && header.single {
        oddities.push(
            "the header says that this is a single .nii file, but it is one of a \
                   pair"
                .into(),
        );
    }
    let dims = dims(&header, &mut oddities).map_err(&wrong)?;
    let data_type = data_type(&header, path, &mut oddities)?;
    let start = start(&header, single, &mut oddities).map_err(&wrong)?;
    let first = std::array::from_fn(|a| dims.get(a).copied().unwrap_or(1));
    let place = geometry::find(&header, first).map_err(|problem| {
        IoError::malformed(path, problem, "correct the geometry in the header first")
    })?;
    oddities.extend(place.oddities);
    let (slope, intercept) = scale(&header, &mut oddities);
    let end = if single { start as usize } else { usize::MAX };
    let extensions = extensions(&head, &header, end, &mut oddities);
    let mut info = ImageInfo {
        path: path.into(),
        data_path: path.into(),
        files: vec![path.into()],
        format,
        format_name: header.version.name().into(),
        dims,
        dimensions: header.dim[0] as usize,
        components: 1,
        data_type,
        byte_order: header.order,
        compression: if gzip { Compression::Gzip } else { Compression::None },
        slope,
        intercept,
        own_scales: false,
        volume_names: Vec::new(),
        grid: place.grid,
        grid_source: place.source,
        qform_code: header.qform_code,
        sform_code: header.sform_code,
        qform: place.qform,
        sform: place.sform,
        form_difference_mm: place.difference,
        intent: intent(&header),
        description: header.description.clone(),
        extensions,
        oddities: oddities.into_iter().map(Into::into).collect(),
    };
    info.describe_grid();
    let mut plan = Plan { info, start: Start::Unpacked(start), skip: 0 };
    if single && !gzip {
        let rest = source.length().saturating_sub(start.saturating_add(plan.size()?.1));
        if rest > 0 {
            plan.info
                .oddities
                .push(format!("{rest} bytes follow the values; they are ignored").into());
        }
    }
    Ok(VectorHeader { plan, header })
}

fn dims(
    header: &NiftiHeader,
    oddities: &mut Vec<String>,
) -> std::result::Result<Vec<usize>, String> {
    let count = header.dim[0];
    if !(1..=7).contains(&count) {
        return Err(format!("the number of axes dim[0] is {count} instead of 1 to 7"));
    }
    let mut dims = Vec::new();
    for i in 1..=count as usize {
        let size = header.dim[i];
        if size == 0 && i > 3 {
            oddities.push(format!("the size of axis {i} is 0; it is taken as 1"));
            dims.push(1);
        } else if size < 1 {
            return Err(format!("the size of axis {i} is {size}"));
        } else {
            dims.push(usize::try_from(size).map_err(|_| format!("axis {i} has {size} voxels"))?);
        }
    }
    dims.resize(dims.len().max(3), 1);
    Ok(dims)
}

fn data_type(header: &NiftiHeader, path: &Path, oddities: &mut Vec<String>) -> Result<DataType> {
    let data_type = header::type_of(header.datatype).map_err(|name| {
        IoError::unsupported(
            path,
            format!("the data type {} ({name}) is not supported", header.datatype),
            "convert the image to floats or integers of at most 64 bits",
        )
    })?;
    if header.bitpix as usize != data_type.size() * 8 {
        oddities.push(format!(
            "bitpix is {}, but the type {data_type} has {} bits",
            header.bitpix,
            data_type.size() * 8
        ));
    }
    Ok(data_type)
}

/// Where the values begin in the file that holds them.
fn start(
    header: &NiftiHeader,
    single: bool,
    oddities: &mut Vec<String>,
) -> std::result::Result<u64, String> {
    let offset = header.vox_offset;
    if !offset.is_finite() || offset.fract() != 0.0 || !(0.0..=1e15).contains(&offset) {
        return Err(format!("vox_offset (where the values begin) is {offset}"));
    }
    let least = header.version.size() as f64;
    if single && offset == 0.0 {
        oddities.push(format!("vox_offset is 0; the values are taken to begin at byte {least}"));
        return Ok(least as u64);
    }
    if single && offset < least {
        return Err(format!("the values begin at byte {offset}, within the header"));
    }
    if !single && header.single && offset == least {
        return Ok(0);
    }
    Ok(offset as u64)
}

fn scale(header: &NiftiHeader, oddities: &mut Vec<String>) -> (f64, f64) {
    let (slope, intercept) = (header.slope, header.intercept);
    if !slope.is_finite() || !intercept.is_finite() {
        // Some programs write NaN for "not scaled".
        if !(slope.is_nan() && (intercept.is_nan() || intercept == 0.0)) {
            oddities.push(format!(
                "the scale ({slope}, {intercept}) is not a number; it is \
                                   ignored"
            ));
        }
        return (1.0, 0.0);
    }
    if slope == 0.0 { (1.0, 0.0) } else { (slope, intercept) }
}

fn intent(header: &NiftiHeader) -> String {
    let name = match header.intent_code {
        0 => return header.intent_name.clone(),
        1001 => "estimate",
        1002 => "label",
        1005 => "symmetric matrix",
        1006 => "displacement vector",
        1007 => "vector",
        1008 => "point set",
        _ => "",
    };
    format!("{} ({name}) {}", header.intent_code, header.intent_name)
        .replace(" ()", "")
        .trim()
        .to_string()
}

fn extensions(
    head: &[u8],
    header: &NiftiHeader,
    end: usize,
    oddities: &mut Vec<String>,
) -> Vec<Extension> {
    let mut found = Vec::new();
    let mut at = header.version.size();
    let flag = head.get(at.wrapping_sub(4)).copied().unwrap_or(0);
    if header.version == Version::Analyze || flag == 0 {
        return found;
    }
    while at.saturating_add(8) <= end.min(head.len()) {
        let number = |i: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&head[i..i + 4]);
            match header.order {
                super::options::ByteOrder::Little => i32::from_le_bytes(bytes),
                super::options::ByteOrder::Big => i32::from_be_bytes(bytes),
            }
        };
        let (size, code) = (number(at), number(at + 4));
        if size < 8 || (end != usize::MAX && size as usize > end - at) {
            oddities.push(format!("a header extension has the impossible size {size}"));
            break;
        }
        found.push(Extension { code, size: size as usize });
        at = at.saturating_add(size as usize);
    }
    found
}
