//! Sparse matrices against sums over all their entries.

use voxalign_compute::Device;
use voxalign_compute::ops::sparse::{Csr, Entries};

use crate::support::{Random, Results, assert_bits_of_cpu, assert_close};

/// A matrix of the host.
struct Matrix {
    entries: Entries,
    width: usize,
    rows: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl Matrix {
    /// Rows of about so many entries, one of them empty where there are several.
    fn new(entries: Entries, rows: usize, width: usize, mean: usize) -> Self {
        let mut random = Random::new(5);
        let (mut starts, mut columns) = (vec![0], Vec::new());
        for row in 0..rows {
            let count = if row == 1 { 0 } else { mean + row % 3 };
            let first = random.between(0.0, width as f64) as usize;
            columns.extend((0..count).map(|k| ((first + k * 7) % width) as u32));
            // The diagonal, where there is one.
            if count > 0 && row < width {
                columns.push(row as u32);
            }
            starts.push(columns.len() as u32);
        }
        let count = entries.numbers() * columns.len();
        let values = (0..count).map(|_| random.between(-2.0, 2.0) as f32).collect();
        Self { entries, width, rows: starts, columns, values }
    }

    /// The number in row `r` and column `c` of entry `k`.
    fn number(&self, k: usize, r: usize, c: usize) -> f64 {
        match self.entries {
            Entries::Numbers => f64::from(u8::from(r == c)) * f64::from(self.values[k]),
            Entries::Blocks => f64::from(self.values[(3 * r + c) * self.columns.len() + k]),
        }
    }

    fn row(&self, row: usize) -> std::ops::Range<usize> {
        self.rows[row] as usize..self.rows[row + 1] as usize
    }

    /// Its product, plainly.
    fn product(&self, x: &[f32]) -> Vec<f64> {
        let (n, components) = (self.rows.len() - 1, x.len() / self.width);
        let mut out = vec![0.0; components * n];
        for row in 0..n {
            for k in self.row(row) {
                for r in 0..components {
                    for c in 0..components {
                        let x = x[c * self.width + self.columns[k] as usize];
                        out[r * n + row] += self.number(k, r, c) * f64::from(x);
                    }
                }
            }
        }
        out
    }

    /// Gives it to `f` on a device.
    fn lend<D: Device, R>(&self, device: &D, f: impl FnOnce(&Csr<'_, D>) -> R) -> R {
        let rows = device.upload(&self.rows).unwrap();
        let columns = device.upload(&self.columns).unwrap();
        let values = device.upload(&self.values).unwrap();
        let (entries, width) = (self.entries, self.width);
        f(&Csr { entries, width, rows: &rows, columns: &columns, values: &values })
    }
}

/// Kinds of entries with the components of vectors.
const KINDS: [(Entries, usize); 3] =
    [(Entries::Numbers, 1), (Entries::Numbers, 3), (Entries::Blocks, 3)];

fn vector(seed: u64, n: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..n).map(|_| random.between(-1.0, 1.0) as f32).collect()
}

fn product_of<D: Device>(device: &D, matrix: &Matrix, x: &[f32]) -> Vec<f32> {
    let components = x.len() / matrix.width;
    let mut out = device.alloc(components * (matrix.rows.len() - 1)).unwrap();
    let x = device.upload(x).unwrap();
    matrix.lend(device, |matrix| device.product(matrix, &x, &mut out)).unwrap();
    device.into_host(out).unwrap()
}

pub(crate) fn product<D: Device>(device: &D) {
    for (kind, components) in KINDS {
        // One thread and one warp a row.
        for (rows, width, mean) in [(1, 1, 1), (70, 50, 6), (40, 300, 45), (700, 600, 12)] {
            let matrix = Matrix::new(kind, rows, width, mean);
            let x = vector(6, components * width);
            let found = product_of(device, &matrix, &x);
            assert_close(&format!("{kind:?} {rows}"), &found, &matrix.product(&x), 1e-4);
        }
    }
}

fn chebyshev_of<D: Device>(device: &D, matrix: &Matrix, [before, v, f]: [&[f32]; 3]) -> Vec<f32> {
    let mut out = device.alloc(v.len()).unwrap();
    let [before, v, f] = [before, v, f].map(|values| device.upload(values).unwrap());
    let iterate =
        |matrix: &Csr<'_, D>| device.chebyshev(matrix, &before, &v, &f, [1.3, 0.4], &mut out);
    matrix.lend(device, iterate).unwrap();
    device.into_host(out).unwrap()
}

pub(crate) fn chebyshev<D: Device>(device: &D) {
    for (kind, components) in KINDS {
        for (rows, mean) in [(1, 1), (70, 6), (40, 45), (700, 12)] {
            let matrix = Matrix::new(kind, rows, rows, mean);
            let [before, v, f] = [6, 7, 8].map(|seed| vector(seed, components * rows));
            let found = chebyshev_of(device, &matrix, [&before, &v, &f]);
            let product = matrix.product(&v);
            let expected: Vec<f64> = (0..v.len())
                .map(|i| {
                    let [before, v, f] = [before[i], v[i], f[i]].map(f64::from);
                    before + 1.3 * (v - before + 0.4 * (f - product[i]))
                })
                .collect();
            assert_close(&format!("{kind:?} {rows}"), &found, &expected, 1e-4);
        }
    }
}

/// Lists of contributions for so many entries; the second has none.
fn contributions(entries: usize) -> [Vec<u32>; 2] {
    let (mut starts, mut list) = (vec![0], Vec::new());
    for k in 0..entries {
        let count = if k == 1 { 0 } else { k % 5 + 1 };
        list.extend((0..count).map(|i| ((k * 11 + i * 3) % (2 * entries)) as u32));
        starts.push(list.len() as u32);
    }
    [starts, list]
}

fn refilled<D: Device>(device: &D, kind: Entries, entries: usize, from: &[f32]) -> Vec<f32> {
    let [starts, list] = contributions(entries).map(|l| device.upload(&l).unwrap());
    let mut values = device.alloc(kind.numbers() * entries).unwrap();
    let from = device.upload(from).unwrap();
    device.refill(kind, &from, &starts, &list, &mut values).unwrap();
    device.into_host(values).unwrap()
}

pub(crate) fn refill<D: Device>(device: &D) {
    for kind in [Entries::Numbers, Entries::Blocks] {
        for entries in [1, 2, 300] {
            let count = 2 * entries;
            let from = vector(7, kind.numbers() * count);
            let [starts, list] = contributions(entries);
            let mut expected = vec![0.0; kind.numbers() * entries];
            for plane in 0..kind.numbers() {
                for k in 0..entries {
                    for &c in &list[starts[k] as usize..starts[k + 1] as usize] {
                        expected[plane * entries + k] +=
                            f64::from(from[plane * count + c as usize]);
                    }
                }
            }
            let found = refilled(device, kind, entries, &from);
            assert_close(&format!("{kind:?} {entries}"), &found, &expected, 1e-6);
        }
    }
}

fn dense<D: Device>(device: &D, size: usize, vectors: usize) -> Vec<f32> {
    let matrix = device.upload(&vector(8, size * size)).unwrap();
    let x = device.upload(&vector(9, size * vectors)).unwrap();
    let mut out = device.alloc(size * vectors).unwrap();
    device.dense_product(&matrix, size, &x, &mut out).unwrap();
    device.into_host(out).unwrap()
}

pub(crate) fn dense_product<D: Device>(device: &D) {
    for (size, vectors) in [(1, 1), (31, 1), (75, 6), (130, 3)] {
        let (matrix, x) = (vector(8, size * size), vector(9, size * vectors));
        let expected: Vec<f64> = (0..size * vectors)
            .map(|i| {
                let (row, first) = (i % size, i / size * size);
                let term = |k: usize| f64::from(matrix[row * size + k]) * f64::from(x[first + k]);
                (0..size).map(term).sum()
            })
            .collect();
        assert_close(&format!("{size} {vectors}"), &dense(device, size, vectors), &expected, 1e-5);
    }
    assert!(dense(device, 0, 0).is_empty());
}

/// The inverses of the diagonal, and what they make of a vector.
fn jacobi<D: Device>(device: &D, matrix: &Matrix, x: &[f32]) -> [Vec<f32>; 2] {
    let n = matrix.rows.len() - 1;
    let mut diagonal = device.alloc(matrix.entries.numbers() * n).unwrap();
    matrix.lend(device, |matrix| device.inverse_diagonal(matrix, &mut diagonal)).unwrap();
    let (x, mut out) = (device.upload(x).unwrap(), device.alloc(x.len()).unwrap());
    device.diagonal_product(matrix.entries, &diagonal, &x, &mut out).unwrap();
    [diagonal, out].map(|b| device.into_host(b).unwrap())
}

/// What the diagonal makes of what its inverse makes of a vector is that vector.
pub(crate) fn diagonal<D: Device>(device: &D) {
    for (kind, components) in KINDS {
        let mut matrix = Matrix::new(kind, 300, 300, 5);
        // Diagonal entries that are far from singular; the last one has no inverse.
        for row in 0..300 {
            for k in matrix.row(row).filter(|&k| matrix.columns[k] as usize == row) {
                for plane in (0..kind.numbers()).step_by(4) {
                    let at = plane * matrix.columns.len() + k;
                    matrix.values[at] += 9.0;
                }
                if row == 299 {
                    for plane in 0..kind.numbers() {
                        matrix.values[plane * matrix.columns.len() + k] = 0.0;
                    }
                }
            }
        }
        let x = vector(10, components * 300);
        let [inverse, found] = jacobi(device, &matrix, &x);
        for row in 0..300 {
            let first = matrix.row(row).find(|&k| matrix.columns[k] as usize == row);
            let Some(k) = first.filter(|_| row < 299) else {
                assert!(inverse.iter().skip(row).step_by(300).all(|&v| v == 0.0), "{row}");
                continue;
            };
            for r in 0..components {
                let term = |c: usize| matrix.number(k, r, c) * f64::from(found[c * 300 + row]);
                let back: f64 = (0..components).map(term).sum();
                let x = f64::from(x[r * 300 + row]);
                assert!((back - x).abs() < 1e-5, "{kind:?} {row}: {back} {x}");
            }
        }
    }
}

pub(crate) fn errors<D: Device>(device: &D) {
    let kind = Entries::Blocks;
    let matrix = Matrix::new(kind, 4, 5, 2);
    let floats = |n: usize| device.alloc::<f32>(n).unwrap();
    let product = |matrix: &Matrix, x: usize, out: usize| {
        matrix.lend(device, |m| device.product(m, &floats(x), &mut floats(out)))
    };
    assert!(product(&matrix, 15, 12).is_ok());
    assert!(product(&matrix, 5, 12).is_err());
    assert!(product(&matrix, 15, 4).is_err());
    assert!(product(&matrix, 12, 12).is_err());
    let chebyshev = |before: usize, v: usize, f: usize, out: usize| {
        let square = Matrix::new(kind, 4, 4, 2);
        let [before, v, f] = [before, v, f].map(floats);
        let mut out = floats(out);
        square.lend(device, |m| device.chebyshev(m, &before, &v, &f, [1.0, 1.0], &mut out))
    };
    assert!(chebyshev(12, 12, 12, 12).is_ok());
    for wrong in [(4, 12, 12, 12), (12, 4, 12, 12), (12, 12, 4, 12), (12, 12, 12, 4)] {
        assert!(chebyshev(wrong.0, wrong.1, wrong.2, wrong.3).is_err(), "{wrong:?}");
    }
    let oblong = matrix.lend(device, |m| {
        let all = [12, 15, 12].map(floats);
        device.chebyshev(m, &all[0], &all[1], &all[2], [1.0, 1.0], &mut floats(12))
    });
    assert!(oblong.is_err(), "it is not square");
    let inverse = matrix.lend(device, |m| device.inverse_diagonal(m, &mut floats(36)));
    assert!(inverse.is_err(), "it is not square");
    let numbers = Matrix { entries: Entries::Numbers, ..matrix };
    assert!(product(&numbers, 15, 12).is_err(), "too many values");
    let none = Matrix { rows: Vec::new(), ..Matrix::new(kind, 4, 5, 2) };
    assert!(product(&none, 15, 12).is_err(), "no start of rows");
    let empty = Matrix { rows: vec![0], columns: vec![], values: vec![], ..none };
    assert!(product(&empty, 15, 0).is_ok());
    let (starts, list) = (device.alloc::<u32>(3).unwrap(), device.alloc::<u32>(2).unwrap());
    let refill = |from: usize, values: usize| {
        device.refill(kind, &floats(from), &starts, &list, &mut floats(values))
    };
    assert!(refill(9, 18).is_ok());
    assert!(refill(8, 18).is_err());
    assert!(refill(0, 18).is_err());
    assert!(refill(9, 9).is_err());
    let dense = |matrix: usize, x: usize, out: usize| {
        device.dense_product(&floats(matrix), 3, &floats(x), &mut floats(out))
    };
    assert!(dense(9, 6, 6).is_ok());
    assert!(dense(8, 6, 6).is_err());
    assert!(dense(9, 5, 5).is_err());
    assert!(dense(9, 6, 3).is_err());
    let jacobi = |diagonal: usize, x: usize, out: usize| {
        device.diagonal_product(kind, &floats(diagonal), &floats(x), &mut floats(out))
    };
    assert!(jacobi(18, 6, 6).is_ok());
    assert!(jacobi(17, 6, 6).is_err());
    assert!(jacobi(18, 2, 2).is_err());
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for (kind, components) in KINDS {
        for mean in [7, 50] {
            let matrix = Matrix::new(kind, 1500, 1500, mean);
            let x = vector(11, components * 1500);
            let [inverse, applied] = jacobi(device, &matrix, &x);
            let name = format!("{kind:?} {components} {mean}");
            results.push((format!("{name}, product"), product_of(device, &matrix, &x)));
            let [before, f] = [13, 14].map(|seed| vector(seed, x.len()));
            let iterate = chebyshev_of(device, &matrix, [&before, &x, &f]);
            results.push((format!("{name}, Chebyshev"), iterate));
            results.push((format!("{name}, diagonal"), inverse));
            results.push((format!("{name}, Jacobi"), applied));
        }
        let from = vector(12, kind.numbers() * 4000);
        results.push((format!("{kind:?}, refill"), refilled(device, kind, 2000, &from)));
    }
    results.push(("dense".into(), dense(device, 150, 5)));
    results
}
