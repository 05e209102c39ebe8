//! Point sets as CSV with a header line.

use crate::atomic;
use crate::error::{IoError, Result, shorten};
use crate::source::Source;
use crate::text;
use nalgebra::Vector3;
use std::io;
use std::path::Path;
use voxalign_image::{PointSet, memory};

/// The world in which a file's points are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PointConvention {
    /// RAS+ mm, as everywhere in this program.
    #[default]
    Ras,
    /// LPS+ mm, as ITK, ANTs (`antsApplyTransformsToPoints`) and DICOM.
    Lps,
}

impl PointConvention {
    /// From the convention to RAS, or back.
    fn convert(self, p: Vector3<f64>) -> Vector3<f64> {
        match self {
            PointConvention::Ras => p,
            PointConvention::Lps => Vector3::new(-p[0], -p[1], p[2]),
        }
    }
}

/// Largest size of a point file, bytes.
const LARGEST: u64 = 1 << 32;

/// Reads points: a header line with columns `x`, `y`, `z` (in any case and order; further columns
/// are kept as text), then one point a line. Points of 2D images have `x` and `y` alone.
///
/// # Errors
/// A missing file; a header without these columns; a coordinate that is not a finite number;
/// a line with too few or too many values.
pub fn read_points(path: impl AsRef<Path>, convention: PointConvention) -> Result<PointSet> {
    let source = Source::open(path.as_ref())?;
    let bytes = source.read_all(LARGEST)?;
    read_points_from_bytes(path, &bytes, convention)
}

/// As [`read_points`], from the bytes of a file; `name` appears in messages.
///
/// # Errors
/// As [`read_points`].
pub fn read_points_from_bytes(
    name: impl AsRef<Path>,
    bytes: &[u8],
    convention: PointConvention,
) -> Result<PointSet> {
    let path = name.as_ref();
    let bytes = text::utf8(bytes)
        .map_err(|problem| IoError::malformed(path, problem, text::SAVE_AS))?
        .as_bytes();
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
    let wrong = |e: csv::Error| {
        IoError::malformed(path, e.to_string(), "give every line as many values as the header")
    };
    let header = reader.headers().map_err(wrong)?.clone();
    if header.len() == 1 {
        not_csv(path, &header[0])?;
    }
    let mut columns = Vec::new();
    for name in ["x", "y", "z"] {
        let found: Vec<usize> = (0..header.len())
            .filter(|&i| header.get(i).is_some_and(|h| h.eq_ignore_ascii_case(name)))
            .collect();
        match found[..] {
            [only] => columns.push(only),
            // Points in a plane.
            [] if name == "z" => {}
            _ => {
                let problem = format!("the header line has {} columns named '{name}'", found.len());
                let remedy =
                    "begin with a line such as 'x,y,z' (of 2D images 'x,y'), coordinates in mm";
                return Err(IoError::malformed(path, problem, remedy));
            }
        }
    }
    let mut further: Vec<(String, Vec<String>)> = Vec::new();
    let further_at: Vec<usize> = (0..header.len()).filter(|i| !columns.contains(i)).collect();
    for &i in &further_at {
        further.push((header.get(i).unwrap_or_default().into(), Vec::new()));
    }
    let mut points = Vec::new();
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        let mut point = Vector3::zeros();
        for (value, &i) in point.iter_mut().zip(&columns) {
            let text = record.get(i).unwrap_or_default();
            *value = text.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(|| {
                let line = record.position().map_or(0, csv::Position::line);
                let problem =
                    format!("line {line}: the coordinate '{}' is not a number", shorten(text));
                IoError::malformed(path, problem, "correct the line")
            })?;
        }
        memory::push(&mut points, convention.convert(point))
            .map_err(|refused| IoError::memory(path, refused))?;
        for ((_, values), &i) in further.iter_mut().zip(&further_at) {
            memory::push(values, record.get(i).unwrap_or_default().into())
                .map_err(|refused| IoError::memory(path, refused))?;
        }
    }
    let set = PointSet::with_columns(points, further).map_err(|e| IoError::image(path, e))?;
    Ok(if columns.len() < 3 { set.in_plane() } else { set })
}

/// A word on a list of points whose header line, without any comma, tells that it is of another kind.
fn not_csv(path: &Path, line: &str) -> Result<()> {
    let remedy = "write it comma-separated, with 'x,y,z' as its first line";
    let separated = [(";", "semicolons"), ("\t", "tabs"), (" ", "spaces")];
    if let Some((_, name)) = separated.iter().find(|(sign, _)| line.contains(sign)) {
        return Err(IoError::malformed(
            path,
            format!("the values are separated by {name}"),
            remedy,
        ));
    }
    if ["point", "index"].contains(&line) {
        let remedy = "write x,y,z instead of its first two lines and commas between the \
                      coordinates, which are LPS, as ITK's are";
        return Err(IoError::malformed(path, "this is an elastix point list", remedy));
    }
    Ok(())
}

