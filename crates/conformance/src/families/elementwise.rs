//! Expressions against their values one element at a time.

use voxalign_compute::Device;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::elementwise::{
    Binary, Expr, Node, Unary, constant, param, scalar, select, x,
};

use crate::support::{Random, Results};

const LENGTHS: [usize; 10] = [1, 2, 15, 16, 17, 1000, 1024, 1025, 2064, 70_001];
const PARAMS: [f32; 2] = [0.5, -3.0];
const SCALARS: [f64; 2] = [2.0, 1.0 / 3.0];

fn cases() -> Vec<(&'static str, Expr)> {
    let weights = (x(0) * x(1)).exp();
    let mut deep = x(0);
    for i in 0..300 {
        deep = (deep + x(i % 3)) * 0.5;
    }
    vec![
        ("input", x(1)),
        ("constant", constant(2.5)),
        ("known", (param(0) + scalar(1)).sqrt().log().pow(scalar(0))),
        ("sum", x(0) + x(1)),
        ("constants first", 1.0 / (2.0 - x(0) * 3.0)),
        ("constants last", (x(0) - 2.0) / 3.0 + 0.1),
        ("clamped", ((x(0) - param(0)) / (param(1) - param(0))).clamp(0.0, 1.0)),
        ("masked", select(x(2).gt(0.0), x(0), x(1))),
        ("either", select(x(2).le(x(0)), 1.0, x(1)) + select(x(2).ge(0.3), x(0), -1.0)),
        ("equal", x(0).equals(x(0)) + x(0).lt(x(1)) * 2.0 + x(0).equals(x(1))),
        ("functions", x(0).abs().sqrt() + (-x(1)).exp() + x(2).square().log()),
        ("power", x(0).abs().pow(x(1)) + x(1).pow(3.0) + x(0).pow(x(2))),
        ("extremes", x(0).min(x(1)).max(x(2)).min(scalar(0)).max(param(1))),
        ("shared", &weights / (&weights + 1.0) - weights.log()),
        ("fixed choice", select(1.0, x(0), x(1)) + select(param(0).gt(7.0), x(0), x(2))),
        ("same twice", x(0).square() * x(0).square() - x(0) * x(0)),
        ("deep", deep),
    ]
}

fn value(expr: &Expr, inputs: &[f32]) -> f32 {
    let truth = |is: bool| if is { 1.0 } else { 0.0 };
    match expr.node() {
        Node::Input(i) => inputs[*i],
        Node::Param(i) => PARAMS[*i],
        Node::Scalar(i) => SCALARS[*i] as f32,
        Node::Constant(c) => *c,
        Node::Unary(op, a) => {
            let a = value(a, inputs);
            match op {
                Unary::Neg => -a,
                Unary::Abs => a.abs(),
                Unary::Sqrt => a.sqrt(),
                Unary::Exp => f64::from(a).exp() as f32,
                Unary::Log => f64::from(a).ln() as f32,
                _ => unreachable!(),
            }
        }
        Node::Binary(op, a, b) => {
            let (a, b) = (value(a, inputs), value(b, inputs));
            match op {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
                Binary::Div => a / b,
                Binary::Min => a.min(b),
                Binary::Max => a.max(b),
                Binary::Pow => f64::from(a).powf(f64::from(b)) as f32,
                Binary::Less => truth(a < b),
                Binary::LessEqual => truth(a <= b),
                Binary::Equal => truth(a == b),
                _ => unreachable!(),
            }
        }
        Node::Select(c, a, b) => value(if value(c, inputs) != 0.0 { a } else { b }, inputs),
        _ => unreachable!(),
    }
}

fn inputs(n: usize) -> [Vec<f32>; 3] {
    let mut random = Random::new(n as u64);
    [0; 3].map(|_| (0..n).map(|_| random.between(-4.0, 4.0) as f32).collect())
}

fn evaluated<D: Device>(device: &D, expr: &Expr, inputs: &[Vec<f32>; 3]) -> Vec<f32> {
    let [a, b, c] = [0, 1, 2].map(|i| device.upload(&inputs[i]).unwrap());
    let scalars = device.upload(&SCALARS).unwrap();
    let mut out = device.alloc(inputs[0].len()).unwrap();
    device.eval(expr, &[&a, &b, &c], &PARAMS, Some(&scalars), &mut out).unwrap();
    device.into_host(out).unwrap()
}

