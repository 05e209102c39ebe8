//! Interpolation at points and its adjoint against one point at a time.

use voxalign_compute::ops::SplatScheme;
use voxalign_compute::ops::splat::{Beyond, Lattice, Spline};
use voxalign_compute::{Device, Dims};

use crate::support::{Random, Results, assert_bits_of_cpu, assert_close, indices, len, offset};

/// Sizes that are tiny, flat and odd: fewer than elsewhere, as there are many kinds of grid and of points.
pub(crate) const GRIDS: [Dims; 6] =
    [[1, 1, 1], [2, 1, 1], [16, 11, 1], [1, 9, 8], [5, 1, 12], [13, 9, 6]];

/// All kinds of grid of these sizes.
pub(crate) fn lattices(dims: Dims) -> Vec<Lattice> {
    let all = [Beyond::Nothing, Beyond::Nearest, Beyond::Wrapped];
    let of = |spline| all.map(|beyond| Lattice { dims, beyond, spline });
    [Spline::Linear, Spline::Cubic].into_iter().flat_map(of).collect()
}

/// The cubic B-spline, and its derivative.
fn spline(x: f64) -> [f64; 2] {
    let (r, sign) = (x.abs(), x.signum());
    match r {
        r if r < 1.0 => [2.0 / 3.0 - r * r + r.powi(3) / 2.0, sign * (1.5 * r * r - 2.0 * r)],
        r if r < 2.0 => [(2.0 - r).powi(3) / 6.0, -sign * (2.0 - r).powi(2) / 2.0],
        _ => [0.0; 2],
    }
}

/// Some points of a grid, some at voxels, some beyond; all in one place where `spread` is zero.
fn positions(dims: Dims, count: usize, spread: f64) -> Vec<f32> {
    let mut random = Random::new(77);
    let mut positions = vec![0.0; 3 * count];
    for (k, position) in positions.iter_mut().enumerate() {
        let n = dims[k / count] as f64;
        let p = 0.5 * (n - 1.0) + spread * (0.7 * n + 1.0) * random.between(-1.0, 1.0);
        *position = if k % 7 == 0 { p.round() as f32 } else { p as f32 };
    }
    if count > 3 {
        positions[2] = f32::NAN;
        positions[3] = 1e30;
    }
    positions
}

/// Displacements of all voxels of a grid into another.
fn displacements(of: Dims, dims: Dims) -> Vec<f32> {
    let n = len(of);
    let mut field = vec![0.0; 3 * n];
    for (i, at) in indices(of).enumerate() {
        for a in 0..3 {
            let to = (at[a] as f64 + 0.5) * dims[a] as f64 / of[a] as f64 - 0.5;
            let wave = 0.8 * ((at[0] + 2 * at[1] + 3 * at[2]) as f64 * 0.17 + a as f64).sin();
            field[a * n + i] = (to + wave - at[a] as f64) as f32;
        }
    }
    field
}

/// The voxels of a position with their weights, and the derivatives of these; none beyond the grid.
pub(crate) fn weights(at: [f64; 3], lattice: Lattice) -> Vec<([usize; 3], f64, [f64; 3])> {
    let mut all = vec![([0; 3], 1.0, [1.0; 3])];
    for a in 0..3 {
        let (n, p) = (lattice.dims[a] as f64, at[a]);
        let (place, still) = match lattice.beyond {
            _ if p.is_nan() => return Vec::new(),
            Beyond::Nothing if p < -0.5 || p > n - 0.5 => return Vec::new(),
            Beyond::Wrapped if p.abs() > 4_194_304.0 => return Vec::new(),
            Beyond::Wrapped => (p, false),
            _ => (p.clamp(0.0, n - 1.0), p.clamp(0.0, n - 1.0) != p),
        };
        // The last voxel belongs to the cell before it.
        let low = match lattice.beyond {
            Beyond::Wrapped => place.floor(),
            _ => place.floor().min((n - 2.0).max(0.0)),
        };
        let axis: Vec<(usize, f64, f64)> = (-1..=2)
            .map(|k| {
                let node = low + f64::from(k);
                let index = match lattice.beyond {
                    Beyond::Wrapped => node.rem_euclid(n),
                    _ => node.clamp(0.0, n - 1.0),
                };
                let off = place - node;
                let [weight, derivative] = match lattice.spline {
                    Spline::Cubic => spline(off),
                    // On the cell of `low`.
                    Spline::Linear if k == 0 => [1.0 - off, -1.0],
                    Spline::Linear if k == 1 => [1.0 + off, 1.0],
                    Spline::Linear => [0.0; 2],
                };
                (
                    index as usize,
                    weight,
                    if still || lattice.dims[a] == 1 { 0.0 } else { derivative },
                )
            })
            .collect();
        all = all
            .into_iter()
            .flat_map(|(index, weight, derivatives)| {
                axis.iter().map(move |&(i, w, s)| {
                    let mut to = (index, weight * w, derivatives);
                    to.0[a] = i;
                    for b in 0..3 {
                        to.2[b] *= if a == b { s } else { w };
                    }
                    to
                })
            })
            .collect();
    }
    all
}

