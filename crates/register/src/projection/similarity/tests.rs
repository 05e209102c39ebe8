//! Derivatives against differences, and what each similarity is blind to.

use super::*;
use crate::Choice;
use crate::random::Random;

fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..n).map(|_| random.uniform() as f32).collect()
}

/// An X-ray image and one that is somewhat like it, at pixels.
fn pair(pixels: &Pixels, seed: u64) -> (Vec<f32>, Vec<f32>) {
    let (a, b) = (noise(pixels.len(), seed), noise(pixels.len(), seed + 1));
    let smooth = |i: usize| {
        let [u, v] = pixels.at(i);
        1.5 + (u as f32 * 0.3).sin() + (v as f32 * 0.2).cos()
    };
    let x = (0..pixels.len()).map(|i| smooth(i) + 0.3 * a[i]).collect();
    let i = (0..pixels.len()).map(|i| 0.9 * smooth(i) + 0.4 * b[i]).collect();
    (x, i)
}

fn selections(kind: XraySimilarity) -> [Pixels; 3] {
    // About as many pixels of each.
    let count = 600 / (kind.tile()[0] * kind.tile()[1]);
    [
        Pixels::region([0, 0], [23, 17]),
        Pixels::drawn([2, 1], [40, 30], kind.tile(), count, 3),
        Pixels::drawn([2, 1], [40, 30], kind.tile(), count + 7, 4),
    ]
}

/// All pixels, and most of them.
fn counts(n: usize) -> [Vec<bool>; 2] {
    [vec![true; n], (0..n).map(|i| i % 11 != 3 && !(90..140).contains(&i)).collect()]
}

#[test]
fn derivatives_match_differences() {
    for &kind in XraySimilarity::ALL {
        for (pixels, some) in selections(kind).into_iter().flat_map(|p| [(p, 0), (p, 1)]) {
            let (x, image) = pair(&pixels, 5);
            let counted = counts(x.len())[some].clone();
            let reference = Reference::new(x, &pixels, 5.0).counting(counted.clone());
            let mut derivative = vec![0.0; image.len()];
            let cost = kind.cost(&reference, &image, Some(&mut derivative));
            assert_eq!(cost.to_bits(), kind.cost(&reference, &image, None).to_bits());
            let way: Vec<f32> = noise(image.len(), 9).iter().map(|v| v - 0.4).collect();
            // Halves of a step: the error of central differences falls with its square.
            let at = |by: f32| {
                let moved: Vec<f32> = image.iter().zip(&way).map(|(i, w)| i + by * w).collect();
                kind.cost(&reference, &moved, None)
            };
            let expected: f64 =
                derivative.iter().zip(&way).map(|(s, w)| f64::from(*s) * f64::from(*w)).sum();
            let by = 2e-3f32;
            let found = (at(by) - at(-by)) / (2.0 * f64::from(by));
            let size: f64 = derivative
                .iter()
                .zip(&way)
                .map(|(s, w)| (f64::from(*s) * f64::from(*w)).abs())
                .sum();
            // Absolute differences have kinks, which a step may cross.
            let tolerance = if kind == XraySimilarity::L1 { 0.05 } else { 2e-3 };
            let name = kind.name();
            assert!((found - expected).abs() < tolerance * size, "{name}: {found} {expected}");
            assert!(size > 0.0, "{name}");
            assert!(
                derivative.iter().zip(&counted).all(|(s, counts)| *counts || *s == 0.0),
                "{name}"
            );
        }
    }
}

#[test]
fn the_image_itself_is_best() {
    for &kind in XraySimilarity::ALL {
        for pixels in selections(kind) {
            let (x, image) = pair(&pixels, 15);
            let reference = Reference::new(x.clone(), &pixels, 5.0);
            let (best, other) =
                (kind.cost(&reference, &x, None), kind.cost(&reference, &image, None));
            assert!(best < other, "{}: {best} {other}", kind.name());
            if !matches!(kind, XraySimilarity::Mi(_) | XraySimilarity::Nmi(_)) {
                assert!(best.abs() < 1e-6, "{}: {best}", kind.name());
            }
        }
    }
}

