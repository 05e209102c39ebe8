//! The verdict on a result.

use crate::numbers::null_is_nan;
use serde::{Deserialize, Serialize};
use voxalign_options::{Choice, Text};

/// The remedy of a failed check. The library says which; a program words it with the names of its own options, see
/// [`Verdict::worded`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Choice)]
#[choice(snake_case)]
#[non_exhaustive]
pub enum Remedy {
    /// the images have little in common: look at the pictures, and try a similarity for different kinds of image, or a
    /// mask where one image shows what the other does not, such as a skull.
    OtherSimilarity,
    /// the search ended at a higher cost than it started from: start nearer, or narrow the search.
    SmallerSearch,
    /// the images have hardly any field of view in common: check that they belong together, or start nearer.
    NearerStart,
    /// sizes change more than they differ between people: use fewer degrees of freedom, or start from the headers.
    FewerFreedoms,
    /// another alignment, far from this one, matches nearly as well: narrow the search, start nearer, or give a mask
    /// where one image shows what the other does not, such as a skull; if the mask cuts close to what it keeps, dilate
    /// it.
    SingleOut,
    /// use smaller steps or more smoothing.
    Smoother,
    /// the affine part decides: register by an affine transform with other options, look at it, and start from it.
    OtherAffinePart,
    /// start from an affine registration of the two images.
    BetterStart,
    /// the images have little in common where both show tissue: check that they show the same part of the body and that
    /// they overlap at the start; for images of different modalities try mutual information.
    SameTissue,
    /// the deformations did not make the subjects more alike: look at them, try another similarity or more iterations.
    MoreAlike,
    /// remove the mean deformation at the end of each scale; use more smoothing.
    Centred,
    /// look at these subjects; use more smoothing, or leave them out.
    LookAtSubjects,
    /// look these atlases up in the record.
    LookAtAtlases,
    /// build an atlas of all subjects and see which it calls bad or unlike the others.
    WholeAtlas,
    /// check that the landmarks of both images are in the same order and in the stated coordinate system; give them more weight, and larger deformations more iterations.
    Landmarks,
    /// check that shapes of the same name are the same structure on the same side in both anatomies, in the world of their image; give them more weight or a wider kernel, and larger deformations more iterations.
    Shapes,
    /// smooth the surface less, or keep more of its triangles.
    CloserSurface,
    /// smooth the surface differently, or its voxels beforehand.
    SmootherSurface,
    /// the images have little in common as registered, and other costs, starts and degrees of freedom found nothing better: look at the pictures, check that they show the same part of the body, and start from landmarks,
    /// or give a mask where one image shows what the other does not.
    BelongTogether,
    /// the outlines fit, but inside them the images have no more in common than elsewhere: look at the pictures, and check that both show the same part of the body.
    SameInside,
    /// the images fit inside the masks, but not as a whole: look at the pictures, and give a mask that keeps more of the object, or a start near the right alignment.
    WiderMask,
    /// one of the images seems to be mirrored: check left and right in its header, and how it was converted.
    Handedness,
    /// a value that the verdict needs was not measured: leave out the options that skip it.
    Measured,
    /// the views do not agree: check the distances, the pixel size and the angles of each view.
    Geometry,
    /// a pose at another rotation fits better: search all rotations, or start from that one.
    OtherRotation,
    /// the images fit better mirrored or swapped: check that each image belongs to its view, and that none is mirrored.
    OtherImages,
    /// the front vanished or took in the whole image: check which side is the object, start elsewhere, or weigh the curvature less.
    OtherFront,
    /// the front had not come to rest: allow more iterations, or begin with smaller shapes.
    MoreIterations,
    /// the front is not on an edge of the image: look at the pictures, and try another force, more classes or another start.
    OtherForce,
    /// another start led to another result: say which region is the object, or begin nearer to it.
    StartDecides,
    /// the object is not what the preset is for: check what the image is of, or choose another preset or force.
    OtherPreset,
    /// the front of a preset had not come to rest: allow more iterations.
    IterationsOfPreset,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Short name, such as `overlap of the fields of view` or `folded voxels`.
    pub name: String,
    /// The value found. In JSON `null` where it is not finite, which is read back as NaN.
    #[serde(deserialize_with = "null_is_nan")]
    pub value: f64,
    /// Its unit, such as `mm`; empty where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Whether nothing was measured, so that there is no value and the check fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmeasured: bool,
    /// Whether the name is a counted noun in the plural.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count: bool,
    /// The requirement in words, such as `at least 0.3`; in the unit of the value.
    pub asked: String,
    /// Whether it is met.
    pub passed: bool,
    /// The names of the things that were counted, where they have any, such as subjects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub which: Vec<String>,
    /// The remedy where it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy_code: Option<Remedy>,
    /// The remedy in words; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl Check {
    /// A check of a value. NaN fails.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        value: f64,
        asked: impl Into<String>,
        passed: bool,
    ) -> Self {
        Self {
            name: name.into(),
            value,
            unit: String::new(),
            unmeasured: false,
            count: false,
            asked: asked.into(),
            passed: passed && !value.is_nan(),
            which: Vec::new(),
            remedy_code: None,
            remedy: String::new(),
        }
    }

    /// A check of a value that may be so large at most.
    #[must_use]
    pub fn at_most(name: impl Into<String>, value: f64, most: f64) -> Self {
        Self::new(name, value, format!("at most {}", short(most)), value <= most)
    }

    /// A check of a value that has to be so large at least.
    #[must_use]
    pub fn at_least(name: impl Into<String>, value: f64, least: f64) -> Self {
        Self::new(name, value, format!("at least {}", short(least)), value >= least)
    }

    /// A check that there are none; `name` is the plural, such as `folded voxels`.
    #[must_use]
    pub fn none(name: impl Into<String>, count: u64) -> Self {
        Self { count: true, ..Self::new(name, count as f64, "none", count == 0) }
    }

    /// The same of a value that was not measured: it is not met.
    #[must_use]
    pub fn unmeasured(mut self) -> Self {
        (self.value, self.unmeasured, self.passed) = (f64::NAN, true, false);
        self
    }

    /// The same of a value in a unit.
    #[must_use]
    pub fn in_unit(mut self, unit: &str) -> Self {
        self.unit = unit.to_owned();
        self
    }

    /// The same with the names of the things that were counted.
    #[must_use]
    pub fn of(mut self, which: Vec<String>) -> Self {
        self.which = which;
        self
    }

    /// The same with what helps where it is not met.
    #[must_use]
    pub fn or(mut self, remedy: Remedy) -> Self {
        if !self.passed {
            self.remedy_code = Some(remedy);
            self.remedy = remedy.summary().to_owned();
        }
        self
    }

    /// The name with the unit, for tables.
    #[must_use]
    pub fn label(&self) -> String {
        match self.unit.as_str() {
            "" => self.name.clone(),
            unit => format!("{}, {unit}", self.name),
        }
    }

    /// Value and requirement, as in a sentence: `12 folded voxels (none allowed)`, `overlap of the fields of view
    /// 0.12 (at least 0.3 needed)`.
    #[must_use]
    pub fn words(&self) -> String {
        let unit = match self.unit.as_str() {
            "" => String::new(),
            unit => format!(" {unit}"),
        };
        let what = match self.count {
            true if self.value == 1.0 => format!("1 {}", singular(&self.name)),
            true => format!("{} {}", short(self.value), self.name),
            false if self.unmeasured => format!("{} not measured", self.name),
            false if !self.value.is_finite() => format!("{} {}", self.name, short(self.value)),
            false => format!("{} {}{unit}", self.name, short(self.value)),
        };
        let upper = self.asked == "none" || self.asked.starts_with("at most");
        let verb = if upper { "allowed" } else { "needed" };
        let which = match self.which.as_slice() {
            [] => String::new(),
            names => format!(": {}", names.join(", ")),
        };
        let unit = if self.asked == "none" { String::new() } else { unit };
        format!("{what} ({}{unit} {verb}){which}", self.asked)
    }
}

