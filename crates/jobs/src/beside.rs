//! Files written along with an image converted from DICOM: a BIDS sidecar, b-values and directions.

use crate::error::{Error, Result};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use voxalign_io::atomic::write_file;
use voxalign_io::image::Sidecar;
use voxalign_io::text;
use voxalign_options::text;

/// The files beside an image: its name with `.json`, `.bval` and `.bvec`.
#[derive(Debug)]
pub struct Beside {
    json: PathBuf,
    bval: PathBuf,
    bvec: PathBuf,
}

impl Beside {
    /// The files beside the image of this name, which may be there already where voxalign wrote them.
    ///
    /// # Errors
    /// Another file has one of these names.
    pub fn of(image: &Path) -> Result<Beside> {
        let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plain = if name.to_ascii_lowercase().ends_with(".gz") {
            &name[..name.len() - 3]
        } else {
            &name
        };
        let stem = plain.rsplit_once('.').map_or(plain, |(stem, _)| stem);
        let with = |kind: &str| image.with_file_name(format!("{stem}.{kind}"));
        let found = Beside { json: with("json"), bval: with("bval"), bvec: with("bvec") };
        let own = text::read(&found.json).is_ok_and(|text| is_own(&text));
        // No conversion leaves a pipe or a device.
        let all = [&found.json, &found.bval, &found.bvec];
        let other = all.into_iter().find(|p| p.exists() && !(own && p.is_file()));
        match other {
            Some(path) => Err(Error::input(text!(
                "'{}' is there, and no sidecar of an earlier conversion: take it away, choose another name for the \
                 image, or leave the files beside it out with `bids = false`",
                path.display()
            ))),
            None => Ok(found),
        }
    }

    /// Writes the files; those of an earlier conversion are replaced or removed.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, sidecar: &Sidecar) -> Result<()> {
        for old in [&self.bval, &self.bvec] {
            if old.exists() {
                std::fs::remove_file(old)
                    .map_err(|e| Error::input(text!("'{}': cannot remove: {e}", old.display())))?;
            }
        }
        if let Some(diffusion) = &sidecar.diffusion {
            let row = |values: &mut dyn Iterator<Item = f64>| {
                let mut line = String::new();
                for (n, value) in values.enumerate() {
                    let gap = if n > 0 { " " } else { "" };
                    // At most six digits, and no zero with a sign.
                    let value = (value * 1e6).round() / 1e6 + 0.0;
                    _ = write!(line, "{gap}{value}");
                }
                line + "\n"
            };
            let bval = row(&mut diffusion.iter().map(|(b, _)| *b));
            let bvec: String =
                (0..3).map(|axis| row(&mut diffusion.iter().map(|(_, v)| v[axis]))).collect();
            write_file(&self.bval, |w| w.write_all(bval.as_bytes()))?;
            write_file(&self.bvec, |w| w.write_all(bvec.as_bytes()))?;
        }
        let text = serde_json::to_string_pretty(&sidecar.facts).unwrap_or_default() + "\n";
        write_file(&self.json, |w| w.write_all(text.as_bytes()))?;
        Ok(())
    }
}

/// Whether a file is a sidecar that voxalign wrote.
fn is_own(text: &str) -> bool {
    let facts: Option<Value> = serde_json::from_str(text).ok();
    facts.is_some_and(|facts| facts["ConversionSoftware"] == "voxalign")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const OWN: &str = "{\"ConversionSoftware\": \"voxalign\"}";

    #[test]
    #[cfg(unix)]
    fn pipes_and_devices_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let refused = |name: &str| {
            let error = Beside::of(&at("ct.nii.gz")).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("no sidecar of an earlier"), "{error}");
            assert!(at(name).exists(), "{name} is gone");
        };
        for own in [false, true] {
            let names: &[&str] =
                if own { &["ct.bval", "ct.bvec"] } else { &["ct.json", "ct.bval", "ct.bvec"] };
            for name in names {
                if own {
                    fs::write(at("ct.json"), OWN).unwrap();
                }
                // A reader of a pipe that nobody writes to would wait here for ever.
                let made = std::process::Command::new("mkfifo").arg(at(name)).status().unwrap();
                assert!(made.success());
                refused(name);
                fs::remove_file(at(name)).unwrap();
                for device in ["/dev/zero", "/dev/null", "/dev/full"] {
                    std::os::unix::fs::symlink(device, at(name)).unwrap();
                    refused(name);
                    fs::remove_file(at(name)).unwrap();
                }
            }
        }
        fs::write(at("ct.bval"), "0\n").unwrap();
        assert!(Beside::of(&at("ct.nii.gz")).is_ok());
        fs::remove_file(at("ct.json")).unwrap();
        refused("ct.bval");
    }
}
