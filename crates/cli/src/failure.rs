//! Failures of a command, their messages and exit codes.

use crate::words::typed;
use std::path::PathBuf;
use thiserror::Error;
use voxalign_jobs::Error as JobError;
use voxalign_options::Text;

/// A command that did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The result is good, or there was nothing to judge.
    Good,
    /// The result is written, but its verdict is bad.
    Bad,
}

impl Outcome {
    /// What a verdict means.
    pub(crate) fn of(good: bool) -> Self {
        if good { Self::Good } else { Self::Bad }
    }

    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Outcome::Good => 0,
            Outcome::Bad => 1,
        }
    }
}

/// A command that did not do its work, in the words of the command line.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// Bad input or options.
    #[error("{}", typed(.0))]
    Input(Text),
    /// Memory that could not be had: it says nothing of the input.
    #[error("{}", typed(.0))]
    Memory(Text),
    /// Options that do not parse; clap has said why.
    #[error("the options are not valid")]
    Usage,
    /// A defect of the program or of the machine.
    #[error("internal error: {0}; please report this, with the command that led to it")]
    Internal(String),
    /// A GPU or its driver failed.
    #[error("{0}; `--device cpu` runs without the GPU")]
    Gpu(String),
    /// Another process of the run failed, and says why itself.
    #[error("{0}")]
    Peer(String),
    /// The processes of the run could not work together.
    #[error("{0}")]
    Ranks(String),
    /// Standard output took no more; what is written to files is complete.
    #[error("cannot write to standard output: {0}; free some space, or redirect it elsewhere")]
    Output(String),
    /// The user stopped it.
    #[error("stopped; nothing was written")]
    Stopped,
    /// The user stopped it, and it can go on from a checkpoint in a folder.
    #[error("stopped; the same command with --resume continues from the checkpoint in '{}'", .0.display())]
    Saved(PathBuf),
    /// The user stopped it, and what was found before is in a folder.
    #[error("stopped; the results so far are in '{}'", .0.display())]
    Ended(PathBuf),
}

impl<E> From<E> for Failure
where
    JobError: From<E>,
{
    fn from(error: E) -> Self {
        match JobError::from(error) {
            error if error.is_of_input() => Failure::Input(error.text()),
            JobError::Memory(text) => Failure::Memory(text),
            JobError::Internal(message) => Failure::Internal(message),
            JobError::Gpu(message) => Failure::Gpu(message),
            JobError::Peer(message) => Failure::Peer(message),
            JobError::Ranks(message) => Failure::Ranks(message),
            JobError::Stopped => Failure::Stopped,
            JobError::Saved(folder) => Failure::Saved(folder),
            JobError::Ended(folder) => Failure::Ended(folder),
            other => Failure::Internal(other.to_string()),
        }
    }
}

impl Failure {
    /// Bad input, with what is wrong and what helps.
    pub(crate) fn input(message: impl Into<Text>) -> Self {
        Failure::Input(message.into())
    }

    /// The exit code; 130 is the custom for an interrupt.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Input(_) | Failure::Memory(_) | Failure::Usage => 2,
            Failure::Internal(_) | Failure::Gpu(_) | Failure::Peer(_) | Failure::Ranks(_) => 3,
            Failure::Output(_) => 4,
            Failure::Stopped | Failure::Saved(_) | Failure::Ended(_) => 130,
        }
    }

    /// The same with a prefix that says where, such as an option's name.
    pub(crate) fn at(self, place: impl Into<Text>) -> Self {
        let at = |text: Text| place.into().and(": ").and(text);
        match self {
            Failure::Input(text) => Failure::Input(at(text)),
            Failure::Memory(text) => Failure::Memory(at(text)),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_options::{OptionError, text};

    #[test]
    fn options_are_said_as_they_are_typed() {
        let wrong = OptionError::value("time_steps", 0, "give a number from 1 to 1000");
        let ignored =
            OptionError::Ignored { name: "bins", option: "cost", kinds: vec!["cr", "mi"] };
        let unknown =
            OptionError::Unknown { name: "cost", value: "x".into(), known: vec!["cr", "mi"] };
        let refused = JobError::Ignored("clip = false", text!("`body = image`"));
        for (error, said) in [
            (JobError::from(wrong), "--time-steps is 0; give a number from 1 to 1000"),
            (ignored.into(), "--bins is for --cost cr and mi; leave it out"),
            (unknown.into(), "--cost is 'x'; expected one of cr, mi"),
            (refused, "--no-clip is for --body image; leave it out"),
            (JobError::input(text!("give `at`")), "give --at"),
            (JobError::Memory(text!("by `report = false`")), "by --no-report"),
        ] {
            assert_eq!(Failure::from(error).to_string(), said);
        }
    }

    #[test]
    fn every_end_has_its_code() {
        for (error, code) in [
            (JobError::input("x"), 2),
            (JobError::Memory("x".into()), 2),
            (JobError::Internal("x".into()), 3),
            (JobError::Gpu("x".into()), 3),
            (JobError::Stopped, 130),
            (JobError::Saved("x".into()), 130),
            (JobError::Ended("x".into()), 130),
        ] {
            assert_eq!(Failure::from(error).code(), code);
        }
    }
}
