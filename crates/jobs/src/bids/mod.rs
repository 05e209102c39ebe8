//! Results of registrations under the names and with the sidecars of BIDS derivatives.
//!
//! | file | what |
//! |---|---|
//! | `sub-01_space-MNI_desc-preproc_T1w.nii.gz` | the moving image on the grid of the fixed one |
//! | `sub-01_space-MNI_desc-jacobian_T1w.nii.gz` | the Jacobian determinant of the warp |
//! | `sub-01_from-T1w_to-MNI_mode-image_xfm.h5` | the whole transform; `.txt` of an affine one |
//! | `sub-01_from-MNI_to-T1w_mode-image_xfm.h5` | its inverse |
//! | `sub-01_space-MNI_report.html` | the report |
//!
//! Transforms are named as fMRIPrep does: `from-T1w_to-MNI` resamples images of the subject to the space. The standard has no
//! names for them yet, nor for reports, so that `.bidsignore` lists both.

mod name;
mod planned;
mod sidecar;

use crate::error::{Error, Result};
use crate::files::check_output;
use crate::listener::{Level, Listener, Unstoppable};
use crate::options::{as_text, refuse};
use crate::plan::Plan;
use crate::staged::Staged;
use name::{Name, label, space_of};
use planned::planned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sidecar::{Sidecar, described, is_skull_stripped};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use voxalign_options::{Choice, text};

/// Whether something is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum YesNo {
    /// It is.
    Yes,
    /// It is not.
    No,
}

/// How a result goes into a data set of BIDS derivatives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "clap", command(next_help_heading = "BIDS derivatives"))]
#[serde(default)]
pub struct BidsOptions {
    /// Put the result into this data set of BIDS derivatives as well, under the names of BIDS and with sidecars; the folder is made
    /// where it is not there
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR"))]
    pub bids: Option<PathBuf>,
    /// Label of the space of the fixed image, such as MNI152NLin2009cAsym [default: that of its name: of a template
    /// (tpl-LABEL), of a space (space-LABEL), or its suffix where both images are of one subject]
    #[cfg_attr(feature = "clap", arg(long, value_name = "LABEL"))]
    #[serde(with = "as_text")]
    pub bids_space: Option<String>,
    /// Entities and suffix of the moving image, such as sub-01_ses-two_T1w [default: those of the name of its file]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    #[serde(with = "as_text")]
    pub bids_name: Option<String>,
    /// Label of the resampled image [default: preproc]
    #[cfg_attr(feature = "clap", arg(long, value_name = "LABEL"))]
    #[serde(with = "as_text")]
    pub bids_desc: Option<String>,
    /// Whether voxels outside the brain of the moving image are 0, which BIDS wants to know of anatomical images [default: what
    /// the sidecar of the moving image says]
    #[cfg_attr(feature = "clap", arg(long))]
    pub bids_skull_stripped: Option<YesNo>,
    /// What sidecars have as SpatialReference [default: the path of the fixed image]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TEXT"))]
    #[serde(with = "as_text")]
    pub bids_reference: Option<String>,
    /// Put a result there whose verdict is bad, too; its sidecars say so
    #[cfg_attr(feature = "clap", arg(long))]
    pub bids_accept_bad: bool,
    /// Replace files that the data set has under these names
    #[cfg_attr(feature = "clap", arg(long))]
    pub bids_overwrite: bool,
}

/// What names and sidecars have to say.
struct Said {
    name: Name,
    space: String,
    desc: String,
    skull_stripped: Option<bool>,
}

/// What the files are that a result can leave.
const ROLES: [&str; 5] = ["resampled", "jacobian", "transform", "inverse_transform", "report"];

/// What a data set has beside files of subjects.
const DESCRIPTION: &str = "dataset_description.json";
const IGNORE: &str = ".bidsignore";

impl Said {
    /// The name of a file of a role up to its extension, relative to the data set.
    fn stem(&self, role: &str) -> String {
        let Self { name, space, desc, .. } = self;
        let kind = &name.suffix;
        let own = match role {
            "resampled" => format!("space-{space}_desc-{desc}_{kind}"),
            "jacobian" => format!("space-{space}_desc-jacobian_{kind}"),
            "transform" => format!("from-{kind}_to-{space}_mode-image_xfm"),
            "inverse_transform" => format!("from-{space}_to-{kind}_mode-image_xfm"),
            _ => format!("space-{space}_report"),
        };
        format!("{}/{name}_{own}", name.folder())
    }

