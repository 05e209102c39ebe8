//! Messages with options written as on the command line.

use voxalign_options::Text;

/// A message with options as they are typed: `--search-angles`, `--model lddmm`, `--no-report`.
pub(crate) fn typed(text: &Text) -> String {
    text.said(&option)
}

/// An option, or one with a value.
fn option(name: &str, value: Option<&str>) -> String {
    let name = name.replace('_', "-");
    match value {
        // As the help and everybody has them.
        None if name == "transform" => "-t".to_owned(),
        Some(value) if name == "transform" => format!("-t {value}"),
        Some(value) if name == "reference" => format!("-r {value}"),
        Some("false") => format!("--no-{name}"),
        Some("true") | None => format!("--{name}"),
        Some(value) => format!("--{name} {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Cli;
    use clap::CommandFactory;
    use std::path::Path;
    use voxalign_options::text;

    #[test]
    fn options_are_said_as_they_are_typed() {
        for (text, said) in [
            (text!("`bins` is 3"), "--bins is 3"),
            (text!("a smaller `step`, or `total_sigma`"), "a smaller --step, or --total-sigma"),
            (text!("for `model = lddmm`; leave it out"), "for --model lddmm; leave it out"),
            (text!("leave `centre = false` out"), "leave --no-centre out"),
            (text!("run `voxalign affine`"), "run `voxalign affine`"),
            (text!("'{}'", "a`bins`.nii"), "'a`bins`.nii'"),
            (text!("give `transform = FILE`"), "give -t FILE"),
            (text!(""), ""),
        ] {
            assert_eq!(typed(&text), said);
        }
    }

    /// The literals of a program's text in which an option stands in backticks, and what is before each.
    fn literals<'t>(code: &'t str, found: &mut Vec<(&'t str, &'t str)>) {
        let bytes = code.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            if code[i..].starts_with("//") {
                i += code[i..].find('\n').unwrap_or(code.len() - i);
            } else if bytes[i] == b'\'' && bytes.get(i + 2) == Some(&b'\'') {
                i += 3;
            } else if bytes[i] == b'"' {
                let mut end = i + 1;
                while end < bytes.len() && bytes[end] != b'"' {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                found.push((&code[..i], &code[i..end.min(code.len())]));
                i = end + 1;
            } else {
                i += 1;
                while !code.is_char_boundary(i) {
                    i += 1;
                }
            }
        }
    }

    /// The names in backticks in a literal that are names of options.
    fn names(literal: &str) -> impl Iterator<Item = &str> {
        let quoted = literal.split('`').skip(1).step_by(2);
        let name = quoted.map(|quoted| quoted.split(" = ").next().unwrap_or_default());
        name.filter(|name| {
            let shape = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(shape)
        })
    }

    fn sources(folder: &Path, all: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, all);
            } else if !path.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
                all.push((path.display().to_string(), code.to_owned()));
            }
        }
    }

    #[test]
    fn what_jobs_name_is_an_option_of_the_program_and_data() {
        let program = Cli::command();
        let arguments = program.get_subcommands().flat_map(|c| c.get_arguments());
        let long =
            arguments.flat_map(|a| [a.get_long().map(str::to_owned), Some(a.get_id().to_string())]);
        let known: Vec<String> = long.flatten().map(|name| name.replace('-', "_")).collect();
        let mut all = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobs/src"), &mut all);
        let mut count = 0;
        for (file, code) in &all {
            let mut found = Vec::new();
            literals(code, &mut found);
            for (before, literal) in found {
                for name in names(literal) {
                    count += 1;
                    let is_known = known.iter().any(|k| k == name || *k == format!("no_{name}"));
                    assert!(is_known, "{file} names {name}, which is no option");
                    assert!(
                        before.trim_end().ends_with("text!("),
                        "{file}: {literal} is words alone"
                    );
                }
            }
        }
        assert!(count > 150, "{count}");
    }
}