pub(crate) fn expressions<D: Device>(device: &D) {
    for n in LENGTHS {
        let inputs = inputs(n);
        for (name, expr) in cases() {
            let found = evaluated(device, &expr, &inputs);
            for (k, &found) in found.iter().enumerate() {
                if name == "deep" && k > 40 {
                    break;
                }
                let expected = value(&expr, &[inputs[0][k], inputs[1][k], inputs[2][k]]);
                let close = (found - expected).abs() <= 4e-6 * expected.abs().max(1.0);
                let same = found == expected || (found.is_nan() && expected.is_nan());
                assert!(close || same, "{name}, {k} of {n}: {found}, expected {expected}");
            }
        }
    }
}

/// Asserts that the results are those of the CPU: the same bits, or both not a number.
fn assert_as_on_the_cpu<D: Device>(device: &D, expr: &Expr, inputs: &[Vec<f32>; 3], name: &str) {
    let cpu = Cpu::new(Some(1)).unwrap();
    let found = evaluated(device, expr, inputs);
    for (k, (a, b)) in found.into_iter().zip(evaluated(&cpu, expr, inputs)).enumerate() {
        let values = [0, 1, 2].map(|i| inputs[i][k]);
        let same = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        assert!(same, "{name} of {values:?}: {a}, on the CPU {b}");
    }
}

/// Each operation on numbers that are none, infinite, zero, tiny or large, and all the cases.
pub(crate) fn special_values<D: Device>(device: &D) {
    let mut numbers = vec![0.0, 0.5, 1.0, 2.0, 3.0, 7.25, 1e-45, 1e-40, 1e-7, 88.7, 104.0, 1e20];
    numbers.extend([3e38, 16_777_217.0, 16_777_216.0, 0.999_999_9, f32::INFINITY]);
    let numbers: Vec<f32> = numbers.iter().flat_map(|&v| [v, -v]).chain([f32::NAN]).collect();
    let mut inputs = [vec![], vec![], vec![]];
    for (i, &a) in numbers.iter().enumerate() {
        for (j, &b) in numbers.iter().enumerate() {
            let c = numbers[(i + 3 * j) % numbers.len()];
            inputs.iter_mut().zip([a, b, c]).for_each(|(all, v)| all.push(v));
        }
    }
    let (a, b) = (x(0), x(1));
    let operations = [
        ("exp and log", a.exp() * 2.0 - b.log()),
        ("root and signs", a.sqrt() + b.abs() * (-&a)),
        ("power", a.pow(&b)),
        ("quotient", &a / &b),
        ("extremes", a.min(&b) + x(2).max(&a) * 3.0),
        ("comparisons", a.lt(&b) + 2.0 * a.le(&b) + 4.0 * a.equals(&b)),
        ("choice", select(&a, &b, x(2))),
        ("clamped", a.clamp(&b, x(2))),
    ];
    for (name, expr) in operations.into_iter().chain(cases()) {
        assert_as_on_the_cpu(device, &expr, &inputs, name);
    }
}

pub(crate) fn in_place<D: Device>(device: &D) {
    for n in LENGTHS {
        let inputs = inputs(n);
        for (name, expr) in cases() {
            let [mut io, b, c] = [0, 1, 2].map(|i| device.upload(&inputs[i]).unwrap());
            let scalars = device.upload(&SCALARS).unwrap();
            device.eval_in_place(&expr, &mut io, &[&b, &c], &PARAMS, Some(&scalars)).unwrap();
            let found = device.into_host(io).unwrap();
            let expected = evaluated(device, &expr, &inputs);
            let same = found.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{name} of {n}");
        }
    }
}

pub(crate) fn without_inputs<D: Device>(device: &D) {
    let mut out = device.upload(&[1f32; 37]).unwrap();
    device.eval(&(constant(1.5) * param(0)), &[], &[4.0], None, &mut out).unwrap();
    assert_eq!(device.into_host(out).unwrap(), [6.0; 37]);
    let mut empty = device.alloc::<f32>(0).unwrap();
    device.eval(&constant(1.0), &[], &[], None, &mut empty).unwrap();
    device.eval_in_place(&(x(0) + 1.0), &mut empty, &[], &[], None).unwrap();
}

