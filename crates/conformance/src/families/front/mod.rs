//! Fronts against one point at a time.

pub(crate) mod cases;

use voxalign_compute::ops::front::{
    Gaussian, Layout, Log, Measured, Object, Planned, Rule, Slot, Step, TOTALS, Tiles, TwoMeans,
    Units, means,
};
use voxalign_compute::{Device, Dims};

use cases::{Case, SIZES, State, advanced, axes, count, expected_slot, front};

use crate::support::{Results, assert_bits_of_cpu, len, offset};

/// Iterations under signs that do not change, of tiles and of all points: the set and what is counted, after each.
pub(crate) fn steps<D: Device>(device: &D) {
    for dims in SIZES {
        for axes in axes(dims) {
            let layout = Layout::new(dims, axes).unwrap();
            for seed in [1, 2] {
                let case = Case::new(dims, seed);
                let values = device.upload(&case.values).unwrap();
                let measured = || Some(Measured { values: &values, units: case.units() });
                let mut by_tiles = State::new(device, &layout, &case.set);
                let mut by_words = State::new(device, &layout, &case.set);
                for state in [&mut by_tiles, &mut by_words] {
                    state.begin(device, measured());
                    state.give_signs(device, &case.signs);
                }
                let name = format!("{dims:?} {axes} {seed}");
                let (mut before, mut set) = (vec![false; len(dims)], case.set.clone());
                let (mut inner, mut outer) = (0, 0);
                let mut ended = [0, set.len() as i64].contains(&count(&set));
                for number in 0..14 {
                    let step = Step { number, ends_on_repeats: true };
                    by_tiles.plan(device, step, Planned::Changes);
                    by_tiles.step(device, step, measured());
                    by_words.step_all(device, step, measured());
                    let [of_tiles, of_words] =
                        [&by_tiles, &by_words].map(|s| s.slot(device, number));
                    if ended {
                        assert_eq!([of_tiles, of_words], [Slot::default(); 2], "{name} {number}");
                        // Where nothing is done, nothing is written.
                        for state in [&mut by_tiles, &mut by_words] {
                            std::mem::swap(&mut state.set, &mut state.next);
                            assert_eq!(state.set(device), set);
                            std::mem::swap(&mut state.set, &mut state.next);
                        }
                        break;
                    }
                    let next = advanced(&layout, &set, &case.signs);
                    let mut expected = expected_slot(&case, &layout, [&before, &set, &next]);
                    assert_eq!(by_tiles.set(device), next, "{name} {number}: tiles");
                    assert_eq!(by_words.set(device), next, "{name} {number}: words");
                    let tiles = layout.tiles() as i64;
                    assert_eq!(of_words, Slot { tiles, ..expected }, "{name} {number}: words");
                    assert!(of_tiles.tiles <= tiles && (number > 0 || of_tiles.tiles == tiles));
                    let changes = [expected.inner - inner, expected.outer - outer];
                    (inner, outer) = (expected.inner, expected.outer);
                    [expected.inner, expected.outer] = changes;
                    expected.tiles = of_tiles.tiles;
                    assert_eq!(of_tiles, expected, "{name} {number}: tiles");
                    let totals = by_tiles.totals(device);
                    assert_eq!(totals, by_words.totals(device));
                    let [sum, squares] = case.sums(&next);
                    assert_eq!(
                        [totals.size, totals.sum, totals.squares],
                        [count(&next), sum, squares]
                    );
                    let all = case.sums(&vec![true; next.len()]);
                    assert_eq!([totals.all, totals.all_squares], all);
                    ended = next == set || [0, set.len() as i64].contains(&count(&next));
                    before = std::mem::replace(&mut set, next);
                }
            }
        }
    }
}

