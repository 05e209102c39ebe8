//! The verdict on a result.

use serde::{Deserialize, Serialize};

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Short name, such as `overlap of the fields of view`.
    pub name: String,
    /// What was found, in the unit that the name says.
    pub value: f64,
    /// What is asked for, in words, such as `at least 0.3`.
    pub asked: String,
    /// Whether it is met.
    pub passed: bool,
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
    /// what it starts from. `part` names it, such as `affine part`.
    #[must_use]
    pub fn after(&self, part: &str, before: &Verdict) -> Self {
        let mut checks = self.checks.clone();
        let failed = before.checks.iter().filter(|c| !c.passed);
        checks.extend(failed.map(|c| Check { name: format!("{part}: {}", c.name), ..c.clone() }));
        Self::new(checks, self.remarks.clone())
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
        let check =
            Check { name: name.to_owned(), value: 1.0, asked: "at most 0".to_owned(), passed };
        Verdict::new(vec![check], Vec::new())
    }

    #[test]
    fn a_result_is_no_better_than_its_start() {
        let good = verdict("folds", true);
        assert_eq!(good.after("affine part", &verdict("cost", true)), good);
        let bad = good.after("affine part", &verdict("cost", false));
        assert!(!bad.good);
        assert_eq!(bad.summary(), "bad: affine part: cost is 1.0000, at most 0 needed");
    }
}
