//! Progress of a registration: a bar on a terminal, plain lines in a log.

use crate::interrupt;
use crate::output;
use crate::ranks;
use crate::words::typed;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use voxalign_jobs::{Level, Listener};
use voxalign_options::Text;
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
    drawn: Option<ProgressBar>,
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
    /// The part of all work that it is expected to be, and that of the stages before it.
    share: f64,
    before: f64,
    /// When the first stage began.
    began: Option<Instant>,
}

impl Stage {
    /// How long the rest of this registration is expected to take, in words, where `done` of this stage is: nothing while that
    /// would be a guess.
    fn left(&self, done: f64) -> Option<String> {
        const LEAST: f64 = 0.05;
        let (done, took) = (self.before + self.share * done, self.began?.elapsed().as_secs_f64());
        (done >= LEAST && took >= 1.0).then(|| in_words(took * (1.0 - done).max(0.0) / done))
    }
}

/// A time that is left.
fn in_words(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s left"),
        s if s < 5400.0 => format!("{:.0} min left", s / 60.0),
        s => format!("{:.1} h left", s / 3600.0),
    }
}

/// Positions of the bar within one stage.
const TICKS: u64 = 1000;

impl Printer {
    /// Lines alone.
    pub(crate) fn lines(talk: Talk) -> Self {
        Self { talk, drawn: None, stage: Mutex::default() }
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
        Self { talk, drawn: bar, stage: Mutex::default() }
    }

    /// The bar, of the process that prints.
    fn bar(&self) -> Option<&ProgressBar> {
        self.drawn.as_ref().filter(|_| ranks::is_first())
    }

    /// A line that does not disturb the bar, of the process that prints.
    fn line(&self, at: Talk, text: &str) {
        if self.talk < at || !ranks::is_first() {
            return;
        }
        match self.bar() {
            Some(bar) => bar.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = self.bar() {
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
            Event::StageStart { index, count, name, counts, value, share } => {
                let (name, what) = (name.to_owned(), String::new());
                let (before, began) = match index {
                    0 => (0.0, Some(Instant::now())),
                    // One that goes on after a stop is told of from there.
                    _ if stage.began.is_none() => (0.0, None),
                    _ => (stage.before + stage.share, stage.began),
                };
                *stage = Stage { index, count, name, what, counts, value, share, before, began };
                if let Some(bar) = self.bar() {
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
                if let Some(bar) = self.bar() {
                    let part = (done.clamp(0.0, 1.0) * TICKS as f64) as u64;
                    bar.set_position(TICKS * stage.index as u64 + part);
                    let Stage { counts, value, .. } = *stage;
                    let comma = if what.is_empty() { "" } else { ", " };
                    let left = stage.left(done.clamp(0.0, 1.0));
                    let left = left.map_or_else(String::new, |left| format!(", {left}"));
                    bar.set_message(format!(
                        "{value} {best:.5}, {evaluations} {counts}{comma}{what}{left}"
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
                self.line(if self.bar().is_some() { Talk::Verbose } else { Talk::Normal }, &line);
            }
            Event::Warning { text } => {
                self.tell(Level::Warning, &(*text).into());
            }
            _ => {}
        }
    }

    fn stop(&self) -> bool {
        interrupt::requested()
    }
}

impl Listener for Printer {
    fn tell(&self, level: Level, text: &Text) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_is_done() {
        let began = Instant::now().checked_sub(std::time::Duration::from_secs(30));
        let stage = Stage { share: 0.5, before: 0.25, began, ..Stage::default() };
        assert_eq!(stage.left(0.5).as_deref(), Some("30 s left"));
        assert_eq!(stage.left(1.0).as_deref(), Some("10 s left"));
        let early = Stage { share: 0.1, began: Some(Instant::now()), ..Stage::default() };
        assert_eq!((early.left(0.1), early.left(1.0)), (None, None));
        assert_eq!([80.0, 600.0, 9000.0].map(in_words), ["80 s left", "10 min left", "2.5 h left"]);
    }
}