/// Where the points are.
pub(crate) fn places(positions: &[f32], of: Option<Dims>) -> Vec<[f64; 3]> {
    let count = positions.len() / 3;
    let base: Vec<[usize; 3]> = of.map_or(vec![[0; 3]; count], |of| indices(of).collect());
    // Positions are single precision, that of a displaced voxel too.
    let at = |i: usize, a: usize| base[i][a] as f32 + positions[a * count + i];
    (0..count).map(|i| [0, 1, 2].map(|a| f64::from(at(i, a)))).collect()
}

/// Points with the sizes of the grid that they displace, if they do.
fn clouds(dims: Dims) -> Vec<(Vec<f32>, Option<Dims>)> {
    let of = [dims[0] + 3, dims[1], dims[2] + 1];
    vec![
        (positions(dims, 1, 0.5), None),
        (positions(dims, 300, 1.0), None),
        (positions(dims, 600, 0.0), None),
        (displacements(of, dims), Some(of)),
    ]
}

fn splatted<D: Device>(
    device: &D,
    values: &[f32],
    (positions, of): &(Vec<f32>, Option<Dims>),
    lattice: Lattice,
    scheme: SplatScheme,
) -> Vec<f32> {
    let components = 3 * values.len() / positions.len();
    let values = device.upload(values).unwrap();
    let positions = device.upload(positions).unwrap();
    let mut out = device.alloc(components * len(lattice.dims)).unwrap();
    device.splat(&values, &positions, *of, lattice, scheme, &mut out).unwrap();
    device.into_host(out).unwrap()
}

fn gathered<D: Device>(
    device: &D,
    image: &[f32],
    (positions, of): &(Vec<f32>, Option<Dims>),
    lattice: Lattice,
) -> [Vec<f32>; 2] {
    let (components, count) = (image.len() / len(lattice.dims), positions.len() / 3);
    let image = device.upload(image).unwrap();
    let positions = device.upload(positions).unwrap();
    let mut out = device.alloc(components * count).unwrap();
    let moments = device.upload(&moments(components * count)).unwrap();
    let mut derivatives = device.alloc(3 * count).unwrap();
    let mut alone = device.alloc(components * count).unwrap();
    device.gather(&image, lattice, &positions, *of, &mut alone).unwrap();
    device
        .gather_with_gradients(
            &image,
            lattice,
            &positions,
            *of,
            &moments,
            &mut out,
            &mut derivatives,
        )
        .unwrap();
    let [out, derivatives, alone] = [out, derivatives, alone].map(|b| device.into_host(b).unwrap());
    assert!(out.iter().zip(&alone).all(|(a, b)| a.to_bits() == b.to_bits()));
    [out, derivatives]
}

fn moments(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i as f32 * 0.7).cos()).collect()
}

fn random(count: usize) -> Vec<f32> {
    let mut random = Random::new(5);
    (0..count).map(|_| random.between(-3.0, 2.0) as f32).collect()
}

pub(crate) fn values<D: Device>(device: &D) {
    for dims in GRIDS {
        for cloud in clouds(dims) {
            for lattice in lattices(dims) {
                let (count, components, n) = (cloud.0.len() / 3, 2, len(dims));
                let image = random(components * n);
                let [out, derivatives] = gathered(device, &image, &cloud, lattice);
                let moments = moments(components * count);
                let mut expected = [vec![0.0; components * count], vec![0.0; 3 * count]];
                for (i, at) in places(&cloud.0, cloud.1).into_iter().enumerate() {
                    for (index, weight, derivative) in weights(at, lattice) {
                        for c in 0..components {
                            let value = f64::from(image[c * n + offset(dims, index)]);
                            expected[0][c * count + i] += weight * value;
                            for a in 0..3 {
                                expected[1][a * count + i] +=
                                    derivative[a] * value * f64::from(moments[c * count + i]);
                            }
                        }
                    }
                }
                assert_close("values", &out, &expected[0], 2e-5);
                assert_close("derivatives", &derivatives, &expected[1], 2e-5);
            }
        }
    }
}

