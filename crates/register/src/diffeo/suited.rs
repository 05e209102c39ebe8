//! The similarity that suits two images, by how their intensities go together where they are aligned.

use crate::evidence::{Relation, Seen};
use crate::similarity::Similarity;
use voxalign_image::Affine;

/// The least [linearity](Relation::linearity) of images of one kind: brains, heads, lungs, hearts and hippocampi in MR and CT have 0.89 and more, T1, T2, PD,
/// FLAIR and CT to each other 0.82 and less (but T1 to a FLAIR in which it lies on a line).
const ONE_KIND: f64 = 0.86;

/// A similarity, and what speaks for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Suited {
    /// Local correlation for images of one kind, neighbourhood descriptors with mapped intensities for those of two.
    pub similarity: Similarity,
    /// How the intensities go together within tissue; none where hardly any tissue overlaps, or nothing was seen of the images.
    pub relation: Option<Relation>,
}

impl Suited {
    /// For images under an affine map from the fixed to the moving world.
    #[must_use]
    pub fn new(seen: Option<&Seen>, map: &Affine) -> Self {
        let relation = seen.and_then(|seen| seen.relation(map));
        let is_one = relation.is_none_or(|relation| relation.linearity() >= ONE_KIND);
        Self { similarity: if is_one { Similarity::LNCC } else { Similarity::MAPPED }, relation }
    }

    /// Whether a similarity is for images of one kind, and these are of two.
    #[must_use]
    pub fn is_against(&self, similarity: &Similarity) -> bool {
        let of_one_kind =
            matches!(similarity, Similarity::Lncc(_) | Similarity::Ncc(_) | Similarity::Ssd(_));
        of_one_kind && matches!(self.similarity, Similarity::Mapped(_))
    }

    /// Why, in words.
    #[must_use]
    pub fn words(&self) -> String {
        let Some(relation) = self.relation else {
            return "nothing is known of how the intensities go together".to_owned();
        };
        let (part, kinds) = (
            100.0 * relation.linearity(),
            match self.similarity {
                Similarity::Mapped(_) => "two kinds",
                _ => "one kind",
            },
        );
        format!(
            "images of {kinds}: within tissue a rising line explains {part:.0} % of what one intensity \
             says of the other"
        )
    }
}
