//! The schedule of a search as a table (Jenkinson and Smith 2001; section 2.2 of Li et al. 2015): which poses
//! each stage starts from, with which degrees of freedom and tolerance, and which of them are kept.

use super::candidates::REFINED;
use super::options::{Search, SearchRange};
use crate::search::Steps;
use crate::search::pose::Freedom;

/// Alignments apart from each other that are compared with all freedom at the second stage.
const RIVALS: usize = 4;
/// Alignments that compete once more at the third stage.
const FINALISTS: usize = 3;
/// Candidates handed from the first stage to the second. (The paper has three; a head and its
/// mirror-like orientations fill three places at once.)
const HANDED_ON: usize = 5;

/// The stage at which alignments of slices that differ little are compared.
const NARROW: usize = 3;

/// The poses that a round begins with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum From {
    Start,
    /// The start and the ways in which principal axes can be laid on each other.
    Axes,
    /// Rotations of the start: all rotations of the range in steps of this many radians.
    Rotations(f64),
    /// The same in finer steps, with translations and scales of the candidates within this many radians.
    Between(f64, f64),
    Candidates,
    /// The candidates, and what else a search can start from.
    CandidatesAndStarts,
    /// The candidates and their neighbours, and all that a search can start from.
    Neighbours,
    /// The candidates and what differs from them little, of slices.
    Changed,
    /// The best candidate; the others wait.
    First,
    /// Those that wait.
    Others,
}

/// When a refinement ends, in samples of its stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Until {
    /// A step is shorter than this, or two in a row gain next to nothing: enough for what is refined
    /// further.
    Gain(f64),
    /// A step is shorter than this, whatever it gains: a result. Where the cost is flat, gains end a
    /// search far from its minimum, and rounding decides where.
    Step(f64),
}

impl Until {
    /// The steps of a refinement by samples of this spacing, mm.
    pub(super) fn steps(self, spacing: f64) -> Steps {
        let (step, improvement) = match self {
            Self::Gain(step) => (step, 3e-4 * step),
            Self::Step(step) => (step, 0.0),
        };
        Steps {
            first: 0.5 * spacing,
            longest: 4.0 * spacing,
            tolerance: step * spacing,
            improvement,
            evaluations: 60,
        }
    }
}

/// The work on each pose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Action {
    Score,
    Refine(Freedom, Until),
}

/// The selection of the results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Keep {
    /// They are the candidates, in their order.
    All,
    /// Of them and the candidates before them, local minima (nothing better within this many radians) and the best
    /// of the rest.
    Minima(f64),
    /// The best ones that are at least this far apart, mm at the model's radius, up to this many.
    Distinct(f64, usize),
    /// The best ones that are other alignments are the rivals, and this many of them the candidates.
    Rivals(usize),
    /// They compete with the candidate: rivals once more, of which the best is the candidate.
    Compete,
}

/// A round of a stage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Round {
    /// Its name in progress messages.
    pub(super) what: &'static str,
    /// Its part of the stage.
    pub(super) part: (f64, f64),
    pub(super) from: From,
    pub(super) action: Action,
    /// The selections made of the results, in order.
    pub(super) keep: Vec<Keep>,
}

impl Round {
    fn new(
        what: &'static str,
        part: (f64, f64),
        from: From,
        action: Action,
        keep: impl Into<Vec<Keep>>,
    ) -> Self {
        Self { what, part, from, action, keep: keep.into() }
    }
}

/// What a search is given before it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) search: Search,
    pub(super) range: SearchRange,
    /// Whether a local search tries to lay principal axes on each other.
    pub(super) axes: bool,
    /// All freedom that is asked for.
    pub(super) largest: Freedom,
    /// Whether the images are slices.
    pub(super) flat: bool,
    /// Poses further apart than this (mm at the model's radius) are other alignments.
    pub(super) elsewhere: f64,
    /// The number of stages.
    pub(super) count: usize,
}

impl Plan {
    /// The most rivals that are known.
    pub(super) const RIVALS: usize = RIVALS;

    /// Whether candidates have a scale before they have all freedom.
    pub(super) fn scaling(&self) -> bool {
        self.largest != Freedom::Rigid
    }

    /// The freedom of candidates before they have all of it.
    fn common(&self) -> Freedom {
        if self.scaling() { Freedom::Similarity } else { Freedom::Rigid }
    }

    /// The freedoms that a stage opens one after the other.
    fn sequence(&self) -> Vec<Freedom> {
        let all = [Freedom::Rigid, Freedom::Similarity, Freedom::Scales, Freedom::Affine];
        let end = all.iter().position(|f| *f == self.largest).unwrap_or(3);
        if end == 0 { vec![Freedom::Rigid] } else { all[1..=end].to_vec() }
    }