pub(crate) fn sums<D: Device>(device: &D) {
    for dims in GRIDS {
        for cloud in clouds(dims) {
            for lattice in lattices(dims) {
                let (count, components, n) = (cloud.0.len() / 3, 3, len(dims));
                let values = random(components * count);
                let mut expected = vec![0.0; components * n];
                for (i, at) in places(&cloud.0, cloud.1).into_iter().enumerate() {
                    for (index, weight, _) in weights(at, lattice) {
                        for c in 0..components {
                            expected[c * n + offset(dims, index)] +=
                                weight * f64::from(values[c * count + i]);
                        }
                    }
                }
                for scheme in SplatScheme::ALL {
                    let found = splatted(device, &values, &cloud, lattice, scheme);
                    let most = expected.iter().fold(1.0f64, |m, e| m.max(e.abs()));
                    assert_close(&format!("{scheme:?}"), &found, &expected, 2e-6 * most.max(10.0));
                }
            }
        }
    }
}

/// What is added to the voxels that points reach is what they have alone, once; others stay as they are.
pub(crate) fn added<D: Device>(device: &D) {
    for dims in GRIDS {
        // As few as one block of a GPU takes, one more, and some.
        let few = [16, 17, 128, 129].map(|count| (positions(dims, count, 0.8), None));
        for (positions, _) in clouds(dims).into_iter().chain(few).filter(|c| c.1.is_none()) {
            for lattice in lattices(dims) {
                let (count, n) = (positions.len() / 3, len(dims));
                let (values, before) = (random(3 * count), random(3 * n));
                let cloud = (positions.clone(), None);
                let alone = splatted(device, &values, &cloud, lattice, SplatScheme::default());
                let [at, of] = [&positions, &values].map(|list| device.upload(list).unwrap());
                let mut out = device.upload(&before).unwrap();
                device.add_splat(&of, &at, lattice, &mut out).unwrap();
                let found = device.into_host(out).unwrap();
                let mut reached = vec![false; n];
                for at in places(&positions, None) {
                    weights(at, lattice).iter().for_each(|w| reached[offset(dims, w.0)] = true);
                }
                for (i, found) in found.iter().enumerate() {
                    let expected = before[i] + if reached[i % n] { alone[i] } else { 0.0 };
                    assert_eq!(found.to_bits(), expected.to_bits(), "{i} of {dims:?} {lattice:?}");
                }
            }
        }
    }
    // Nothing of no points; what is not finite is not lost.
    let lattice = Lattice::linear([3, 2, 2], Beyond::Nearest);
    for (value, count) in [(1.0, 0), (f32::NAN, 1), (f32::INFINITY, 1), (f32::NAN, 200)] {
        let values = device.upload(&vec![value; count]).unwrap();
        let positions = device.upload(&vec![0.25; 3 * count]).unwrap();
        let mut out = device.upload(&[2.0; 12]).unwrap();
        device.add_splat(&values, &positions, lattice, &mut out).unwrap();
        let found = device.into_host(out).unwrap();
        assert_eq!(found[0].is_nan(), count > 0);
        assert!(found[2] == 2.0);
    }
    let [values, positions] = [2, 3].map(|n| device.alloc::<f32>(n).unwrap());
    let mut out = device.alloc::<f32>(12).unwrap();
    assert!(device.add_splat(&values, &positions, lattice, &mut out).is_err());
}

