//! The verdict on an atlas.

pub(super) mod outliers;

pub use outliers::outlying;

use super::construction::Atlas;
use outliers::{beside_others, lost, median};
use voxalign_image::Volume;
use voxalign_options::{Text, text};
use voxalign_register::limits::ATLAS;
use voxalign_register::{Check, Remedy, Verdict};

/// The findings on a subject.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// Its name.
    pub name: &'a str,
    /// The verdict on its deformation.
    pub deformation: &'a Verdict,
    /// That on its affine registration to the mean, where there was one.
    pub affine: Option<&'a Verdict>,
}

/// Whether an atlas can be used, and which of its subjects are [unlike the others](outlying);
/// `subjects` in the order of the atlas.
#[must_use]
pub fn judge(atlas: &Atlas, subjects: &[Judged<'_>]) -> (Verdict, Vec<bool>) {
    let mean = |of: &[[f64; 2]], when: usize| {
        of.iter().map(|c| c[when]).sum::<f64>() / of.len().max(1) as f64
    };
    let bias = root_mean_square(&atlas.log_jacobian);
    let bad = subjects.iter().filter(|s| !s.deformation.good).map(|s| s.name.to_owned());
    let bad: Vec<String> = bad.collect();
    // Crops and noise may correlate less where their tissue tells more of each other, and what is alike already may tell less.
    let gain = mean(&atlas.correlations, 1) - mean(&atlas.correlations, 0);
    let [told, tells] = [0, 1].map(|when| mean(&atlas.information, when));
    let gained = if gain > ATLAS.gain_of_correlation || told < ATLAS.tells {
        let asked = format!("above {}", ATLAS.gain_of_correlation);
        let name = "gain in mean correlation of each subject with the others";
        Check::new(name, gain, asked, gain > ATLAS.gain_of_correlation)
    } else {
        let name = "information about the others within the tissue, as a fraction of that after affine alignment";
        Check::at_least(name, tells / told, ATLAS.gain)
    };
    let unbiased = Check::at_most("root mean square of the mean log Jacobian", bias, ATLAS.bias);
    let usable = Check::none("subjects whose deformation cannot be used", bad.len() as u64);
    let after: Vec<f64> = atlas.correlations.iter().map(|c| c[1]).collect();
    let information: Vec<f64> = atlas.information.iter().map(|nats| nats[1]).collect();
    let gone = lost(&after);
    let gone = subjects.iter().zip(gone).filter(|(_, gone)| *gone);
    let gone: Vec<String> = gone.map(|(s, _)| s.name.to_owned()).collect();
    let there = Check::none("subjects that are not aligned with the template", gone.len() as u64);
    let (belong, unlike) = belonging(subjects, &after, &information);
    let checks = vec![
        belong,
        there.of(gone).or(Remedy::LookAtSubjects),
        gained.or(Remedy::MoreAlike),
        unbiased.or(Remedy::Centred),
        usable.of(bad).or(Remedy::LookAtSubjects),
    ];
    let said = copies(subjects, &atlas.correlations);
    let mut remarks: Vec<_> = said.into_iter().map(Text::from).collect();
    let told = atlas.correlations.iter().zip(&information);
    for ((subject, (correlation, nats)), _) in
        subjects.iter().zip(told).zip(&unlike).filter(|(_, unlike)| **unlike)
    {
        remarks.push(text!(
            "'{}' is unlike the others: its correlation with their mean is {:.3}, and they share {:.2} nats of \
             information within the tissue (median {:.2}); inspect it, and leave it out if it does not belong there",
            subject.name,
            correlation[1],
            nats,
            median(information.clone())
        ));
    }
    for subject in subjects {
        if let Some(verdict) = subject.affine.filter(|v| !v.good) {
            remarks.push(text!(
                "the affine registration of '{}' to the mean: {}",
                subject.name,
                verdict.summary()
            ));
        }
    }
    (Verdict::new(checks, remarks), unlike)
}

/// Whether all subjects belong together, given the correlation of each with the others and the information that
/// they share: each shares enough, and the affine registration of each to the mean is good. Also returns which are
/// unlike the others, which may be because they are cropped.
fn belonging(
    subjects: &[Judged<'_>],
    correlations: &[f64],
    information: &[f64],
) -> (Check, Vec<bool>) {
    let outlying = outlying(correlations);
    let tells = beside_others(information);
    let off: Vec<f64> = correlations.iter().map(|c| 1.0 - c).collect();
    let off = beside_others(&off);
    let silent = median(information.to_vec()) < ATLAS.tells;
    let apart = |i: usize| match silent {
        true => outlying[i],
        false => {
            tells[i] < ATLAS.informed || (tells[i] < ATLAS.informed_apart && off[i] > ATLAS.apart)
        }
    };
    let apart: Vec<bool> = (0..subjects.len()).map(apart).collect();
    let unlike: Vec<bool> = apart.iter().zip(&outlying).map(|(apart, o)| *apart || *o).collect();
    let strange = subjects
        .iter()
        .zip(&apart)
        .filter(|(s, apart)| **apart || s.affine.is_some_and(|v| !v.good));
    let names: Vec<String> = strange.map(|(s, _)| s.name.to_owned()).collect();
    let check = Check::none("subjects that do not belong with the others", names.len() as u64);
    (check.of(names).or(Remedy::LookAtSubjects), unlike)
}

/// Remarks on subjects that are the same image: the same numbers give the same bits.
fn copies(subjects: &[Judged<'_>], correlations: &[[f64; 2]]) -> Vec<String> {
    let mut said = Vec::new();
    for (i, (one, own)) in subjects.iter().zip(correlations).enumerate() {
        let mut others = subjects.iter().zip(correlations).skip(i + 1);
        let same = |c: &[f64; 2]| c == own && own[0] != own[1];
        if let Some((other, _)) = others.find(|(_, c)| same(c)) {
            said.push(format!(
                "'{}' and '{}' are the same image, which counts twice",
                one.name, other.name
            ));
        }
    }
    said
}

/// The root of the mean square of an image.
#[must_use]
pub fn root_mean_square(image: &Volume<f32>) -> f64 {
    let sum: f64 = image.data().iter().map(|&v| f64::from(v).powi(2)).sum();
    (sum / image.data().len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_that_does_not_belong_is_named_and_copies_are() {
        let good = Verdict::new(Vec::new(), Vec::new());
        let bad = Verdict::new(vec![Check::at_least("agreement", -1.0, 0.0)], Vec::new());
        let of = |name, affine| Judged { name, deformation: &good, affine: Some(affine) };
        let told = |subjects: &[Judged<'_>], correlations: &[f64], information: &[f64]| {
            let (check, _) = belonging(subjects, correlations, information);
            (check.passed, check.words())
        };
        let named = |subjects: &[Judged<'_>], correlations: &[f64]| {
            told(subjects, correlations, &vec![1.0; subjects.len()])
        };
        let all = ["a", "b", "c", "d", "e"].map(|name| of(name, &good));
        assert!(named(&all, &[0.99, 0.991, 0.992, 0.99, 0.985]).0);
        // What is unlike in all but its tissue is cut off, or uneven.
        let correlations = [0.99, 0.991, 0.6, 0.99, 0.992];
        let some = [1.0, 1.0, 0.7, 1.0, 1.0];
        let (passed, words) = told(&all, &correlations, &some);
        assert!(!passed && words.ends_with(": c"), "{words}");
        assert!(named(&all, &correlations).0 && told(&all, &[0.99; 5], &some).0);
        assert!(belonging(&all, &correlations, &[1.0; 5]).1[2]);
        // Masks have nothing within.
        assert!(!told(&all, &correlations, &[0.0; 5]).0);
        let (passed, words) = told(&all, &[0.99; 5], &[1.1, 0.9, 1.0, 0.6, 1.2]);
        assert!(!passed && words.ends_with(": d"), "{words}");
        // Of three none can be unlike the others, but one may not lie on their mean.
        let three = [of("a", &good), of("noise", &bad), of("c", &good)];
        let (passed, words) = named(&three, &[0.99, 0.8, 0.99]);
        assert!(!passed && words.ends_with(": noise"), "{words}");
        let said = copies(&three, &[[0.9, 0.95], [0.8, 0.85], [0.9, 0.95]]);
        assert_eq!(said, ["'a' and 'c' are the same image, which counts twice"]);
        // Without a deformation nothing is known.
        assert!(copies(&three, &[[1.0; 2]; 3]).is_empty());
    }
}
