//! Output of the program: results to standard output, messages to standard error.
//!
//! A reader that closes the pipe early (`voxalign info x | head -1`) is no error; a full disk is.

use crate::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use voxalign_io::text::printable;
pub(crate) use voxalign_report::Table;

/// The first error of standard output.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// A line of the result.
pub(crate) fn line(text: &str) {
    keep(writeln!(io::stdout().lock(), "{}", shown(text)));
}

/// A line as it is shown: names of files and texts in them may hold what a terminal would obey.
fn shown(line: &str) -> Cow<'_, str> {
    printable(line, &['\n', '\t'])
}

/// A text of the result, as it is.
pub(crate) fn text(text: &[u8]) {
    keep(io::stdout().lock().write_all(text));
}

/// Remembers the first error.
fn keep(result: io::Result<()>) {
    if let Err(error) = result {
        FAILED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Shows what clap has to say, to standard output for `--help` and `--version`.
pub(crate) fn clap(message: clap::Error) {
    let message = with_tip(message);
    if !message.use_stderr() {
        keep(message.print());
    } else if io::stderr().is_terminal() {
        let _ =
            write!(io::stderr().lock(), "{}", plain_words(&message.render().ansi().to_string()));
    } else {
        let _ = write!(io::stderr().lock(), "{}", plain_words(&message.to_string()));
    }
}

/// A message of clap in the words of a user: what the parsers of Rust's numbers say is replaced by
/// what is expected.
pub(crate) fn plain_words(message: &str) -> String {
    const WORDS: [(&str, &str); 6] = [
        ("invalid digit found in string", "give a whole number"),
        ("cannot parse integer from empty string", "give a whole number"),
        ("number too large to fit in target type", "the number is too large"),
        ("number too small to fit in target type", "the number is too small"),
        ("invalid float literal", "give a number"),
        ("cannot parse float from empty string", "give a number"),
    ];
    let mut text = WORDS.iter().fold(message.to_owned(), |text, (from, to)| text.replace(from, to));
    // A value after `--` would become the name of a file.
    if let Some((before, rest)) = text.split_once("as a value, use '") {
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let tip = if before[start..].contains("'-") && !before[start..].contains("'--") {
            "  tip: negative numbers are written with an equals sign, such as --option=-3\n"
        } else {
            ""
        };
        text = format!("{}{tip}{}", &before[..start], &rest[end..]);
    }
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    text
}

/// What is said of an option that other programs of the field have, where the program has none of the name.
fn habit(option: &str) -> Option<&'static str> {
    const HABITS: [(&[&str], &str); 4] = [
        (
            &["-f", "-m", "--fixed", "--moving", "-i", "--ref", "--flo"],
            "images are given without options, the fixed one first: FIXED MOVING",
        ),
        (&["-d", "--dimensionality"], "the dimension is that of the images; leave it out"),
        (&["-n"], "the interpolation is set by --interpolation, where it can be chosen"),
        (&["-r", "--initial-moving-transform"], "the start is set by --init, where there is one"),
    ];
    HABITS.iter().find(|(names, _)| names.contains(&option)).map(|(_, tip)| *tip)
}

/// A message of clap with a tip for what is a habit from other programs, instead of a guess.
fn with_tip(mut message: clap::Error) -> clap::Error {
    let Some(ContextValue::String(option)) = message.get(ContextKind::InvalidArg) else {
        return message;
    };
    // They are habits of commands that take a pair.
    if message.kind() == ErrorKind::UnknownArgument
        && let Some(tip) = habit(option)
        && message.to_string().contains("<FIXED>")
    {
        message.remove(ContextKind::SuggestedArg);
        message.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    message
}

/// Whether all lines got out.
///
/// # Errors
/// [`Failure::Output`], but not for a pipe that its reader closed.
pub(crate) fn finish() -> Result<(), Failure> {
    keep(io::stdout().flush());
    match FAILED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(e.to_string())),
        _ => Ok(()),
    }
}

/// A line about the work.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", shown(text));
}

/// Something the user should look at although the work goes on.
pub(crate) fn warning(text: &str) {
    note(&format!("voxalign: warning: {text}"));
}

/// Why the work did not get done.
pub(crate) fn error(text: &str) {
    note(&format!("voxalign: error: {text}"));
}

/// A result as indented JSON.
///
/// # Errors
/// [`Failure::Internal`] where it has no JSON form.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::Internal(e.to_string()))?;
    line(&text);
    Ok(())
}

/// Tables that are printed.
pub(crate) trait Print {
    /// Prints the table.
    fn print(&self);
    /// Prints the table with all columns to the left.
    fn print_left(&self);
}

impl Print for Table {
    fn print(&self) {
        line(self.render().trim_end_matches('\n'));
    }

    fn print_left(&self) {
        line(self.render_left().trim_end_matches('\n'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_send_nothing_to_the_terminal() {
        assert_eq!(shown("a\tb\nü"), "a\tb\nü");
        assert_eq!(shown("'\x1b[31m\r.nii'\u{9b}"), r"'\u{1b}[31m\u{d}.nii'\u{9b}");
    }

    #[test]
    fn messages_are_in_plain_words() {
        let said = "error: invalid value 'six' for '--dof <N>': invalid digit found in string\n";
        let wanted = "error: invalid value 'six' for '--dof <N>': give a whole number\n";
        assert_eq!(plain_words(said), wanted);
        let tail = "Usage: voxalign\n";
        let said = |what: &str| {
            format!(
                "error: {what}\n\n  tip: to pass '{what}' as a value, use '-- {what}'\n\n{tail}"
            )
        };
        assert_eq!(plain_words(&said("--dog")), format!("error: --dog\n\n{tail}"));
        let negative = plain_words(&said("-3"));
        assert!(negative.contains("--option=-3") && !negative.contains("-- -3"), "{negative}");
    }
}
