//! The verdict on a segmentation.

use super::options::{Force, Settings};
use voxalign_options::{Text, text};
use voxalign_register::limits::SEGMENT;
use voxalign_register::{Check, Remedy, Verdict};
use voxalign_report::segment::{RegionRecord, SegmentFound};

/// The verdict: whether there are regions at all, whether the front came to rest, and what the image and another start say of it.
pub(super) fn verdict(found: &SegmentFound, settings: &Settings) -> Verdict {
    let objects: Vec<&RegionRecord> = found.regions.iter().filter(|r| r.label != 0).collect();
    let mut checks = vec![there_are_regions(found, &objects)];
    let gone = ["vanished", "filled"].contains(&found.ending.as_str());
    if !gone && settings.force != Force::MeanCurvature {
        let rests = ["steady", "repeating"].contains(&found.ending.as_str());
        let asked = format!("to rest within {}", found.limit);
        let check = Check::new("iterations", found.iterations as f64, asked, rests);
        checks.push(check.or(Remedy::MoreIterations));
    }
    if !gone && settings.looks_at_image() {
        checks.extend(of_image(&objects, settings));
    }
    if let Some(agreement) = found.agreement {
        let check = Check::at_least("Dice with another start", agreement, SEGMENT.agreement);
        checks.push(check.or(Remedy::StartDecides));
    }
    Verdict::new(checks, remarks(found, &objects))
}

/// Whether each region has voxels.
fn there_are_regions(found: &SegmentFound, objects: &[&RegionRecord]) -> Check {
    let check = match objects {
        [one] => {
            let all: usize = found.regions.iter().map(|r| r.voxels).sum();
            let part = one.voxels as f64 / all.max(1) as f64;
            let within = one.voxels > 0 && one.voxels < all;
            Check::new("part of the image inside", part, "above 0 and below 1", within)
        }
        _ => {
            let empty = found.regions.iter().filter(|r| r.voxels == 0);
            let names: Vec<_> = empty.map(RegionRecord::title).collect();
            Check::none("regions without a voxel", names.len() as u64).of(names)
        }
    };
    check.or(Remedy::OtherFront)
}

/// What the image says of the fronts, the worst of several regions.
fn of_image(objects: &[&RegionRecord], settings: &Settings) -> Vec<Check> {
    let fronts = || objects.iter().filter_map(|r| r.evidence.as_ref());
    let edge = fronts().map(|e| e.edge).reduce(|a, b| a.zip(b).map(|(a, b)| a.min(b))).flatten();
    let name = "contrast at the front over that beside it";
    let check = Check::at_least(name, edge.unwrap_or(f64::NAN), SEGMENT.edge);
    let check = if edge.is_none() { check.unmeasured() } else { check };
    let mut checks = vec![check.or(Remedy::OtherForce)];
    if !matches!(settings.force, Force::Edge(_)) {
        let separation = fronts().map(|e| e.separation).reduce(f64::min).unwrap_or(0.0);
        let check = Check::at_least("variance between the regions", separation, SEGMENT.separation);
        checks.push(check.or(Remedy::OtherForce));
    }
    checks
}

/// What is to be looked at although no check failed.
fn remarks(found: &SegmentFound, objects: &[&RegionRecord]) -> Vec<Text> {
    let mut remarks = Vec::new();
    let after = found.iterations;
    match (found.ending.as_str(), found.period) {
        ("vanished", _) => {
            remarks.push(text!("the front vanished after {after} iterations: nothing is inside"));
        }
        ("filled", _) => {
            remarks.push(text!("the front took in the whole image after {after} iterations"));
        }
        ("repeating", Some(period)) => remarks.push(text!(
            "the front does not rest: it is the same again after every {period} iterations, so that some voxels along it could be on either side"
        )),
        _ => {}
    }
    let at_border: Vec<_> = objects.iter().filter(|r| r.at_border).map(|r| r.title()).collect();
    match (objects.len(), at_border.len()) {
        (_, 0) => {}
        (1, _) => remarks
            .push(text!("the region reaches the border of the image, where it may be cut off")),
        _ => remarks.push(text!(
            "regions that reach the border of the image, where they may be cut off: {}",
            at_border.join(", ")
        )),
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::from_toml;
    use crate::segment::Options;
    use voxalign_report::segment::FrontRecord;

    fn found(voxels: [usize; 2], ending: &str) -> SegmentFound {
        let front = FrontRecord { edge: Some(3.0), separation: 0.8, ..FrontRecord::default() };
        let region = |label: i32| RegionRecord {
            label,
            voxels: voxels[label as usize],
            evidence: (label == 1).then(|| front.clone()),
            ..RegionRecord::default()
        };
        SegmentFound {
            ending: ending.to_owned(),
            iterations: 7,
            limit: 64,
            agreement: Some(0.97),
            regions: vec![region(0), region(1)],
            ..SegmentFound::default()
        }
    }

    fn judged(found: &SegmentFound, text: &str) -> Verdict {
        verdict(found, &from_toml::<Options>(text).unwrap().settings().unwrap())
    }

    #[test]
    fn each_check_can_fail() {
        let good = judged(&found([50, 50], "steady"), "");
        assert!(good.good && good.checks.len() == 5, "{good:?}");
        assert!(judged(&found([50, 50], "repeating"), "").good);
        let mut apart = found([50, 50], "steady");
        apart.agreement = Some(0.5);
        let mut weak = found([50, 50], "steady");
        weak.regions[1].evidence = Some(FrontRecord { edge: Some(0.4), ..FrontRecord::default() });
        let mut none = found([50, 50], "steady");
        none.regions[1].evidence = Some(FrontRecord { edge: None, ..FrontRecord::default() });
        for (found, parts) in [
            (found([100, 0], "vanished"), &["part of the image inside 0"][..]),
            (found([0, 100], "filled"), &["part of the image inside 1"]),
            (found([50, 50], "limit"), &["iterations 7 (to rest within 64 needed)"]),
            (apart, &["Dice with another start 0.5"]),
            (weak, &["contrast at the front over that beside it 0.4", "variance between"]),
            (none, &["not measured"]),
        ] {
            let verdict = judged(&found, "");
            assert!(!verdict.good && !verdict.remedies().is_empty(), "{verdict:?}");
            for part in parts {
                assert!(verdict.summary().contains(part), "{part}: {}", verdict.summary());
            }
        }
        // Fronts that vanish are told in words.
        let vanished = judged(&found([100, 0], "vanished"), "");
        assert!(vanished.remarks[0].contains("vanished after 7 iterations"));
        // Curvature alone has neither rest nor an image.
        let smoothed =
            judged(&found([50, 50], "limit"), "force = 'mean-curvature'\niterations = 7");
        assert!(smoothed.good && smoothed.checks.len() == 2, "{smoothed:?}");
    }
}
