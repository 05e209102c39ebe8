//! ITK's text format.

use super::itk::{self, Record};
use crate::error::{IoError, Result, shorten};
use std::fmt::Write;
use std::path::Path;
use voxalign_image::Transform;

/// Largest number of transforms in a file.
const LARGEST_LIST: usize = 10_000;

/// The transform of a file, and whether it is one of the plane.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<(Transform, bool)> {
    let wrong = |problem: String| {
        let remedy = format!("known are {}", itk::KNOWN);
        IoError::malformed(path, problem, remedy)
    };
    let records = records(bytes).map_err(&wrong)?;
    Ok((itk::combine(&records).map_err(wrong)?, itk::is_planar(itk::classes(&records))))
}

fn records(bytes: &[u8]) -> std::result::Result<Vec<Record>, String> {
    let text = String::from_utf8_lossy(bytes);
    let mut records: Vec<Record> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            return Err(format!("line {} is not 'Key: value'", number + 1));
        };
        let values = || {
            value
                .split_whitespace()
                .map(|w| w.parse::<f64>().map_err(|_| w))
                .collect::<std::result::Result<Vec<_>, _>>()
                .map_err(|w| format!("line {}: '{}' is not a number", number + 1, shorten(w)))
        };
        if key == "Transform" {
            if records.len() == LARGEST_LIST {
                return Err(format!("more than {LARGEST_LIST} transforms"));
            }
            records.push(Record { class: value.trim().into(), ..Record::default() });
            continue;
        }
        let Some(record) = records.last_mut() else {
            return Err(format!("line {} comes before any 'Transform:'", number + 1));
        };
        match key {
            "Parameters" => record.parameters = values()?,
            "FixedParameters" => record.fixed = values()?,
            _ => {
                let key = shorten(key);
                return Err(format!("line {} has the unknown field '{key}'", number + 1));
            }
        }
    }
    Ok(records)
}

pub(crate) fn format(path: &Path, transform: &Transform) -> Result<String> {
    let records = itk::records(transform).map_err(|what| {
        IoError::unsupported(path, what, "write it as .nii.gz (a displacement field)")
    })?;
    Ok(format_records(&records))
}

pub(crate) fn format_records(records: &[Record]) -> String {
    let mut out = String::from("#Insight Transform File V1.0\n");
    for (i, record) in records.iter().enumerate() {
        let join = |v: &[f64]| v.iter().map(|x| format!("{x:?}")).collect::<Vec<_>>().join(" ");
        let _ = writeln!(out, "#Transform {i}\nTransform: {}", record.class);
        if !record.class.starts_with("Composite") {
            let _ = writeln!(out, "Parameters: {}", join(&record.parameters));
            let _ = writeln!(out, "FixedParameters: {}", join(&record.fixed));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::Vector3;
    use voxalign_image::Affine;

    #[test]
    fn text_round_trip() {
        let path = Path::new("a.tfm");
        let a = Affine::from_rows([[1., 2., 3., 4e-30], [0., 1. / 3., 1., 5.], [7., 0., 1., 6.]]);
        let both = Transform::Composite(vec![
            Transform::Affine(a),
            Transform::Affine(Affine::translation(Vector3::new(1.0, 0.1, 3.0))),
        ]);
        for t in [Transform::Affine(a), both] {
            let text = format(path, &t).unwrap();
            assert_eq!(parse(path, text.as_bytes()).unwrap(), (t, false), "{text}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        let parse = |s: &str| {
            let text = format!("#Insight Transform File V1.0\n{s}");
            parse(Path::new("a.tfm"), text.as_bytes()).unwrap_err().to_string()
        };
        assert!(parse("Parameters: 1\n").contains("line 2"));
        assert!(parse("Transform: X_double_3_3\nParameters: 1 a\n").contains("'a'"));
        assert!(parse("nothing\n").contains("line 2"));
        assert!(parse("").contains("no transform"));
        assert!(parse("Transform: BSplineTransform_double_3_3\n").contains("known are"));
    }
}