pub(crate) fn many_inputs<D: Device>(device: &D) {
    for (count, n) in [(4, 1500), (13, 1500), (60, 1500), (300, 700)] {
        let images: Vec<_> =
            (0..count).map(|i| device.upload(&vec![i as f32; n]).unwrap()).collect();
        let mean = (1..count).fold(x(0), |sum, i| sum + x(i)) / count as f32;
        let mut out = device.alloc(n).unwrap();
        device.eval(&mean, &images.iter().collect::<Vec<_>>(), &[], None, &mut out).unwrap();
        assert_eq!(device.into_host(out).unwrap(), vec![0.5 * (count - 1) as f32; n]);
    }
}

pub(crate) fn many_numbers<D: Device>(device: &D) {
    let inputs = inputs(1025);
    let [a, b, c] = [0, 1, 2].map(|i| device.upload(&inputs[i]).unwrap());
    for count in [31, 32, 33, 300] {
        let params: Vec<f32> = (0..count).map(|i| 0.25 * i as f32 - 10.0).collect();
        let sum = (0..count).fold(x(1), |sum, i| sum + param(i) * x(i % 3));
        let mut out = device.alloc(1025).unwrap();
        device.eval(&sum, &[&a, &b, &c], &params, None, &mut out).unwrap();
        for (k, found) in device.into_host(out).unwrap().into_iter().enumerate() {
            let each = params.iter().enumerate().map(|(i, p)| p * inputs[i % 3][k]);
            assert_eq!(found, each.fold(inputs[1][k], |sum, v| sum + v), "{k} with {count}");
        }
    }
}

pub(crate) fn same_input<D: Device>(device: &D) {
    let inputs = inputs(2064);
    let [a, b] = [0, 1].map(|i| device.upload(&inputs[i]).unwrap());
    let mut out = device.alloc(2064).unwrap();
    let expr = x(0) * 2.0 + x(1) - x(2) * x(3);
    device.eval(&expr, &[&a, &b, &a, &b], &[], None, &mut out).unwrap();
    for (k, found) in device.into_host(out).unwrap().into_iter().enumerate() {
        let [a, b] = [inputs[0][k], inputs[1][k]];
        assert_eq!(found, a * 2.0 + b - a * b);
    }
    // In place without what was there before.
    let mut out = device.upload(&inputs[2]).unwrap();
    device.eval_in_place(&(x(2) - x(1)), &mut out, &[&a, &a], &[], None).unwrap();
    assert_eq!(device.into_host(out).unwrap(), [0.0; 2064]);
}

pub(crate) fn costly<D: Device>(device: &D) {
    let powers = (1..12).fold(x(0), |sum, i| sum + (x(i % 3) * i as f32).abs().pow(x(2)));
    for n in [1, 1000, 1025] {
        assert_as_on_the_cpu(device, &powers, &inputs(n), "powers");
    }
}

pub(crate) fn errors<D: Device>(device: &D) {
    let a = device.alloc::<f32>(10).unwrap();
    let short = device.alloc::<f32>(9).unwrap();
    let mut out = device.alloc::<f32>(10).unwrap();
    assert!(device.eval(&x(1), &[&a], &[], None, &mut out).is_err());
    assert!(device.eval(&x(0), &[&short], &[], None, &mut out).is_err());
    assert!(device.eval(&param(0), &[&a], &[], None, &mut out).is_err());
    assert!(device.eval(&scalar(0), &[&a], &[], None, &mut out).is_err());
    assert!(device.eval_in_place(&x(1), &mut out, &[], &[], None).is_err());
    assert!(device.eval_in_place(&x(1), &mut out, &[&short], &[], None).is_err());
    let mut deep = x(0);
    for _ in 0..5000 {
        deep = deep + 1.0;
    }
    assert!(device.eval(&deep, &[&a], &[], None, &mut out).is_err());
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let cases = cases();
    let each = |n: usize| {
        let inputs = inputs(n);
        let case =
            move |(name, e): &(&str, Expr)| (format!("{name} {n}"), evaluated(device, e, &inputs));
        cases.iter().map(case).collect::<Vec<_>>()
    };
    LENGTHS.into_iter().flat_map(each).collect()
}
