//! ITK's MATLAB (version 4) format, in which ANTs writes `…0GenericAffine.mat`: for every
//! transform a matrix named by its class with the parameters, and one named `fixed`.

use super::itk::{self, Record};
use crate::error::{IoError, Result};
use std::path::Path;
use voxalign_image::Transform;

/// Largest number of values of a matrix.
const LARGEST: usize = 1 << 20;

/// One matrix of a file.
struct Matrix {
    name: String,
    values: Vec<f64>,
}

/// Whether a file begins as a matrix does.
pub(crate) fn recognised(bytes: &[u8]) -> bool {
    matrix(bytes).is_ok()
}

/// Parses the matrix at the beginning; gives it with the bytes after it.
fn matrix(bytes: &[u8]) -> std::result::Result<(Matrix, &[u8]), String> {
    let field = |i: usize, big: bool| -> Option<u32> {
        let b = bytes.get(4 * i..4 * i + 4)?;
        let b = [b[0], b[1], b[2], b[3]];
        Some(if big { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) })
    };
    let short = || String::from("the file ends within a matrix");
    // The type's digits: byte order, storage, precision, kind.
    let little = field(0, false).ok_or_else(short)?;
    let big = little >= 5000;
    let code = if big { field(0, true).ok_or_else(short)? } else { little };
    let (order, precision, kind) = (code / 1000, code / 10 % 10, code % 10);
    if code >= 2000 || precision > 1 || kind != 0 || (order == 1) != big {
        return Err(format!("the matrix type {code} is not supported"));
    }
    let header: Vec<usize> = (1..5)
        .map(|i| field(i, big).map(|v| v as usize).ok_or_else(short))
        .collect::<std::result::Result<_, _>>()?;
    let (rows, columns, imaginary, name_length) = (header[0], header[1], header[2], header[3]);
    let count = rows.checked_mul(columns).filter(|&n| n <= LARGEST);
    let (Some(count), 0, 1..=256) = (count, imaginary, name_length) else {
        return Err(format!("a matrix of {rows} x {columns} values is not supported"));
    };
    let name = bytes.get(20..20 + name_length).ok_or_else(short)?;
    let end = name.iter().position(|&b| b == 0).unwrap_or(name_length);
    let name = std::str::from_utf8(&name[..end]).map_err(|_| "a name is not text".to_string())?;
    let size = if precision == 0 { 8 } else { 4 };
    let start = 20 + name_length;
    let data = bytes.get(start..start + count * size).ok_or_else(short)?;
    let values = data
        .chunks_exact(size)
        .map(|b| {
            let mut le = [0; 8];
            le[..size].copy_from_slice(b);
            if big {
                le[..size].reverse();
            }
            if size == 8 {
                f64::from_le_bytes(le)
            } else {
                f64::from(f32::from_le_bytes([le[0], le[1], le[2], le[3]]))
            }
        })
        .collect();
    Ok((Matrix { name: name.into(), values }, &bytes[start + count * size..]))
}

/// The transform of a file, and whether it is one of the plane.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<(Transform, bool)> {
    let wrong =
        |problem: String| IoError::malformed(path, problem, format!("known are {}", itk::KNOWN));
    let mut records: Vec<Record> = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (matrix, after) = matrix(rest).map_err(&wrong)?;
        rest = after;
        match (matrix.name.as_str(), records.last_mut()) {
            ("fixed", Some(record)) => record.fixed = matrix.values,
            ("fixed", None) => return Err(wrong("fixed parameters without a transform".into())),
            (class, _) => records.push(Record {
                class: class.into(),
                parameters: matrix.values,
                fixed: Vec::new(),
            }),
        }
    }
    Ok((itk::combine(&records).map_err(wrong)?, itk::is_planar(itk::classes(&records))))
}

pub(crate) fn format(path: &Path, transform: &Transform) -> Result<Vec<u8>> {
    let unsupported = |what: String| {
        IoError::unsupported(path, what, "write linear transforms as .tfm, fields as .nii.gz")
    };
    let mut records = itk::records(transform).map_err(unsupported)?;
    if records.len() > 1 {
        // The format has no composites; a linear one is one matrix.
        let affine = transform.to_affine().map_err(|e| IoError::image(path, e))?;
        records = itk::records(&Transform::Affine(affine)).map_err(unsupported)?;
    }
    let mut out = Vec::new();
    let mut put = |name: &str, values: &[f64]| {
        for v in [0, values.len() as u32, 1, 0, name.len() as u32 + 1] {
            out.extend(v.to_le_bytes());
        }
        out.extend(name.as_bytes());
        out.push(0);
        values.iter().for_each(|v| out.extend(v.to_le_bytes()));
    };
    for record in &records {
        put(&record.class, &record.parameters);
        put("fixed", &record.fixed);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::Vector3;
    use voxalign_image::Affine;

    fn affine() -> Transform {
        let rows = [[1., 2., 3., 4.], [0., 5., 6., 7.], [0., 0.5, 8., 9.]];
        Transform::Affine(Affine::from_rows(rows))
    }

    #[test]
    fn binary_round_trip() {
        let path = Path::new("a.mat");
        let bytes = format(path, &affine()).unwrap();
        assert!(recognised(&bytes));
        assert_eq!(parse(path, &bytes).unwrap(), (affine(), false));
        let shift = Transform::Affine(Affine::translation(Vector3::x()));
        let both = Transform::Composite(vec![affine(), shift]);
        let back = parse(path, &format(path, &both).unwrap()).unwrap().0;
        assert_eq!(back.to_affine().unwrap(), both.to_affine().unwrap());
    }

    #[test]
    fn both_byte_orders_and_precisions() {
        let mut bytes = Vec::new();
        for (name, values) in
            [("TranslationTransform_float_3_3", vec![1.0f32, 2.0, 3.0]), ("fixed", vec![])]
        {
            for v in [1010u32, values.len() as u32, 1, 0, name.len() as u32 + 1] {
                bytes.extend(v.to_be_bytes());
            }
            bytes.extend(name.as_bytes());
            bytes.push(0);
            values.iter().for_each(|v| bytes.extend(v.to_be_bytes()));
        }
        let t = parse(Path::new("a.mat"), &bytes).unwrap().0;
        assert_eq!(t.apply(Vector3::zeros()), Vector3::new(-1.0, -2.0, 3.0));
    }

    #[test]
    fn cut_files_are_errors() {
        let bytes = format(Path::new("a.mat"), &affine()).unwrap();
        for n in 1..bytes.len() {
            let result = parse(Path::new("a.mat"), &bytes[..n]);
            // Without its fixed parameters a transform has the centre zero.
            assert!(result.is_err() || result.unwrap() == (affine(), false), "{n}");
        }
        assert!(!recognised(b"1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 1\n"));
    }
}
