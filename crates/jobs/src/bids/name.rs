//! Names of BIDS: entities with their labels, and what a file is.

use crate::error::{Error, Result};
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use voxalign_options::{Text, text};

/// Entities of a scan, in the order of the standard.
const ENTITIES: [&str; 18] = [
    "sub", "ses", "sample", "task", "acq", "ce", "trc", "stain", "rec", "dir", "run", "mod",
    "echo", "flip", "inv", "mt", "part", "proc",
];

/// Folders of a subject by what a scan is; others are anatomical.
const FOLDERS: [(&str, &str); 9] = [
    ("bold", "func"),
    ("sbref", "func"),
    ("boldref", "func"),
    ("dwi", "dwi"),
    ("pet", "pet"),
    ("epi", "fmap"),
    ("asl", "perf"),
    ("aslref", "perf"),
    ("m0scan", "perf"),
];

/// What a name says: entities with their labels, in its order, and a suffix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    entities: Vec<(String, String)>,
    /// What the file is, such as `T1w`.
    pub(super) suffix: String,
}

/// Whether BIDS allows a label.
fn is_label(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// A label of an option, before which its entity may stand.
pub(super) fn label(option: &str, entity: &str, text: &str) -> Result<String> {
    let own = text.strip_prefix(entity).and_then(|rest| rest.strip_prefix('-')).unwrap_or(text);
    match is_label(own) {
        true => Ok(own.to_owned()),
        false => Err(Error::Input(
            Text::option(option).and(format!(" is '{text}'; BIDS allows letters and digits only")),
        )),
    }
}

impl Name {
    /// Of a text such as `sub-01_ses-two_T1w`; none where it is no name of BIDS.
    fn parsed(text: &str) -> Option<Self> {
        let (rest, suffix) = text.rsplit_once('_')?;
        let pair = |pair: &str| {
            let (key, label) = pair.split_once('-')?;
            (is_label(key) && is_label(label)).then(|| (key.to_owned(), label.to_owned()))
        };
        let entities = rest.split('_').map(pair).collect::<Option<Vec<_>>>()?;
        is_label(suffix).then(|| Self { entities, suffix: suffix.to_owned() })
    }

    /// Of a file; none where its name is not of BIDS.
    pub(super) fn of_file(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy();
        Self::parsed(name.split('.').next()?)
    }

    /// Of a scan, as an option gives it.
    pub(super) fn given(text: &str) -> Result<Self> {
        let wrong = |what: String| Error::input(text!("`bids_name` is '{text}'; {what}"));
        let name =
            Self::parsed(text).filter(|name| name.label("sub").is_some()).ok_or_else(|| {
                wrong(
                    "give entities and the suffix of the moving image, such as sub-01_ses-two_T1w"
                        .to_owned(),
                )
            })?;
        match name.entities.iter().find(|(key, _)| !ENTITIES.contains(&&**key)) {
            None => Ok(name),
            Some((key, _)) => {
                let known = ENTITIES.join(", ");
                Err(wrong(format!("'{key}' is no entity of a scan; known are {known}")))
            }
        }
    }

    /// The label of an entity.
    pub(super) fn label(&self, entity: &str) -> Option<&str> {
        self.entities.iter().find(|(key, _)| key == entity).map(|(_, label)| &**label)
    }

    /// The folder of a subject that it belongs into, relative to the data set.
    pub(super) fn folder(&self) -> String {
        let part =
            |key: &str| self.label(key).map(|label| format!("{key}-{label}/")).unwrap_or_default();
        format!("{}{}{}", part("sub"), part("ses"), self.kind())
    }

    /// The folder of scans of its kind.
    fn kind(&self) -> &'static str {
        FOLDERS
            .iter()
            .find(|(suffix, _)| *suffix == self.suffix)
            .map_or("anat", |(_, folder)| folder)
    }

    /// Whether it is an anatomical image.
    pub(super) fn is_anatomical(&self) -> bool {
        self.kind() == "anat"
    }
}

/// The entities of a scan, in the order of the standard.
impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let pair = |key: &&str| self.label(key).map(|label| format!("{key}-{label}"));
        let all: Vec<_> = ENTITIES.iter().filter_map(pair).collect();
        f.write_str(&all.join("_"))
    }
}

