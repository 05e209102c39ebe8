//! Matching the items of two anatomies by name.

use super::file::{Anatomy, Given, Kind, OfVoxels, Part, Source};
use super::tables::kernel_name;
use crate::error::{Error, Result};
use crate::options::usual_landmark_weight;
use serde_json::{Value, json};
use voxalign_compute::ops::pairwise::KernelShape;
use voxalign_options::text;
use voxalign_register::Choice;
use voxalign_register::similarity::Similarity;

/// The width of kernels where nothing is said, mm.
pub const WIDTH: f64 = 5.0;

/// What of shapes without correspondence counts beside images where nothing is said: they follow to less than a voxel, and
/// the images still decide elsewhere (docs/anatomy.md has figures). Alone each counts 1.
pub const SHAPE_WEIGHT: f64 = 0.01;

/// Something of both anatomies, and how it is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Matched {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Where it comes from in the fixed and in the moving anatomy.
    pub sources: [Source; 2],
    /// The factor of its energy; of landmarks 1/mm².
    pub weight: f64,
    /// Of a shape the width of the kernel, mm.
    pub width: f64,
    /// Of a shape how the kernel falls off.
    pub kernel: KernelShape,
    /// Of a surface or curves whether the orientation counts.
    pub oriented: bool,
    /// Of an image the similarity; of a probability the squared difference.
    pub similarity: Similarity,
}

impl Matched {
    /// It in words, for messages.
    #[must_use]
    pub fn words(&self) -> String {
        format!("[[{}]] '{}'", self.kind.name(), self.name)
    }

    /// Its parameters, for the record.
    pub(super) fn parameters(&self) -> Value {
        let mut all = json!({
            "name": self.name,
            "kind": self.kind.name(),
            "weight": self.weight,
        });
        let mut put = |key: &str, value: Value| {
            if let Some(all) = all.as_object_mut() {
                all.insert(key.to_owned(), value);
            }
        };
        if self.kind.is_image() {
            put("similarity", json!(self.similarity.name()));
            for (name, value) in self.similarity.as_json() {
                put(&name, value);
            }
        }
        if self.kind.is_shape() {
            put("width", json!(self.width));
            put("kernel", json!(kernel_name(self.kernel)));
        }
        if matches!(self.kind, Kind::Surface | Kind::Curve) {
            put("oriented", json!(self.oriented));
        }
        for (side, source) in ["fixed", "moving"].into_iter().zip(&self.sources) {
            put(side, of_source(source));
        }
        all
    }
}

/// A source, for the record.
fn of_source(source: &Source) -> Value {
    let path = |p: &std::path::Path| p.display().to_string();
    match source {
        Source::Images(files) => files
            .iter()
            .map(|(file, volume)| match volume {
                Some(volume) => json!({ "image": path(file), "volume": volume }),
                None => json!({ "image": path(file) }),
            })
            .collect(),
        Source::Labels { path: file, labels, sigma, .. } => {
            json!({ "labels": path(file), "label": labels, "sigma": sigma })
        }
        Source::Voxels(of) => {
            let OfVoxels { path: file, volume, object, shape, .. } = &**of;
            let mut all = match object.level {
                None => json!({ "labels": path(file), "label": object.label }),
                Some(level) => {
                    json!({ "image": path(file), "level": level, "below": object.below })
                }
            };
            if let Some(volume) = volume {
                all["volume"] = json!(volume);
            }
            all["largest_component"] = json!(object.largest_component);
            all["fill_holes"] = json!(object.fill_holes);
            all["smoothing"] = json!(shape.smoothing(object.level.is_none()));
            all["triangles"] = json!(shape.triangles);
            all["keep"] = json!(shape.keep);
            all
        }
        Source::Mesh(file, _) => json!({ "mesh": path(file) }),
        Source::List(file, _) => json!({ "points": path(file) }),
    }
}

