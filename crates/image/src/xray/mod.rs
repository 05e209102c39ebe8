//! The geometry of X-ray images: a point source and a flat detector.

mod arm;

pub use arm::{CArm, Gantry};

use crate::affine::Affine;
use crate::error::{ImageError, Result};
use nalgebra::{Matrix3, Matrix3x4, Vector3};

/// How an X-ray image was taken: rays go from a point source to the centres of the equal pixels of a flat
/// detector. All of it in one world, mm, which views that are registered together share.
///
/// Rays end at the detector: what lies behind it is not seen. Where its distance from the source is not known,
/// [`with_source_to_detector`](Self::with_source_to_detector) puts it behind what is to be seen, on the same rays.
///
/// ```
/// use voxalign_image::{Vector3, XrayGeometry};
///
/// // A source 1000 mm in front of the origin, a detector of 301 x 201 pixels of 1 mm 500 mm behind it, seen from the source:
/// // columns go to the patient's left, rows to the feet.
/// let view = XrayGeometry::new(
///     Vector3::new(0.0, 1000.0, 0.0),
///     Vector3::new(150.0, -500.0, 100.0),
///     Vector3::new(-1.0, 0.0, 0.0),
///     Vector3::new(0.0, 0.0, -1.0),
///     [301, 201],
/// )?;
/// // What is 10 mm above the origin is seen 15 pixels above the middle of the detector.
/// let [column, row] = view.project(Vector3::new(0.0, 0.0, 10.0)).ok_or("behind the source")?;
/// assert!((column - 150.0).abs() < 1e-9 && (row - 85.0).abs() < 1e-9);
/// assert!((view.source_to_detector() - 1500.0).abs() < 1e-9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct XrayGeometry {
    source: Vector3<f64>,
    origin: Vector3<f64>,
    column: Vector3<f64>,
    row: Vector3<f64>,
    dims: [usize; 2],
}

impl XrayGeometry {
    /// From the source, the centre of the first pixel, the steps from a pixel to that of the next column and of the
    /// next row, all mm, and the numbers of columns and rows.
    ///
    /// # Errors
    /// [`ImageError::Xray`] for numbers that are not finite, no pixels, steps that are none or parallel, a source in
    /// the plane of the detector.
    pub fn new(
        source: Vector3<f64>,
        origin: Vector3<f64>,
        column: Vector3<f64>,
        row: Vector3<f64>,
        dims: [usize; 2],
    ) -> Result<Self> {
        // A zero has no sign.
        let all = [source, origin, column, row].map(|v| v.map(|x| x + 0.0));
        let [source, origin, column, row] = all;
        let view = Self { source, origin, column, row, dims };
        if all.iter().any(|v| v.iter().any(|x| !x.is_finite())) {
            return Err(wrong("a number that is not finite", "give finite lengths in mm"));
        }
        if dims.contains(&0) || dims[0].checked_mul(dims[1]).is_none_or(|n| n > MOST_PIXELS) {
            return Err(wrong(
                &format!("a detector of {} x {} pixels", dims[0], dims[1]),
                "give from 1 to 2^30 pixels",
            ));
        }
        let (lengths, area) = (column.norm() * row.norm(), column.cross(&row).norm());
        // Not so of numbers that are too large to be multiplied, either.
        if !(lengths.is_finite() && area > 1e-6 * lengths) {
            return Err(wrong(
                "column and row steps that are parallel or zero",
                "give two directions that are not parallel, as long as a pixel is wide and high",
            ));
        }
        let (far, away) = (view.source_to_detector(), (origin - source).norm());
        if !(away.is_finite() && far > 1e-6 * away) {
            return Err(wrong(
                "a source in the plane of the detector",
                "give a source-to-detector distance above 0",
            ));
        }
        Ok(view)
    }

    /// The geometry of a projection matrix, which maps homogeneous points of the world, mm, to homogeneous pixels
    /// (column, row), 0 at the centre of the first. It determines the ray of a pixel, but not where the ray ends:
    /// the detector is `source_to_detector` mm away, and anything behind it is not seen. The sign of the matrix
    /// does not count; points of `in_front` are in front of the source.
    ///
    /// # Errors
    /// A matrix without a source; otherwise as [`new`](Self::new).
    pub fn from_projection(
        matrix: &Matrix3x4<f64>,
        dims: [usize; 2],
        source_to_detector: f64,
        in_front: Vector3<f64>,
    ) -> Result<Self> {
        let left: Matrix3<f64> = matrix.fixed_columns::<3>(0).into_owned();
        let scale = left.norm();
        let inverse =
            left.try_inverse().filter(|_| left.determinant().abs() > 1e-12 * scale.powi(3));
        let Some(inverse) = inverse else {
            return Err(wrong(
                "a projection matrix whose left 3 x 3 part cannot be inverted",
                "give the matrix of a point source (3 x 4, from mm to pixels)",
            ));
        };
        let source = -(inverse * matrix.column(3));
        // What the rays of pixels have in common: how far they go along the normal of the detector.
        let depth = Vector3::new(left[(2, 0)], left[(2, 1)], left[(2, 2)]);
        let sign = if depth.dot(&(in_front - source)) < 0.0 { -1.0 } else { 1.0 };
        let far = sign * source_to_detector * depth.norm();
        let ray = |pixel: Vector3<f64>| inverse * pixel * far;
        let origin = source + ray(Vector3::new(0.0, 0.0, 1.0));
        let (column, row) = (ray(Vector3::x()), ray(Vector3::y()));
        Self::new(source, origin, column, row, dims)
    }