/// Plans are those of tiles that changed and of those that touch them, and with fronts those that have points of it; without signs there is nothing to do
/// after the first.
pub(crate) fn plans<D: Device>(device: &D) {
    for dims in [[130, 67, 1], [37, 23, 19]] {
        let layout = Layout::new(dims, 1).unwrap();
        let (tile, grid) = (layout.tile(), layout.grid());
        let of_tile = |p: usize| {
            let at = [p % dims[0], p / dims[0] % dims[1], p / (dims[0] * dims[1])];
            offset(grid, [0, 1, 2].map(|a| at[a] / tile[a]))
        };
        // A ball that grows on one side.
        let is_in = |p: usize| {
            let at = [p % dims[0], p / dims[0] % dims[1], p / (dims[0] * dims[1])];
            at.iter().zip(dims).map(|(c, n)| (*c as f64 - n as f64 / 2.0).powi(2)).sum::<f64>()
                < 40.0
        };
        let mut set: Vec<bool> = (0..len(dims)).map(is_in).collect();
        let right: Vec<bool> = (0..len(dims)).map(|p| p % dims[0] > dims[0] / 2).collect();
        let signs = [right, vec![false; len(dims)]];
        for planned in [Planned::Changes, Planned::Fronts] {
            let mut state = State::new(device, &layout, &set);
            state.begin(device, None);
            state.give_signs(device, &signs);
            let (mut changed, mut of_front) = (vec![true; layout.tiles()], Vec::new());
            for number in 0..6 {
                let step = Step { number, ends_on_repeats: false };
                state.plan(device, step, planned);
                let near = |t: usize| {
                    let at = [t % grid[0], t / grid[0] % grid[1], t / (grid[0] * grid[1])];
                    (0..changed.len()).any(|o| {
                        let to = [o % grid[0], o / grid[0] % grid[1], o / (grid[0] * grid[1])];
                        changed[o] && (0..3).all(|a| at[a].abs_diff(to[a]) <= 1)
                    })
                };
                let expected: Vec<u32> = (0..layout.tiles())
                    .filter(|t| near(*t) || (planned == Planned::Fronts && of_front[*t]))
                    .map(|t| t as u32)
                    .collect();
                assert_eq!(
                    state.planned(device, number),
                    expected,
                    "{dims:?} {planned:?} {number}"
                );
                state.step(device, step, None);
                let next = advanced(&layout, &set, &signs);
                changed = vec![false; layout.tiles()];
                of_front = vec![false; layout.tiles()];
                let both = front(&layout, &set);
                for p in 0..len(dims) {
                    changed[of_tile(p)] |= next[p] != set[p];
                    of_front[of_tile(p)] |= both[0][p] || both[1][p];
                }
                set = next;
                assert_eq!(state.set(device), set);
            }
        }
    }
}

/// Iterations end where a set is what it was two before, from the third on, and not before; or go on where that is not asked for.
pub(crate) fn repeats<D: Device>(device: &D) {
    for dims in [[40, 20, 1], [12, 9, 11]] {
        let layout = Layout::new(dims, 1).unwrap();
        let n = len(dims);
        let mut set = vec![false; n];
        set[n / 2..n / 2 + 3].fill(true);
        let one = |on: bool| (0..n).map(|p| on && p == n / 2 + 3).collect::<Vec<bool>>();
        for ends_on_repeats in [true, false] {
            for by_tiles in [true, false] {
                let mut state = State::new(device, &layout, &set);
                state.begin(device, None);
                let mut done = Vec::new();
                for number in 0..8 {
                    // A point comes in, and goes out again.
                    state.give_signs(device, &[one(number % 2 == 0), one(number % 2 == 1)]);
                    let step = Step { number, ends_on_repeats };
                    if by_tiles {
                        state.plan(device, step, Planned::Fronts);
                        state.step(device, step, None);
                    } else {
                        state.step_all(device, step, None);
                    }
                    done.push(state.slot(device, number).tiles > 0);
                }
                let expected: Vec<bool> = (0..8).map(|k| !ends_on_repeats || k < 3).collect();
                assert_eq!(done, expected, "{dims:?} {by_tiles}");
            }
        }
    }
}

