//! Chunks and metadata of OME-Zarr.

use super::super::options::PyramidOptions;
use super::super::pixel::{Pixels, PixelsMut, PixelsRef};
use super::super::{PyramidSource, zarr};
use super::plan::{OmeVersion, Plan};
use super::{Tiles, create, tiles};
use crate::atomic::{Pending, write_file};
use crate::error::{IoError, Result};
use crate::exchange::sync;
use crate::image::Region;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A folder that becomes an OME-Zarr.
#[derive(Debug)]
pub(super) struct Sink {
    folder: PathBuf,
    /// Whether a chunk has no name before it is whole.
    kept: bool,
}

impl Sink {
    /// Makes the folder with all metadata.
    pub(super) fn create(folder: &Path, plan: &Plan) -> Result<Self> {
        let make = |path: &Path| fs::create_dir(path).map_err(|e| IoError::writing(path, e));
        make(folder)?;
        (0..plan.levels.len()).try_for_each(|level| make(&folder.join(level.to_string())))?;
        for (name, value) in metadata(plan) {
            let path = folder.join(name);
            create(&path, &text(&path, &value)?)?;
        }
        Ok(Self::joined(folder, plan))
    }

    /// A folder that is kept: it may be there already, whole or in part, and several processes may make it at once.
    pub(super) fn kept(folder: &Path, plan: &Plan) -> Result<Self> {
        let make = |path: &Path| fs::create_dir_all(path).map_err(|e| IoError::writing(path, e));
        make(folder)?;
        (0..plan.levels.len()).try_for_each(|level| make(&folder.join(level.to_string())))?;
        for (name, value) in metadata(plan) {
            let path = folder.join(name);
            let text = text(&path, &value)?;
            if fs::read(&path).ok().as_ref() != Some(&text) {
                write_file(&path, |w| w.write_all(&text))?;
            }
        }
        Ok(Self { folder: folder.to_owned(), kept: true })
    }

    pub(super) fn joined(folder: &Path, _: &Plan) -> Self {
        Self { folder: folder.to_owned(), kept: false }
    }

    /// The file of a chunk.
    pub(super) fn file(
        &self,
        plan: &Plan,
        level: usize,
        channel: usize,
        number: [usize; 3],
    ) -> PathBuf {
        let mut path = self.folder.join(level.to_string());
        if plan.ome_version == OmeVersion::V05 {
            path.push("c");
        }
        let [x, y, z] = number;
        let colours = (plan.channels > 1).then_some(channel);
        for part in colours.into_iter().chain(plan.deep.then_some(z)).chain([y, x]) {
            path.push(part.to_string());
        }
        path
    }

    pub(super) fn put(&self, plan: &Plan, level: usize, tiles: Tiles) -> Result<()> {
        tiles.into_par_iter().try_for_each(|(number, pixels)| {
            let one = pixels.len() / plan.channels;
            (0..plan.channels).try_for_each(|channel| {
                let part = match &pixels {
                    Pixels::U8(p) => PixelsRef::U8(&p[channel * one..(channel + 1) * one]),
                    Pixels::U16(p) => PixelsRef::U16(&p[channel * one..(channel + 1) * one]),
                };
                self.chunk(plan, &self.file(plan, level, channel, number), part)
            })
        })
    }

    fn chunk(&self, plan: &Plan, path: &Path, pixels: PixelsRef<'_>) -> Result<()> {
        let fail = |e| IoError::writing(path, e);
        let bytes = tiles::bytes(pixels, plan.is_signed()).map_err(|r| IoError::memory(path, r))?;
        let level = Compression::new(plan.compression);
        let packed = match (plan.compression, plan.ome_version) {
            (0, _) => bytes,
            (_, OmeVersion::V04) => {
                let mut encoder = ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(&bytes).and_then(|()| encoder.finish()).map_err(fail)?
            }
            (_, OmeVersion::V05) => {
                let mut encoder = GzEncoder::new(Vec::new(), level);
                encoder.write_all(&bytes).and_then(|()| encoder.finish()).map_err(fail)?
            }
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(fail)?;
        }
        if self.kept {
            return Pending::write(path, |w| w.write_all(&packed))?.persist();
        }
        create(path, &packed)
    }

    /// What was written, each channel on its own.
    pub(super) fn sources(&self, plan: &Plan) -> Result<Vec<Box<dyn PyramidSource>>> {
        (0..plan.channels)
            .map(|channel| {
                let channel = (plan.channels > 1).then_some(channel);
                zarr::open(&self.folder, &PyramidOptions { channel, ..Default::default() })
            })
            .collect()
    }

    /// Pixels of all channels.
    pub(super) fn read(
        &self,
        plan: &Plan,
        sources: &[Box<dyn PyramidSource>],
        level: usize,
        region: &Region,
    ) -> Result<Pixels> {
        for number in tiles::within(region, plan.levels[level].tile) {
            if !(0..plan.channels).all(|c| self.file(plan, level, c, number).is_file()) {
                return Err(unwritten(plan, level, number));
            }
        }
        let n = region.len();
        let mut out = Pixels::zeroed(plan.pixel_type, n * plan.channels)
            .map_err(|refused| IoError::memory(&plan.path, refused))?;
        for (channel, source) in sources.iter().enumerate() {
            let range = channel * n..(channel + 1) * n;
            let part = match &mut out {
                Pixels::U8(p) => PixelsMut::U8(&mut p[range]),
                Pixels::U16(p) => PixelsMut::U16(&mut p[range]),
            };
            source.read(level, region, part)?;
        }
        Ok(out)
    }

