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
}