/// Signs of forces without curvature: at all points, and at the front of planned tiles.
pub(crate) fn signs<D: Device>(device: &D) {
    for dims in SIZES {
        for axes in axes(dims) {
            let layout = Layout::new(dims, axes).unwrap();
            let case = Case::new(dims, 4);
            let image = device.upload(&case.values).unwrap();
            let units = case.units();
            let mut state = State::new(device, &layout, &case.set);
            let two = |fixed, object| TwoMeans {
                image: &image,
                weights: [0.7, 1.3],
                fixed,
                object,
                units,
            };
            let rules = [
                Rule { speed: Some(&image), ..Rule::NONE },
                Rule { means: Some(two(Some([20.0, 90.0]), Object::AsStarted)), ..Rule::NONE },
                Rule { means: Some(two(None, Object::AsStarted)), ..Rule::NONE },
                Rule { means: Some(two(None, Object::Brighter)), ..Rule::NONE },
                Rule { means: Some(two(None, Object::Darker)), ..Rule::NONE },
                Rule::NONE,
            ];
            let [inner, outer] = front(&layout, &case.set);
            for (k, rule) in rules.iter().enumerate() {
                state.begin(device, Some(Measured { values: &image, units }));
                let totals = state.totals(device);
                let means = rule
                    .means
                    .as_ref()
                    .map(|m| m.fixed.unwrap_or_else(|| mean_values(&case, m.object)));
                if let (Some(found), Some(m)) = (means, &rule.means)
                    && m.fixed.is_none()
                    && (1..dims.iter().product::<usize>() as i64).contains(&totals.size)
                {
                    let by_totals = self::means(&units, m.object, &totals, case.values.len());
                    assert!((0..2).all(|s| (found[s] - by_totals[s]).abs() < 1e-8), "{found:?}");
                }
                let value = |p: usize| {
                    let v = f64::from(case.values[p]);
                    match (means, rule.speed) {
                        (Some([a, b]), _) => 1.3 * (b - v).powi(2) - 0.7 * (a - v).powi(2),
                        (None, Some(_)) => v,
                        (None, None) => 0.0,
                    }
                };
                let has_means = totals.size > 0 && totals.size < layout.points() as i64;
                if has_means {
                    state.find_signs(device, rule, None);
                    let all = [0, 1].map(|s| {
                        let sign = 1.0 - 2.0 * s as f64;
                        (0..len(dims)).map(|p| sign * value(p) > 0.0).collect::<Vec<bool>>()
                    });
                    assert_eq!(state.signs(device), all, "{dims:?} {axes} rule {k}: everywhere");
                }
                state.plan(device, Step { number: 0, ends_on_repeats: false }, Planned::Fronts);
                if has_means {
                    state.find_signs(device, rule, Some(0));
                    let of_front = [
                        (0..len(dims)).map(|p| outer[p] && value(p) > 0.0).collect::<Vec<bool>>(),
                        (0..len(dims)).map(|p| inner[p] && value(p) < 0.0).collect(),
                    ];
                    assert_eq!(state.signs(device), of_front, "{dims:?} {axes} rule {k}: front");
                }
            }
        }
    }
}

/// The mean values on both sides, plainly.
fn mean_values(case: &Case, object: Object) -> [f64; 2] {
    let of = |inside: bool| {
        let all = case.values.iter().zip(&case.set).filter(|(_, s)| **s == inside);
        let values: Vec<f64> = all.map(|(v, _)| f64::from(*v)).collect();
        values.iter().sum::<f64>() / values.len().max(1) as f64
    };
    let [a, b] = [of(true), of(false)];
    let is_right = match object {
        Object::AsStarted => true,
        Object::Brighter => a >= b,
        Object::Darker => a <= b,
    };
    if is_right { [a, b] } else { [b, a] }
}

/// The mean side around a point, and the means of the side times the distance along each axis.
fn moments(dims: Dims, set: &[bool], point: usize, sigma: f64, spacing: [f64; 3]) -> [f64; 4] {
    let at = [point % dims[0], point / dims[0] % dims[1], point / (dims[0] * dims[1])];
    let weights = [0, 1, 2].map(|a| {
        if dims[a] == 1 {
            return vec![1.0];
        }
        let points = sigma / spacing[a];
        let radius = (3.0 * points).ceil() as i64;
        let all = (-radius..=radius).map(|i| (-0.5 * (i as f64 / points).powi(2)).exp());
        let sum: f64 = all.clone().sum();
        all.map(|w| w / sum).collect::<Vec<f64>>()
    });
    let mut sums = [0.0; 4];
    let by = |a: usize, i: usize| i as i64 - (weights[a].len() / 2) as i64;
    let to = |a: usize, i: usize| (at[a] as i64 + by(a, i)).clamp(0, dims[a] as i64 - 1) as usize;
    for (k, wz) in weights[2].iter().enumerate() {
        for (j, wy) in weights[1].iter().enumerate() {
            for (i, wx) in weights[0].iter().enumerate() {
                let side =
                    if set[offset(dims, [to(0, i), to(1, j), to(2, k)])] { -1.0 } else { 1.0 };
                let mean = side * wx * wy * wz;
                sums[0] += mean;
                for (a, i) in [i, j, k].into_iter().enumerate() {
                    sums[a + 1] += mean * by(a, i) as f64 * spacing[a];
                }
            }
        }
    }
    sums
}

