//! FreeSurfer's linear transform arrays (`.lta`), as far as registrations write them: one matrix between two volumes.
//!
//! The matrix maps the source (moving) to the destination (fixed) volume, between their voxels (type 0) or between their
//! scanner coordinates, RAS mm (type 1). The geometries of both volumes follow it. It is inverted here, as transforms map fixed to
//! moving points.

use crate::error::{IoError, Result};
use nalgebra::{Matrix3, Matrix4, Vector3};
use std::path::Path;
use voxalign_image::{Affine, Index, Transform, World};

/// The kinds of matrices.
const VOXELS: f64 = 0.0;
const SCANNER: f64 = 1.0;

/// Whether a text is such a file: its first words that are no comment are `type =`.
pub(crate) fn recognised(bytes: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]).into_owned();
    let first = head.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first.and_then(|line| line.split_once('=')).is_some_and(|(name, _)| name.trim() == "type")
}

/// What a file says, line by line.
struct Lines<'a> {
    path: &'a Path,
    lines: Vec<&'a str>,
}

impl<'a> Lines<'a> {
    fn of(path: &'a Path, text: &'a str) -> Self {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        Self { path, lines: lines.filter(|line| !line.is_empty()).collect() }
    }

    fn wrong(&self, problem: String) -> IoError {
        IoError::malformed(
            self.path,
            problem,
            "write it again with `lta_convert --inlta FILE --outlta FILE`",
        )
    }

    /// The finite numbers of a line.
    fn numbers<const N: usize>(&self, what: &str, words: &str) -> Result<[f64; N]> {
        let values: Vec<f64> = words
            .split_whitespace()
            .map_while(|word| word.parse().ok().filter(|v: &f64| v.is_finite()))
            .collect();
        values.get(..N).and_then(|v| v.try_into().ok()).ok_or_else(|| {
            let words = crate::error::shorten(words);
            self.wrong(format!("{what} is '{words}' instead of {N} numbers"))
        })
    }

    /// The numbers of `name = …` in the lines from `from` on.
    fn named<const N: usize>(&self, from: usize, name: &str) -> Result<[f64; N]> {
        let of = |line: &&'a str| {
            let (found, value) = line.split_once('=')?;
            (found.trim() == name).then(|| value.trim())
        };
        let Some(value) = self.lines[from..].iter().find_map(of) else {
            return Err(self.wrong(format!("there is no line `{name} = …`")));
        };
        self.numbers(&format!("`{name}`"), value)
    }

    /// The number of the first line that begins so.
    fn find(&self, beginning: &str) -> Result<usize> {
        self.lines
            .iter()
            .position(|line| line.starts_with(beginning))
            .ok_or_else(|| self.wrong(format!("there is no line '{beginning}'")))
    }

    /// From the voxels of a volume to its scanner coordinates.
    fn volume(&self, name: &str) -> Result<Affine<Index, World>> {
        let at = self.find(&format!("{name} volume info"))?;
        let [valid] = self.named(at, "valid")?;
        if valid != 1.0 {
            return Err(IoError::unsupported(
                self.path,
                format!("the geometry of the {name} volume is not known (`valid = {valid}`)"),
                "write it again with `lta_convert --inlta FILE --src MOVING --trg FIXED --outlta FILE`",
            ));
        }
        let size: [f64; 3] = self.named(at, "volume")?;
        let spacing: [f64; 3] = self.named(at, "voxelsize")?;
        let axis = |name: &str| Ok(Vector3::from(self.named::<3>(at, name)?));
        let axes = Matrix3::from_columns(&[axis("xras")?, axis("yras")?, axis("zras")?]);
        let matrix = axes * Matrix3::from_diagonal(&Vector3::from(spacing));
        let centre = axis("cras")?;
        Ok(Affine::new(matrix, centre - matrix * Vector3::from(size) / 2.0))
    }
}

pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Transform> {
    let text = String::from_utf8_lossy(bytes);
    let file = Lines::of(path, &text);
    let [kind] = file.named(0, "type")?;
    if kind != VOXELS && kind != SCANNER {
        return Err(IoError::unsupported(
            path,
            format!("FreeSurfer transforms of type {kind} are not supported"),
            "write one of scanner coordinates with `lta_convert --inlta FILE --outlta FILE`",
        ));
    }
    let [count] = file.named(0, "nxforms")?;
    if count != 1.0 {
        return Err(IoError::unsupported(
            path,
            format!("it holds {count} transforms, and one is needed"),
            "write one of them to a file of its own",
        ));
    }
    let at = file.find("1 4 4")?;
    let mut rows = [[0.0; 4]; 4];
    for (r, row) in rows.iter_mut().enumerate() {
        let line = file.lines.get(at + 1 + r).copied().unwrap_or_default();
        *row = file.numbers(&format!("row {} of the matrix", r + 1), line)?;
    }
    let off = [rows[3][0], rows[3][1], rows[3][2], rows[3][3] - 1.0];
    if off.iter().any(|v| v.abs() > 1e-5) {
        return Err(file.wrong("the last row of the matrix is not 0 0 0 1".into()));
    }
    let matrix = Matrix4::from_fn(|r, c| rows[r][c]);
    let fail = |e| IoError::image(path, e);
    let forward: Affine = if kind == SCANNER {
        Affine::from_homogeneous(&matrix)
    } else {
        let between: Affine<Index, Index> = Affine::from_homogeneous(&matrix);
        let from_world = file.volume("src")?.inverse().map_err(fail)?;
        from_world.then(&between).then(&file.volume("dst")?)
    };
    Ok(Transform::Affine(forward.inverse().map_err(fail)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::{Geometry, read_from_bytes};

    fn file(kind: u32, matrix: &str, valid: u32) -> String {
        let volume = |size: &str, spacing: &str, centre: &str| {
            format!(
                "valid = {valid}  # volume info valid\nfilename = a b.mgz\nvolume = {size}\nvoxelsize = {spacing}\n\
                 xras   = -1 0 0\nyras   = 0 0 -1\nzras   = 0 1 0\ncras   = {centre}\n"
            )
        };
        format!(
            "# transform file\n# created by somebody\n\ntype      = {kind} # a kind\nnxforms   = 1\nmean      = 0 0 0\n\
             sigma     = 10000.0\n1 4 4\n{matrix}\nsrc volume info\n{}dst volume info\n{}subject x\nfscale 0.1\n",
            volume("256 256 256", "1 1 1", "5 -10 20"),
            volume("64 128 32", "2.0 1.0 3.0", "0 1 2"),
        )
    }

    fn read(text: &str) -> Result<Affine> {
        let read = read_from_bytes("a.lta", text.as_bytes(), &Geometry::default())?;
        Ok(read.to_affine().unwrap())
    }

    #[test]
    fn the_inverse_of_what_is_stored() {
        let rows = "0.9 -0.1 0 5\n0.1 0.9 0.2 -3\n0 -0.2 1.1 7\n0 0 0 1";
        let map = read(&file(1, rows, 0)).unwrap();
        // A moving point where the file says that it goes.
        let moving = Vector3::new(3.0, -4.0, 5.0);
        let fixed = Vector3::new(0.9 * 3.0 + 0.4 + 5.0, 0.3 - 3.6 + 1.0 - 3.0, 0.8 + 5.5 + 7.0);
        assert!((map.apply(fixed) - moving).norm() < 1e-12);
    }

    #[test]
    fn between_voxels() {
        // From voxels (i, j, k) of the source to (i / 4, j / 2, k / 8): middles meet.
        let map = read(&file(0, "0.25 0 0 0\n0 0.5 0 0\n0 0 0.125 0\n0 0 0 1", 1)).unwrap();
        let middles = [Vector3::new(0.0, 1.0, 2.0), Vector3::new(5.0, -10.0, 20.0)];
        assert!((map.apply(middles[0]) - middles[1]).norm() < 1e-12);
        // A voxel of the destination further along its first axis, 2 mm to the left, is 4 of the source, 4 mm.
        let step = map.apply(middles[0] - Vector3::new(2.0, 0.0, 0.0)) - middles[1];
        assert!((step - Vector3::new(-4.0, 0.0, 0.0)).norm() < 1e-12);
    }

    #[test]
    fn what_is_not_read_says_why() {
        let identity = "1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 1";
        for (text, wanted) in [
            (file(14, identity, 1), "type 14"),
            (file(0, identity, 0), "src volume is not known"),
            (file(1, "1 0 0 0\n0 1 0 nan\n0 0 1 0\n0 0 0 1", 1), "row 2 of the matrix"),
            (file(1, "1 0 0 0\n0 1 0 0\n0 0 0 0\n0 0 0 1", 1), "a.lta"),
            (file(1, "1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 1 1", 1), "last row"),
            (file(1, "1 0 0 0", 1), "row 2 of the matrix"),
            (file(1, identity, 1).replace("nxforms   = 1", "nxforms = 2"), "2 transforms"),
            (file(1, identity, 1).replace("1 4 4", "1 4 3"), "'1 4 4'"),
            ("type = 1\n".to_owned(), "nxforms"),
        ] {
            let said = read(&text).unwrap_err().to_string();
            assert!(said.contains(wanted), "{said}");
        }
    }
}
