//! Selection of the files that a registration writes.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use voxalign_options::Choice;

/// A file, or two of one content, that a registration can write. Named as the files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
#[choice(snake_case)]
pub enum Product {
    /// displacements on the fixed grid, or on one that divides its thick slices.
    Warp,
    /// their inverse.
    InverseWarp,
    /// the affine transform, for ITK and for FSL.
    Affine,
    /// warp and affine as one field on the grid of the warp.
    Composite,
    /// its inverse as one field on the moving grid, or on one that divides its thick slices.
    InverseComposite,
    /// the moving image on the fixed grid.
    Warped,
    /// the warp's change of volume in each voxel of the fixed grid.
    Jacobian,
    /// the mesh of an elastic body as it ended.
    Mesh,
}

/// The files that a deformable registration writes where nothing is said: what others can be made of.
const USUAL: &[Product] = &[Product::Warp, Product::InverseWarp, Product::Affine, Product::Warped];

/// The files that a deformation of images or anatomies can write.
const OF_DEFORM: &[Product] = &[
    Product::Warp,
    Product::InverseWarp,
    Product::Affine,
    Product::Composite,
    Product::InverseComposite,
    Product::Warped,
    Product::Jacobian,
];

/// The files that an affine registration can write.
const OF_AFFINE: &[Product] = &[Product::Affine, Product::Warped];

/// The files that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Products(Vec<Product>);

impl Products {
    /// No file but record and report.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Whether this one is among them.
    #[must_use]
    pub fn contains(&self, product: Product) -> bool {
        self.0.contains(&product)
    }

    /// The first that is not a file of an affine registration.
    pub(crate) fn not_of_affine(&self) -> Option<&'static str> {
        self.0.iter().find(|p| !OF_AFFINE.contains(p)).map(|p| p.name())
    }

    /// What a deformable registration writes where nothing is said.
    #[must_use]
    pub fn usual() -> Self {
        Self(USUAL.to_vec())
    }

    /// What a registration by an elastic body writes where nothing is said.
    #[must_use]
    pub fn usual_of_elastic() -> Self {
        Self([USUAL, &[Product::Mesh]].concat())
    }

    /// Parses names with commas between them; `all` by itself stands for all of them.
    fn parse(text: &str, known: &[Product]) -> Result<Self, String> {
        if text.trim() == "all" {
            return Ok(Self(known.to_vec()));
        }
        let product = |word: &str| {
            let name = word.trim().replace('-', "_");
            Product::named(&name).filter(|p| known.contains(p)).ok_or_else(|| {
                let names: Vec<_> = known.iter().map(|p| p.name()).collect();
                let names = names.join(", ");
                format!("'{}' is not an output; choose from {names}, or all", word.trim())
            })
        };
        text.split(',').map(product).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Products {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, OF_DEFORM)
    }
}

impl Display for Products {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|p| p.name()).collect();
        f.write_str(&names.join(","))
    }
}

/// The outputs of a deformable registration.
///
/// # Errors
/// What there is to choose from.
pub fn of_deform(text: &str) -> Result<Products, String> {
    Products::parse(text, OF_DEFORM)
}

/// The outputs of a registration by an elastic body.
///
/// # Errors
/// What there is to choose from.
pub fn of_elastic(text: &str) -> Result<Products, String> {
    Products::parse(text, Product::ALL)
}

/// The outputs of an affine registration.
///
/// # Errors
/// What there is to choose from.
pub fn of_affine(text: &str) -> Result<Products, String> {
    Products::parse(text, OF_AFFINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        let all: Vec<_> = Product::ALL.iter().map(|p| p.name()).collect();
        assert_eq!(of_elastic(&all.join(",")), Ok(Products(Product::ALL.to_vec())));
        assert_eq!(of_elastic("all"), Ok(Products(Product::ALL.to_vec())));
        assert!(of_deform("mesh").is_err() && "mesh".parse::<Products>().is_err());
        assert_eq!(
            Products::usual_of_elastic(),
            of_elastic("warp,inverse_warp,affine,warped,mesh").unwrap()
        );
        let some = of_deform("warped, inverse-warp").unwrap();
        assert!(some.contains(Product::InverseWarp) && !some.contains(Product::Warp));
        assert_eq!(of_affine("affine"), Ok(Products(vec![Product::Affine])));
        let said = of_affine("warp").unwrap_err();
        assert_eq!(said, "'warp' is not an output; choose from affine, warped, or all");
        assert_eq!(of_deform(" all"), Ok(Products(OF_DEFORM.to_vec())));
        assert_eq!(of_affine("all"), Ok(Products(OF_AFFINE.to_vec())));
        assert_eq!(Products::usual(), of_deform("warp,inverse_warp,affine,warped").unwrap());
        for bad in ["", "warp,", "all,warp", "warp.nii.gz", "warp;affine"] {
            assert!(of_deform(bad).is_err(), "{bad}");
        }
    }
}