/// Forces with curvature, and with edges, at the front, by a Gaussian; where a force is as large as rounding its sign may be either.
pub(crate) fn curvature<D: Device>(device: &D) {
    for (dims, sigma, spacing) in [
        ([33, 21, 1], 2.5, [1.0, 1.0, 1.0]),
        ([70, 19, 1], 3.0, [0.5, 1.5, 1.0]),
        ([45, 50, 1], 10.3, [1.0, 1.0, 1.0]),
        ([9, 1, 1], 2.0, [1.0, 1.0, 1.0]),
        ([17, 11, 9], 1.3, [1.0, 0.8, 1.5]),
        ([10, 12, 11], 5.0, [1.0, 1.0, 1.0]),
    ] {
        let layout = Layout::new(dims, 1).unwrap();
        let case = Case::new(dims, 6);
        let set = blobs(dims);
        let edges: Vec<f32> =
            case.values.iter().map(|v| ((v + 60.0) / 300.0).clamp(0.05, 1.0)).collect();
        let speed: Vec<f32> = case.values.iter().map(|v| (v - 75.0) * 0.002).collect();
        let (b, f) = (device.upload(&edges).unwrap(), device.upload(&speed).unwrap());
        let gaussian = Gaussian::new(device, &layout, sigma, spacing).unwrap();
        let window = Some(gaussian.window());
        let rules = [
            Rule { curvature: 1.0, window, ..Rule::NONE },
            Rule { curvature: 0.4, window, speed: Some(&f), ..Rule::NONE },
            Rule { curvature: 0.6, window, speed: Some(&f), edges: Some(&b), ..Rule::NONE },
        ];
        let [inner, outer] = front(&layout, &set);
        for (k, rule) in rules.iter().enumerate() {
            let mut state = State::new(device, &layout, &set);
            state.begin(device, None);
            state.plan(device, Step { number: 0, ends_on_repeats: false }, Planned::Fronts);
            state.find_signs(device, rule, Some(0));
            let [p, n] = state.signs(device);
            let (mut close, mut all) = (0, 0);
            for point in 0..len(dims) {
                if !inner[point] && !outer[point] {
                    assert!(!p[point] && !n[point]);
                    continue;
                }
                let [side, g @ ..] = moments(dims, &set, point, sigma, spacing);
                let kappa = side * std::f64::consts::TAU.sqrt() / sigma;
                let weight = match rule.edges {
                    Some(_) => rule.curvature * f64::from(edges[point]),
                    None => rule.curvature,
                };
                let mut value = -weight * kappa;
                if rule.speed.is_some() {
                    value += f64::from(speed[point]);
                }
                let length = g.iter().map(|c| c * c).sum::<f64>().sqrt();
                if rule.edges.is_some() && length > 1e-5 {
                    value -= rule.curvature * slope(dims, &edges, point, spacing, g) / length;
                }
                all += 1;
                if value.abs() < 1e-5 {
                    close += 1;
                    continue;
                }
                assert_eq!(p[point], outer[point] && value > 0.0, "{dims:?} {k} {point} {value}");
                assert_eq!(n[point], inner[point] && value < 0.0, "{dims:?} {k} {point} {value}");
            }
            assert!(10 * close <= all && all > 0, "{close} of {all}");
        }
    }
}

/// The gradient of an image, times a direction.
fn slope(dims: Dims, values: &[f32], point: usize, spacing: [f64; 3], along: [f64; 3]) -> f64 {
    let at = [point % dims[0], point / dims[0] % dims[1], point / (dims[0] * dims[1])];
    (0..3)
        .map(|a| {
            let (mut after, mut before) = (at, at);
            after[a] = (at[a] + 1).min(dims[a] - 1);
            before[a] = at[a].saturating_sub(1);
            let difference =
                f64::from(values[offset(dims, after)]) - f64::from(values[offset(dims, before)]);
            difference / (2.0 * spacing[a]) * along[a]
        })
        .sum()
}