/// Matches two anatomies. Parameters are those of the fixed one; what the moving one says of one has to be the same.
///
/// # Errors
/// Names that are in one alone, or of other kinds; parameters that differ.
pub fn matched(fixed: &Anatomy, moving: &Anatomy) -> Result<Vec<Matched>> {
    let find = |of: &Anatomy, name: &str| of.parts.iter().position(|p| p.name == name);
    let mut alone = Vec::new();
    for (one, other) in [(fixed, moving), (moving, fixed)] {
        for part in one.parts.iter().filter(|p| find(other, &p.name).is_none()) {
            alone.push(format!(
                "{} of '{}' is not in '{}'",
                part.words(),
                one.path.display(),
                other.path.display()
            ));
        }
    }
    if !alone.is_empty() {
        return Err(Error::input(text!(
            "{}; corresponding parts need the same name in both files",
            alone.join("; ")
        )));
    }
    let images = fixed.parts.iter().any(|p| p.kind.is_image());
    let usual = [if images { SHAPE_WEIGHT } else { 1.0 }, landmark_weight(fixed)];
    let mut all = Vec::with_capacity(fixed.parts.len());
    for part in &fixed.parts {
        let Some(other) = find(moving, &part.name).and_then(|i| moving.parts.get(i)) else {
            continue;
        };
        if part.kind != other.kind {
            return Err(Error::input(text!(
                "'{}' is {} in '{}' and {} in '{}'; give the same kind in both",
                part.name,
                part.words(),
                fixed.path.display(),
                other.words(),
                moving.path.display()
            )));
        }
        let one = resolved(part, other, usual);
        agree(&one, other, moving)?;
        all.push(one);
    }
    Ok(all)
}

/// A part with the parameters of the fixed anatomy, and usual ones where that says nothing.
fn resolved(part: &Part, other: &Part, [of_shapes, of_landmarks]: [f64; 2]) -> Matched {
    let Given { weight, width, kernel, oriented, similarity } = part.given;
    let usual = match part.kind {
        Kind::Landmarks => of_landmarks,
        kind if kind.is_shape() => of_shapes,
        _ => 1.0,
    };
    let similarity = match part.kind {
        Kind::Image => similarity.unwrap_or(Similarity::LNCC),
        _ => Similarity::SSD,
    };
    Matched {
        name: part.name.clone(),
        kind: part.kind,
        sources: [part.source.clone(), other.source.clone()],
        weight: weight.unwrap_or(usual),
        width: width.unwrap_or(WIDTH),
        kernel: kernel.unwrap_or_default(),
        oriented: oriented.unwrap_or(true),
        similarity,
    }
}

/// How strongly landmarks pull where nothing is said, 1/mm²: as beside the images that there are.
fn landmark_weight(fixed: &Anatomy) -> f64 {
    let of = |part: &Part| match part.kind {
        Kind::Probability => Some(usual_landmark_weight(&Similarity::SSD)),
        Kind::Image => {
            let similarity = part.given.similarity.unwrap_or(Similarity::LNCC);
            Some(usual_landmark_weight(&similarity))
        }
        _ => None,
    };
    fixed.parts.iter().filter_map(of).reduce(f64::max).unwrap_or(3e-4)
}

