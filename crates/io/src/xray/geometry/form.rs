//! The ways of specifying the geometry of source and detector, in RAS.

use voxalign_image::{CArm, Gantry, ImageError, Matrix3, Matrix3x4, Vector3, XrayGeometry};

/// A geometry without the size of the image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// Source, centre of the first pixel, steps to the next column and row, mm.
    Plain { source: Vector3<f64>, origin: Vector3<f64>, column: Vector3<f64>, row: Vector3<f64> },
    /// Its size is not looked at.
    Arm(CArm),
    /// Its size is not looked at.
    Machine(Gantry),
    /// Points to pixels, the third number above 0 in front; the distance of the detector, mm, where that is said, and
    /// otherwise one is assumed. Rays end there.
    Projection { matrix: Matrix3x4<f64>, far: Option<f64> },
}

/// How far the detector is assumed where nothing says it: so many times as far as the world's origin, and so far at least, mm.
const BEHIND: f64 = 1.5;
const LEAST: f64 = 1000.0;

impl Form {
    /// The plain one.
    pub(super) fn of(view: &XrayGeometry) -> Self {
        let (source, origin) = (view.source(), view.origin());
        Form::Plain { source, origin, column: view.column(), row: view.row() }
    }

    /// The geometry of an image of this size.
    pub(super) fn geometry(&self, dims: [usize; 2]) -> Result<XrayGeometry, ImageError> {
        match *self {
            Form::Plain { source, origin, column, row } => {
                XrayGeometry::new(source, origin, column, row, dims)
            }
            Form::Arm(arm) => CArm { dims, ..arm }.geometry(),
            Form::Machine(Gantry { arm, angle }) => {
                Gantry { arm: CArm { dims, ..arm }, angle }.geometry()
            }
            Form::Projection { matrix, far } => {
                let depth = matrix.fixed_view::<1, 3>(2, 0).transpose();
                let front = depth * ((1.0 - matrix[(2, 3)]) / depth.norm_squared());
                let far = far.unwrap_or_else(|| usual_distance(&matrix));
                XrayGeometry::from_projection(&matrix, dims, far, front)
            }
        }
    }
}

/// The distance of a detector that nothing places. It may lie before what is to be seen, if that is farther away than the
/// world's origin: whoever knows moves it.
fn usual_distance(matrix: &Matrix3x4<f64>) -> f64 {
    let left: Matrix3<f64> = matrix.fixed_columns::<3>(0).into_owned();
    let source = left.try_inverse().map(|inverse| inverse * matrix.column(3));
    source.map_or(LEAST, |source| (BEHIND * source.norm()).max(LEAST))
}
