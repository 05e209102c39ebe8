//! The named numbers of a record.

use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use voxalign_options::Choice;
use voxalign_register::scores::Scores;

/// The kind of a number of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Choice)]
#[choice(snake_case)]
pub enum Figure {
    /// The cost of an affine map.
    ///
    /// The cost of an affine map, under the headers and in the end.
    Cost,
    /// The cost where a search began.
    CostStart,
    /// The cost of the affine part.
    ///
    /// The cost of the affine part of a deformation that did not begin.
    AffineCost,
    /// The overlap of the fields of view.
    Overlap,
    /// The linearity of the relation between intensities.
    Linearity,
    /// Variance that a line explains.
    ///
    /// The part of the variance of one image that a line explains by the other.
    ExplainedByLine,
    /// Root mean square difference.
    Rms,
    /// Normalised cross-correlation.
    Ncc,
    /// Mutual information, nats.
    Mi,
    /// Normalised mutual information.
    Nmi,
    /// Mutual information where both show tissue, nats.
    InformationInTissue,
    /// Mean Dice of labels.
    LabelOverlap,
    /// Mean distance of landmarks, mm.
    #[choice(name = "landmark_distance_mean_mm")]
    LandmarkMean,
    /// Median distance of landmarks, mm.
    #[choice(name = "landmark_distance_median_mm")]
    LandmarkMedian,
    /// Largest distance of landmarks, mm.
    #[choice(name = "landmark_distance_largest_mm")]
    LandmarkLargest,
    /// Entropy over subjects, bits.
    Entropy,
    /// Mean squared gradient of a template, 1/mm².
    GradientEnergy,
    /// Root mean square of the mean log Jacobian.
    LogJacobianRms,
    /// The sum of the energies of images.
    TotalEnergy,
    /// The number of images.
    Images,
}

/// When a number was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// Before the work.
    Before,
    /// In its end.
    After,
}

/// The numbers of a record, written by their names: `overlap`, `cost_before`, `cost_after`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures(BTreeMap<(Figure, Option<When>), f64>);

impl Figures {
    /// Sets a number that there is once.
    pub fn set(&mut self, figure: Figure, value: f64) {
        self.0.insert((figure, None), value);
    }

    /// Sets a number of before or after.
    pub fn set_at(&mut self, figure: Figure, when: When, value: f64) {
        self.0.insert((figure, Some(when)), value);
    }

    /// Sets the scores of a moving image on a fixed one.
    pub fn set_scores(&mut self, when: When, scores: &Scores) {
        let images = scores.images.as_ref();
        for (figure, value) in [
            (Figure::Rms, images.map(|s| s.rms)),
            (Figure::Ncc, images.and_then(|s| s.ncc)),
            (Figure::Mi, images.map(|s| s.mi)),
            (Figure::Nmi, images.and_then(|s| s.nmi)),
            (Figure::InformationInTissue, scores.agreement.map(|a| a.information)),
            (Figure::LabelOverlap, scores.labels.as_ref().and_then(|l| l.mean_dice)),
        ] {
            if let Some(value) = value {
                self.set_at(figure, when, value);
            }
        }
    }

    /// A number that there is once.
    #[must_use]
    pub fn get(&self, figure: Figure) -> Option<f64> {
        self.0.get(&(figure, None)).copied()
    }

    /// A number of before or after.
    #[must_use]
    pub fn at(&self, figure: Figure, when: When) -> Option<f64> {
        self.0.get(&(figure, Some(when))).copied()
    }

    /// A number before and after.
    #[must_use]
    pub fn both(&self, figure: Figure) -> [Option<f64>; 2] {
        [When::Before, When::After].map(|when| self.at(figure, when))
    }

    /// Which there are, in the order of their names.
    #[must_use]
    pub fn all(&self) -> Vec<Figure> {
        let all: BTreeSet<_> = self.0.keys().map(|(figure, _)| figure).collect();
        let mut all: Vec<_> = all.into_iter().copied().collect();
        all.sort_by_key(|figure| figure.name());
        all
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<const N: usize> From<[(Figure, Option<When>, f64); N]> for Figures {
    fn from(all: [(Figure, Option<When>, f64); N]) -> Self {
        Self(all.into_iter().map(|(figure, when, value)| ((figure, when), value)).collect())
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let named = |(&(figure, when), &value): (&(Figure, Option<When>), &f64)| {
            let name = match when {
                None => figure.name().to_owned(),
                Some(When::Before) => format!("{}_before", figure.name()),
                Some(When::After) => format!("{}_after", figure.name()),
            };
            (name, value)
        };
        self.0.iter().map(named).collect::<BTreeMap<_, _>>().serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_by_their_names_in_order() {
        let mut figures = Figures::default();
        figures.set(Figure::Overlap, 0.5);
        figures.set_at(Figure::Cost, When::After, 0.25);
        figures.set_at(Figure::Cost, When::Before, f64::NAN);
        let text = serde_json::to_string(&figures).unwrap();
        assert_eq!(text, r#"{"cost_after":0.25,"cost_before":null,"overlap":0.5}"#);
        assert_eq!(figures.all(), [Figure::Cost, Figure::Overlap]);
        assert_eq!((figures.get(Figure::Cost), figures.both(Figure::Overlap)), (None, [None; 2]));
    }
}
