//! What a running registration shows: a bar for a person, plain lines for a log.

use crate::interrupt;
use crate::output;
use crate::ranks;
use crate::words::typed;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use voxalign_jobs::{Level, Listener};
use voxalign_register::{Event, Progress};

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Talk {
    /// Errors only.
    Quiet,
    /// Stages and results.
    Normal,
    /// Every step.
    Verbose,
}

/// A listener that prints.
pub(crate) struct Printer {
    talk: Talk,
    bar: Option<ProgressBar>,
    stage: Mutex<Stage>,
}

#[derive(Default)]
struct Stage {
    index: usize,
    count: usize,
    name: String,
    what: String,
    counts: &'static str,
    value: &'static str,
}

/// Positions of the bar within one stage.
const TICKS: u64 = 1000;

impl Printer {
    /// Lines alone.
    pub(crate) fn lines(talk: Talk) -> Self {
        Self { talk, bar: None, stage: Mutex::default() }
    }

    /// A bar where standard error is a terminal, else lines.
    pub(crate) fn new(talk: Talk) -> Self {
        let watched = talk != Talk::Quiet && std::io::stderr().is_terminal();
        let bar = watched.then(|| {
            let bar = ProgressBar::new(TICKS);
            let style =
                ProgressStyle::with_template("{prefix:<8} {bar:16} {percent:>3} %  {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { talk, bar, stage: Mutex::default() }
    }

    /// A line that does not disturb the bar, of the process that prints.
    fn line(&self, at: Talk, text: &str) {
        if self.talk < at || !ranks::is_first() {
            return;
        }
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Progress for Printer {
    fn event(&self, event: &Event<'_>) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        match *event {
            Event::StageStart { index, count, name, counts, value } => {
                let (name, what) = (name.to_owned(), String::new());
                *stage = Stage { index, count, name, what, counts, value };
                if let Some(bar) = &self.bar {
                    bar.set_length(TICKS * count.max(1) as u64);
                    bar.set_position(TICKS * index as u64);
                    bar.set_prefix(stage.name.clone());
                }
                self.line(
                    Talk::Verbose,
                    &format!("stage {} of {count}: {}", index + 1, stage.name),
                );
            }
            Event::Step { done, evaluations, best, what } => {
                if let Some(bar) = &self.bar {
                    let part = (done.clamp(0.0, 1.0) * TICKS as f64) as u64;
                    bar.set_position(TICKS * stage.index as u64 + part);
                    let Stage { counts, value, .. } = *stage;
                    let comma = if what.is_empty() { "" } else { ", " };
                    bar.set_message(format!(
                        "{value} {best:.5}, {evaluations} {counts}{comma}{what}"
                    ));
                }
                if stage.what != what {
                    what.clone_into(&mut stage.what);
                    let Stage { counts, value, name, .. } = &*stage;
                    let line = format!(
                        "  {name}: {what} ({evaluations} {counts} so far, best {value} {best:.5})"
                    );
                    self.line(Talk::Verbose, &line);
                }
            }
            Event::StageEnd { name, evaluations, start, best, seconds } => {
                let Stage { index, count, counts, value, .. } = &*stage;
                let line = format!(
                    "stage {} of {count}: {name}: {evaluations} {counts}, {value} {start:.5} -> \
                     {best:.5}, {seconds:.2} s",
                    index + 1
                );
                self.line(if self.bar.is_some() { Talk::Verbose } else { Talk::Normal }, &line);
            }
            Event::Warning { text } => {
                self.say(Level::Warning, text);
            }
            _ => {}
        }
    }

    fn stop(&self) -> bool {
        interrupt::requested()
    }
}

impl Listener for Printer {
    fn say(&self, level: Level, text: &str) {
        let text = typed(text);
        match level {
            Level::Warning => self.line(Talk::Normal, &format!("voxalign: warning: {text}")),
            Level::Normal => self.line(Talk::Normal, &text),
            Level::Verbose => self.line(Talk::Verbose, &text),
        }
    }

    fn reading(&self, read: &mut dyn FnMut()) {
        interrupt::reading(read);
    }
}
