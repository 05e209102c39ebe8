//! What an array says of itself, in the second and the third version of Zarr.

use super::chain::{Chain, Shard};
use super::metadata::{Json, said};
use super::packing::Packing;
use super::places::Places;
use crate::error::{IoError, Result};
use crate::image::DataType;
use crate::pyramid::options::Missing;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Bytes of a chunk.
const LARGEST_CHUNK: u64 = 1 << 32;
/// Parts of a file.
const MOST_PARTS: u64 = 1 << 26;

/// An array whose chunks are files.
#[derive(Debug)]
pub(super) struct Array {
    pub(super) folder: PathBuf,
    pub(super) shape: Vec<usize>,
    /// Sizes of the part that a file holds.
    pub(super) chunk: Vec<usize>,
    pub(super) data_type: DataType,
    /// One value of where nothing was written, in this machine's order of bytes.
    pub(super) fill: Vec<u8>,
    pub(super) chain: Chain,
    pub(super) shard: Option<Shard>,
    pub(super) missing: Missing,
    pub(super) places: Places,
    /// What is before the numbers of a chunk in its name, and between them.
    prefix: &'static str,
    separator: char,
}

impl Array {
    pub(super) fn read(folder: &Path, version: u8, missing: Missing) -> Result<Array> {
        let json = Json::read(folder.join(if version == 2 { ".zarray" } else { "zarr.json" }))?;
        let array = if version == 2 {
            second(folder, &json, missing)
        } else {
            third(folder, &json, missing)
        }?;
        array.check(&json)?;
        Ok(array)
    }

    /// Sizes of what is unpacked at once.
    pub(super) fn unit(&self) -> &[usize] {
        self.shard.as_ref().map_or(&self.chunk, |shard| &shard.inner)
    }

    fn check(&self, json: &Json) -> Result<()> {
        if self.shape.contains(&0) {
            return Err(json.wrong(format!("the array has the sizes {:?}", self.shape)));
        }
        if self.chunk.len() != self.shape.len() || self.chunk.contains(&0) {
            return Err(json.wrong(format!("chunks have the sizes {:?}", self.chunk)));
        }
        let unit = self.unit();
        let fits = unit.len() == self.chunk.len()
            && unit.iter().zip(&self.chunk).all(|(&u, &c)| u > 0 && c % u == 0);
        if !fits {
            return Err(json.wrong(format!("chunks of {:?} have parts of {unit:?}", self.chunk)));
        }
        let bytes =
            unit.iter().fold(self.data_type.size() as u64, |n, &u| n.saturating_mul(u as u64));
        if bytes > LARGEST_CHUNK {
            let remedy = "write it with chunks of some megabytes";
            let what = format!("chunks of {unit:?} values take {bytes} bytes each");
            return Err(IoError::unsupported(&json.path, what, remedy));
        }
        let parts = unit.iter().zip(&self.chunk).map(|(&u, &c)| (c / u) as u64);
        if parts.fold(1, u64::saturating_mul) > MOST_PARTS {
            return Err(json.wrong(format!("chunks of {:?} have parts of {unit:?}", self.chunk)));
        }
        let n = self.shape.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
        if n.is_none_or(|n| n > isize::MAX as usize / 16) {
            return Err(json.wrong(format!("the array has the sizes {:?}", self.shape)));
        }
        Ok(())
    }

    /// The file of a chunk.
    pub(super) fn file(&self, numbers: &[usize]) -> PathBuf {
        let mut name = self.prefix.to_owned();
        for number in numbers {
            if !name.is_empty() {
                name.push(self.separator);
            }
            name.push_str(&number.to_string());
        }
        self.folder.join(name)
    }
}

fn second(folder: &Path, json: &Json, missing: Missing) -> Result<Array> {
    let it = &json.value;
    let dtype = it["dtype"].as_str().unwrap_or_default();
    let (big_endian, data_type) = match (dtype.get(..1), dtype.get(1..).and_then(by_letter)) {
        (Some(order @ ("<" | ">" | "|")), Some(kind)) => (order == ">", kind),
        _ => return Err(json.unsupported(format!("values of the type {}", said(&it["dtype"])))),
    };
    let shape = json.sizes(it, "shape")?;
    if it["filters"].as_array().is_some_and(|list| !list.is_empty()) {
        return Err(json.unsupported(format!("the filters {}", said(&it["filters"]))));
    }
    let packed = match &it["compressor"] {
        Value::Null => Vec::new(),
        codec => {
            let name = codec["id"].as_str().unwrap_or_default();
            let packing = Packing::of(name)
                .ok_or_else(|| json.unsupported(format!("the compressor {}", said(codec))))?;
            vec![packing]
        }
    };
    let axes = shape.len();
    let order = match it["order"].as_str() {
        Some("F") => (0..axes).rev().collect(),
        _ => (0..axes).collect(),
    };
    Ok(Array {
        folder: folder.to_owned(),
        chunk: json.sizes(it, "chunks")?,
        fill: fill(json, data_type)?,
        shape,
        data_type,
        chain: Chain { order, big_endian, packed },
        shard: None,
        missing,
        places: Places::default(),
        prefix: "",
        separator: separator(json, &it["dimension_separator"], '.')?,
    })
}

