//! How the libraries' names of options are typed.

/// A text in which options stand in backticks, such as `` `search_angles` `` or `` `model = lddmm` ``, with the options as
/// they are typed: `--search-angles`, `--model lddmm`. What else stands in backticks stays as it is.
pub(crate) fn typed(text: &str) -> String {
    let mut parts = text.split('`');
    let mut all = parts.next().unwrap_or_default().to_owned();
    while let Some(quoted) = parts.next() {
        let Some(rest) = parts.next() else {
            // It has no end.
            return format!("{all}`{quoted}");
        };
        match option(quoted) {
            Some(option) => all.push_str(&option),
            None => all.push_str(&format!("`{quoted}`")),
        }
        all.push_str(rest);
    }
    all
}

/// The option that a name, or a name and a value, stand for.
fn option(quoted: &str) -> Option<String> {
    let (name, value) = match quoted.split_once(" = ") {
        Some((name, value)) => (name, Some(value)),
        None => (quoted, None),
    };
    let mut letters = name.chars();
    let begins = letters.next().is_some_and(|c| c.is_ascii_lowercase());
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !begins || !letters.all(is_name) {
        return None;
    }
    let name = name.replace('_', "-");
    Some(match value {
        Some("false") => format!("--no-{name}"),
        Some("true") | None => format!("--{name}"),
        Some(value) => format!("--{name} {value}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Cli;
    use clap::CommandFactory;
    use std::path::Path;

    #[test]
    fn options_are_said_as_they_are_typed() {
        for (text, said) in [
            ("`bins` is 3", "--bins is 3"),
            ("use a smaller `step`, or `total_sigma`", "use a smaller --step, or --total-sigma"),
            ("for `model = lddmm`; leave it out", "for --model lddmm; leave it out"),
            ("leave `centre = false` out", "leave --no-centre out"),
            ("run `voxalign affine`", "run `voxalign affine`"),
            ("by `voxalign apply -i A -o B` or `init`", "by `voxalign apply -i A -o B` or --init"),
            ("a header such as `path,weight`", "a header such as `path,weight`"),
            ("'a`b.nii'", "'a`b.nii'"),
            ("", ""),
        ] {
            assert_eq!(typed(text), said);
        }
    }

    /// The names in backticks in the texts of the jobs, by the files that have them.
    fn named(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                named(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = code.lines().filter(|l| !l.trim_start().starts_with("//"));
            let code = lines.collect::<Vec<_>>().join("\n");
            for quoted in code.split('`').skip(1).step_by(2) {
                if let Some(option) = option(quoted) {
                    let name = option.split(' ').next().unwrap_or_default().to_owned();
                    found.push((name, path.display().to_string()));
                }
            }
        }
    }

    #[test]
    fn what_jobs_name_is_an_option_of_the_program() {
        let program = Cli::command();
        let commands = program.get_subcommands();
        let arguments = commands.flat_map(|c| c.get_arguments());
        let known: Vec<String> =
            arguments.filter_map(|a| a.get_long().map(|name| format!("--{name}"))).collect();
        let mut found = Vec::new();
        named(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobs/src"), &mut found);
        assert!(found.len() > 60, "{}", found.len());
        // What a command takes without a name.
        let positional = ["--operation"];
        for (name, file) in found {
            assert!(
                known.contains(&name) || positional.contains(&name.as_str()),
                "{file} names {name}, which is no option"
            );
        }
    }
}
