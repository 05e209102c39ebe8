//! Warnings about unusual properties of an image.

use std::fmt::{self, Display, Formatter};
use std::ops::Deref;

/// Something unusual about a file, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oddity {
    /// The axes of the voxels are not those of the world.
    Oblique(String),
    /// The axes of the voxels are left-handed.
    LeftHanded(String),
    /// Voxels are much longer along one axis than along another.
    Anisotropic(String),
    /// Few grey values: 8 bits.
    Coarse(String),
    /// A colour image of which the luminance is used.
    Colour(String),
    /// Opacity that is not looked at.
    Opacity(String),
    /// Values that were inverted so that large ones are bright.
    Inverted(String),
    /// Anything else: what was assumed, ignored, or contradicts itself.
    Other(String),
}

impl Oddity {
    /// Whether it is a fact about the geometry that nothing has to be done about.
    #[must_use]
    pub fn is_normal_geometry(&self) -> bool {
        matches!(self, Self::Oblique(_) | Self::LeftHanded(_) | Self::Anisotropic(_))
    }
}

impl From<String> for Oddity {
    fn from(words: String) -> Self {
        Self::Other(words)
    }
}

impl Deref for Oddity {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Oblique(words)
            | Self::LeftHanded(words)
            | Self::Anisotropic(words)
            | Self::Coarse(words)
            | Self::Colour(words)
            | Self::Opacity(words)
            | Self::Inverted(words)
            | Self::Other(words) => words,
        }
    }
}

impl Display for Oddity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl PartialEq<&str> for Oddity {
    fn eq(&self, words: &&str) -> bool {
        **self == **words
    }
}

#[cfg(test)]
mod tests {
    use crate::image::{WriteOptions, read_info, write_volume};
    use voxalign_image::{AffineParameters, Grid, Vector3, Volume};

    #[test]
    fn facts_about_a_geometry_are_told_from_what_is_wrong() {
        let mut turn = AffineParameters::identity(Vector3::zeros());
        turn.rotation[2] = 0.3;
        let grid = Grid::axis_aligned([4, 4, 4], [-1.0, 1.0, 3.0]).unwrap();
        let grid = grid.moved(&turn.to_affine()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nii");
        write_volume(&path, &Volume::filled(grid, 0.0), &WriteOptions::default()).unwrap();
        let oddities = read_info(&path).unwrap().oddities;
        assert!(oddities.len() >= 3, "{oddities:?}");
        assert!(oddities.iter().all(|o| o.is_normal_geometry()), "{oddities:?}");
        assert!(oddities.iter().any(|o| o.starts_with("the voxel axes are oblique")));
        assert!(!super::Oddity::from("qform and sform disagree".to_owned()).is_normal_geometry());
    }
}
