//! A selection of the subjects of a source, with other weights.

use super::source::{Images, Size, Source, Subject};
use crate::atlas::geometry::Geometry;
use crate::error::{PopulationError, Result};
use std::path::PathBuf;

/// The subjects of a source whose weight is above 0, with these weights in place of their own: what
/// an atlas of some of them is built from.
pub struct Weighted<'a> {
    subjects: Vec<Subject>,
    /// The number that each has in the source.
    numbers: Vec<usize>,
    geometry: Vec<Geometry>,
    from: &'a dyn Source,
}

impl<'a> Weighted<'a> {
    /// The subjects of `from` with `weights`, in its order; those of weight 0 are left out.
    ///
    /// # Errors
    /// Another number of weights than of subjects; a weight below 0 or not finite.
    pub fn new(from: &'a dyn Source, weights: &[f64]) -> Result<Self> {
        let all = from.subjects();
        if weights.len() != all.len() {
            return Err(PopulationError::option(
                "weights",
                format!("a list of {}", weights.len()),
                format!("give one for each of the {} subjects", all.len()),
            ));
        }
        let (mut subjects, mut numbers) = (Vec::new(), Vec::new());
        for (number, (subject, &weight)) in all.iter().zip(weights).enumerate() {
            if !(weight >= 0.0 && weight.is_finite()) {
                return Err(PopulationError::Input {
                    file: from.label(number),
                    what: format!("its weight is {weight}, but must be 0 or more"),
                });
            }
            if weight > 0.0 {
                subjects.push(Subject { weight, ..subject.clone() });
                numbers.push(number);
            }
        }
        let geometry = from.geometry().iter().map(|g| g.of(&numbers)).collect();
        Ok(Self { subjects, numbers, geometry, from })
    }

    /// For each subject its number in the source that it is from.
    #[must_use]
    pub fn numbers(&self) -> &[usize] {
        &self.numbers
    }
}

impl Source for Weighted<'_> {
    fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    fn load(&self, subject: usize) -> Result<Images> {
        match self.numbers.get(subject) {
            Some(&number) => self.from.load(number),
            None => Err(PopulationError::Input {
                file: PathBuf::from(subject.to_string()),
                what: "there is no such subject".to_owned(),
            }),
        }
    }

    fn size(&self, subject: usize) -> Result<Size> {
        match self.numbers.get(subject) {
            Some(&number) => self.from.size(number),
            None => Err(PopulationError::Input {
                file: PathBuf::from(subject.to_string()),
                what: "there is no such subject".to_owned(),
            }),
        }
    }

    fn geometry(&self) -> &[Geometry] {
        &self.geometry
    }

    fn label(&self, subject: usize) -> PathBuf {
        self.numbers.get(subject).map(|&number| self.from.label(number)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atlas::InMemory;
    use std::sync::Arc;
    use voxalign_image::{Affine, Grid, Volume};

    #[test]
    fn subjects_without_weight_are_left_out() {
        let grid = Grid::axis_aligned([2, 2, 1], [1.0; 3]).unwrap();
        let one = |i: usize| {
            let name = format!("s{i}");
            let subject = Subject { name, weight: 1.0, affine: Affine::identity() };
            let image = Arc::new(Volume::filled(grid.clone(), i as f32));
            (subject, Images { channels: vec![image], mask: None, as_they_are: Vec::new() })
        };
        let all = InMemory::new((0..4).map(one).collect());
        let some = Weighted::new(&all, &[0.5, 0.0, 2.0, 0.0]).unwrap();
        assert_eq!(some.numbers(), [0, 2]);
        let told: Vec<_> = some.subjects().iter().map(|s| (s.name.as_str(), s.weight)).collect();
        assert_eq!(told, [("s0", 0.5), ("s2", 2.0)]);
        assert_eq!(some.load(1).unwrap().channels[0].data()[0], 2.0);
        assert_eq!(some.label(1), PathBuf::from("s2"));
        assert!(some.load(2).is_err());
        assert!(Weighted::new(&all, &[1.0; 3]).is_err());
        let error = Weighted::new(&all, &[1.0, f64::NAN, 1.0, 1.0]).err().unwrap().to_string();
        assert!(error.contains("s1"), "{error}");
    }
}