/// Writes points: columns `x`, `y`, and, but for points in a plane, `z`; then the further ones.
///
/// # Errors
/// A folder that cannot be written.
pub fn write_points(
    path: impl AsRef<Path>,
    points: &PointSet,
    convention: PointConvention,
) -> Result<()> {
    atomic::write_file(path.as_ref(), |sink| {
        let mut writer = csv::Writer::from_writer(sink);
        let axes = if points.is_2d() { 2 } else { 3 };
        let header = ["x", "y", "z"].into_iter().take(axes);
        writer.write_record(header.chain(points.columns().iter().map(|(n, _)| n.as_str())))?;
        for (i, &p) in points.points().iter().enumerate() {
            let p = convention.convert(p);
            let mut record = csv::StringRecord::new();
            p.iter().take(axes).for_each(|v| record.push_field(&v.to_string()));
            for (_, values) in points.columns() {
                record.push_field(values.get(i).map_or("", String::as_str));
            }
            writer.write_record(&record)?;
        }
        writer.flush().map_err(io::Error::other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<PointSet> {
        read_points_from_bytes("p.csv", text.as_bytes(), PointConvention::Ras)
    }

    #[test]
    fn lists_of_other_programs_are_told() {
        for (text, said) in [
            ("x;y;z\n1;2;3\n", "separated by semicolons; write it comma-separated"),
            ("x\ty\tz\n1\t2\t3\n", "separated by tabs"),
            ("1 2 3\n4 5 6\n", "separated by spaces"),
            ("point\n2\n1 2 3\n4 5 6\n", "elastix point list"),
            ("a\n1\n", "0 columns named 'x'"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn columns_in_any_order() {
        let p = read("name, Z,y ,X\na,3,2,1\n\"b, c\",6,5,4\n").unwrap();
        assert_eq!(p.points(), [Vector3::new(1., 2., 3.), Vector3::new(4., 5., 6.)]);
        assert_eq!(p.columns(), [("name".into(), vec!["a".into(), "b, c".into()])]);
        let lps = read_points_from_bytes(
            "p.csv",
            b"\xef\xbb\xbfx,y,z,t\n1,2,3,0\n",
            PointConvention::Lps,
        );
        assert_eq!(lps.unwrap().points()[0], Vector3::new(-1., -2., 3.));
        assert!(read("x,y,z\n").unwrap().is_empty());
    }

    #[test]
    fn errors_name_the_line() {
        for (text, part) in [
            ("", "'x'"),
            ("a,b,c\n1,2,3\n", "'x'"),
            ("x,y,z,x\n1,2,3,4\n", "2 columns"),
            ("x,y,z\n1,2,3\n1,nan,3\n", "line 3"),
            ("x,y,z\n1,2\n", "p.csv"),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("p.csv"), "{message}");
        }
    }

    #[test]
    fn points_in_a_plane_have_no_z() {
        let p = read("name,y,x\na,2,1\nb,4,3\n").unwrap();
        assert!(p.is_2d());
        assert_eq!(p.points(), [Vector3::new(1., 2., 0.), Vector3::new(3., 4., 0.)]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.csv");
        for convention in [PointConvention::Ras, PointConvention::Lps] {
            write_points(&path, &p, convention).unwrap();
            assert_eq!(read_points(&path, convention).unwrap(), p);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x,y,name\n-1,-2,a\n-3,-4,b\n");
        let error = read("x,z\n1,2\n").unwrap_err().to_string();
        assert!(
            error.contains("0 columns named 'y'") && error.contains("of 2D images 'x,y'"),
            "{error}"
        );
        for bytes in [&b"\xff\xfex\0,\0y\0"[..], b"x,y,n\n1,2,\xe9\n"] {
            let error = read_points_from_bytes("p.csv", bytes, PointConvention::Ras).unwrap_err();
            assert!(error.to_string().contains("save it as UTF-8 text"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(p in prop::collection::vec(prop::array::uniform3(-1e3..1e3f64), 0..20)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("p.csv");
            let names = (0..p.len()).map(|i| format!("point \"{i}\", éà")).collect();
            let points = p.into_iter().map(Vector3::from).collect();
            let set = PointSet::with_columns(points, vec![("name".into(), names)]).unwrap();
            for convention in [PointConvention::Ras, PointConvention::Lps] {
                write_points(&path, &set, convention).unwrap();
                prop_assert_eq!(&read_points(&path, convention).unwrap(), &set);
            }
        }
    }
}
