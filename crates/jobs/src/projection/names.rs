//! Names of views, which are also those of their files.

use std::collections::BTreeSet;
use std::path::Path;

/// The most bytes that a view gives to the name of a file: there is room for what stands before and after it.
const LONGEST: usize = 160;
/// Endings of pictures beside those of images.
const PICTURES: [&str; 6] = [".png", ".tif", ".tiff", ".dcm", ".dicom", ".ima"];

/// A name for each view: one that a file can have on any system, and that no other view has, whatever the case of its
/// letters. Of several views of one name the first keeps it.
pub(crate) fn unique<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut all: Vec<String> = names.into_iter().map(plain).collect();
    let mut taken = BTreeSet::new();
    let again: Vec<usize> =
        (0..all.len()).filter(|&i| !taken.insert(all[i].to_lowercase())).collect();
    for i in again {
        let numbered = (2..).map(|number| format!("{}_{number}", all[i]));
        if let Some(name) = numbered.into_iter().find(|n| taken.insert(n.to_lowercase())) {
            all[i] = name;
        }
    }
    all
}

/// A name that a file can have.
fn plain(name: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let mut plain: String = name.trim().chars().map(safe).collect();
    while plain.len() > LONGEST {
        plain.pop();
    }
    match plain.trim_matches('.') {
        "" => "view".to_owned(),
        name => name.to_owned(),
    }
}

/// The name of the file of an X-ray image without its extensions.
pub(crate) fn stem(path: &Path) -> String {
    let name = crate::list::stem(path);
    let end = PICTURES.iter().find(|end| name.to_ascii_lowercase().ends_with(*end));
    name[..name.len() - end.map_or(0, |end| end.len())].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_view_has_a_name_of_its_own() {
        for (names, found) in [
            (vec!["ap", "lateral"], vec!["ap", "lateral"]),
            (vec!["a", "a", "a"], vec!["a", "a_2", "a_3"]),
            // A name that is taken further on is not given to another.
            (vec!["a", "a", "a_2"], vec!["a", "a_3", "a_2"]),
            (vec!["a", "a_2", "a", "a_2"], vec!["a", "a_2", "a_3", "a_2_2"]),
            (vec!["AP", "ap"], vec!["AP", "ap_2"]),
            (vec!["a/b", "a:b", "a_b"], vec!["a_b", "a_b_2", "a_b_3"]),
            (vec!["", "..", " ", "view_2"], vec!["view", "view_3", "view_4", "view_2"]),
            (vec!["../../x", "été 1"], vec!["_.._x", "été_1"]),
        ] {
            assert_eq!(unique(names), found);
        }
    }

    #[test]
    fn names_of_files() {
        for (path, name) in [
            ("x/ap.nii.gz", "ap"),
            ("ap.front.PNG", "ap.front"),
            ("IM0001", "IM0001"),
            ("1.2.840.113", "1.2.840.113"),
            ("a.dcm", "a"),
            (".png", ""),
        ] {
            assert_eq!(stem(Path::new(path)), name);
        }
    }

    proptest! {
        #[test]
        fn any_names(names in prop::collection::vec("[aAbß./ 2_]{0,4}|\\PC{0,200}", 0..12)) {
            let found = unique(names.iter().map(String::as_str));
            prop_assert_eq!(found.len(), names.len());
            let apart: BTreeSet<_> = found.iter().map(|n| n.to_lowercase()).collect();
            prop_assert_eq!(apart.len(), names.len());
            for name in found {
                let safe = |c: char| c.is_alphanumeric() || "-_.".contains(c);
                prop_assert!(!name.is_empty() && name.len() < 200, "{}", name);
                prop_assert!(name.chars().all(safe) && !name.starts_with('.'), "{}", name);
            }
        }
    }
}