/// A number with four digits that count, without zeros at its end; counts as they are.
fn short(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "not a number" } else { "infinite" }.to_owned();
    }
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let before = value.abs().log10().floor() as i32;
    if !(-5..15).contains(&before) {
        return format!("{value:.1e}");
    }
    let text = format!("{value:.*}", (3 - before).max(0) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The singular of a counted noun: the first word that ends in `s` loses it.
fn singular(plural: &str) -> String {
    let mut found = false;
    let words = plural.split(' ').map(|word| match word.strip_suffix('s') {
        Some(one) if !found => {
            found = true;
            // Two atlases, one atlas.
            one.strip_suffix("se").map_or_else(|| one.to_owned(), |stem| format!("{stem}s"))
        }
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether a result can be used: the sum of its checks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether every check passed.
    pub good: bool,
    /// All that was checked.
    pub checks: Vec<Check>,
    /// Points to look at although no check failed.
    pub remarks: Vec<Text>,
}

impl Verdict {
    /// The verdict from checks and remarks.
    #[must_use]
    pub fn new(checks: Vec<Check>, remarks: Vec<Text>) -> Self {
        Self { good: checks.iter().all(|c| c.passed), checks, remarks }
    }

    /// This verdict with the failed checks of an earlier part: a result is no better than its start. `part` names
    /// it, such as `affine part`.
    #[must_use]
    pub fn after(&self, part: &str, before: &Verdict, remedy: Remedy) -> Self {
        let mut checks = self.checks.clone();
        let failed = before.checks.iter().filter(|c| !c.passed).cloned();
        checks
            .extend(failed.map(|c| Check { name: format!("{part}: {}", c.name), ..c }.or(remedy)));
        Self::new(checks, self.remarks.clone())
    }

    /// This verdict with a further check, where there is one.
    #[must_use]
    pub fn with(mut self, check: Option<Check>) -> Self {
        self.checks.extend(check);
        Self::new(self.checks, self.remarks)
    }

    /// This verdict with its remedies and remarks in the words of a program.
    #[must_use]
    pub fn worded(
        mut self,
        words: impl Fn(Remedy) -> String,
        said: impl Fn(&Text) -> String,
    ) -> Self {
        self.remarks.iter_mut().for_each(|remark| *remark = said(remark).into());
        for check in &mut self.checks {
            if let Some(remedy) = check.remedy_code {
                check.remedy = words(remedy);
            }
        }
        self
    }

    /// The remedies of all failed checks, each once.
    #[must_use]
    pub fn remedies(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for check in self.checks.iter().filter(|c| !c.passed && !c.remedy.is_empty()) {
            if !all.contains(&check.remedy.as_str()) {
                all.push(&check.remedy);
            }
        }
        all
    }

    /// One line: `good`, or `bad:` and what failed.
    #[must_use]
    pub fn summary(&self) -> String {
        if self.good {
            return "good".to_owned();
        }
        let failed = self.checks.iter().filter(|c| !c.passed);
        format!("bad: {}", failed.map(Check::words).collect::<Vec<_>>().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(name: &str, passed: bool) -> Verdict {
        let check = Check::at_most(name, if passed { 0.0 } else { 1.25 }, 0.5).in_unit("mm");
        Verdict::new(vec![check.or(Remedy::Smoother)], Vec::new())
    }

    #[test]
    fn what_is_no_number_meets_nothing_and_is_read_back() {
        // As a comparison the other way round would have it.
        let value = f64::NAN;
        let beyond = value > 1.0;
        let check = Check::new("mean error", value, "at most 1", !beyond).in_unit("mm");
        let check = check.or(Remedy::Smoother);
        assert!(!check.passed && check.remedy_code == Some(Remedy::Smoother));
        let verdict = Verdict::new(vec![check], Vec::new());
        assert_eq!(verdict.summary(), "bad: mean error not a number (at most 1 mm allowed)");
        let text = serde_json::to_string(&verdict).unwrap();
        assert!(text.contains("\"value\":null"), "{text}");
        let back: Verdict = serde_json::from_str(&text).unwrap();
        assert!(back.checks[0].value.is_nan() && !back.good && !back.checks[0].passed);
    }

    #[test]
    fn a_result_is_no_better_than_its_start() {
        let good = verdict("error", true);
        assert_eq!(good.after("affine part", &verdict("cost", true), Remedy::BetterStart), good);
        let bad = good.after("affine part", &verdict("cost", false), Remedy::BetterStart);
        assert!(!bad.good);
        assert_eq!(bad.summary(), "bad: affine part: cost 1.25 mm (at most 0.5 mm allowed)");
        assert_eq!(bad.remedies(), [Remedy::BetterStart.summary()]);
        let both = verdict("error", false).after("affine part", &bad, Remedy::Smoother);
        assert_eq!(both.remedies(), [Remedy::Smoother.summary()]);
        let worded = both.worded(|remedy| format!("see {}", remedy.name()), Text::to_string);
        assert_eq!(worded.remedies(), ["see smoother"]);
    }

    #[test]
    fn checks_read_like_sentences() {
        let words = |check: Check| check.words();
        assert_eq!(words(Check::none("folded voxels", 12)), "12 folded voxels (none allowed)");
        assert_eq!(words(Check::none("folded voxels", 1)), "1 folded voxel (none allowed)");
        let subjects = |n: u64, names: &[&str]| {
            let names = names.iter().map(|n| (*n).to_owned()).collect();
            words(Check::none("subjects whose deformation cannot be used", n).of(names))
        };
        assert_eq!(
            subjects(2, &["a", "b"]),
            "2 subjects whose deformation cannot be used (none allowed): a, b"
        );
        assert_eq!(
            subjects(1, &["a"]),
            "1 subject whose deformation cannot be used (none allowed): a"
        );
        assert_eq!(
            words(Check::none("atlases that cannot be used", 1)),
            "1 atlas that cannot be used (none allowed)"
        );
        assert_eq!(
            words(Check::at_least("overlap of the fields of view", 0.123_456, 0.3)),
            "overlap of the fields of view 0.1235 (at least 0.3 needed)"
        );
        assert_eq!(
            words(Check::at_most("largest inverse-consistency error", 0.592, 0.5).in_unit("mm")),
            "largest inverse-consistency error 0.592 mm (at most 0.5 mm allowed)"
        );
        let check = Check::at_least("lead", 1.0, 0.05).unmeasured();
        assert!(!check.passed && check.value.is_nan());
        assert_eq!(words(check), "lead not measured (at least 0.05 needed)");
        assert_eq!(
            words(Check::new("change in energy", f64::NAN, "below 0", false)),
            "change in energy not a number (below 0 needed)"
        );
        for (value, text) in [
            (0.5, "0.5"),
            (-0.050_04, "-0.05004"),
            (1.8, "1.8"),
            (212.0, "212"),
            (123_456.7, "123457"),
            (1e-9, "1.0e-9"),
            (f64::INFINITY, "infinite"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn records_can_be_read_back_those_of_older_versions_too() {
        let check = Check::none("folded voxels", 3).or(Remedy::Smoother);
        let text = serde_json::to_string(&check).unwrap();
        assert!(text.contains("\"remedy_code\":\"smoother\"") && !text.contains("unit"), "{text}");
        assert_eq!(serde_json::from_str::<Check>(&text).unwrap(), check);
        let old = r#"{"name":"folded voxels","value":0.0,"asked":"none","passed":true}"#;
        let old: Check = serde_json::from_str(old).unwrap();
        assert_eq!(Check { count: true, ..old }, Check::none("folded voxels", 0));
        for &remedy in Remedy::ALL {
            let name = serde_json::to_string(&remedy).unwrap();
            assert_eq!(name, format!("\"{}\"", remedy.name()));
            // No option of a program in the words of the library.
            assert!(!remedy.summary().contains("--"), "{}", remedy.summary());
        }
    }
}
