//! File names of results.

use crate::error::{Error, Result};
use crate::files;
use crate::results::{RECORDED, ResultFile};
use crate::run::RECORD;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use voxalign_io::image::Format;
use voxalign_options::text;

/// The name that the result of an image has in the folder of results.
pub(super) fn result_name(path: &Path) -> Result<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let one = matches!(Format::from_path(path)?, Format::Nifti | Format::Nrrd | Format::MetaImage);
    if one {
        return Ok(name);
    }
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    Ok(format!("{}.nii.gz", plain.rsplit_once('.').map_or(plain, |(stem, _)| stem)))
}

/// The record beside an output that is one file.
pub(super) fn beside(output: &Path) -> PathBuf {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".json");
    output.with_file_name(name)
}

/// The files of an operator, for pipelines: one with its record beside it, or a folder.
pub(crate) fn results() -> Vec<ResultFile> {
    vec![
        ResultFile::beside("result", "", "The image or the table, or the folder of images")
            .always(),
        ResultFile::beside("record", ".json", RECORDED),
        ResultFile::of("image", "*.nii.gz", "The result of each image, where that is a folder"),
    ]
}

/// Checks that the results have names of their own, and none that of an input.
pub(super) fn check_folder(output: &Path, images: &[PathBuf], inputs: &[&Path]) -> Result<()> {
    let mut names = BTreeSet::new();
    if output.is_dir() {
        files::check_output(&output.join(RECORD), inputs.iter().copied())?;
    }
    for path in images {
        let name = result_name(path)?;
        if output.is_dir() {
            files::check_output(&output.join(&name), inputs.iter().copied())?;
        }
        if !names.insert(name.to_lowercase()) {
            return Err(Error::input(text!(
                "two of the images would be written to '{name}' in the folder '{}'; give the \
                 images different names",
                output.display()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_results() {
        for (path, name) in [
            ("x/a.nii.gz", "a.nii.gz"),
            ("a.b.nii", "a.b.nii"),
            ("a.mha", "a.mha"),
            ("a.nrrd", "a.nrrd"),
            ("x/a.hdr", "a.nii.gz"),
            ("a.img.gz", "a.nii.gz"),
            ("a.b.nhdr", "a.b.nii.gz"),
        ] {
            assert_eq!(result_name(Path::new(path)).unwrap(), name);
        }
        assert!(result_name(Path::new("a.txt")).is_err());
    }
}