/// What the moving file says of parameters has to be what counts.
fn agree(one: &Matched, other: &Part, moving: &Anatomy) -> Result<()> {
    let Given { weight, width, kernel, oriented, similarity } = other.given;
    let similarity_name = |s: Similarity| {
        let told = s.as_json().into_iter().map(|(name, value)| format!(" {name} {value}"));
        format!("{}{}", s.name(), told.collect::<String>())
    };
    let differing = [
        weight
            .filter(|w| *w != one.weight)
            .map(|w| ("weight", w.to_string(), one.weight.to_string())),
        width.filter(|w| *w != one.width).map(|w| ("width", w.to_string(), one.width.to_string())),
        kernel
            .filter(|k| *k != one.kernel)
            .map(|k| ("kernel", kernel_name(k).to_owned(), kernel_name(one.kernel).to_owned())),
        oriented
            .filter(|o| *o != one.oriented)
            .map(|o| ("oriented", o.to_string(), one.oriented.to_string())),
        similarity
            .filter(|s| *s != one.similarity)
            .map(|s| ("similarity", similarity_name(s), similarity_name(one.similarity))),
    ];
    match differing.into_iter().flatten().next() {
        None => Ok(()),
        Some((key, found, counts)) => Err(Error::input(text!(
            "'{}': {}: '{key}' is {found}, and would be ignored: the fixed anatomy says how things are compared, and \
             there it is {counts}; say the same, or leave it out",
            moving.path.display(),
            other.words()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, kind: Kind, given: Given) -> Part {
        Part { name: name.into(), kind, source: Source::Mesh("m.gii".into(), None), given }
    }

    fn anatomy(path: &str, parts: Vec<Part>) -> Anatomy {
        Anatomy { path: path.into(), parts }
    }

    fn given(weight: f64) -> Given {
        Given { weight: Some(weight), ..Given::default() }
    }

    #[test]
    fn names_match_whatever_their_order() {
        let none = Given::default();
        let fixed = anatomy(
            "f.toml",
            vec![part("a", Kind::Surface, given(2.0)), part("b", Kind::Curve, none)],
        );
        let moving =
            anatomy("m.toml", vec![part("b", Kind::Curve, none), part("a", Kind::Surface, none)]);
        let found = matched(&fixed, &moving).unwrap();
        let facts: Vec<_> = found.iter().map(|m| (&*m.name, m.weight, m.width)).collect();
        assert_eq!(facts, [("a", 2.0, WIDTH), ("b", 1.0, WIDTH)]);
        // The other way round the parameters are missing, or they are said twice.
        let found = matched(&moving, &fixed).unwrap_err().to_string();
        assert!(
            found.contains("'f.toml': [[surface]] 'a': 'weight' is 2, and would be ignored"),
            "{found}"
        );
        let agreed = anatomy(
            "n.toml",
            vec![part("a", Kind::Surface, given(2.0)), part("b", Kind::Curve, none)],
        );
        assert!(matched(&fixed, &agreed).is_ok() && matched(&agreed, &fixed).is_ok());
        // What is usual may be said as well.
        let usual = anatomy(
            "n.toml",
            vec![part("b", Kind::Curve, given(1.0)), part("a", Kind::Surface, none)],
        );
        assert!(matched(&fixed, &usual).is_ok());
    }

    #[test]
    fn every_name_without_a_partner_is_named() {
        let none = Given::default();
        let fixed = anatomy("f.toml", vec![part("a", Kind::Surface, none)]);
        let moving = anatomy("m.toml", vec![part("b", Kind::Surface, none)]);
        let said = matched(&fixed, &moving).unwrap_err().to_string();
        for part in
            ["[[surface]] 'a' of 'f.toml' is not in 'm.toml'", "[[surface]] 'b' of 'm.toml'"]
        {
            assert!(said.contains(part), "{said}");
        }
        let other = anatomy("m.toml", vec![part("a", Kind::Curve, none)]);
        let said = matched(&fixed, &other).unwrap_err().to_string();
        assert!(said.contains("'a' is [[surface]] 'a' in 'f.toml' and [[curve]] 'a'"), "{said}");
    }

    #[test]
    fn landmarks_pull_as_beside_images() {
        let of = |kind, similarity| {
            let given = Given { similarity, ..Given::default() };
            landmark_weight(&anatomy("f", vec![part("a", kind, given)]))
        };
        assert_eq!(of(Kind::Probability, None), 3e-6);
        assert_eq!(of(Kind::Image, None), 3e-4);
        assert_eq!(of(Kind::Image, Some(Similarity::MI)), 1e-3);
        assert_eq!(of(Kind::Surface, None), 3e-4);
    }
}
