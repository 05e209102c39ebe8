//! The verdict on a segmentation.

use super::options::{Force, Init, Preset};
use super::settings::Settings;
use voxalign_options::{Text, text};
use voxalign_register::limits::SEGMENT;
use voxalign_register::{Check, Remedy, Verdict};
use voxalign_report::segment::{
    CutOutRecord, HeldOutRecord, PresetRecord, RegionRecord, SegmentFound,
};
use voxalign_segment::Ranges;

/// The verdict: whether there are regions at all, whether the front came to rest, and what the image and another start say of it.
pub(super) fn verdict(found: &SegmentFound, settings: &Settings) -> Verdict {
    let objects: Vec<&RegionRecord> = found.regions.iter().filter(|r| r.label != 0).collect();
    let mut checks = vec![there_are_regions(found, &objects, settings)];
    let gone = ["vanished", "filled"].contains(&found.ending.as_str());
    if !gone && settings.force != Force::MeanCurvature {
        let rests = ["steady", "repeating"].contains(&found.ending.as_str());
        let asked = format!("to rest within {}", found.limit);
        let check = Check::new("iterations", found.iterations as f64, asked, rests);
        checks.push(check.or(settings.remedy(Remedy::MoreIterations)));
    }
    if !gone && settings.looks_at_image() {
        checks.extend(of_image(&objects, settings));
        checks.extend(of_ranges(found, settings));
    }
    checks.extend(found.preset.iter().flat_map(|of| of_preset(of, settings.preset)));
    if let Some(agreement) = found.agreement {
        let check = Check::at_least("Dice with another start", agreement, SEGMENT.agreement);
        checks.push(check.or(settings.remedy(Remedy::StartDecides)));
    }
    Verdict::new(checks, remarks(found, &objects))
}

/// Whether each region has voxels.
fn there_are_regions(
    found: &SegmentFound,
    objects: &[&RegionRecord],
    settings: &Settings,
) -> Check {
    let check = match objects {
        [one] => {
            let all: usize = found.regions.iter().map(|r| r.voxels).sum();
            let part = one.voxels as f64 / all.max(1) as f64;
            let some = one.voxels > 0 && one.voxels < all;
            let (least, most) = SEGMENT.part;
            match matches!(settings.init, Init::Dense(_)) && settings.looks_at_image() {
                true => {
                    let within = some && (least..=most).contains(&part);
                    Check::new(
                        "part of the image inside",
                        part,
                        format!("{least} to {most}"),
                        within,
                    )
                }
                false => Check::new("part of the image inside", part, "above 0 and below 1", some),
            }
        }
        _ => {
            let empty = found.regions.iter().filter(|r| r.voxels == 0);
            let names: Vec<_> = empty.map(RegionRecord::title).collect();
            Check::none("regions without a voxel", names.len() as u64).of(names)
        }
    };
    check.or(settings.remedy(Remedy::OtherFront))
}