fn third(folder: &Path, json: &Json, missing: Missing) -> Result<Array> {
    let it = &json.value;
    let name = it["data_type"].as_str().unwrap_or_default();
    let Some(data_type) = by_name(name) else {
        return Err(json.unsupported(format!("values of the type {}", said(&it["data_type"]))));
    };
    let grid = &it["chunk_grid"];
    if grid["name"] != "regular" {
        return Err(json.unsupported(format!("the grid of chunks {}", said(grid))));
    }
    if it["storage_transformers"].as_array().is_some_and(|list| !list.is_empty()) {
        return Err(json.unsupported("storage transformers"));
    }
    let keys = &it["chunk_key_encoding"];
    let (prefix, usual) = match keys["name"].as_str() {
        Some("default") => ("c", '/'),
        Some("v2") => ("", '.'),
        _ => return Err(json.unsupported(format!("the names of chunks {}", said(keys)))),
    };
    let shape = json.sizes(it, "shape")?;
    let (chain, shard) = Chain::read(json, &it["codecs"], shape.len())?;
    Ok(Array {
        folder: folder.to_owned(),
        chunk: json.sizes(&grid["configuration"], "chunk_shape")?,
        fill: fill(json, data_type)?,
        shape,
        data_type,
        chain,
        shard,
        missing,
        places: Places::default(),
        prefix,
        separator: separator(json, &keys["configuration"]["separator"], usual)?,
    })
}

fn separator(json: &Json, value: &Value, usual: char) -> Result<char> {
    match value.as_str() {
        None => Ok(usual),
        Some("/") => Ok('/'),
        Some(".") => Ok('.'),
        Some(_) => Err(json.wrong(format!("the separator of names is {}", said(value)))),
    }
}

/// The type that NumPy calls so.
fn by_letter(name: &str) -> Option<DataType> {
    Some(match name {
        "u1" => DataType::U8,
        "i1" => DataType::I8,
        "u2" => DataType::U16,
        "i2" => DataType::I16,
        "u4" => DataType::U32,
        "i4" => DataType::I32,
        "u8" => DataType::U64,
        "i8" => DataType::I64,
        "f4" => DataType::F32,
        "f8" => DataType::F64,
        _ => return None,
    })
}

/// The type that the third version calls so.
fn by_name(name: &str) -> Option<DataType> {
    Some(match name {
        "uint8" => DataType::U8,
        "int8" => DataType::I8,
        "uint16" => DataType::U16,
        "int16" => DataType::I16,
        "uint32" => DataType::U32,
        "int32" => DataType::I32,
        "uint64" => DataType::U64,
        "int64" => DataType::I64,
        "float32" => DataType::F32,
        "float64" => DataType::F64,
        _ => return None,
    })
}

/// The value of what was not written; 0 where none is said.
fn fill(json: &Json, data_type: DataType) -> Result<Vec<u8>> {
    let value = &json.value["fill_value"];
    let wrong = || json.wrong(format!("the fill value {} is no {data_type}", said(value)));
    macro_rules! whole {
        ($ty:ty) => {{
            let number = match value {
                Value::Null => 0,
                // Some programs write whole numbers as 0.0.
                Value::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
                    (Some(v), ..) => i128::from(v),
                    (_, Some(v), _) => i128::from(v),
                    (.., Some(v)) if v.fract() == 0.0 => v as i128,
                    _ => return Err(wrong()),
                },
                _ => return Err(wrong()),
            };
            <$ty>::try_from(number).map_err(|_| wrong())?.to_ne_bytes().to_vec()
        }};
    }
    let float = || match value {
        Value::Null => Some(0.0),
        Value::String(name) if name == "NaN" => Some(f64::NAN),
        Value::String(name) if name == "Infinity" => Some(f64::INFINITY),
        Value::String(name) if name == "-Infinity" => Some(f64::NEG_INFINITY),
        other => other.as_f64(),
    };
    Ok(match data_type {
        DataType::U8 => whole!(u8),
        DataType::I8 => whole!(i8),
        DataType::U16 => whole!(u16),
        DataType::I16 => whole!(i16),
        DataType::U32 => whole!(u32),
        DataType::I32 => whole!(i32),
        DataType::U64 => whole!(u64),
        DataType::I64 => whole!(i64),
        DataType::F32 => (float().ok_or_else(wrong)? as f32).to_ne_bytes().to_vec(),
        DataType::F64 => float().ok_or_else(wrong)?.to_ne_bytes().to_vec(),
    })
}
