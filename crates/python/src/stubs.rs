//! The stub file of the module, `python/voxalign/_native.pyi`, which is written from the declaration of the options:
//! `cargo run -p voxalign-python --bin voxalign-stubs > python/voxalign/_native.pyi`.

use crate::functions;

/// What is in it besides functions of jobs.
const CLASSES: &str = include_str!("stubs/classes.pyi");

/// The whole file.
#[must_use]
pub fn text() -> String {
    let functions: Vec<_> = functions::all().iter().map(|f| f.declared.stub()).collect();
    format!("{CLASSES}\n{}", functions.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_stubs_are_those_of_the_module() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/voxalign/_native.pyi");
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == text(),
            "{} is out of date: voxalign-stubs writes it anew",
            path.display()
        );
    }

    #[test]
    fn every_option_is_a_keyword_argument() {
        for function in functions::all() {
            let declared = &function.declared;
            assert!(!declared.about.is_empty(), "{}", declared.name);
            for parameter in &declared.parameters {
                let shape = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                assert!(parameter.name.chars().all(shape), "{}: {}", declared.name, parameter.name);
                assert!(!parameter.help.is_empty(), "{}: {}", declared.name, parameter.name);
            }
        }
    }
}
