//! Messages with options written as keyword arguments.

use voxalign_options::Text;

/// A message with options as Python has them: `bins`, `model='lddmm'`, `report=False`.
pub(crate) fn spoken(text: &Text) -> String {
    text.said(&option)
}

/// An option, or one with a value.
fn option(name: &str, value: Option<&str>) -> String {
    match value {
        None => format!("`{name}`"),
        Some("true") => format!("`{name}=True`"),
        Some("false") => format!("`{name}=False`"),
        Some(number) if number.parse::<f64>().is_ok() => format!("`{name}={number}`"),
        // What stands for a value, such as FILE.
        Some(word) if word.chars().all(|c| c.is_ascii_uppercase()) => format!("`{name}={word}`"),
        Some(value) => format!("`{name}='{value}'`"),
    }
}

/// How the options of a command are called at the command line.
pub(crate) struct Typed {
    /// The switches.
    pub(crate) switches: Vec<String>,
    /// Names of one letter, with the long ones.
    pub(crate) short: Vec<(char, String)>,
}

impl Typed {
    /// The help of an option with those that it names as keyword arguments: `--no-report` is `report=False`.
    pub(crate) fn spoken(&self, help: &str) -> String {
        let mut said = String::new();
        let mut rest = help;
        while let Some(at) = rest.find('-') {
            let (before, after) = rest.split_at(at);
            said += before;
            // A hyphen within a word, or a command that is quoted.
            let within = said.chars().next_back().is_some_and(|c| !c.is_whitespace() && c != '(');
            let quoted = said.matches('`').count() % 2 == 1;
            let (word, end) = if within || quoted { (None, 1) } else { self.option(after) };
            said += word.as_deref().unwrap_or(&after[..end]);
            rest = &after[end..];
        }
        said + rest
    }

    /// The option with which a text begins, as a keyword argument, and where it ends.
    fn option(&self, text: &str) -> (Option<String>, usize) {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
        let typed = text[..end].trim_end_matches('-');
        let name = match (typed.strip_prefix("--"), typed.strip_prefix('-')) {
            (Some(long), _) if !long.is_empty() => long.replace('-', "_"),
            (None, Some(letter)) => {
                let known = self.short.iter().find(|(short, _)| letter == short.to_string());
                match known {
                    Some((_, long)) => long.clone(),
                    None => return (None, 1),
                }
            }
            _ => return (None, end.max(1)),
        };
        let off = name.strip_prefix("no_").filter(|n| self.switches.iter().any(|s| s == n));
        let said = off.map_or_else(|| format!("`{name}`"), |name| format!("`{name}=False`"));
        (Some(said), typed.len())
    }
}
