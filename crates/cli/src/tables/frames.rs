//! The frames of a sequence as they come, a line each.

use crate::failure::Outcome;
use crate::output;
use crate::progress::Talk;
use serde::Serialize;
use std::path::Path;
use voxalign_jobs::Done;
use voxalign_report::Judged;

/// A frame of a kind of sequence.
pub(crate) trait Frame: Serialize {
    /// The record of the sequence.
    type Sequence: Judged;
    /// What stands above the lines.
    const HEADING: &'static str;

    /// What came of it.
    fn line(&self) -> String;

    /// Prints what came of all of them.
    fn end(record: &Self::Sequence, folder: &Path);
}

/// Prints frames as soon as they are done.
pub(crate) struct Frames {
    json: bool,
    talk: Talk,
    begun: bool,
}

impl Frames {
    pub(crate) fn new(json: bool, talk: Talk) -> Self {
        Self { json, talk, begun: false }
    }

    /// Prints what came of a frame.
    pub(crate) fn line<F: Frame>(&mut self, frame: &F) {
        if self.json {
            // A record of numbers and texts has a form.
            let text = serde_json::to_string(frame).unwrap_or_default();
            return output::line(&text);
        }
        if self.talk == Talk::Quiet {
            return;
        }
        if !std::mem::replace(&mut self.begun, true) {
            output::line(F::HEADING);
        }
        output::line(&frame.line());
    }

    /// Prints what came of all of them.
    pub(crate) fn end<F: Frame>(&self, done: &Done<F::Sequence>) -> Outcome {
        let (record, good) = (&done.record, done.is_good());
        if self.talk == Talk::Quiet && !good {
            output::note(&format!("verdict: {}", record.verdict().summary()));
        }
        if !self.json && self.talk > Talk::Quiet {
            F::end(record, &done.folder);
        }
        Outcome::of(good)
    }
}
