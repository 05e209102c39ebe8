//! Tables of materials, one a label.

use super::mesh::shortened;
use crate::error::{Error, Result};
use std::path::Path;
use voxalign_elasticity::Material;
use voxalign_io::text;
use voxalign_options::text;

/// The columns of a table.
const COLUMNS: [&str; 4] = ["label", "young", "poisson", "density"];

/// Reads the material of each label from a CSV file with the columns label, young (Pa), poisson and density (kg/m³), with a header
/// line or without one; lines that begin with `#` are comments.
///
/// # Errors
/// A missing file, a line that is no material, and a label that has two; the file, the line and the value are named.
pub fn read_materials(path: impl AsRef<Path>) -> Result<Vec<(i32, Material)>> {
    let path = path.as_ref();
    let wrong = |line: usize, what: String| {
        Error::input(text!("'{}': line {line}: {what}", path.display()))
    };
    let text = text::read(path)?;
    let mut found: Vec<(usize, (i32, Material))> = Vec::new();
    let mut is_first = true;
    for (number, line) in text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let cells: Vec<&str> = line.split(',').map(|cell| cell.trim().trim_matches('"')).collect();
        let is_header = std::mem::take(&mut is_first)
            && cells.iter().map(|c| c.to_ascii_lowercase()).eq(COLUMNS);
        if is_header {
            continue;
        }
        let [label, young, poisson, density] = cells[..] else {
            let what = format!(
                "it has {} values; give {}, such as 1,3000,0.45,1000",
                cells.len(),
                COLUMNS.join(", ")
            );
            return Err(wrong(number, what));
        };
        let label: i32 = label.parse().map_err(|_| {
            wrong(
                number,
                format!("the label '{}' is not a whole number; give one", shortened(label)),
            )
        })?;
        let value = |name: &str, cell: &str| {
            let value: Option<f64> = cell.parse().ok().filter(|v: &f64| v.is_finite());
            value.ok_or_else(|| {
                wrong(number, format!("{name} is '{}'; give a number", shortened(cell)))
            })
        };
        let [young, poisson, density] =
            [value("young", young)?, value("poisson", poisson)?, value("density", density)?];
        let material =
            Material::new(young, poisson, density).map_err(|e| wrong(number, e.to_string()))?;
        if let Some((first, _)) = found.iter().find(|(_, (other, _))| *other == label) {
            let what = format!("label {label} has a material in line {first}; give it once");
            return Err(wrong(number, what));
        }
        found.push((number, (label, material)));
    }
    if found.is_empty() {
        return Err(Error::input(text!(
            "'{}' has no materials; give lines of {}, such as 1,3000,0.45,1000",
            path.display(),
            COLUMNS.join(", ")
        )));
    }
    Ok(found.into_iter().map(|(_, row)| row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_a_line_a_label() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("materials.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_materials(&path).map_err(|e| e.to_string())
        };
        let skin = Material::new(1e4, 0.45, 1100.0).unwrap();
        let fat = Material::new(1e3, 0.4, 950.0).unwrap();
        let rows = "1, 10000, 0.45, 1100\n-2,1e3,0.4,950\n";
        for head in
            ["", "label,young,poisson,density\n", "# tissues\nLabel, Young, Poisson, Density\n\n"]
        {
            assert_eq!(read(&format!("{head}{rows}")), Ok(vec![(1, skin), (-2, fat)]));
        }
        for (bad, said) in [
            ("", "no materials"),
            ("1,2,3\n", "line 1: it has 3 values"),
            ("label,young,poisson,density\nx,1,0.3,1", "line 2: the label 'x'"),
            ("1,1000,abc,1000", "poisson is 'abc'"),
            ("1,1000,0.5,1000", "Poisson's ratio 0.5"),
            ("1,0,0.3,1000", "Young's modulus 0"),
            ("1,1000,0.3,-1", "density -1"),
            ("1,1000,nan,1", "poisson is 'nan'"),
            ("1,1,0.3,1\n\n1,2,0.3,1", "line 3: label 1 has a material in line 1"),
            ("label,stiffness,poisson,density\n1,1,0.3,1", "line 1: the label 'label'"),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.contains(said) && error.contains("materials.csv"), "{error}");
        }
    }
}
