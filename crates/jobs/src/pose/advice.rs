//! Remedies for failed checks of a pose, leaving out those already applied.

use super::Job;
use crate::Caller;
use crate::remedy::{Speaker, words};
use voxalign_options::{Text, text};
use voxalign_register::projection::register::Refinement;
use voxalign_register::projection::{PoseOptions, PoseSearch};
use voxalign_register::{Remedy, Verdict};

/// What was used already.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Used {
    /// All rotations were searched.
    full: bool,
    /// Something says where the search starts.
    start: bool,
    /// Every view has a region.
    region: bool,
    similarity: bool,
    /// How many views there are.
    views: usize,
    /// What of their geometry was refined.
    refine: Option<Refinement>,
}

impl Used {
    pub(super) fn of(job: &Job, options: &PoseOptions, regions: &[Option<[usize; 4]>]) -> Self {
        let start = &job.start;
        Self {
            full: options.search == PoseSearch::Full,
            start: start.init.is_some() || start.has_numbers(),
            region: regions.iter().all(Option::is_some),
            similarity: job.method.similarity.kind().is_some(),
            views: regions.len(),
            refine: options.refine,
        }
    }

    /// What helps, in words.
    fn words(self, remedy: Remedy) -> Text {
        let nearer = if self.start {
            text!("another start, nearer, by `init`")
        } else {
            text!(
                "a start near it by `init` (a file, or `points:CT.csv,XRAY.csv`) or `init_rotation` and `init_translation`"
            )
        };
        let all = text!("`search = full`");
        let region = text!("a `region` around what is rigid and what the CT shows");
        let list = |first: Text, ways: &[(bool, &Text)]| {
            let ways = ways.iter().filter(|way| way.0).map(|way| way.1.clone());
            first.and(": ").and(Text::joined(ways, ", or "))
        };
        let [similarity, range, view] =
            [text!("another `similarity`"), text!("another `range`"), "another view".into()];
        match remedy {
            Remedy::OtherSimilarity => list(
                text!(
                    "the X-ray images and the simulated ones have little in common: look at the pictures, and check `geometry` and \
                 `pixels`; possible remedies:"
                ),
                &[
                    (!self.similarity, &similarity),
                    (!self.region, &region),
                    (!self.full, &all),
                    (self.full, &nearer),
                ],
            ),
            Remedy::NearerStart => list(
                text!(
                    "the CT projects almost entirely outside the views: check `geometry`; possible remedies:"
                ),
                &[(!self.full, &all), (true, &nearer)],
            ),
            Remedy::SmallerSearch => list(
                text!(
                    "the search ended at a higher cost than it started from, or beyond its range; possible remedies:"
                ),
                &[(true, &nearer), (!self.full, &all), (!self.full, &range)],
            ),
            Remedy::SingleOut => list(
                text!(
                    "the pose is not certain: another matches nearly as well; possible remedies:"
                ),
                &[(self.views < 2, &view), (!self.region, &region), (true, &nearer)],
            ),
            Remedy::OtherRotation => list(
                text!(
                    "a pose of another rotation, such as a half turn, fits better; possible remedies:"
                ),
                &[(!self.full, &all), (true, &nearer)],
            ),
            Remedy::Geometry => {
                let usual = words(Remedy::Geometry, Speaker::Pose);
                let ways = match self.refine {
                    _ if self.views < 2 => return usual,
                    None => {
                        text!(
                            "`refine = distance` where distances are not sure, or `refine = principal-point` where the place of a \
                         detector is not"
                        )
                    }
                    Some(Refinement::Distance) => text!("`refine = principal-point` instead"),
                    Some(Refinement::PrincipalPoint) => text!("`refine = distance` instead"),
                };
                usual.and("; possible remedies: ").and(ways)
            }
            other => words(other, Speaker::Pose),
        }
    }

    /// A verdict with such words, as the caller says them.
    pub(super) fn worded(self, caller: &Caller, verdict: Verdict) -> Verdict {
        verdict.worded(|remedy| caller.say(self.words(remedy)), caller.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_register::Choice;

    #[test]
    fn what_was_used_is_not_named() {
        let none = Used { views: 1, ..Used::default() };
        let all = Used {
            full: true,
            start: true,
            region: true,
            similarity: true,
            views: 2,
            refine: Some(Refinement::Distance),
        };
        for remedy in [
            Remedy::OtherSimilarity,
            Remedy::NearerStart,
            Remedy::SmallerSearch,
            Remedy::SingleOut,
            Remedy::OtherRotation,
        ] {
            assert_ne!(none.words(remedy), all.words(remedy));
            let said = all.words(remedy).to_string();
            for used in ["`search", "`region`", "`similarity`", "`init_rotation`", "another view"] {
                assert!(!said.contains(used), "{remedy:?}: {said}");
            }
            assert!(said.len() > 40 && !said.ends_with(": "), "{said}");
        }
        let geometry = |views, refine| Used { views, refine, ..none }.words(Remedy::Geometry);
        let said = geometry(2, None).to_string();
        assert!(
            said.contains("`refine = distance`") && said.contains("`refine = principal-point`")
        );
        for (used, other) in [("distance", "principal-point"), ("principal-point", "distance")] {
            let said = geometry(3, Refinement::named(used)).to_string();
            assert!(said.ends_with(&format!("`refine = {other}` instead")), "{said}");
        }
        assert!(!geometry(1, None).to_string().contains("refine"));
        assert!(none.words(Remedy::OtherRotation).to_string().contains("`search = full`"));
    }
}