    /// The files of a data set that have names of such a result, relative to it.
    fn present(&self, root: &Path) -> Vec<String> {
        let folder = self.name.folder();
        let stems: Vec<_> = ROLES.iter().map(|role| self.stem(role)).collect();
        let found = std::fs::read_dir(root.join(&folder)).into_iter().flatten().flatten();
        let names = found.map(|file| format!("{folder}/{}", file.file_name().to_string_lossy()));
        let mut names: Vec<_> = names
            .filter(|name| {
                name.split_once('.').is_some_and(|(stem, _)| stems.iter().any(|s| s == stem))
            })
            .collect();
        names.sort();
        names
    }
}

impl BidsOptions {
    /// Checks the options alone.
    ///
    /// # Errors
    /// Labels that BIDS does not allow; options without a data set.
    pub fn check(&self) -> Result<()> {
        if self.bids.is_none() {
            let given = [
                (self.bids_space.is_some(), "bids_space"),
                (self.bids_name.is_some(), "bids_name"),
                (self.bids_desc.is_some(), "bids_desc"),
                (self.bids_skull_stripped.is_some(), "bids_skull_stripped"),
                (self.bids_reference.is_some(), "bids_reference"),
                (self.bids_accept_bad, "bids_accept_bad"),
                (self.bids_overwrite, "bids_overwrite"),
            ];
            return given
                .into_iter()
                .try_for_each(|(given, option)| refuse(given, option, text!("`bids`")));
        }
        self.bids_space.as_ref().map(|text| label("bids_space", "space", text)).transpose()?;
        self.bids_name.as_ref().map(|text| Name::given(text)).transpose()?;
        self.desc().map(drop)
    }

    /// Refuses a data set for slices and sequences, which have no names there.
    ///
    /// # Errors
    /// Where one is given.
    pub(crate) fn only_for_volumes(&self) -> Result<()> {
        refuse(self.bids.is_some(), "bids", "the result of one pair of volumes")
    }

    fn desc(&self) -> Result<String> {
        let desc = label("bids_desc", "desc", self.bids_desc.as_deref().unwrap_or("preproc"))?;
        match &*desc {
            "jacobian" => Err(Error::input(text!(
                "`bids_desc` is 'jacobian', as that of the Jacobian determinant; give another label"
            ))),
            _ => Ok(desc),
        }
    }

    /// What names and sidecars say of these images; a path is empty of one that is in memory.
    fn said(&self, fixed: &Path, moving: &Path) -> Result<Said> {
        let of_file = Name::of_file(moving).filter(|name| name.label("sub").is_some());
        let name = match (&self.bids_name, of_file) {
            (Some(given), of_file) => {
                let given = Name::given(given)?;
                let own = of_file.as_ref().and_then(|name| name.label("sub"));
                if let Some(own) = own.filter(|own| Some(*own) != given.label("sub")) {
                    return Err(Error::input(text!(
                        "`bids_name` is of subject {}, and '{}' of {own}; leave it out, or correct it",
                        given.label("sub").unwrap_or_default(),
                        moving.display()
                    )));
                }
                given
            }
            (None, Some(name)) => name,
            (None, None) => {
                return Err(Error::input(text!(
                    "`bids_name` is missing: {}; give entities and suffix of the moving image, such as sub-01_T1w",
                    match moving.as_os_str().is_empty() {
                        true => "the moving image is of no file".to_owned(),
                        false => format!("'{}' has no name of BIDS", moving.display()),
                    }
                )));
            }
        };
        let space = match &self.bids_space {
            Some(space) => label("bids_space", "space", space)?,
            None => space_of(fixed, &name)?,
        };
        let given = self.bids_skull_stripped.map(|said| said == YesNo::Yes);
        let skull_stripped = given.or_else(|| is_skull_stripped(moving));
        if name.is_anatomical() && skull_stripped.is_none() {
            return Err(Error::input(text!(
                "`bids_skull_stripped` is missing: BIDS wants to know it of anatomical images, and no sidecar of the moving image \
                 says it; say whether voxels outside the brain are 0"
            )));
        }
        Ok(Said { name, space, desc: self.desc()?, skull_stripped })
    }