/// A set of some round parts, one of them at the border.
fn blobs(dims: Dims) -> Vec<bool> {
    (0..len(dims))
        .map(|p| {
            let at = [p % dims[0], p / dims[0] % dims[1], p / (dims[0] * dims[1])];
            [[0.2, 0.1, 0.4], [0.7, 0.6, 0.5]].iter().any(|middle| {
                let away: f64 = (0..3)
                    .map(|a| (at[a] as f64 - middle[a] * (dims[a] as f64 - 1.0)).powi(2))
                    .sum();
                away <= (0.06 * (dims[0] + dims[1]) as f64 + 1.0).powi(2)
            })
        })
        .collect()
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

pub(crate) fn errors<D: Device>(device: &D) {
    let layout = Layout::new([20, 17, 1], 1).unwrap();
    let (words, tiles) = (layout.words(), layout.tiles());
    let set = device.alloc::<u64>(words).unwrap();
    let mut next = device.alloc::<u64>(words).unwrap();
    let mut short = device.alloc::<u64>(words - 1).unwrap();
    let mut signs = device.alloc::<u64>(2 * words).unwrap();
    let mut plan = device.alloc::<u32>(tiles).unwrap();
    let mut of_tiles = device.alloc::<u32>(2 * tiles).unwrap();
    let mut totals = device.alloc::<i64>(TOTALS).unwrap();
    let mut log = device.alloc::<i64>(Log::len_of(3)).unwrap();
    let mut bad_log = device.alloc::<i64>(Log::len_of(2)).unwrap();
    let image = device.alloc::<f32>(layout.points()).unwrap();
    let bad = device.alloc::<f32>(layout.points() - 1).unwrap();
    let units = Units::between(0.0, 1.0, layout.points());
    let step = Step { number: 0, ends_on_repeats: true };
    let late = Step { number: usize::MAX, ends_on_repeats: true };
    let measured = |values| Some(Measured { values, units });

    let (t, s, l) = (&mut of_tiles, &mut totals, &mut log);
    assert!(device.front_begin(&layout, &set, measured(&image), t, s, l).is_ok());
    assert!(device.front_begin(&layout, &short, None, t, s, l).is_err());
    assert!(device.front_begin(&layout, &set, measured(&bad), t, s, l).is_err());
    assert!(device.front_begin(&layout, &set, None, t, s, &mut bad_log).is_err());
    let none = Units { scale: 0.0, ..units };
    let wrong = Some(Measured { values: &image, units: none });
    assert!(device.front_begin(&layout, &set, wrong, t, s, l).is_err());

    let by = Planned::Changes;
    assert!(device.front_plan(&layout, step, by, t, s, &mut plan, l).is_ok());
    assert!(device.front_plan(&layout, late, by, t, s, &mut plan, l).is_err());
    let mut few = device.alloc::<u32>(tiles - 1).unwrap();
    assert!(device.front_plan(&layout, step, by, t, s, &mut few, l).is_err());
    assert!(device.front_plan(&layout, step, by, &few, s, &mut plan, l).is_err());

    assert!(
        device.front_step(&layout, step, &set, &signs, None, &plan, &mut next, t, s, l).is_ok()
    );
    assert!(
        device.front_step(&layout, step, &set, &signs, None, &plan, &mut short, t, s, l).is_err()
    );
    assert!(device.front_step(&layout, step, &set, &set, None, &plan, &mut next, t, s, l).is_err());
    assert!(
        device.front_step(&layout, late, &set, &signs, None, &plan, &mut next, t, s, l).is_err()
    );
    assert!(device.front_step_all(&layout, step, &set, &signs, None, &mut next, s, l).is_ok());
    assert!(device.front_step_all(&layout, step, &set, &signs, None, &mut short, s, l).is_err());
    assert!(
        device
            .front_step_all(&layout, step, &set, &signs, measured(&bad), &mut next, s, l)
            .is_err()
    );

    let means = TwoMeans {
        image: &image,
        weights: [1.0; 2],
        fixed: None,
        object: Object::AsStarted,
        units,
    };
    let gaussian = Gaussian::new(device, &layout, 2.0, [1.0; 3]).unwrap();
    let window = gaussian.window();
    let narrow = Layout::new([20, 17, 2], 1).unwrap();
    let other = Gaussian::new(device, &narrow, 2.0, [1.0; 3]).unwrap();
    let bent = Rule { curvature: 1.0, window: Some(window), ..Rule::NONE };
    let planned = || Some(Tiles { plan: &plan, log: &*l, step: 0 });
    let mut said = |rule: &Rule<'_, D>, is_planned: bool| {
        let tiles = if is_planned { planned() } else { None };
        device.front_signs(&layout, rule, &set, s, tiles, &mut signs)
    };
    assert!(said(&Rule { means: Some(means), ..Rule::NONE }, false).is_ok());
    assert!(said(&bent, true).is_ok());
    assert!(said(&bent, false).is_err());
    assert!(said(&Rule { window: None, ..bent }, true).is_err());
    assert!(said(&Rule { window: Some(other.window()), ..bent }, true).is_err());
    assert!(said(&Rule { curvature: f64::NAN, ..bent }, true).is_err());
    assert!(said(&Rule { speed: Some(&bad), ..Rule::NONE }, false).is_err());
    assert!(said(&Rule { speed: Some(&image), means: Some(means), ..Rule::NONE }, false).is_err());
    assert!(said(&Rule { edges: Some(&image), ..Rule::NONE }, true).is_err());
    assert!(said(&Rule { edges: Some(&bad), ..bent }, true).is_err());
    let nothing = TwoMeans { weights: [f64::NAN, 1.0], ..means };
    assert!(said(&Rule { means: Some(nothing), ..Rule::NONE }, true).is_err());

    for sigma in [0.0, -1.0, f64::NAN, f64::INFINITY, 10.4] {
        assert!(Gaussian::new(device, &layout, sigma, [1.0; 3]).is_err(), "{sigma}");
    }
    assert!(Gaussian::new(device, &layout, 1.0, [1.0, 0.0, 1.0]).is_err());
    assert!(Gaussian::new(device, &narrow, 5.1, [1.0; 3]).is_err());
}

