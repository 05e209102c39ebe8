//! What is tried where a result is bad: what its remedy would tell whoever asked for it.

use super::input::Source;
use super::options::{AffineOptions, Init, Search};
use super::problem::Problem;
use super::register::search;
use super::result::AffineResult;
use crate::choice::Choice;
use crate::error::{RegisterError, Result};
use crate::progress::Progress;
use crate::similarity::{Cr, Ncc, Nmi, Similarity};
use serde::{Deserialize, Serialize};
use voxalign_compute::Device;

/// Another registration of the same images, as the one that was asked for had a bad result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// What was different, such as `the cost ncc`.
    pub what: String,
    /// Agreement of the images under its result.
    pub agreement: f64,
    /// Whether its verdict is good.
    pub good: bool,
    /// Whether it is the result.
    pub kept: bool,
}

/// What can be tried, the most promising first.
fn plans(options: &AffineOptions, flat: bool) -> Vec<(String, AffineOptions)> {
    let used = options.first_similarity();
    let costs: [Similarity; 3] =
        [Nmi::default().into(), Ncc::default().into(), Cr::default().into()];
    let mut others = costs.into_iter().filter(|c| c.name() != used.name()).map(|other| {
        let similarity = Some(other);
        (format!("the cost {}", other.name()), AffineOptions { similarity, ..options.clone() })
    });
    let mut all: Vec<_> = others.next().into_iter().collect();
    if options.init != Init::Header || options.search != Search::Local {
        let (init, search) = (Init::Header, Search::Local);
        let near = AffineOptions { init, search, ..options.clone() };
        all.push(("a local search from the headers".to_owned(), near));
    }
    all.extend(others.next());
    let rigid = if flat { 3 } else { 6 };
    if options.dof > rigid {
        let fewer = AffineOptions { dof: rigid, ..options.clone() };
        all.push((format!("{rigid} degrees of freedom"), fewer));
    }
    all
}

/// How good a result is: first by its verdict, then by the agreement of the images.
fn rank(result: &AffineResult) -> (bool, f64) {
    (result.verdict.good, result.evidence.agreement())
}

/// The first result, or a better one by another way.
pub(super) fn rescued<'a, D: Device + 'a>(
    device: &D,
    source: &dyn Fn() -> Result<Source<'a, D>>,
    options: &AffineOptions,
    progress: &dyn Progress,
    first: AffineResult,
) -> Result<AffineResult> {
    let flat = first.flat;
    let asked = first.evidence.agreement();
    let mut best = first;
    let (mut attempts, mut kept) = (Vec::new(), None);
    for (what, options) in plans(options, flat) {
        let problem = Problem::new(device, source()?, &options)?;
        let found = match search(device, problem, &options, progress) {
            Ok(found) => found,
            // What cannot start so is none.
            Err(RegisterError::NoOverlap { .. }) => continue,
            Err(e) => return Err(e),
        };
        let (good, agreement) = rank(&found);
        let attempt = Attempt { what, agreement, good, kept: false };
        let (best_good, best_agreement) = rank(&best);
        if (good && !best_good) || (good == best_good && agreement > best_agreement) {
            kept = Some(attempts.len());
            best = found;
        }
        attempts.push(attempt);
        if good {
            break;
        }
    }
    if let Some(attempt) = kept.and_then(|i| attempts.get_mut(i)) {
        attempt.kept = true;
        let how = if attempt.good { "good" } else { "better" };
        best.verdict.remarks.push(format!(
            "what was asked for gave a bad result (agreement {asked:.2}); this one, by {}, is {how}",
            attempt.what
        ));
    }
    best.attempts = attempts;
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_tried_that_was_used() {
        let options = AffineOptions::default();
        let names = |o: &AffineOptions, flat| -> Vec<String> {
            plans(o, flat).into_iter().map(|p| p.0).collect()
        };
        let all = names(&options, false);
        assert_eq!(all.len(), 4);
        assert!(all[0].contains("ncc") && all.iter().all(|n| !n.contains("nmi")), "{all:?}");
        let near = AffineOptions {
            init: Init::Header,
            search: Search::Local,
            dof: 6,
            similarity: Some(Ncc::default().into()),
            ..options.clone()
        };
        assert_eq!(names(&near, false), ["the cost nmi", "the cost cr"]);
        let flat = AffineOptions { dof: 6, ..options };
        assert!(names(&flat, true).contains(&"3 degrees of freedom".to_owned()));
    }
}