/// What a preset knows of its object.
fn of_preset(of: &PresetRecord, preset: Preset) -> Vec<Check> {
    let limits = SEGMENT;
    let measured = |check: Check, value: Option<f64>| {
        let check = if value.is_none() { check.unmeasured() } else { check };
        check.or(Remedy::OtherPreset)
    };
    let within = |name: &str, value: Option<f64>, (least, most): (f64, f64)| {
        let is = value.is_some_and(|v| (least..=most).contains(&v));
        let value_or = value.unwrap_or(f64::NAN);
        measured(Check::new(name, value_or, format!("{least} to {most}"), is), value)
    };
    let at_least = |name: &str, value: Option<f64>, least: f64| {
        measured(Check::at_least(name, value.unwrap_or(f64::NAN), least), value)
    };
    let at_most = |name: &str, value: Option<f64>, most: f64| {
        measured(Check::at_most(name, value.unwrap_or(f64::NAN), most), value)
    };
    let tissues = || {
        vec![
            at_least("white matter brighter than grey matter by", of.gap, limits.gap).in_unit("SD"),
            within("white matter brighter than fluid by", of.span, limits.span).in_unit("SD"),
        ]
    };
    match preset {
        Preset::None => Vec::new(),
        Preset::WhiteMatter => {
            let mut all = tissues();
            all.push(within("volume of the brain", of.brain_ml, limits.brain).in_unit("ml"));
            all.push(within("part of the brain that is white matter", of.part, limits.white));
            all.push(at_most("part of its rim, in proportion", of.rim, limits.rim));
            all.push(at_least("part of it that is connected", of.largest, limits.largest));
            all
        }
        Preset::WhiteMatterHead => {
            let mut all = tissues();
            let name = "part of the head that is white matter";
            all.push(within(name, of.part, limits.white_of_head));
            let name = "volume of white matter";
            all.push(within(name, of.object_ml, limits.white_ml).in_unit("ml"));
            all
        }
        Preset::Bone(_) => {
            let mut all = vec![
                at_most("intensity of the darkest hundredth", of.air, limits.air).in_unit("HU"),
            ];
            // Bones that have been cut out have no tissue around them.
            match of.cut_out.filter(|_| of.tissue.is_some_and(|t| t > limits.tissue.1)) {
                None => {
                    let name = "median intensity of tissue";
                    all.push(within(name, of.tissue, limits.tissue).in_unit("HU"));
                    let name = "part of the image above the threshold";
                    all.push(within(name, of.part, limits.bone));
                }
                Some(CutOutRecord { least, most, above }) => {
                    let name = "intensity of the darkest hundredth of what was cut out";
                    all.push(within(name, Some(least), limits.marrow).in_unit("HU"));
                    let name = "intensity of its brightest hundredth";
                    all.push(at_least(name, Some(most), limits.compact).in_unit("HU"));
                    let name = "part of it above the threshold";
                    all.push(within(name, Some(above), limits.bone_of_cut_out));
                }
            }
            all
        }
    }
}

/// From which part of a front at the border of a mask on nothing is asked of it.
const MASKED: f64 = 0.5;

/// Whether voxels next to a front that has not seen them are to tell it from none: not where few are left as most of them are at the border of what is exactly 0: a step from that
/// to something else is there, but no edge of an image.
fn is_asked(of: &HeldOutRecord) -> bool {
    of.contrast.is_some() || of.masked < MASKED
}

/// What the image says of the fronts where they have not seen it, the worst of several regions.
fn of_image(objects: &[&RegionRecord], settings: &Settings) -> Vec<Check> {
    let held: Vec<HeldOutRecord> = objects
        .iter()
        .filter(|r| r.voxels > 0)
        .map(|r| r.evidence.as_ref().and_then(|e| e.held_out).unwrap_or_default())
        .collect();
    if !held.is_empty() && !held.iter().any(is_asked) {
        return Vec::new();
    }
    // Of several fronts those that can be told are enough: others are at a mask, or too short.
    let told: Vec<HeldOutRecord> = held.iter().filter(|h| h.contrast.is_some()).copied().collect();
    let held = if told.is_empty() { held } else { told };
    let least = |of: fn(&HeldOutRecord) -> Option<f64>| {
        let all: Option<Vec<f64>> = held.iter().map(of).collect();
        all.and_then(|all| all.into_iter().reduce(f64::min))
    };
    let check = |name: &str, value: Option<f64>, least: f64| {
        let check = Check::at_least(name, value.unwrap_or(f64::NAN), least);
        let check = if value.is_none() { check.unmeasured() } else { check };
        check.or(settings.remedy(Remedy::OtherForce))
    };
    let (much, of_blurred) = SEGMENT.blurred;
    let separation = least(|h| Some(h.separation)).unwrap_or(0.0);
    let share = if separation >= much { of_blurred } else { SEGMENT.share };
    let contrast = check(
        "contrast at voxels that the front has not seen",
        least(|h| h.contrast),
        SEGMENT.held_out,
    );
    // What presets find is thin: there is no layer far from its border.
    if settings.preset != Preset::None {
        return vec![contrast];
    }
    vec![contrast, check("part of the step that is next to the front", least(|h| h.share), share)]
}