    /// Checks what can be checked before there is a result.
    ///
    /// # Errors
    /// As of [`check`](Self::check); what names have to say and is not known; a folder that is no data set of derivatives; files
    /// that have the names already.
    pub(crate) fn check_with(&self, fixed: &Path, moving: &Path) -> Result<()> {
        self.check()?;
        let Some(root) = &self.bids else { return Ok(()) };
        self.check_present(root, &self.said(fixed, moving)?, [fixed, moving])?;
        described(root).map(drop)
    }

    fn check_present(&self, root: &Path, said: &Said, inputs: [&Path; 2]) -> Result<()> {
        let present = said.present(root);
        let inputs = inputs.into_iter().filter(|path| !path.as_os_str().is_empty());
        present.iter().try_for_each(|name| check_output(&root.join(name), inputs.clone()))?;
        match present.first().filter(|_| !self.bids_overwrite) {
            Some(name) => Err(Error::input(text!(
                "`bids`: '{}' is there already; give `bids_overwrite = true`, another `bids_space`, or take it away",
                root.join(name).display()
            ))),
            None => Ok(()),
        }
    }

    /// A plan with what goes into the data set.
    pub(crate) fn planned(
        &self,
        mut plan: Plan,
        (fixed, moving): (&Path, &Path),
        (folder, roles): (&Path, &[(&'static str, String)]),
    ) -> Result<Plan> {
        let Some(root) = &self.bids else { return Ok(plan) };
        let files =
            roles.iter().map(|(role, name)| ((*role).to_owned(), folder.join(name))).collect();
        let all = planned(&self.said(fixed, moving)?, &files);
        let with_sidecar =
            all.iter().flat_map(|one| [Some(one.name.clone()), one.sidecar()]).flatten();
        plan.writes.extend(with_sidecar.map(|name| root.join(name)));
        Ok(plan)
    }

    /// Takes a result that has just been found, unless its verdict is bad.
    pub(crate) fn take(&self, folder: &Path, record: &str, listener: &dyn Listener) -> Result<()> {
        let Some(root) = &self.bids else { return Ok(()) };
        let record = serde_json::from_str(record).map_err(|e| Error::Internal(e.to_string()))?;
        let found = Registered::of(folder, record)?;
        if !found.is_good() && !self.bids_accept_bad {
            let warning = text!(
                "the verdict is bad, and nothing was put into '{}'; look at the report, or give `bids_accept_bad = true`",
                root.display()
            );
            listener.say(Level::Warning, warning);
            return Ok(());
        }
        // The result is there, so that nothing can be stopped any more.
        let put = found.put(self, &Unstoppable(listener));
        let put = put.map_err(|e| e.at(text!("`bids`")).after("the result is", folder))?;
        let text = format!("{} files and their sidecars are in '{}'", put.len(), root.display());
        listener.say(Level::Normal, text);
        Ok(())
    }
}

/// The path of an input of a record; empty where that was in memory.
fn input<'r>(record: &'r Value, role: &str) -> &'r str {
    let inputs = record["inputs"].as_array().map(Vec::as_slice).unwrap_or_default();
    inputs
        .iter()
        .find(|one| one["role"] == role)
        .and_then(|one| one["path"].as_str())
        .unwrap_or_default()
}

/// The files of a result by what they are, wherever its folder is now.
fn files(folder: &Path, record: &Value) -> Option<BTreeMap<String, PathBuf>> {
    let outputs = record["outputs"].as_array()?;
    let all =
        outputs.iter().map(|one| Some((one["role"].as_str()?, Path::new(one["path"].as_str()?))));
    let all = all.collect::<Option<Vec<_>>>()?;
    let before = all.iter().find(|(role, _)| *role == "record")?.1.parent()?;
    let moved = |(role, path): &(&str, &Path)| {
        Some(((*role).to_owned(), folder.join(path.strip_prefix(before).ok()?)))
    };
    all.iter().map(moved).collect()
}

/// The result of a registration of two images, in a folder.
#[derive(Debug)]
pub struct Registered {
    folder: PathBuf,
    record: Value,
    files: BTreeMap<String, PathBuf>,
}

impl Registered {
    /// Of a folder, which may have been moved, and the record of the run.
    ///
    /// # Errors
    /// A record that is of no registration of two images.
    pub fn of(folder: &Path, record: Value) -> Result<Self> {
        let program = record["program"].as_str().unwrap_or_default();
        let job = program.rsplit([' ', '.']).next().unwrap_or_default();
        let of_pair = !input(&record, "fixed").is_empty() && !input(&record, "moving").is_empty();
        let known = of_pair || ["affine", "deform", "elastic"].contains(&job);
        let files = files(folder, &record).filter(|_| known && record["verdict"].is_object());
        match files {
            Some(files) => Ok(Self { folder: folder.to_owned(), record, files }),
            None => Err(Error::input(format!(
                "'{}' is no result of a registration; give one of affine, deform or elastic",
                folder.display()
            ))),
        }
    }