/// The label of the space of a fixed image by its name: that of a template or of a space, or what it is where it is of the same
/// subject.
pub(super) fn space_of(fixed: &Path, moving: &Name) -> Result<String> {
    let name = Name::of_file(fixed);
    let label = |key: &str| name.as_ref().and_then(|name| name.label(key));
    if let Some(label) = label("space").or(label("tpl")) {
        return Ok(label.to_owned());
    }
    let (own, path) = (moving.label("sub").unwrap_or_default(), fixed.display());
    match (&name, label("sub")) {
        (Some(name), Some(sub)) if sub == own && name.suffix != moving.suffix => {
            Ok(name.suffix.clone())
        }
        (Some(name), Some(sub)) if sub == own => Err(Error::input(text!(
            "`bids_space` is missing: '{path}' is a {} of subject {own}, as the moving image is; give a label that tells them apart",
            name.suffix
        ))),
        (_, Some(sub)) => Err(Error::input(text!(
            "`bids_space` is missing: '{path}' is of subject {sub}, and the moving image of {own}; give the label of the space of \
             the fixed image"
        ))),
        _ => Err(Error::input(text!(
            "`bids_space` is missing: the file of the fixed image has no BIDS name that says it; give the label of its space, such \
             as MNI152NLin2009cAsym"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::of_file(Path::new(text)).unwrap()
    }

    #[test]
    fn names_say_entities_and_what_a_file_is() {
        let scan = name("a/b/sub-01_run-2_acq-high_ses-two_desc-x_T1w.nii.gz");
        assert_eq!(scan.to_string(), "sub-01_ses-two_acq-high_run-2");
        assert_eq!((&*scan.suffix, &*scan.folder()), ("T1w", "sub-01/ses-two/anat"));
        assert!(scan.is_anatomical());
        let run = name("sub-1_task-rest_bold.nii");
        assert_eq!(run.folder(), "sub-1/func");
        assert!(!run.is_anatomical());
        for bad in [
            "scan.nii.gz",
            "sub-01.nii",
            "sub_01_T1w.nii",
            "sub-0-1_T1w.nii",
            "sub-_T1w.nii",
            "sub-01_.nii",
        ] {
            assert_eq!(Name::of_file(Path::new(bad)), None, "{bad}");
        }
    }

    #[test]
    fn what_is_given_is_looked_at() {
        assert_eq!(Name::given("sub-01_T2w").unwrap(), name("sub-01_T2w.nii"));
        for (bad, said) in [
            ("T1w", "such as sub-01"),
            ("ses-1_T1w", "such as sub-01"),
            ("sub-1_hue-2_T1w", "'hue' is no entity"),
        ] {
            let error = Name::given(bad).unwrap_err().to_string();
            assert!(error.starts_with("`bids_name` is") && error.contains(said), "{error}");
        }
        assert_eq!(label("bids_space", "space", "space-MNI").unwrap(), "MNI");
        let said = label("bids_space", "space", "MNI_152").unwrap_err().to_string();
        assert_eq!(said, "`bids_space` is 'MNI_152'; BIDS allows letters and digits only");
    }

    #[test]
    fn the_space_is_that_of_the_fixed_image() {
        let moving = name("sub-01_ses-1_bold.nii");
        let space = |fixed: &str| space_of(Path::new(fixed), &moving).map_err(|e| e.to_string());
        assert_eq!(space("t/tpl-MNI152Lin_res-01_T1w.nii.gz"), Ok("MNI152Lin".to_owned()));
        assert_eq!(space("sub-02_space-OASIS_desc-preproc_T1w.nii.gz"), Ok("OASIS".to_owned()));
        assert_eq!(space("sub-01_ses-2_T1w.nii.gz"), Ok("T1w".to_owned()));
        for (fixed, words) in [
            ("sub-01_ses-2_bold.nii", "tells them apart"),
            ("sub-02_T1w.nii", "'sub-02_T1w.nii' is of subject 02, and the moving image of 01"),
            ("template.nii", "no BIDS name"),
            ("", "no BIDS name"),
        ] {
            let said = space(fixed).unwrap_err();
            assert!(said.starts_with("`bids_space` is missing") && said.contains(words), "{said}");
        }
    }
}
