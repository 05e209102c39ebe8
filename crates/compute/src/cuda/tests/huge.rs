//! Buffers of more than 2^31 and 2^32 elements: every family of operators, on a GPU with the memory for it.
//!
//! Images are zero but for a few marks: at the begin, across element 2^31, across element 2^32 and at the end.
//! An operator does the same to a mark wherever it is, so around each mark the result is that on a small grid
//! with one mark, which the conformance tests compare with the mathematics; and the sum of squares over all
//! of the large result, where an index that has lost its upper bits would show, is that of the small one as
//! often as there are marks. Where the place counts there is a formula.
//!
//! The same checks run on small grids with the kernels emulated.

mod families;
mod fields;
mod joint;
mod limits;

use super::*;
use crate::Dims;
use crate::cuda::CudaBuffer;
use crate::device::DeviceBuffer;
use crate::ops::Elementwise;

/// The sizes of a mark, and how far around it results are compared.
const MARK: Dims = [6, 5, 4];
const AROUND: usize = 4;
/// The grid with one mark, and its place.
const SMALL: Dims = [40, 34, 32];
const PLACE: Dims = [17, 14, 13];

/// Large grids.
pub(super) struct Grids {
    /// More than 2^32 voxels.
    scalar: Dims,
    /// More than 2^31 voxels, and so 3 * 2^31 elements of a field.
    field: Dims,
    /// The most that operators take which count voxels in 32 bits; more than 2^32 elements of a field.
    flow: Dims,
    /// An image of one plane with more than 2^32 pixels.
    plane: Dims,
    /// Bytes of the longest copy.
    bytes: usize,
}

impl Grids {
    const HUGE: Self = Self {
        scalar: [2048, 2048, 1080],
        field: [2048, 2048, 520],
        flow: [2048, 2048, 511],
        plane: [1 << 16, (1 << 16) + 3, 1],
        bytes: (1 << 32) + 12_345,
    };
    /// As small as marks allow.
    const EMULATED: Self = Self {
        scalar: [40, 38, 52],
        field: [40, 38, 46],
        flow: [40, 38, 46],
        plane: [97, 61, 1],
        bytes: 12_345,
    };
}

/// A grid with marks.
pub(super) struct Scene<'a> {
    cuda: &'a Cuda,
    dims: Dims,
    places: Vec<Dims>,
}

fn len(dims: Dims) -> usize {
    dims.iter().product()
}