/// Numbers as values that have them exactly.
fn exactly(numbers: impl IntoIterator<Item = u64>) -> Vec<f32> {
    numbers
        .into_iter()
        .flat_map(|n| [0, 16, 32, 48].map(|bit| (n >> bit & 0xffff) as f32))
        .collect()
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for dims in SIZES.into_iter().chain([[150, 90, 1], [40, 33, 26]]) {
        let most = axes(dims);
        for axes in most {
            let layout = Layout::new(dims, axes).unwrap();
            let case = Case::new(dims, 9);
            let image = device.upload(&case.values).unwrap();
            let b: Vec<f32> = case.values.iter().map(|v| 1.0 / (1.0 + v.abs())).collect();
            let b = device.upload(&b).unwrap();
            let units = case.units();
            let (sigma, spacing) = (1.7, [1.0, 0.9, 1.2]);
            let gaussian = Gaussian::new(device, &layout, sigma, spacing).unwrap();
            let object = Object::Brighter;
            let means = TwoMeans { image: &image, weights: [1.0, 1.1], fixed: None, object, units };
            let bent = Rule { curvature: 900.0, window: Some(gaussian.window()), ..Rule::NONE };
            let rules = [
                Rule { means: Some(means), ..Rule::NONE },
                Rule { means: Some(means), ..bent },
                Rule { speed: Some(&image), edges: Some(&b), ..bent },
            ];
            for (k, rule) in rules.iter().enumerate() {
                let mut state = State::new(device, &layout, &case.set);
                state.begin(device, Some(Measured { values: &image, units }));
                let mut numbers = Vec::new();
                for number in 0..4 {
                    let step = Step { number, ends_on_repeats: false };
                    state.plan(device, step, Planned::Fronts);
                    numbers.extend(state.planned(device, number).into_iter().map(u64::from));
                    state.find_signs(device, rule, Some(number));
                    state.step(device, step, Some(Measured { values: &image, units }));
                    numbers.extend(device.download(&state.signs).unwrap());
                    numbers.extend(device.download(&state.set).unwrap());
                    numbers
                        .extend(device.download(&state.tiles).unwrap().into_iter().map(u64::from));
                    numbers
                        .extend(device.download(&state.log).unwrap().into_iter().map(|n| n as u64));
                    numbers.extend(
                        device.download(&state.totals).unwrap().into_iter().map(|n| n as u64),
                    );
                }
                results.push((format!("{dims:?} {axes} rule {k}"), exactly(numbers)));
            }
        }
    }
    results
}
