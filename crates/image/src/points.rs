//! Point sets.

use crate::error::{ImageError, Result};
use nalgebra::Vector3;

/// Points in world space (RAS+ mm) with any further columns as text, in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PointSet {
    points: Vec<Vector3<f64>>,
    columns: Vec<(String, Vec<String>)>,
    is_2d: bool,
}

impl PointSet {
    /// A set without further columns.
    #[must_use]
    pub fn new(points: Vec<Vector3<f64>>) -> Self {
        Self { points, columns: Vec::new(), is_2d: false }
    }

    /// A set with further columns (name and one value a point).
    ///
    /// # Errors
    /// [`ImageError::ColumnLength`] where a column has another length than the points.
    pub fn with_columns(
        points: Vec<Vector3<f64>>,
        columns: Vec<(String, Vec<String>)>,
    ) -> Result<Self> {
        for (name, values) in &columns {
            if values.len() != points.len() {
                return Err(ImageError::ColumnLength {
                    name: name.clone(),
                    expected: points.len(),
                    found: values.len(),
                });
            }
        }
        Ok(Self { points, columns, is_2d: false })
    }

    /// The same set as one of points in a plane, that of 2D images: all have 0 as their third coordinate, and files
    /// have none.
    #[must_use]
    pub fn in_plane(mut self) -> Self {
        self.points.iter_mut().for_each(|p| p[2] = 0.0);
        self.is_2d = true;
        self
    }

    /// Whether these are points in a plane, without a third coordinate.
    #[must_use]
    pub fn is_2d(&self) -> bool {
        self.is_2d
    }

    /// World positions, mm.
    #[must_use]
    pub fn points(&self) -> &[Vector3<f64>] {
        &self.points
    }

    /// The further columns.
    #[must_use]
    pub fn columns(&self) -> &[(String, Vec<String>)] {
        &self.columns
    }

    /// Number of points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether there are no points.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The same set with every position replaced; further columns stay.
    #[must_use]
    pub fn map(&self, f: impl FnMut(&Vector3<f64>) -> Vector3<f64>) -> Self {
        let (columns, is_2d) = (self.columns.clone(), self.is_2d);
        Self { points: self.points.iter().map(f).collect(), columns, is_2d }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_must_match() {
        let p = vec![Vector3::zeros(); 2];
        let bad = PointSet::with_columns(p.clone(), vec![("n".into(), vec!["a".into()])]);
        assert!(matches!(bad, Err(ImageError::ColumnLength { .. })));
        let good =
            PointSet::with_columns(p, vec![("n".into(), vec!["a".into(), "b".into()])]).unwrap();
        let moved = good.map(|q| q + Vector3::x());
        assert_eq!(moved.points()[1][0], 1.0);
        assert_eq!(moved.columns(), good.columns());
        assert!(!moved.is_2d() && moved.in_plane().map(|q| *q).is_2d());
    }
}