/// Numbers between -1 and 1.
fn mark(seed: u64) -> Vec<f32> {
    let mixed = |i: u64| (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let number = |i: u64| mixed(mixed(i ^ (seed << 20))) >> 40;
    (0..len(MARK) as u64).map(|i| number(i) as f32 / (1 << 23) as f32 - 1.0).collect()
}

impl<'a> Scene<'a> {
    fn small(cuda: &'a Cuda) -> Self {
        Self { cuda, dims: SMALL, places: vec![PLACE] }
    }

    /// Marks at the begin, at the end and across the elements 2^31 and 2^32 of the grid (of an emulated one
    /// somewhere between). All are as far from an even place as that of the small grid.
    fn large(cuda: &'a Cuda, dims: Dims) -> Self {
        let slice = dims[0] * dims[1];
        let last = [0, 1, 2].map(|a| dims[a] - MARK[a] - [15, 10, 10][a]);
        let mut places = vec![[17, 10, 9], last];
        for element in [1usize << 31, 1 << 32] {
            let z = element / slice;
            if z > 20 && z + MARK[2] + AROUND + 6 < dims[2] {
                places.push([dims[0] / 2 - 3, dims[1] / 3, z - 2]);
            }
        }
        if cuda.is_emulated() {
            places.truncate(2);
        }
        for place in &mut places {
            // An even sum of distances: of one colour, too.
            let odd = (0..3).map(|a| place[a] + PLACE[a]).sum::<usize>() % 2;
            place[0] -= odd;
        }
        Self { cuda, dims, places }
    }

    fn n(&self) -> usize {
        len(self.dims)
    }

    /// The number of an element of a component.
    fn at(&self, component: usize, [x, y, z]: Dims) -> usize {
        component * self.n() + (z * self.dims[1] + y) * self.dims[0] + x
    }

    /// Zeros with marks times a factor, of one or several components.
    fn image(&self, components: usize, seed: u64, factor: f32) -> Result<CudaBuffer<f32>> {
        let mut image = self.cuda.alloc(components * self.n())?;
        for component in 0..components {
            let values: Vec<f32> =
                mark(seed + component as u64).iter().map(|v| factor * v).collect();
            for &[x, y, z] in &self.places {
                for (row, values) in values.chunks(MARK[0]).enumerate() {
                    let at = [x, y + row % MARK[1], z + row / MARK[1]];
                    self.cuda.write(values, &mut image, self.at(component, at))?;
                }
            }
        }
        Ok(image)
    }

    /// What is around a mark.
    fn around(&self, image: &CudaBuffer<f32>, component: usize, place: Dims) -> Result<Vec<f32>> {
        let [width, rows, slices] = MARK.map(|m| m + 2 * AROUND);
        let mut found = vec![0.0; width * rows * slices];
        for (row, to) in found.chunks_mut(width).enumerate() {
            let at =
                [row_of(place[0], 0), row_of(place[1], row % rows), row_of(place[2], row / rows)];
            self.cuda.read(image, self.at(component, at), to)?;
        }
        Ok(found)
    }
}

fn row_of(place: usize, row: usize) -> usize {
    place - AROUND + row
}

/// What an operator makes of a grid with marks.
pub(super) struct Made {
    image: CudaBuffer<f32>,
    components: usize,
    /// Whether it is zero far from all marks.
    is_local: bool,
}

impl Made {
    fn of(image: CudaBuffer<f32>, components: usize) -> Self {
        Self { image, components, is_local: true }
    }
}

/// Sums of squares, and how many elements are no numbers.
fn squares(cuda: &Cuda, image: &CudaBuffer<f32>) -> Result<[f64; 2]> {
    let found = cuda.reduce(&[image], &[Reduction::SumSquares(0), Reduction::CountNonFinite(0)])?;
    Ok([found[0], found[1]])
}

/// Compares what an operator makes around all marks of a large grid with what it makes of the small one.
fn same_everywhere(
    cuda: &Cuda,
    dims: Dims,
    name: &str,
    tolerance: f64,
    operator: impl Fn(&Scene<'_>) -> Result<Made>,
) {
    let start = std::time::Instant::now();
    let small = Scene::small(cuda);
    let made = operator(&small).unwrap_or_else(|e| panic!("{name}, small: {e}"));
    let expected: Vec<Vec<f32>> =
        (0..made.components).map(|c| small.around(&made.image, c, PLACE).unwrap()).collect();
    let most = expected.iter().flatten().fold(0f64, |m, v| m.max(f64::from(v.abs())));
    assert!(most > 0.0, "{name}: nothing to compare");
    let (is_local, of_small) = (made.is_local, squares(cuda, &made.image).unwrap());
    drop(made);

    let large = Scene::large(cuda, dims);
    let made = operator(&large).unwrap_or_else(|e| panic!("{name}, {dims:?}: {e}"));
    assert_eq!(made.image.len(), made.components * large.n(), "{name}");
    for &place in &large.places {
        for (c, expected) in expected.iter().enumerate() {
            let found = large.around(&made.image, c, place).unwrap();
            for (i, (f, e)) in found.iter().zip(expected).enumerate() {
                let error = (f64::from(*f) - f64::from(*e)).abs();
                assert!(
                    error <= tolerance * most,
                    "{name}: the mark at {place:?} of {dims:?}, component {c}, element {i}: {f}, not {e}"
                );
            }
        }
    }
    let [found, odd] = squares(cuda, &made.image).unwrap();
    assert_eq!(odd, 0.0, "{name}: not finite");
    if is_local {
        let expected = of_small[0] * large.places.len() as f64;
        let error = (found - expected).abs() / expected;
        assert!(error < 4.0 * tolerance.max(1e-6), "{name}: squares are {found}, not {expected}");
    }
    eprintln!("{name}, {} elements: {:.2?}", made.image.len(), start.elapsed());
}

/// The GPU, if the environment asks for tests of more than 2^32 elements.
fn gpu() -> Option<Cuda> {
    if std::env::var_os("VOXALIGN_TEST_HUGE").is_none_or(|v| v != "1") {
        eprintln!("skipped: VOXALIGN_TEST_HUGE is not 1");
        return None;
    }
    let name = std::env::var("VOXALIGN_TEST_DEVICE").unwrap_or_default();
    let number = match name.strip_prefix("cuda") {
        Some("") => 0,
        Some(rest) => rest.trim_start_matches(':').parse().unwrap(),
        None => panic!("VOXALIGN_TEST_HUGE=1 needs VOXALIGN_TEST_DEVICE=cuda"),
    };
    let cuda = Cuda::new(number).unwrap();
    let free = cuda.memory().free.unwrap();
    assert!(
        free >= 130 << 30,
        "VOXALIGN_TEST_HUGE=1 needs 130 GiB of GPU memory; {free} bytes are free"
    );
    Some(cuda)
}

/// One test, so that nothing else is in the memory meanwhile.
#[test]
fn huge_buffers_on_a_gpu() {
    let Some(cuda) = gpu() else { return };
    limits::run(&cuda);
    families::run(&cuda, &Grids::HUGE);
}

#[test]
fn the_same_on_small_grids() {
    let Some(cuda) = emulated() else { return };
    limits::run(&cuda);
    families::run(&cuda, &Grids::EMULATED);
}
