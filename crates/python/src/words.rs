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

/// The help of an option with those that it names as keyword arguments: `--no-report` is `report=False`.
pub(crate) fn of_help(help: &str, is_switch: &dyn Fn(&str) -> bool) -> String {
    let mut said = String::new();
    let mut rest = help;
    while let Some(at) = rest.find("--") {
        let (before, after) = rest.split_at(at);
        let name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name = &after[2..2 + after[2..].find(|c| !name(c)).unwrap_or(after.len() - 2)];
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase());
        said += before;
        if !is_name || before.contains("`voxalign ") && before.matches('`').count() % 2 == 1 {
            said += &after[..2 + name.len()];
        } else {
            let name = name.trim_end_matches('-').replace('-', "_");
            match name.strip_prefix("no_").filter(|name| is_switch(name)) {
                Some(name) => said += &format!("`{name}=False`"),
                None => said += &format!("`{name}`"),
            }
        }
        rest = &after[2 + name.len()..];
    }
    said + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_options::text;

    #[test]
    fn options_are_keyword_arguments() {
        for (text, said) in [
            (text!("`bins` is 3"), "`bins` is 3"),
            (text!("for `model = lddmm`; leave it out"), "for `model='lddmm'`; leave it out"),
            (text!("`outside = -1000` and `report = false`"), "`outside=-1000` and `report=False`"),
            (text!("give `transform = FILE`"), "give `transform=FILE`"),
        ] {
            assert_eq!(spoken(&text), said);
        }
    }

    #[test]
    fn help_speaks_of_keyword_arguments() {
        let is_switch = |name: &str| name == "report";
        for (help, said) in [
            ("unless --no-report says otherwise", "unless `report=False` says otherwise"),
            ("with --search-angles, or --no-way", "with `search_angles`, or `no_way`"),
            ("by `voxalign apply --even`", "by `voxalign apply --even`"),
            ("a -- b", "a -- b"),
        ] {
            assert_eq!(of_help(help, &is_switch), said);
        }
    }
}