/// Whether regions of one intensity each are more than ranges of an intensity that has one peak, as of smooth noise. Noise on different regions hides less of them from fronts than
/// from ranges, so that nothing is asked where fronts did something else.
fn of_ranges(found: &SegmentFound, settings: &Settings) -> Option<Check> {
    let (explained, by_ranges) = found.explained.zip(found.explained_by_ranges)?;
    let is_even = matches!(settings.force, Force::ChanVese(of) if of.inside == of.outside);
    let is_asked = is_even && matches!(settings.init, Init::Dense(_));
    let least = Ranges::explained_of_bell(settings.evolution.regions);
    let name = "part of the variance that is between regions";
    (is_asked && explained >= SEGMENT.ranges * by_ranges)
        .then(|| Check::at_least(name, explained, least).or(settings.remedy(Remedy::OtherForce)))
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
    let untold = |is_of_mask: bool| -> Vec<String> {
        let held = |r: &RegionRecord| r.evidence.as_ref().and_then(|e| e.held_out);
        let is_such = |h: HeldOutRecord| h.contrast.is_none() && is_asked(&h) != is_of_mask;
        let such = objects.iter().filter(|r| r.voxels > 0 && held(r).is_some_and(is_such));
        such.map(|r| r.title()).collect()
    };
    let (of_mask, short) = (untold(true), untold(false));
    match (objects.len(), of_mask.len()) {
        (_, 0) => {}
        (1, _) => remarks.push(text!(
            "the front follows the border of what is exactly 0, as that of a mask: that it is there says nothing about the rest of the image"
        )),
        _ => remarks.push(text!(
            "regions whose lower front follows the border of what is exactly 0, as that of a mask, which says nothing about the rest of the image: {}",
            of_mask.join(", ")
        )),
    }
    if objects.len() > 1 && !short.is_empty() {
        remarks.push(text!(
            "regions whose lower front is too short for voxels to tell whether the image has an edge there: {}",
            short.join(", ")
        ));
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
        let front = seen(Some(3.0), Some(0.6), 0.5);
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

    fn seen(contrast: Option<f64>, share: Option<f64>, separation: f64) -> FrontRecord {
        let held_out = Some(HeldOutRecord { contrast, share, separation, masked: 0.0 });
        FrontRecord { held_out, ..FrontRecord::default() }
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
        weak.regions[1].evidence = Some(seen(Some(0.4), Some(0.3), 0.7));
        let mut blurred = found([50, 50], "steady");
        blurred.regions[1].evidence = Some(seen(Some(2.0), Some(0.3), 0.8));
        assert!(judged(&blurred, "").good);
        let mut none = found([50, 50], "steady");
        none.regions[1].evidence = Some(seen(None, None, 0.7));
        for (found, parts) in [
            (found([100, 0], "vanished"), &["part of the image inside 0"][..]),
            (found([0, 100], "filled"), &["part of the image inside 1"]),
            (found([50, 50], "limit"), &["iterations 7 (to rest within 64 needed)"]),
            (apart, &["Dice with another start 0.5"]),
            (
                weak,
                &[
                    "that the front has not seen 0.4",
                    "part of the step that is next to the front 0.3",
                ],
            ),
            (found([1, 50_000], "steady"), &["part of the image inside"]),
            (none, &["not measured"]),
        ] {
            let verdict = judged(&found, "");
            assert!(!verdict.good && !verdict.remedies().is_empty(), "{verdict:?}");
            for part in parts {
                assert!(verdict.summary().contains(part), "{part}: {}", verdict.summary());
            }
        }
        // No more than ranges of an intensity that has one peak.
        let mut ranges = found([50, 50], "steady");
        for (explained, by_ranges, is_good) in
            [(0.62, 0.64, false), (0.65, 0.66, true), (0.5, 0.64, true), (0.9, 0.95, true)]
        {
            (ranges.explained, ranges.explained_by_ranges) = (Some(explained), Some(by_ranges));
            let verdict = judged(&ranges, "");
            assert_eq!(verdict.good, is_good, "{verdict:?}");
        }
        // Of several regions one front may be too short, not all of them.
        let three = |shares: [Option<f64>; 2]| {
            let mut all = found([50, 50], "steady");
            all.regions.push(RegionRecord { label: 2, voxels: 20, ..all.regions[1].clone() });
            for (region, share) in all.regions[1..].iter_mut().zip(shares) {
                region.evidence = Some(seen(share.map(|_| 3.0), share, 0.5));
            }
            judged(&all, "regions = 3")
        };
        let short = three([Some(0.6), None]);
        assert!(short.good && short.remarks[0].contains("too short"), "{short:?}");
        assert!(three([Some(0.6), Some(0.7)]).good && !three([None, None]).good);
        assert!(!three([Some(0.6), Some(0.3)]).good);
        // The border of a mask is none that voxels could tell.
        let mut masked = found([50, 50], "steady");
        let of = masked.regions[1].evidence.as_mut().unwrap();
        of.held_out = Some(HeldOutRecord { masked: 0.6, ..HeldOutRecord::default() });
        let verdict = judged(&masked, "");
        assert!(verdict.good && verdict.checks.len() == 3, "{verdict:?}");
        assert!(verdict.remarks[0].contains("exactly 0"), "{verdict:?}");
        masked.regions[1].evidence.as_mut().unwrap().held_out.as_mut().unwrap().masked = 0.4;
        assert!(!judged(&masked, "").good);
        // Fronts that vanish are told in words.
        let vanished = judged(&found([100, 0], "vanished"), "");
        assert!(vanished.remarks[0].contains("vanished after 7 iterations"));
        // What presets know of their objects.
        let white = |change: fn(&mut PresetRecord)| {
            let mut record = PresetRecord {
                gap: Some(2.8),
                span: Some(8.0),
                brain_ml: Some(1500.0),
                part: Some(0.3),
                rim: Some(0.05),
                largest: Some(0.99),
                ..PresetRecord::default()
            };
            change(&mut record);
            let mut found = found([50, 50], "steady");
            // Far layers are not asked for.
            found.regions[1].evidence = Some(seen(Some(2.0), Some(0.1), 0.5));
            found.preset = Some(record);
            judged(&found, "preset = 'white-matter'")
        };
        let good = white(|_| {});
        assert!(good.good && good.checks.len() == 10, "{good:?}");
        for (change, part) in [
            ((|r| r.gap = Some(1.0)) as fn(&mut PresetRecord), "brighter than grey matter by 1 SD"),
            (|r| r.span = Some(14.0), "brighter than fluid by 14 SD"),
            (|r| r.brain_ml = Some(3500.0), "volume of the brain 3500 ml"),
            (|r| r.part = Some(0.05), "part of the brain"),
            (|r| r.rim = Some(0.9), "part of its rim"),
            (|r| r.largest = Some(0.4), "connected"),
            (|r| r.rim = None, "not measured"),
        ] {
            let verdict = white(change);
            assert!(!verdict.good && verdict.summary().contains(part), "{}", verdict.summary());
        }
        let bone = |air: f64, part: f64| {
            let mut found = found([50, 50], "steady");
            let (air, tissue, part) = (Some(air), Some(40.0), Some(part));
            found.preset = Some(PresetRecord { air, tissue, part, ..PresetRecord::default() });
            judged(&found, "preset = 'bone'")
        };
        assert!(bone(-990.0, 0.05).good && !bone(0.0, 0.05).good && !bone(-990.0, 0.6).good);
        let cut_out = |tissue: f64, least: f64, most: f64, above: f64| {
            let mut found = found([50, 50], "steady");
            let cut_out = Some(CutOutRecord { least, most, above });
            let (air, tissue, part) = (Some(-1024.0), Some(tissue), Some(0.4));
            found.preset = Some(PresetRecord { air, tissue, part, cut_out, ..<_>::default() });
            judged(&found, "preset = 'bone'").good
        };
        assert!(cut_out(600.0, -290.0, 3000.0, 0.7));
        // A head, whose background is the least value, too; brains.
        assert!(!cut_out(40.0, -290.0, 3000.0, 0.7));
        assert!(!cut_out(600.0, 190.0, 3000.0, 0.7) && !cut_out(600.0, -290.0, 1400.0, 0.7));
        assert!(!cut_out(600.0, -290.0, 3000.0, 0.96) && !cut_out(600.0, -900.0, 3000.0, 0.7));
        // Curvature alone has neither rest nor an image.
        let smoothed =
            judged(&found([50, 50], "limit"), "force = 'mean-curvature'\niterations = 7");
        assert!(smoothed.good && smoothed.checks.len() == 2, "{smoothed:?}");
    }
}