/// Where a displacement leads to given positions, by the interpolation of `f64`.
pub(crate) fn origins<D: Device>(device: &D) {
    for dims in GRIDS {
        let (n, count) = (len(dims), 90);
        // Without folds: it changes by less than half a voxel from one to the next.
        let field: Vec<f32> = (0..3 * n)
            .map(|i| {
                let [x, y, z] =
                    [i % n % dims[0], i % n / dims[0] % dims[1], i % n / dims[0] / dims[1]];
                0.9 * ((x + y) as f32 * 0.31 + z as f32 * 0.23 + (i / n) as f32).sin()
            })
            .collect();
        let lattice = Lattice::linear(dims, Beyond::Nearest);
        let mut random = Random::new(3);
        let to: Vec<f32> = (0..3 * count)
            .map(|i| ((dims[i / count] as f64 + 1.0) * random.between(0.0, 1.0) - 1.0) as f32)
            .collect();
        let [on_device, at] = [&field, &to].map(|list| device.upload(list).unwrap());
        let mut out = device.upload(&to).unwrap();
        device.origins(&on_device, lattice, &at, &mut out).unwrap();
        let found = device.into_host(out).unwrap();
        for (i, place) in places(&found, None).into_iter().enumerate() {
            for a in 0..3 {
                let moved: f64 = weights(place, lattice)
                    .iter()
                    .map(|(index, w, _)| w * f64::from(field[a * n + offset(dims, *index)]))
                    .sum();
                let off = place[a] + moved - f64::from(to[a * count + i]);
                assert!(off.abs() < 2e-4, "{dims:?}, point {i}: {off}");
            }
        }
        assert!(device.origins(&at, lattice, &at, &mut device.alloc(7).unwrap()).is_err());
    }
}

/// `⟨N I, e⟩ = ⟨I, Nᵀ e⟩`.
pub(crate) fn adjoint<D: Device>(device: &D) {
    for dims in GRIDS {
        for cloud in clouds(dims) {
            for lattice in lattices(dims) {
                let count = cloud.0.len() / 3;
                let (image, e) = (random(len(dims)), random(count));
                let [there, _] = gathered(device, &image, &cloud, lattice);
                let back = splatted(device, &e, &cloud, lattice, SplatScheme::default());
                let dot = |a: &[f32], b: &[f32]| {
                    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
                    let (sum, size): (f64, f64) =
                        products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()));
                    (sum, size)
                };
                let (of_points, size) = dot(&there, &e);
                let (of_voxels, _) = dot(&image, &back);
                assert!(
                    (of_points - of_voxels).abs() <= 1e-6 * size.max(1e-9),
                    "{dims:?} {lattice:?}: {of_points} and {of_voxels}"
                );
            }
        }
    }
}

/// Points at the voxels of the grid give an image back as it is.
pub(crate) fn of_itself<D: Device>(device: &D) {
    for dims in GRIDS {
        let image = random(len(dims));
        let still = (vec![0.0; 3 * len(dims)], Some(dims));
        for lattice in lattices(dims).into_iter().filter(|l| l.spline == Spline::Linear) {
            assert_eq!(gathered(device, &image, &still, lattice)[0], image);
            for scheme in SplatScheme::ALL {
                assert_eq!(splatted(device, &image, &still, lattice, scheme), image);
            }
        }
    }
}

/// All schemes give the same bits, and do not care for the order of the points.
pub(crate) fn schemes<D: Device>(device: &D) {
    let dims = [19, 12, 9];
    for cloud in clouds(dims) {
        let count = cloud.0.len() / 3;
        let values = random(2 * count);
        for lattice in lattices(dims) {
            let space = lattice;
            let first = splatted(device, &values, &cloud, space, SplatScheme::default());
            for scheme in SplatScheme::ALL {
                let found = splatted(device, &values, &cloud, space, scheme);
                assert!(first.iter().zip(&found).all(|(a, b)| a.to_bits() == b.to_bits()));
            }
            if cloud.1.is_none() {
                let turned = |list: &[f32]| -> Vec<f32> {
                    list.chunks(count).flat_map(|c| c.iter().rev().copied()).collect()
                };
                let cloud = (turned(&cloud.0), None);
                let found =
                    splatted(device, &turned(&values), &cloud, space, SplatScheme::default());
                assert!(first.iter().zip(&found).all(|(a, b)| a.to_bits() == b.to_bits()));
            }
        }
    }
}

