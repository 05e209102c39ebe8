//! Fallbacks for bad results: other costs, starts and degrees of freedom, as the remedies would advise.

use super::input::Source;
use super::options::{AffineOptions, Init, Search};
use super::problem::Problem;
use super::result::{AffineResult, Attempt};
use super::stages::search;
use crate::error::{RegisterError, Result};
use crate::progress::Progress;
use crate::similarity::{Cr, Ncc, Nmi, Similarity};
use voxalign_compute::Device;
use voxalign_options::Choice;
use voxalign_options::text;

/// Another way to register.
struct Way {
    what: String,
    options: AffineOptions,
    /// The search that follows a registration of the images without their masks, where that comes first.
    unmasked: Option<Search>,
}

impl Way {
    fn new(what: impl Into<String>, options: AffineOptions) -> Self {
        Self { what: what.into(), options, unmasked: None }
    }

    fn find<'a, D: Device + 'a>(
        &self,
        device: &D,
        source: &dyn Fn() -> Result<Source<'a, D>>,
        progress: &dyn Progress,
    ) -> Result<AffineResult> {
        let mut options = self.options.clone();
        if let Some(then) = self.unmasked {
            let problem = Problem::new(device, source()?.without_masks(), &options)?;
            options.init = Init::Given(search(device, problem, &options, progress)?.transform);
            options.search = then;
        }
        search(device, Problem::new(device, source()?, &options)?, &options, progress)
    }
}

/// The fallbacks, the most promising first.
fn plans(options: &AffineOptions, flat: bool, masked: bool) -> Vec<Way> {
    let used = options.first_similarity();
    let costs: [Similarity; 3] =
        [Nmi::default().into(), Ncc::default().into(), Cr::default().into()];
    let mut others = costs.into_iter().filter(|c| c.name() != used.name()).map(|other| {
        let similarity = Some(other);
        Way::new(
            format!("the cost {}", other.name()),
            AffineOptions { similarity, ..options.clone() },
        )
    });
    let mut all = Vec::new();
    if masked {
        for (what, then) in
            [("the masks left out at first", Search::Local), ("the masks left out", Search::None)]
        {
            all.push(Way { unmasked: Some(then), ..Way::new(what, options.clone()) });
        }
    }
    all.extend(others.next());
    if options.init != Init::Header || options.search != Search::Local {
        let (init, search) = (Init::Header, Search::Local);
        let near = AffineOptions { init, search, ..options.clone() };
        all.push(Way::new("a local search from the headers", near));
    }
    all.extend(others.next());
    let rigid = if flat { 3 } else { 6 };
    if options.dof > rigid {
        let fewer = AffineOptions { dof: rigid, ..options.clone() };
        all.push(Way::new(format!("{rigid} degrees of freedom"), fewer));
    }
    all
}

/// How good a result is: first by its verdict, then by the agreement of the images; of the whole ones where masks keep little.
fn rank(result: &AffineResult) -> (bool, f64) {
    let whole = result.unmasked.and_then(|whole| whole.agreement());
    (result.verdict.good, whole.unwrap_or_else(|| result.evidence.agreement()))
}

/// The first result, or a better one by another way.
pub(super) fn rescued<'a, D: Device + 'a>(
    device: &D,
    source: &dyn Fn() -> Result<Source<'a, D>>,
    options: &AffineOptions,
    progress: &dyn Progress,
    first: AffineResult,
) -> Result<AffineResult> {
    let (flat, masked) = (first.flat, first.unmasked.is_some());
    let asked = rank(&first).1;
    let mut best = first;
    let (mut attempts, mut kept) = (Vec::new(), None);
    for way in plans(options, flat, masked) {
        let found = match way.find(device, source, progress) {
            Ok(found) => found,
            // What cannot start so is none.
            Err(RegisterError::NoOverlap { .. }) => continue,
            Err(e) => return Err(e),
        };
        let (good, agreement) = rank(&found);
        let attempt = Attempt { what: way.what, agreement, good, kept: false };
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
        best.verdict.remarks.push(text!(
            "the registration that was asked for gave a bad result (agreement {asked:.2}); this one, with {}, is {how}",
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
            plans(o, flat, false).into_iter().map(|way| way.what).collect()
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
        let masked = plans(&flat, true, true);
        let then: Vec<_> = masked.iter().map(|way| way.unmasked).collect();
        assert_eq!(then[..3], [Some(Search::Local), Some(Search::None), None]);
        assert!(names(&flat, true).contains(&"3 degrees of freedom".to_owned()));
    }
}