    /// The projection matrix: homogeneous points of the world, mm, to homogeneous pixels (column, row); the third is 1 on
    /// the detector, and above 0 in front of the source.
    #[must_use]
    pub fn projection(&self) -> Matrix3x4<f64> {
        let rays = Matrix3::from_columns(&[self.column, self.row, self.origin - self.source]);
        // The checks of `new` keep the three apart.
        let left = rays.try_inverse().unwrap_or_else(Matrix3::zeros);
        let mut matrix = Matrix3x4::zeros();
        matrix.fixed_columns_mut::<3>(0).copy_from(&left);
        matrix.set_column(3, &-(left * self.source));
        matrix
    }

    /// The place of the source, mm.
    #[must_use]
    pub fn source(&self) -> Vector3<f64> {
        self.source
    }

    /// The centre of the first pixel, mm.
    #[must_use]
    pub fn origin(&self) -> Vector3<f64> {
        self.origin
    }

    /// The step from a pixel to that of the next column, mm.
    #[must_use]
    pub fn column(&self) -> Vector3<f64> {
        self.column
    }

    /// The step from a pixel to that of the next row, mm.
    #[must_use]
    pub fn row(&self) -> Vector3<f64> {
        self.row
    }

    /// The numbers of columns and rows.
    #[must_use]
    pub fn dims(&self) -> [usize; 2] {
        self.dims
    }

    /// The sizes of a pixel along columns and rows, mm.
    #[must_use]
    pub fn pixel_size(&self) -> [f64; 2] {
        [self.column.norm(), self.row.norm()]
    }

    /// The distance of the source from the plane of the detector, mm.
    #[must_use]
    pub fn source_to_detector(&self) -> f64 {
        self.normal().dot(&(self.origin - self.source)).abs()
    }

    /// The unit vector across the detector, away from the source.
    #[must_use]
    pub fn normal(&self) -> Vector3<f64> {
        let normal = self.column.cross(&self.row).normalize();
        if normal.dot(&(self.origin - self.source)) < 0.0 { -normal } else { normal }
    }

    /// A place on the detector, mm; whole numbers are the centres of pixels.
    #[must_use]
    pub fn place(&self, column: f64, row: f64) -> Vector3<f64> {
        self.origin + self.column * column + self.row * row
    }

    /// The middle of the detector, mm.
    #[must_use]
    pub fn centre(&self) -> Vector3<f64> {
        self.place((self.dims[0] as f64 - 1.0) / 2.0, (self.dims[1] as f64 - 1.0) / 2.0)
    }

    /// The projection of a point: column and row, 0 at the centre of the first pixel; none beside or behind the
    /// source.
    #[must_use]
    pub fn project(&self, point: Vector3<f64>) -> Option<[f64; 2]> {
        let seen = self.projection() * point.push(1.0);
        (seen.z > 0.0).then(|| [seen.x / seen.z, seen.y / seen.z])
    }

    /// The magnification at this point; none beside or behind the source.
    #[must_use]
    pub fn magnification(&self, point: Vector3<f64>) -> Option<f64> {
        let depth = self.normal().dot(&(point - self.source));
        (depth > 0.0).then(|| self.source_to_detector() / depth)
    }

    /// The same rays where the world has been mapped.
    #[must_use]
    pub fn mapped(&self, map: &Affine) -> Self {
        Self {
            source: map.apply(self.source),
            origin: map.apply(self.origin),
            column: map.matrix * self.column,
            row: map.matrix * self.row,
            dims: self.dims,
        }
    }

