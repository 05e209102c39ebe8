//! Similarities of a simulated and an X-ray image: costs to be minimised, with their derivative in every pixel
//! of the simulated one.
//!
//! Both images are given at the same [pixels](Pixels): the whole of a region, or tiles drawn from it, which neighbours are compared
//! within. All is computed in double precision and in an order that is fixed, so that a cost has the same bits whatever rendered the image.

mod information;
mod kullback_leibler;
mod ncc;
mod norms;
mod pattern_intensity;
mod sums;

use std::sync::OnceLock;
use voxalign_compute::ops::raycast::Pixels;
use voxalign_options::Choice;

pub use information::JointHistogram;
pub use kullback_leibler::KullbackLeibler;
pub use pattern_intensity::PatternIntensity;

/// Similarity measure.
#[derive(Debug, Clone, Copy, PartialEq, Default, Choice)]
#[choice(option = "similarity")]
pub enum XraySimilarity {
    /// Normalised cross-correlation: any scale and offset between the images.
    Ncc,
    /// Correlation of gradients (Penney 1998): outlines, whatever varies smoothly over them.
    #[default]
    GradientNcc,
    /// Mutual information: any relation between the images' values.
    Mi(JointHistogram),
    /// Normalised mutual information (Studholme 1999): that of volumes, from -2 to -1.
    Nmi(JointHistogram),
    /// Squared differences: images in the same units.
    Ssd,
    /// Absolute differences: images in the same units, with outliers.
    L1,
    /// Structure left in the difference image (Weese 1997).
    PatternIntensity(PatternIntensity),
    /// Kullback-Leibler divergence of the images, each as a distribution over its pixels: up to a factor.
    KullbackLeibler(KullbackLeibler),
}

/// Rows of pixels that are compared with their neighbours: tiles of `width x height`, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiles {
    /// Columns of a tile.
    pub width: usize,
    /// Rows of a tile.
    pub height: usize,
}

/// The X-ray image at the pixels that are compared, with what is known of it before any other image.
#[derive(Debug, Clone)]
pub struct Reference {
    values: Vec<f32>,
    tiles: Tiles,
    /// The values that simulated images are expected to have at most.
    most: f64,
    /// Its gradients, where they were asked for.
    gradients: OnceLock<[Known; 2]>,
    /// The pixels that count, where not all do.
    counted: Option<Counted>,
}

/// The pixels that count, of some.
#[derive(Debug, Clone)]
struct Counted {
    /// Whether each pixel does.
    each: Vec<bool>,
    /// The numbers of those that do, and the values of the X-ray image there.
    places: Vec<usize>,
    values: Vec<f32>,
}

impl Counted {
    /// The values of another image there.
    fn of(&self, image: &[f32]) -> Vec<f32> {
        self.places.iter().map(|&place| image[place]).collect()
    }

    /// A cost of an image by those pixels alone: what does not count has a derivative of 0.
    fn cost(
        &self,
        image: &[f32],
        derivative: Option<&mut [f32]>,
        cost: impl Fn(&[f32], &[f32], Option<&mut [f32]>) -> f64,
    ) -> f64 {
        let image = self.of(image);
        let Some(derivative) = derivative else { return cost(&self.values, &image, None) };
        let mut part = vec![0.0; image.len()];
        let found = cost(&self.values, &image, Some(&mut part));
        derivative.fill(0.0);
        for (&place, &s) in self.places.iter().zip(&part) {
            derivative[place] = s;
        }
        found
    }
}

/// Values whose mean and variance are known.
#[derive(Debug, Clone)]
struct Known {
    values: Vec<f32>,
    mean: f64,
    variance: f64,
}

impl Reference {
    /// Of values at pixels; simulated images are expected to have values from 0 to `most` (others count as the nearest of
    /// these where a histogram is counted).
    #[must_use]
    pub fn new(values: Vec<f32>, pixels: &Pixels, most: f64) -> Self {
        let [width, height] = pixels.tile;
        let (tiles, gradients) = (Tiles { width, height }, OnceLock::new());
        Self { values, tiles, most, gradients, counted: None }
    }

    /// The same where only those pixels count for which `counts` has `true`; it is as long as the values.
    #[must_use]
    pub fn counting(self, counts: Vec<bool>) -> Self {
        if counts.iter().all(|counts| *counts) {
            return Self { counted: None, gradients: OnceLock::new(), ..self };
        }
        let places: Vec<usize> = (0..self.values.len()).filter(|&i| counts[i]).collect();
        let values = places.iter().map(|&i| self.values[i]).collect();
        let counted = Some(Counted { each: counts, places, values });
        Self { counted, gradients: OnceLock::new(), ..self }
    }

    /// Whether every pixel counts.
    pub(crate) fn counts_all(&self) -> bool {
        self.counted.is_none()
    }

    /// Whether a pixel counts.
    pub(crate) fn counts(&self, pixel: usize) -> bool {
        self.counted.as_ref().is_none_or(|counted| counted.each[pixel])
    }

    /// The values.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }
}

impl XraySimilarity {
    /// The tiles that it needs where pixels are drawn: single pixels, or patches with neighbours.
    #[must_use]
    pub fn tile(self) -> [usize; 2] {
        match self {
            Self::GradientNcc => [2, 2],
            Self::PatternIntensity(of) => [2 * of.radius + 2; 2],
            _ => [1, 1],
        }
    }

    /// Whether it counts histograms, which need to know how large values are.
    pub(crate) fn needs_range(self) -> bool {
        matches!(self, Self::Mi(_) | Self::Nmi(_))
    }

    /// The zero point of relative costs: -2, for images that determine each other, for normalised mutual
    /// information; 0 for the others.
    pub(crate) fn origin(self) -> f64 {
        if matches!(self, Self::Nmi(_)) { -2.0 } else { 0.0 }
    }

    /// The cost of a simulated image against the reference, and its derivative in each pixel where there is room for it.
    /// Both images have the same length.
    #[must_use]
    pub fn cost(self, reference: &Reference, image: &[f32], derivative: Option<&mut [f32]>) -> f64 {
        let by_pixel = |values: &[f32], image: &[f32], derivative: Option<&mut [f32]>| match self {
            Self::Ncc => ncc::cost(values, image, derivative),
            Self::GradientNcc => ncc::of_gradients(reference, image, derivative),
            Self::Mi(of) => {
                information::cost(values, reference.most, image, derivative, (false, of))
            }
            Self::Nmi(of) => {
                information::cost(values, reference.most, image, derivative, (true, of))
            }
            Self::Ssd => norms::squares(values, image, derivative),
            Self::L1 => norms::magnitudes(values, image, derivative),
            Self::PatternIntensity(of) => pattern_intensity::cost(reference, image, derivative, of),
            Self::KullbackLeibler(of) => kullback_leibler::cost(values, image, derivative, of),
        };
        let among_neighbours = matches!(self, Self::GradientNcc | Self::PatternIntensity(_));
        match reference.counted.as_ref().filter(|_| !among_neighbours) {
            Some(counted) => counted.cost(image, derivative, by_pixel),
            None => by_pixel(&reference.values, image, derivative),
        }
    }
}

#[cfg(test)]
mod tests;
