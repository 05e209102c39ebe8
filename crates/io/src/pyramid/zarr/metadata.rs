//! JSON files of metadata.

use crate::error::{IoError, Result, shorten};
use crate::source::Source;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Bytes of a file of metadata.
const LARGEST: u64 = 1 << 26;

/// A file of metadata.
pub(super) struct Json {
    pub(super) path: PathBuf,
    pub(super) value: Value,
}

impl Json {
    pub(super) fn read(path: PathBuf) -> Result<Json> {
        let bytes = Source::open(&path)?.read_all(LARGEST)?;
        let value = serde_json::from_slice(&bytes).map_err(|e| {
            let problem = format!("this is not valid JSON ({})", shorten(&e.to_string()));
            wrong(&path, problem)
        })?;
        Ok(Json { path, value })
    }

    pub(super) fn wrong(&self, problem: impl Into<String>) -> IoError {
        wrong(&self.path, problem.into())
    }

    /// An error about something that is valid, and not read.
    pub(super) fn unsupported(&self, what: impl Into<String>) -> IoError {
        let remedy = "write it by another program, with the codecs zstd, gzip, zlib, lz4 or blosc";
        IoError::unsupported(&self.path, what, remedy)
    }

    /// The sizes of a field.
    pub(super) fn sizes(&self, value: &Value, field: &str) -> Result<Vec<usize>> {
        let list = value[field].as_array().map(Vec::as_slice).unwrap_or_default();
        let sizes: Option<Vec<usize>> =
            list.iter().map(|v| usize::try_from(v.as_u64()?).ok()).collect();
        sizes.filter(|s| !s.is_empty() && s.len() <= 16).ok_or_else(|| {
            self.wrong(format!("'{field}' is no list of sizes: {}", said(&value[field])))
        })
    }
}

fn wrong(path: &Path, problem: String) -> IoError {
    IoError::malformed(path, problem, "the metadata are damaged: copy or write the image again")
}

/// The beginning of a value, for messages.
pub(super) fn said(value: &Value) -> String {
    shorten(&value.to_string())
}