    /// The same rays with the plane of the detector at another distance from the source, mm: origin, column and row
    /// are scaled about the source, and so are the pixel sizes. Every point is projected to the same pixel, except
    /// for points that are now behind the detector, which are not seen.
    ///
    /// ```
    /// use voxalign_image::{Vector3, XrayGeometry};
    ///
    /// let source = Vector3::new(0.0, 1000.0, 0.0);
    /// let origin = Vector3::new(150.0, -500.0, 100.0);
    /// let (column, row) = (-Vector3::x(), -Vector3::z());
    /// let view = XrayGeometry::new(source, origin, column, row, [301, 201])?;
    /// let twice = view.with_source_to_detector(3000.0)?;
    /// assert!((twice.source_to_detector() - 3000.0).abs() < 1e-9 && twice.pixel_size() == [2.0, 2.0]);
    /// assert!((twice.centre() - Vector3::new(0.0, -2000.0, 0.0)).norm() < 1e-9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ImageError::Xray`] for a distance that is not above 0 or not finite, or so large that places cannot be computed with.
    pub fn with_source_to_detector(&self, distance: f64) -> Result<Self> {
        // Not so where it is not a number, either.
        if !(distance > 0.0 && distance.is_finite()) {
            return Err(wrong(
                &format!("a detector {distance} mm from the source"),
                "give a distance in mm above 0",
            ));
        }
        let by = distance / self.source_to_detector();
        let origin = self.source + (self.origin - self.source) * by;
        Self::new(self.source, origin, self.column * by, self.row * by, self.dims)
    }

    /// The part of the detector from a pixel on.
    ///
    /// # Errors
    /// [`ImageError::Xray`] for a part that is empty or not on the detector.
    pub fn part(&self, first: [usize; 2], dims: [usize; 2]) -> Result<Self> {
        let inside =
            |a: usize| first[a].checked_add(dims[a]).is_some_and(|end| end <= self.dims[a]);
        if dims.contains(&0) || !inside(0) || !inside(1) {
            return Err(wrong(
                &format!(
                    "a region of {} x {} pixels from ({}, {}) of a detector of {} x {}",
                    dims[0], dims[1], first[0], first[1], self.dims[0], self.dims[1]
                ),
                "give a region inside the detector",
            ));
        }
        Ok(Self { origin: self.place(first[0] as f64, first[1] as f64), dims, ..*self })
    }

    /// The same detector with pixels that are the means of `factor` x `factor` of these; what is left over at the
    /// ends is not part of it.
    ///
    /// # Errors
    /// [`ImageError::Xray`] where nothing is left.
    pub fn binned(&self, factor: usize) -> Result<Self> {
        let by = factor as f64;
        let middle = (by - 1.0) / 2.0;
        let dims = self.dims.map(|n| n / factor.max(1));
        let origin = self.place(middle, middle);
        Self::new(self.source, origin, self.column * by, self.row * by, dims)
    }
}

/// Pixels have numbers of 32 bits.
const MOST_PIXELS: usize = 1 << 30;

