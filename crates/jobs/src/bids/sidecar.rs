//! What is said beside the images of a data set: sidecars, and the files of the data set itself.

use super::{DESCRIPTION, IGNORE, input};
use crate::error::{Error, Result};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;
use voxalign_io::text;
use voxalign_options::text;

/// The version of the standard that names and sidecars follow.
const VERSION: &str = "1.10.0";

/// What the standard has no names for.
const IGNORED: [&str; 2] = ["*_xfm.*", "*_report.html"];

/// The sidecar of an image or a transform.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Sidecar<'a> {
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    skull_stripped: Option<bool>,
    spatial_reference: &'a str,
    sources: Vec<&'a str>,
    registration_method: &'a Value,
    registration_software: Value,
    registration_parameters: &'a Value,
    verdict: Value,
    figures: &'a Value,
}

impl<'a> Sidecar<'a> {
    /// What a record says. Paths are empty of images that were in memory.
    pub(super) fn of(
        record: &'a Value,
        description: &'a str,
        reference: Option<&'a str>,
        skull_stripped: Option<bool>,
    ) -> Self {
        let verdict = &record["verdict"];
        let [moving, fixed] = ["moving", "fixed"].map(|role| input(record, role));
        let fixed_or = reference.unwrap_or(fixed);
        Self {
            description,
            skull_stripped,
            spatial_reference: if fixed_or.is_empty() { "n/a" } else { fixed_or },
            sources: [moving, fixed].into_iter().filter(|path| !path.is_empty()).collect(),
            registration_method: &record["program"],
            registration_software: json!({"Name": "voxalign", "Version": record["version"]}),
            registration_parameters: &record["parameters"],
            verdict: json!({
                "Good": verdict["good"],
                "Checks": verdict["checks"],
                "Remarks": verdict.get("remarks").cloned().unwrap_or_else(|| json!([])),
            }),
            figures: &record["figures"],
        }
    }

    /// As it is written.
    pub(super) fn text(&self) -> String {
        pretty(self)
    }
}

fn pretty(value: &impl Serialize) -> String {
    // What has names for keys can be written.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// What the sidecar of an image says of its skull, where there is one.
pub(super) fn is_skull_stripped(image: &Path) -> Option<bool> {
    let name = image.file_name()?.to_string_lossy();
    let sidecar = image.with_file_name(format!("{}.json", name.split('.').next()?));
    let said: Value = serde_json::from_str(&text::read(sidecar).ok()?).ok()?;
    said["SkullStripped"].as_bool()
}

/// The description of a data set, where it has none yet.
///
/// # Errors
/// A file in place of the folder; a data set that is none of derivatives; a description that cannot be read.
pub(super) fn described(root: &Path) -> Result<Option<String>> {
    let shown = root.display();
    if root.exists() && !root.is_dir() {
        return Err(Error::input(text!(
            "`bids`: '{shown}' is a file; give the folder of a data set of derivatives"
        )));
    }
    let path = root.join(DESCRIPTION);
    if !path.exists() {
        let made_by = json!({
            "Name": "voxalign",
            "Version": env!("CARGO_PKG_VERSION"),
            "Description": "Registration",
        });
        return Ok(Some(pretty(&json!({
            "Name": "voxalign",
            "BIDSVersion": VERSION,
            "DatasetType": "derivative",
            "GeneratedBy": [made_by],
        }))));
    }
    let found: Value = serde_json::from_str(&text::read(&path)?).map_err(|e| {
        Error::input(text!(
            "'{}' is no JSON: {e}; correct it, or give another folder as `bids`",
            path.display()
        ))
    })?;
    match found["DatasetType"] == "derivative" {
        true => Ok(None),
        false => Err(Error::input(text!(
            "`bids`: '{shown}' is no data set of derivatives; give a folder of its own, such as derivatives/voxalign"
        ))),
    }
}

/// What a data set is to list as no files of the standard, where it does not yet.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn ignored(root: &Path) -> Result<Option<String>> {
    let path = root.join(IGNORE);
    let own = if path.exists() { text::read(&path)? } else { String::new() };
    let more = IGNORED.iter().filter(|line| !own.lines().any(|known| known == **line));
    let lines: Vec<_> = own.lines().chain(more.copied()).collect();
    Ok((lines.len() > own.lines().count()).then(|| lines.join("\n") + "\n"))
}