    /// An error where a chunk was not written; all names come to the disk.
    pub(super) fn close(&self, plan: &Plan) -> Result<()> {
        for (level, of) in plan.levels.iter().enumerate() {
            for number in tiles::within(&Region::whole(of.dims()), of.tile) {
                for channel in 0..plan.channels {
                    if !self.file(plan, level, channel, number).is_file() {
                        return Err(unwritten(plan, level, number));
                    }
                }
            }
        }
        sync(&self.folders()?).map_err(|(path, e)| IoError::writing(&path, e))
    }

    /// All folders of it.
    pub(super) fn folders(&self) -> Result<Vec<PathBuf>> {
        let mut folders = vec![self.folder.clone()];
        let mut at = 0;
        while let Some(folder) = folders.get(at).cloned() {
            at += 1;
            let entries = fs::read_dir(&folder).map_err(|e| IoError::writing(&folder, e))?;
            let inside = entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
            folders.extend(inside.map(|e| e.path()));
        }
        Ok(folders)
    }
}

/// An error about a tile that is not there.
pub(super) fn unwritten(plan: &Plan, level: usize, number: [usize; 3]) -> IoError {
    IoError::malformed(
        &plan.path,
        format!("the tile {number:?} of level {level} was not written"),
        "write all tiles before the image is finished",
    )
}

/// The files of metadata by their names in the folder.
fn metadata(plan: &Plan) -> Vec<(String, Value)> {
    let image = multiscales(plan);
    let levels = 0..plan.levels.len();
    match plan.ome_version {
        OmeVersion::V04 => [
            (".zgroup".to_owned(), json!({"zarr_format": 2})),
            (".zattrs".to_owned(), json!({"multiscales": [image]})),
        ]
        .into_iter()
        .chain(levels.map(|level| (format!("{level}/.zarray"), second(plan, level))))
        .collect(),
        OmeVersion::V05 => {
            let ome = json!({"version": "0.5", "multiscales": [image]});
            let group = json!({
                "zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}
            });
            std::iter::once(("zarr.json".to_owned(), group))
                .chain(levels.map(|level| (format!("{level}/zarr.json"), third(plan, level))))
                .collect()
        }
    }
}

fn text(path: &Path, value: &Value) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(value).map_err(|e| IoError::writing(path, std::io::Error::other(e)))
}

/// For each axis of the arrays: channel, z, y, x.
fn axes<T>(plan: &Plan, channel: T, space: [T; 3]) -> Vec<T> {
    let [x, y, z] = space;
    let colours = (plan.channels > 1).then_some(channel);
    colours.into_iter().chain(plan.deep.then_some(z)).chain([y, x]).collect()
}

fn multiscales(plan: &Plan) -> Value {
    let space = |name: &str| json!({"name": name, "type": "space", "unit": "millimeter"});
    let names =
        axes(plan, json!({"name": "c", "type": "channel"}), [space("x"), space("y"), space("z")]);
    let datasets: Vec<Value> = plan
        .levels
        .iter()
        .enumerate()
        .map(|(number, level)| {
            // Of LPS.
            let origin = level.grid.origin();
            let (scale, translation) = (
                axes(plan, 1.0, level.grid.spacing()),
                // Without the sign of zero.
                axes(plan, 0.0, [-origin[0] + 0.0, -origin[1] + 0.0, origin[2] + 0.0]),
            );
            json!({
                "path": number.to_string(),
                "coordinateTransformations": [
                    {"type": "scale", "scale": scale},
                    {"type": "translation", "translation": translation},
                ],
            })
        })
        .collect();
    let name = plan.path.file_stem().unwrap_or_default().to_string_lossy();
    let mut image = json!({"name": name, "axes": names, "datasets": datasets, "type": "mean"});
    if plan.ome_version == OmeVersion::V04 {
        image["version"] = json!("0.4");
    }
    image
}

/// Sizes of an array and of its chunks.
fn sizes(plan: &Plan, level: usize) -> [Vec<usize>; 2] {
    let of = &plan.levels[level];
    [axes(plan, plan.channels, of.dims()), axes(plan, 1, of.tile)]
}

fn second(plan: &Plan, level: usize) -> Value {
    let [shape, chunks] = sizes(plan, level);
    let size = plan.pixel_type.size();
    let kind = if plan.is_signed() { "i" } else { "u" };
    let compressor = match plan.compression {
        0 => Value::Null,
        level => json!({"id": "zlib", "level": level}),
    };
    json!({
        "zarr_format": 2,
        "shape": shape,
        "chunks": chunks,
        "dtype": format!("{}{kind}{size}", if size == 1 { "|" } else { "<" }),
        "fill_value": 0,
        "order": "C",
        "filters": null,
        "compressor": compressor,
        "dimension_separator": "/",
    })
}

fn third(plan: &Plan, level: usize) -> Value {
    let [shape, chunks] = sizes(plan, level);
    let mut codecs = vec![json!({"name": "bytes", "configuration": {"endian": "little"}})];
    if plan.compression > 0 {
        codecs.push(json!({"name": "gzip", "configuration": {"level": plan.compression}}));
    }
    let sign = if plan.is_signed() { "int" } else { "uint" };
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": format!("{sign}{}", 8 * plan.pixel_type.size()),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": codecs,
        "dimension_names": axes(plan, "c", ["x", "y", "z"]),
        "attributes": {},
    })
}
