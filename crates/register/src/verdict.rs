//! The verdict on a result.

use crate::numbers::null_is_nan;
use serde::{Deserialize, Serialize};

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Short name, such as `overlap of the fields of view`.
    pub name: String,
    /// What was found, in the unit that the name says. In JSON `null` where it is no number, or no finite one;
    /// read back that is NaN.
    #[serde(deserialize_with = "null_is_nan")]
    pub value: f64,
    /// What is asked for, in words, such as `at least 0.3`.
    pub asked: String,
    /// Whether it is met.
    pub passed: bool,
    /// What to try where it is not met; empty where nothing can be said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl Check {
    /// A check of a value; `remedy` is kept where it is not met. What is no number meets nothing.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        value: f64,
        asked: impl Into<String>,
        passed: bool,
        remedy: &str,
    ) -> Self {
        let passed = passed && !value.is_nan();
        let remedy = if passed { String::new() } else { remedy.to_owned() };
        Self { name: name.into(), value, asked: asked.into(), passed, remedy }
    }
}

/// Whether a result can be used: the sum of its checks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether every check passed.
    pub good: bool,
    /// All that was checked.
    pub checks: Vec<Check>,
    /// What to look at although no check failed.
    pub remarks: Vec<String>,
}

impl Verdict {
    /// The verdict from checks and remarks.
    #[must_use]
    pub fn new(checks: Vec<Check>, remarks: Vec<String>) -> Self {
        Self { good: checks.iter().all(|c| c.passed), checks, remarks }
    }

    /// This verdict with the failed checks of a part that came before it: a result is no better than
    /// what it starts from. `part` names it, such as `affine part`, and `remedy` says what helps.
    #[must_use]
    pub fn after(&self, part: &str, before: &Verdict, remedy: &str) -> Self {
        let mut checks = self.checks.clone();
        let failed = before.checks.iter().filter(|c| !c.passed);
        checks.extend(failed.map(|c| Check {
            name: format!("{part}: {}", c.name),
            remedy: remedy.to_owned(),
            ..c.clone()
        }));
        Self::new(checks, self.remarks.clone())
    }

    /// This verdict with a further check, where there is one.
    #[must_use]
    pub fn with(mut self, check: Option<Check>) -> Self {
        self.checks.extend(check);
        Self::new(self.checks, self.remarks)
    }

    /// What to try, of all failed checks, each once.
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
        let failed: Vec<_> = self
            .checks
            .iter()
            .filter(|c| !c.passed)
            .map(|c| format!("{} is {:.4}, {} needed", c.name, c.value, c.asked))
            .collect();
        format!("bad: {}", failed.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(name: &str, passed: bool) -> Verdict {
        Verdict::new(vec![Check::new(name, 1.0, "at most 0", passed, "look")], Vec::new())
    }

    #[test]
    fn what_is_no_number_meets_nothing_and_is_read_back() {
        // As a comparison the other way round would have it.
        let value = f64::NAN;
        let beyond = value > 1.0;
        let check = Check::new("mean error, mm", value, "at most 1", !beyond, "look");
        assert!(!check.passed && check.remedy == "look");
        let verdict = Verdict::new(vec![check], Vec::new());
        assert_eq!(verdict.summary(), "bad: mean error, mm is NaN, at most 1 needed");
        let text = serde_json::to_string(&verdict).unwrap();
        assert!(text.contains("\"value\":null"), "{text}");
        let back: Verdict = serde_json::from_str(&text).unwrap();
        assert!(back.checks[0].value.is_nan() && !back.good && !back.checks[0].passed);
    }

    #[test]
    fn a_result_is_no_better_than_its_start() {
        let good = verdict("folds", true);
        assert_eq!(good.after("affine part", &verdict("cost", true), "start elsewhere"), good);
        let bad = good.after("affine part", &verdict("cost", false), "start elsewhere");
        assert!(!bad.good);
        assert_eq!(bad.summary(), "bad: affine part: cost is 1.0000, at most 0 needed");
        assert_eq!(bad.remedies(), ["start elsewhere"]);
        let both = verdict("folds", false).after("affine part", &bad, "look");
        assert_eq!(both.remedies(), ["look"]);
    }
}