    /// Whether its verdict is good.
    fn is_good(&self) -> bool {
        self.record["verdict"]["good"] == true
    }

    /// The files of the fixed and of the moving image; empty of one that was in memory.
    fn inputs(&self) -> [&Path; 2] {
        ["fixed", "moving"].map(|role| Path::new(input(&self.record, role)))
    }

    /// What names and sidecars say of it.
    fn said(&self, options: &BidsOptions) -> Result<Said> {
        let [fixed, moving] = self.inputs();
        options.said(fixed, moving)
    }

    /// Checks options with it.
    ///
    /// # Errors
    /// As of the [check](BidsOptions::check) of the options; what names have to say and is not known.
    pub fn check(&self, options: &BidsOptions) -> Result<()> {
        options.check()?;
        self.said(options).map(drop)
    }

    /// Puts it into the data set of the options, and says which files that are, by what they are. They appear together;
    /// `dataset_description.json` is made where there is none.
    ///
    /// # Errors
    /// A verdict that is bad, without `bids_accept_bad`; as of [`check`](Self::check); a folder that is no data set of
    /// derivatives; files that are there already; what the system says.
    pub fn put(
        &self,
        options: &BidsOptions,
        listener: &dyn Listener,
    ) -> Result<Vec<(&'static str, PathBuf)>> {
        let Some(root) = &options.bids else { return Ok(Vec::new()) };
        if !self.is_good() && !options.bids_accept_bad {
            return Err(Error::input(text!(
                "the verdict of '{}' is bad; look at its report, or give `bids_accept_bad = true`",
                self.folder.display()
            )));
        }
        options.check()?;
        let said = self.said(options)?;
        options.check_present(root, &said, self.inputs())?;
        let description = described(root)?;
        let all = planned(&said, &self.files);
        let key = root.join(said.stem("transform").replace('/', "_"));
        let mut staged = Staged::for_file(&key, listener)?;
        let of_set = [(DESCRIPTION, description), (IGNORE, sidecar::ignored(root)?)];
        for (name, text) in of_set {
            text.map(|text| staged.write_text(name, &text)).transpose()?;
        }
        all.iter().try_for_each(|one| staged.write(&one.name, |path| one.by.write(path)))?;
        for one in &all {
            if let (Some(name), Some(description)) = (one.sidecar(), &one.description) {
                let is_image = matches!(one.role, "resampled" | "jacobian");
                let skull_stripped = said.skull_stripped.filter(|_| is_image);
                let reference = options.bids_reference.as_deref();
                let sidecar = Sidecar::of(&self.record, description, reference, skull_stripped);
                staged.write_text(&name, &sidecar.text())?;
            }
        }
        let named = |name: &String| {
            all.iter().any(|one| one.name == *name || one.sidecar().as_ref() == Some(name))
        };
        said.present(root).iter().filter(|name| !named(name)).for_each(|old| staged.without(old));
        staged.commit()?;
        Ok(all.into_iter().map(|one| (one.role, root.join(one.name))).collect())
    }
}

#[cfg(test)]
mod tests;
