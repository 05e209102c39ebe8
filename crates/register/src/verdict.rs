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