fn wrong(what: &str, remedy: &str) -> ImageError {
    ImageError::Xray { what: what.to_owned(), remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::AffineParameters;

    fn oblique() -> XrayGeometry {
        let turn = AffineParameters {
            rotation: Vector3::new(0.3, -0.7, 0.2),
            translation: Vector3::new(20.0, -35.0, 8.0),
            ..AffineParameters::identity(Vector3::zeros())
        };
        XrayGeometry::new(
            Vector3::new(3.0, 990.0, -4.0),
            Vector3::new(150.0, -510.0, 101.0),
            Vector3::new(-0.4, 0.0, 0.0),
            Vector3::new(0.0, 0.02, -0.5),
            [700, 401],
        )
        .unwrap()
        .mapped(&turn.to_affine())
    }

    #[test]
    fn places_are_seen_where_they_are() {
        let view = oblique();
        for (column, row) in [(0.0, 0.0), (13.5, 77.25), (699.0, 400.0)] {
            let place = view.place(column, row);
            for part in [0.1, 0.5, 1.0, 1.5] {
                let [c, r] = view.project(view.source() + (place - view.source()) * part).unwrap();
                assert!((c - column).abs() < 1e-8 && (r - row).abs() < 1e-8, "{c} {r}");
            }
            assert!(view.project(view.source() * 2.0 - place).is_none());
        }
        let middle = view.source() + view.normal() * (view.source_to_detector() / 2.0);
        assert!((view.magnification(middle).unwrap() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_projection_matrix_has_the_same_rays() {
        let view = oblique();
        let (far, front) = (view.source_to_detector(), view.centre());
        for scale in [1.0, -0.01, 250.0] {
            let matrix = view.projection() * scale;
            let same = XrayGeometry::from_projection(&matrix, view.dims(), far, front).unwrap();
            for (a, b) in [
                (same.source(), view.source()),
                (same.origin(), view.origin()),
                (same.column() * 700.0, view.column() * 700.0),
                (same.row() * 400.0, view.row() * 400.0),
            ] {
                assert!((a - b).norm() < 1e-6, "{a} {b}");
            }
            // Another distance: the same rays.
            let near = XrayGeometry::from_projection(&matrix, view.dims(), 100.0, front).unwrap();
            assert!((near.source_to_detector() - 100.0).abs() < 1e-6);
            let point = Vector3::new(5.0, 6.0, 7.0);
            let (a, b) = (near.project(point).unwrap(), view.project(point).unwrap());
            assert!((a[0] - b[0]).abs() < 1e-6 && (a[1] - b[1]).abs() < 1e-6);
        }
        let flat = Matrix3x4::new(1., 0., 0., 0., 0., 1., 0., 0., 1., 1., 0., 1.);
        assert!(XrayGeometry::from_projection(&flat, [4, 4], 1.0, front).is_err());
    }

    #[test]
    fn parts_and_coarser_pixels_are_where_they_were() {
        let view = oblique();
        let part = view.part([100, 50], [30, 20]).unwrap();
        assert!((part.place(2.0, 3.0) - view.place(102.0, 53.0)).norm() < 1e-9);
        assert!(view.part([100, 50], [0, 20]).is_err());
        assert!(view.part([690, 50], [11, 20]).is_err());
        let coarse = view.binned(4).unwrap();
        assert_eq!(coarse.dims(), [175, 100]);
        assert!((coarse.place(1.0, 2.0) - view.place(5.5, 9.5)).norm() < 1e-9);
        assert!(view.binned(800).is_err());
    }

    #[test]
    fn a_detector_moves_along_its_rays() {
        let view = oblique();
        for distance in [1.0, 400.0, view.source_to_detector(), 2e4] {
            let moved = view.with_source_to_detector(distance).unwrap();
            let by = distance / view.source_to_detector();
            assert!((moved.source_to_detector() - distance).abs() < 1e-9 * distance);
            assert_eq!((moved.source(), moved.dims()), (view.source(), view.dims()));
            assert!((moved.normal() - view.normal()).norm() < 1e-12);
            for (new, old) in moved.pixel_size().into_iter().zip(view.pixel_size()) {
                assert!((new - by * old).abs() < 1e-12 * old.max(new), "{new} {old}");
            }
            // A point is seen where it was, and so many times as large.
            for part in [0.2, 0.9, 1.7] {
                let along = view.place(123.0, 45.5) - view.source();
                let point = view.source() + along * part;
                let [c, r] = moved.project(point).unwrap();
                assert!((c - 123.0).abs() < 1e-7 && (r - 45.5).abs() < 1e-7, "{c} {r}");
                let [new, old] = [&moved, &view].map(|v| v.magnification(point).unwrap());
                assert!((new - by * old).abs() < 1e-9 * new);
            }
            let back = moved.with_source_to_detector(view.source_to_detector()).unwrap();
            assert!((back.centre() - view.centre()).norm() < 1e-9);
        }
        for distance in [0.0, -0.0, -1500.0, f64::NAN, f64::INFINITY, f64::MAX] {
            let said = view.with_source_to_detector(distance).unwrap_err().to_string();
            assert!(said.contains("a detector") || said.contains("row steps"), "{said}");
        }
        let said = view.with_source_to_detector(-1500.0).unwrap_err().to_string();
        assert!(said.contains("a detector -1500 mm from the source"), "{said}");
        assert!(said.contains("give a distance in mm above 0"), "{said}");
    }

    #[test]
    fn bad_geometries() {
        let make = |source: [f64; 3], column: [f64; 3], row: [f64; 3], dims| {
            let v = |a: [f64; 3]| Vector3::from(a);
            XrayGeometry::new(v(source), Vector3::zeros(), v(column), v(row), dims)
        };
        assert!(make([0., 0., 9.], [1., 0., 0.], [0., 1., 0.], [4, 4]).is_ok());
        for (source, column, row, dims) in [
            ([0., 0., f64::NAN], [1., 0., 0.], [0., 1., 0.], [4, 4]),
            ([0., 0., 9.], [1., 0., 0.], [2., 0., 0.], [4, 4]),
            ([0., 0., 9.], [0., 0., 0.], [0., 1., 0.], [4, 4]),
            ([3., 5., 0.], [1., 0., 0.], [0., 1., 0.], [4, 4]),
            ([0., 0., 9.], [1., 0., 0.], [0., 1., 0.], [4, 0]),
            ([0., 0., 9.], [1., 0., 0.], [0., 1., 0.], [1 << 20, 1 << 20]),
        ] {
            let failure = make(source, column, row, dims).unwrap_err();
            assert!(matches!(failure, ImageError::Xray { .. }), "{failure}");
        }
    }
}