pub(crate) fn extremes<D: Device>(device: &D) {
    let dims = [4, 3, 2];
    // Many large values of one sign at one place: nothing overflows.
    let count = 5000;
    let cloud = (vec![1.0; 3 * count], None);
    for scheme in SplatScheme::ALL {
        for value in [3e38f32, -3e30, 1e-45, 0.0] {
            let values = vec![value; count];
            let found =
                splatted(device, &values, &cloud, Lattice::linear(dims, Beyond::Nothing), scheme);
            let exact = f64::from(value) * count as f64;
            let there = offset(dims, [1, 1, 1]);
            assert_eq!(found[there], exact as f32, "{scheme:?}");
            assert!(found.iter().enumerate().all(|(i, &f)| i == there || f == 0.0));
        }
        // Values that are not finite are not lost.
        for value in [f32::INFINITY, f32::NAN] {
            let mut values = vec![1.0; count];
            values[7] = value;
            let found =
                splatted(device, &values, &cloud, Lattice::linear(dims, Beyond::Nothing), scheme);
            assert!(found.iter().all(|f| f.is_nan()));
        }
        // No points.
        let none = (Vec::new(), None);
        let values = device.alloc::<f32>(0).unwrap();
        let positions = device.upload(&none.0).unwrap();
        let mut out = device.upload(&vec![1.0; len(dims)]).unwrap();
        device
            .splat(
                &values,
                &positions,
                none.1,
                Lattice::linear(dims, Beyond::Nearest),
                scheme,
                &mut out,
            )
            .unwrap();
        assert!(device.into_host(out).unwrap().iter().all(|&f| f == 0.0));
    }
}

pub(crate) fn errors<D: Device>(device: &D) {
    let scheme = SplatScheme::default();
    let of_sizes = |dims| Lattice::linear(dims, Beyond::Nothing);
    let lattice = of_sizes([3, 2, 2]);
    let alloc = |n: usize| device.alloc::<f32>(n).unwrap();
    let (values, positions, image) = (alloc(5), alloc(15), alloc(12));
    let (mut out, mut derivatives, mut grid) = (alloc(5), alloc(15), alloc(12));
    let wrong = alloc(14);
    assert!(device.splat(&values, &positions, None, lattice, scheme, &mut grid).is_ok());
    assert!(device.splat(&values, &wrong, None, lattice, scheme, &mut grid).is_err());
    assert!(device.splat(&wrong, &positions, None, lattice, scheme, &mut grid).is_err());
    let of = Some([5, 2, 1]);
    assert!(device.splat(&values, &positions, of, lattice, scheme, &mut grid).is_err());
    assert!(
        device.splat(&values, &positions, None, of_sizes([3, 2, 0]), scheme, &mut grid).is_err()
    );
    assert!(device.gather(&image, lattice, &positions, None, &mut out).is_ok());
    assert!(device.gather(&image, of_sizes([5, 2, 2]), &positions, None, &mut out).is_err());
    assert!(device.gather(&image, lattice, &positions, None, &mut derivatives).is_err());
    let moments = alloc(5);
    let mut with = |moments: &D::Buffer<f32>, derivatives: &mut D::Buffer<f32>| {
        device.gather_with_gradients(
            &image,
            lattice,
            &positions,
            None,
            moments,
            &mut out,
            derivatives,
        )
    };
    assert!(with(&moments, &mut derivatives).is_ok());
    assert!(with(&moments, &mut alloc(5)).is_err());
    assert!(with(&alloc(6), &mut derivatives).is_err());
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for dims in GRIDS {
        for (k, cloud) in clouds(dims).into_iter().enumerate() {
            for lattice in lattices(dims) {
                let name = |what: &str| format!("{what} of {dims:?}, cloud {k}, {lattice:?}");
                let (count, space) = (cloud.0.len() / 3, lattice);
                let [out, derivatives] = gathered(device, &random(2 * len(dims)), &cloud, space);
                results.push((name("values"), out));
                results.push((name("derivatives"), derivatives));
                let found =
                    splatted(device, &random(2 * count), &cloud, space, SplatScheme::default());
                results.push((name("sums"), found));
                if cloud.1.is_none() {
                    let [at, field] =
                        [&cloud.0, &random(3 * len(dims))].map(|l| device.upload(l).unwrap());
                    let mut out = device.upload(&cloud.0).unwrap();
                    device.origins(&field, lattice, &at, &mut out).unwrap();
                    results.push((name("origins"), device.into_host(out).unwrap()));
                    let [at, of] =
                        [&cloud.0, &random(2 * count)].map(|l| device.upload(l).unwrap());
                    let mut out = device.upload(&random(2 * len(dims))).unwrap();
                    device.add_splat(&of, &at, lattice, &mut out).unwrap();
                    results.push((name("added"), device.into_host(out).unwrap()));
                }
            }
        }
    }
    results
}
