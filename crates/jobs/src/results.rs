//! The files that jobs leave, by what they are: what pipelines have to know of them before a job has run.

use crate::options::Product;
use crate::run::{Output, RECORD, REPORT};
use crate::{affine, anatomy, atlas, deform, drr, elastic, pose, segment, stack, surface};
use voxalign_options::Choice as _;

/// A file that a job leaves, or several of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultFile {
    /// What it is, as in records; no two of a job are called the same.
    pub role: &'static str,
    /// What follows the path that is given as `output`: in a folder `/` and a name, with `*` for what depends on the input.
    pub after: String,
    /// What it is, in words.
    pub about: String,
    /// Whether every run leaves it that comes to an end.
    pub always: bool,
}

impl ResultFile {
    /// A file in the folder of the results, which not every run leaves.
    pub(crate) fn of(role: &'static str, name: &str, about: &str) -> Self {
        Self { role, after: format!("/{name}"), about: about.to_owned(), always: false }
    }

    /// A file that follows the path of the result, which is a file.
    pub(crate) fn beside(role: &'static str, after: &str, about: &str) -> Self {
        Self { role, after: after.to_owned(), about: about.to_owned(), always: false }
    }

    /// The same of every run.
    pub(crate) fn always(self) -> Self {
        Self { always: true, ..self }
    }

    /// Whether there may be several of it.
    #[must_use]
    pub fn is_several(&self) -> bool {
        self.after.contains('*')
    }

    /// The record of a run.
    pub(crate) fn record() -> Self {
        Self::of("record", RECORD, RECORDED).always()
    }

    /// The report of a run.
    pub(crate) fn report() -> Self {
        Self::of("report", REPORT, REPORTED)
    }
}

/// What a record is.
pub(crate) const RECORDED: &str =
    "The record of the run: verdict, figures, parameters, checksums of the inputs";

/// What a report is.
pub(crate) const REPORTED: &str = "The report: pictures and figures on one page";

/// A sentence without its end, beginning with a capital.
fn sentence(summary: &str) -> String {
    let mut letters = summary.trim_end_matches('.').chars();
    letters.next().map_or_else(String::new, |c| c.to_uppercase().chain(letters).collect())
}

/// What registrations declare of their files.
pub(crate) fn of_outputs(outputs: &[Output]) -> Vec<ResultFile> {
    let of = |output: &Output| match (output.role(), output.product()) {
        ("record", _) => ResultFile::record(),
        ("report", _) => ResultFile::report(),
        (role, product) => {
            let about = product.map(Product::summary).unwrap_or_default();
            ResultFile::of(role, output.name(), &sentence(about))
        }
    };
    outputs.iter().map(of).collect()
}

/// The files of a job; none where it leaves none.
#[must_use]
pub fn of(job: &str) -> Vec<ResultFile> {
    let file = |about| vec![ResultFile::beside("result", "", about).always()];
    match job {
        "affine" => of_outputs(&affine::OUTPUTS),
        "deform" => deform::results(),
        "elastic" => elastic::results(),
        "anatomy" => anatomy::results(),
        "atlas" => atlas::results(),
        "drr" => drr::results(),
        "pose" => pose::results(),
        "segment" => segment::results(),
        "stack" => stack::results(),
        "surface" => surface::results(),
        "apply" => file("The image, the points or the mesh, carried"),
        "invert" => file("The inverse"),
        "compose" => file("The transforms as one"),
        "convert" => file("The same content in the other format"),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn files_have_names_of_their_own() {
        for job in ["affine", "deform", "elastic", "anatomy", "atlas", "drr", "pose", "segment"] {
            let all = of(job);
            let roles: BTreeSet<_> = all.iter().map(|file| file.role).collect();
            let names: BTreeSet<_> = all.iter().map(|file| &file.after).collect();
            assert_eq!((roles.len(), names.len()), (all.len(), all.len()), "{job}: {all:?}");
            assert!(all.iter().all(|f| !f.about.is_empty() && f.after.starts_with('/')), "{job}");
            assert!(all.contains(&ResultFile::record()) || job == "elastic", "{job}");
        }
        assert!(of("info").is_empty() && of("compare").is_empty());
        let warp = of("deform").into_iter().find(|f| f.role == "inverse_warp").unwrap();
        assert_eq!((&*warp.after, &*warp.about), ("/inverse_warp.nii.gz", "Their inverse"));
    }
}