#[test]
fn what_does_not_count() {
    let pixels = Pixels::region([0, 0], [23, 17]);
    let (x, image) = pair(&pixels, 25);
    let reference = Reference::new(x, &pixels, 9.0);
    let with = |f: &dyn Fn(f32) -> f32| image.iter().map(|&i| f(i)).collect::<Vec<f32>>();
    let same = |kind: XraySimilarity, other: &[f32]| {
        let (a, b) = (kind.cost(&reference, &image, None), kind.cost(&reference, other, None));
        assert!((a - b).abs() < 1e-4, "{}: {a} {b}", kind.name());
    };
    use XraySimilarity as X;
    for kind in [X::Ncc, X::GradientNcc, X::PATTERN_INTENSITY] {
        same(kind, &with(&|i| 1.7 * i + 0.8));
    }
    same(X::KULLBACK_LEIBLER, &with(&|i| 1.7 * i));
}

#[test]
fn pixels_that_are_left_out_say_nothing() {
    for &kind in XraySimilarity::ALL {
        for pixels in selections(kind) {
            let (mut x, mut image) = pair(&pixels, 45);
            let [all, some] = counts(x.len());
            let whole = Reference::new(x.clone(), &pixels, 5.0);
            let plain = kind.cost(&whole, &image, None);
            let same = kind.cost(&whole.counting(all), &image, None);
            assert_eq!(plain.to_bits(), same.to_bits());
            let cost = |x: &[f32], image: &[f32]| {
                let reference = Reference::new(x.to_vec(), &pixels, 5.0).counting(some.clone());
                kind.cost(&reference, image, None)
            };
            let before = cost(&x, &image);
            for i in (0..x.len()).filter(|i| !some[*i]) {
                (x[i], image[i]) = (1e4 + i as f32, -3e3);
            }
            assert_eq!(cost(&x, &image).to_bits(), before.to_bits(), "{}", kind.name());
            assert!((plain - before).abs() > 1e-9, "{}", kind.name());
        }
    }
}

#[test]
fn images_without_contrast_are_no_error() {
    let pixels = Pixels::region([0, 0], [12, 9]);
    let (x, image) = pair(&pixels, 35);
    let flat = vec![0.0; x.len()];
    for &kind in XraySimilarity::ALL {
        for (x, image) in [(&x, &flat), (&flat, &image), (&flat, &flat)] {
            let reference = Reference::new(x.clone(), &pixels, 5.0);
            let mut derivative = vec![f32::NAN; image.len()];
            let cost = kind.cost(&reference, image, Some(&mut derivative));
            assert!(cost.is_finite(), "{}: {cost}", kind.name());
            assert!(derivative.iter().all(|s| s.is_finite()), "{}", kind.name());
        }
    }
}

#[test]
fn every_parameter_counts_and_its_usual_value_is_what_it_was() {
    let pixels = Pixels::region([0, 0], [23, 17]);
    let (x, image) = pair(&pixels, 65);
    let reference = Reference::new(x, &pixels, 5.0);
    let mut usual = Vec::new();
    for &kind in XraySimilarity::ALL {
        for parameter in kind.parameters() {
            let mut other = kind;
            let value = if parameter.name == "bins" { "20" } else { "0.5" };
            let value = if parameter.name == "radius" { "2" } else { value };
            assert!(other.set(parameter.name, value).unwrap());
            other.check().unwrap();
            let cost = |kind: XraySimilarity| kind.cost(&reference, &image, None);
            assert!(cost(other) != cost(kind), "{}: {}", kind.name(), parameter.name);
            usual.push((kind.name(), parameter.name, parameter.default));
        }
    }
    let was = [
        ("mi", "bins", "32"),
        ("nmi", "bins", "32"),
        ("pattern-intensity", "radius", "3"),
        ("pattern-intensity", "sigma", "0.2"),
        ("kullback-leibler", "floor", "0.001"),
    ];
    assert_eq!(usual, was.map(|(kind, name, value)| (kind, name, value.to_owned())));
    assert_eq!(XraySimilarity::PATTERN_INTENSITY.tile(), [8, 8]);
}
