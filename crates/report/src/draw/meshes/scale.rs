//! Colour maps of values at vertices, and their colour bar.

use super::Layer;
use crate::draw::axis::round_up;
use crate::draw::key::Key;
use crate::draw::picture::{gradient, ramp};
use crate::draw::window::quantile;
use crate::text::{escape, plain};

/// Colours of values from 0 on: calm where they are small.
const AMOUNTS: [[u8; 3]; 6] = [
    [86, 119, 168],
    [92, 170, 180],
    [166, 208, 150],
    [246, 216, 110],
    [242, 142, 72],
    [204, 52, 62],
];
/// Colours of values of both signs.
const SIGNED: [[u8; 3]; 5] =
    [[52, 110, 196], [138, 182, 224], [226, 226, 222], [240, 164, 102], [200, 70, 44]];
/// Colours of a bar.
const STEPS: usize = 64;
/// The part of all values that the bar covers, where no range is asked for.
const COVERED: f64 = 0.98;

/// The name of the values of layers, and the range that the colours cover.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// Their name, such as `distance`.
    pub name: String,
    /// Their unit, such as `mm`; empty where they have none.
    pub unit: String,
    /// The values at both ends; by default from 0 to the 98th percentile, or from minus to plus that of the
    /// magnitudes where there are values below 0.
    pub range: Option<[f64; 2]>,
}

impl Scale {
    /// A scale whose range follows from the values.
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { name: name.into(), unit: unit.into(), range: None }
    }

    /// With the range that the values of these layers give.
    pub(super) fn of(&self, layers: &[Layer<'_>]) -> Bar {
        let mut sizes: Vec<f32> = Vec::new();
        let mut signed = false;
        let mut ends = [f64::INFINITY, f64::NEG_INFINITY];
        for values in layers.iter().filter_map(|layer| layer.values) {
            // A few thousand of each layer tell.
            let step = values.len() / 20_000 + 1;
            for &value in values.iter().filter(|v| v.is_finite()) {
                ends = [ends[0].min(f64::from(value)), ends[1].max(f64::from(value))];
                signed |= value < 0.0;
            }
            let some = values.iter().step_by(step).filter(|v| v.is_finite());
            sizes.extend(some.map(|v| v.abs()));
        }
        let automatic = || {
            let found = quantile(&mut sizes, COVERED).filter(|v| *v > 0.0);
            let high = round_up(found.map_or(1.0, f64::from));
            if signed { [-high, high] } else { [0.0, high] }
        };
        let range = self.range.filter(|[low, high]| low < high && (high - low).is_finite());
        let range = range.unwrap_or_else(automatic);
        Bar {
            name: self.name.clone(),
            unit: self.unit.clone(),
            range,
            beyond: [ends[0] < range[0], ends[1] > range[1]],
            signed: range[0] < 0.0 && range[1] > 0.0,
        }
    }
}

/// A bar of colours whose range is known.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bar {
    name: String,
    unit: String,
    /// The values at both ends.
    pub(super) range: [f64; 2],
    /// Whether there are values below and above.
    beyond: [bool; 2],
    signed: bool,
}

impl Bar {
    /// Its colours, from the low end to the high one.
    pub(super) fn colours(&self) -> Vec<[u8; 3]> {
        (0..STEPS).map(|i| ramp(self.stops(), i as f64 / (STEPS - 1) as f64)).collect()
    }

    /// The value 0 to 254 of a byte for each of these; 255 where it is not finite.
    pub(super) fn byte(&self, value: f32) -> u8 {
        let [low, high] = self.range;
        if !value.is_finite() {
            return 255;
        }
        ((f64::from(value) - low) / (high - low)).clamp(0.0, 1.0).mul_add(254.0, 0.5) as u8
    }

    /// Its colours as a style.
    pub(super) fn style(&self) -> String {
        gradient(self.stops())
    }

    fn stops(&self) -> &'static [[u8; 3]] {
        if self.signed { &SIGNED } else { &AMOUNTS }
    }

    /// The bar with its name and numbers, as HTML.
    pub(super) fn key(&self) -> String {
        let [low, high] = self.range;
        let end = |value: f64, beyond: bool, sign: &str| {
            if beyond { format!("{sign} {}", plain(value)) } else { plain(value) }
        };
        let unit = if self.unit.is_empty() { String::new() } else { format!(", {}", self.unit) };
        let marks = [
            end(low, self.beyond[0], "\u{2264}"),
            plain((low + high) / 2.0),
            end(high, self.beyond[1], "\u{2265}"),
        ];
        Key::new()
            .words(&escape(&format!("{}{unit}", self.name)))
            .ticked(&self.style(), marks.each_ref().map(String::as_str))
            .html()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::meshes::Colour;
    use voxalign_image::{Mesh, Vector3};

    #[test]
    fn ranges_follow_the_values() {
        let mesh = Mesh::new(vec![Vector3::zeros(); 100], vec![]).unwrap();
        let mut values: Vec<f32> = (0..100).map(|i| i as f32 * 0.02).collect();
        values[99] = 50.0;
        let of = |values: &[f32]| {
            Scale::new("d", "mm").of(&[Layer::new("a", &mesh, Colour::Blue).with_values(values)])
        };
        let bar = of(&values);
        assert_eq!((bar.range, bar.beyond), ([0.0, 2.0], [false, true]));
        assert_eq!(
            [bar.byte(0.0), bar.byte(1.0), bar.byte(9.0), bar.byte(f32::NAN)],
            [0, 127, 254, 255]
        );
        assert!(bar.key().contains("\u{2265} 2<") && bar.key().contains("d, mm"), "{}", bar.key());
        values[3] = -0.25;
        let bar = of(&values);
        assert_eq!(bar.range, [-2.0, 2.0]);
        assert!(bar.key().contains("<span>0</span>"));
        for odd in [vec![], vec![f32::NAN; 100], vec![0.0; 100]] {
            assert_eq!(of(&odd).range, [0.0, 1.0]);
        }
    }
}
