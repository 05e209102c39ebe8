//! The sharpening of an atlas: entropy, gradient energy and energy over the iterations.

use super::AtlasRecord;
use crate::page::course::{Labels, energies, table};
use crate::page::deform::{EnergyCurve, EnergyScale, scale_name};
use crate::page::html::scroll;
use std::fmt::Write as _;
use voxalign_image::Grid;
use voxalign_population::atlas::Sharpness;

/// The charts; what they show is their heading too.
const CHARTS: [Labels<'static>; 3] = [
    Labels::only("svg-entropy", "Entropy of the atlas", "entropy, bits"),
    Labels::only("svg-gradient", "Gradient energy of the atlas", "gradient energy, 1/mm\u{b2}"),
    Labels::only("svg-energy", "Mean energy of the subjects", "energy"),
];

/// The charts and their table.
pub(super) fn charts(record: &AtlasRecord, grid: &Grid) -> String {
    let scales = scales(record, grid);
    let mut out = String::new();
    for chart in &CHARTS {
        if let Some(svg) = energies(&scales, chart) {
            let _ = write!(out, "<h3>{}</h3>{}", chart.what, scroll(Some(svg)));
        }
    }
    if out.is_empty() {
        return "<p>No iteration was recorded.</p>".to_owned();
    }
    out + &table(&scales, "Curve")
}

/// The curves of each scale, coarse to fine.
fn scales(record: &AtlasRecord, grid: &Grid) -> Vec<EnergyScale> {
    let runs = runs(&record.sharpness);
    (0..runs.len().max(record.scales.len()))
        .map(|i| {
            let (run, scale) = (runs.get(i).copied().unwrap_or_default(), record.scales.get(i));
            let factor = scale.map(|s| s.factor).or(run.first().map(|s| s.factor)).unwrap_or(1);
            let curve = |which: usize, points: Vec<(usize, f64)>| EnergyCurve {
                name: CHARTS[which].axis.to_owned(),
                points,
            };
            let energies = scale.map(|s| s.energies.as_slice()).unwrap_or_default();
            EnergyScale {
                name: scale_name(factor, grid),
                seconds: scale.map_or(f64::NAN, |s| s.seconds),
                curves: vec![
                    curve(0, run.iter().map(|s| (s.iteration, s.entropy)).collect()),
                    curve(1, run.iter().map(|s| (s.iteration, s.gradient_energy)).collect()),
                    curve(2, energies.iter().copied().enumerate().collect()),
                ],
            }
        })
        .collect()
}

/// The parts of a course that belong to one scale each.
fn runs(course: &[Sharpness]) -> Vec<&[Sharpness]> {
    course.chunk_by(|a, b| a.factor == b.factor && a.iteration < b.iteration).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_scale_begins_where_the_factor_or_the_count_does() {
        let at =
            |factor, iteration| Sharpness { factor, iteration, entropy: 3.0, gradient_energy: 0.1 };
        let course = [at(4, 0), at(4, 1), at(4, 2), at(2, 0), at(2, 1), at(2, 0), at(1, 0)];
        let lengths: Vec<usize> = runs(&course).iter().map(|r| r.len()).collect();
        assert_eq!(lengths, [3, 2, 1, 1]);
        assert!(runs(&[]).is_empty());
    }
}
