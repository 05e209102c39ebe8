//! Writing tables of views.

use super::View;
use super::form::Form;
use crate::error::{IoError, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use voxalign_image::{CArm, Gantry};

/// The text of a table.
pub(super) fn table(path: &Path, views: &[View]) -> Result<String> {
    if views.is_empty() {
        let remedy = "give one view at least";
        return Err(IoError::malformed(path, "there are no views to write", remedy));
    }
    let mut text = String::new();
    for view in views {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str("[[view]]\n");
        let mut line = |key: &str, value: &dyn std::fmt::Display| {
            // Strings take what is written.
            let _ = writeln!(text, "{key} = {value}");
        };
        if let Some(name) = &view.name {
            line("name", &quoted(name));
        }
        if let Some(image) = &view.image {
            line("image", &quoted(&relative(path, image)?));
        }
        if let Some(size) = view.size {
            line("size", &format!("{size:?}"));
        }
        if let Some(region) = view.region {
            line("region", &format!("{region:?}"));
        }
        let v = |v: &[f64]| format!("{v:?}");
        match &view.form {
            None => {}
            Some(Form::Plain { source, origin, column, row }) => {
                line("source", &v(source.as_slice()));
                line("origin", &v(origin.as_slice()));
                line("column", &v(column.as_slice()));
                line("row", &v(row.as_slice()));
            }
            Some(Form::Arm(arm)) => {
                machine(&mut line, arm);
                line("primary", &format!("{:?}", arm.primary.to_degrees()));
                line("secondary", &format!("{:?}", arm.secondary.to_degrees()));
            }
            Some(Form::Machine(Gantry { arm, angle })) => {
                machine(&mut line, arm);
                line("gantry", &format!("{:?}", angle.to_degrees()));
            }
            Some(Form::Projection { matrix, far }) => {
                let rows: Vec<String> =
                    matrix.row_iter().map(|row| v(&[row[0], row[1], row[2], row[3]])).collect();
                line("projection", &format!("[\n    {},\n]", rows.join(",\n    ")));
                if let Some(far) = far {
                    line("source_to_detector", &format!("{far:?}"));
                }
            }
        }
    }
    Ok(text)
}

fn machine(line: &mut dyn FnMut(&str, &dyn std::fmt::Display), arm: &CArm) {
    line("source_to_isocentre", &format!("{:?}", arm.source_to_isocentre));
    line("source_to_detector", &format!("{:?}", arm.source_to_detector));
    line("isocentre", &format!("{:?}", arm.isocentre.as_slice()));
    line("pixel", &format!("{:?}", arm.pixel_size));
    if let Some(centre) = arm.centre {
        line("centre", &format!("{centre:?}"));
    }
}

/// A path as it is seen from the folder of a file.
fn relative(file: &Path, image: &Path) -> Result<String> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let seen = match image.strip_prefix(folder) {
        Ok(below) => below.to_path_buf(),
        Err(_) if image.is_absolute() => image.to_path_buf(),
        Err(_) => absolute(folder, image),
    };
    let Some(text) = seen.to_str() else {
        let problem = format!("the name of the image '{}' is not UTF-8", image.display());
        return Err(IoError::malformed(file, problem, "rename the image"));
    };
    Ok(text.to_owned())
}

/// From the folder of a file in other places: the whole path, below the folder where it is.
fn absolute(folder: &Path, image: &Path) -> PathBuf {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let image = whole(image);
    image.strip_prefix(whole(folder)).map(Path::to_path_buf).unwrap_or(image)
}

/// A text as TOML has it between quotes.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