    /// The rounds of a stage with samples `spacing` mm apart.
    pub(super) fn rounds(&self, index: usize, spacing: f64) -> Vec<Round> {
        let (common, largest, last) = (self.common(), self.largest, index + 1 == self.count);
        let mut rounds = match (self.search, index) {
            (Search::None, _) => {
                return vec![Round::new(
                    "start",
                    (0.0, 0.0),
                    From::Start,
                    Action::Score,
                    [Keep::All],
                )];
            }
            (Search::Full(_), 0) => self.global(spacing),
            (Search::Local, 0) => {
                let from = if self.axes { From::Axes } else { From::Start };
                let action = Action::Refine(common, Until::Gain(0.02));
                vec![Round::new(
                    "refinement",
                    (0.0, 1.0),
                    from,
                    action,
                    [Keep::Distinct(spacing, 1)],
                )]
            }
            (Search::Local, 1) => {
                let action = Action::Refine(common, Until::Gain(0.01));
                vec![Round::new("refinement", (0.0, 0.8), From::Candidates, action, [Keep::All])]
            }
            _ => Vec::new(),
        };
        if matches!(self.search, Search::Full(_)) && (index == 1 || (last && index == 0)) {
            // The next stage sees more: the best of them compete there once more.
            let kept = if last { 1 } else { FINALISTS };
            let first = if largest == common { kept } else { RIVALS };
            let action = |freedom| Action::Refine(freedom, Until::Gain(0.02));
            let (what, from) = ("candidates and their neighbours", From::Neighbours);
            rounds.push(Round::new(what, (0.0, 0.6), from, action(common), [Keep::Rivals(first)]));
            if largest != common {
                // A wrong orientation can be ahead as long as the right one lacks freedom.
                let (what, from) = ("candidates with all degrees of freedom", From::Candidates);
                let keep = [Keep::Rivals(kept)];
                rounds.push(Round::new(what, (0.6, 0.8), from, action(largest), keep));
            }
        }
        if self.flat && index == NARROW {
            // Sections bend, so that affine maps close to each other can all be minima, of which coarse samples do not tell the best.
            let (from, keep) = (From::Changed, [Keep::Rivals(1)]);
            let action = Action::Refine(largest, Until::Gain(0.01));
            rounds.push(Round::new("small changes", (0.0, 0.8), from, action, keep));
        }
        let freedoms = match index {
            _ if (last && index < 2) || index == 2 => self.sequence(),
            0 | 1 => Vec::new(),
            _ => vec![largest],
        };
        let refinement = |from, freedom, until, keep| {
            Round::new("refinement", (0.8, 1.0), from, Action::Refine(freedom, until), [keep])
        };
        for (i, &freedom) in freedoms.iter().enumerate() {
            let until = match (last, freedom == largest) {
                (true, true) => Until::Step(0.005),
                (true, false) => Until::Gain(0.005),
                (false, _) => Until::Gain(0.01),
            };
            let from = if i == 0 { From::First } else { From::Candidates };
            rounds.push(refinement(from, freedom, until, Keep::All));
        }
        if !freedoms.is_empty() {
            rounds.push(refinement(From::Others, largest, Until::Gain(0.01), Keep::Compete));
        }
        rounds
    }

    /// The global search of the first stage: coarse rotations with a local search each, fine rotations
    /// evaluated once from the coarse ones' neighbours, the best local minima refined.
    fn global(&self, spacing: f64) -> Vec<Round> {
        let (common, largest, range) = (self.common(), self.largest, self.range);
        let local = if self.scaling() { Freedom::TranslationScale } else { Freedom::Translation };
        let mut rounds = vec![
            Round::new(
                "coarse rotations",
                (0.0, 0.45),
                From::Rotations(range.coarse),
                Action::Refine(local, Until::Gain(0.05)),
                [Keep::All],
            ),
            Round::new(
                "fine rotations",
                (0.45, 0.8),
                From::Between(range.fine, range.coarse / 2.0),
                Action::Score,
                [Keep::Minima(1.6 * range.fine)],
            ),
            Round::new(
                "best rotations",
                (0.8, 0.9),
                From::CandidatesAndStarts,
                Action::Refine(common, Until::Gain(0.02)),
                [Keep::Distinct(spacing, REFINED)],
            ),
        ];
        let apart = Keep::Distinct(self.elsewhere, HANDED_ON);
        if largest == common {
            rounds[2].keep.push(apart);
        } else {
            // A wrong orientation can be ahead as long as the right one lacks freedom.
            rounds.push(Round::new(
                "best rotations with all degrees of freedom",
                (0.9, 1.0),
                From::Candidates,
                Action::Refine(largest, Until::Gain(0.05)),
                [apart],
            ));
        }
        rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(search: Search, largest: Freedom, count: usize) -> Plan {
        let range = SearchRange::default();
        Plan { search, range, axes: true, largest, flat: false, elsewhere: 20.0, count }
    }

    #[test]
    fn every_search_ends_with_all_freedom_at_its_finest_stage() {
        for search in [Search::FULL, Search::Local] {
            for largest in [Freedom::Rigid, Freedom::Similarity, Freedom::Scales, Freedom::Affine] {
                for count in 1..=5 {
                    let plan = plan(search, largest, count);
                    let rounds = plan.rounds(count - 1, 1.0);
                    let accurate = Action::Refine(largest, Until::Step(0.005));
                    assert!(rounds.iter().any(|r| r.action == accurate), "{search:?} {count}");
                    // Only what waits comes after it.
                    assert_eq!(rounds.last().map(|r| r.from), Some(From::Others));
                    for (index, from) in (0..count).zip([From::Rotations(plan.range.coarse)]) {
                        let first = plan.rounds(index, 8.0).first().map(|r| r.from);
                        let expected = if search == Search::FULL { from } else { From::Axes };
                        assert_eq!(first, Some(expected));
                    }
                }
            }
        }
        assert_eq!(plan(Search::None, Freedom::Affine, 4).rounds(2, 2.0).len(), 1);
    }

    #[test]
    fn slices_compare_small_changes_once() {
        for (search, flat) in [(Search::FULL, true), (Search::Local, true), (Search::FULL, false)] {
            let plan = Plan { flat, ..plan(search, Freedom::Affine, 6) };
            let rounds = (0..6).flat_map(|index| plan.rounds(index, 1.0));
            assert_eq!(rounds.filter(|r| r.from == From::Changed).count(), usize::from(flat));
        }
    }
}
