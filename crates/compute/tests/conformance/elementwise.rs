//! Expressions against their values one element at a time.

use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{
    Binary, Expr, Node, Unary, constant, param, scalar, select, x,
};

use crate::support::{Random, Results};

on_devices!(;expressions, in_place, without_inputs, many_inputs, errors; same bits: bits);

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

fn expressions<D: Device>(device: &D) {
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

fn in_place<D: Device>(device: &D) {
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

fn without_inputs<D: Device>(device: &D) {
    let mut out = device.upload(&[1f32; 37]).unwrap();
    device.eval(&(constant(1.5) * param(0)), &[], &[4.0], None, &mut out).unwrap();
    assert_eq!(device.into_host(out).unwrap(), [6.0; 37]);
    let mut empty = device.alloc::<f32>(0).unwrap();
    device.eval(&constant(1.0), &[], &[], None, &mut empty).unwrap();
    device.eval_in_place(&(x(0) + 1.0), &mut empty, &[], &[], None).unwrap();
}

fn many_inputs<D: Device>(device: &D) {
    let images: Vec<_> = (0..60).map(|i| device.upload(&[i as f32; 1500]).unwrap()).collect();
    let mean = (1..60).fold(x(0), |sum, i| sum + x(i)) / 60.0;
    let mut out = device.alloc(1500).unwrap();
    device.eval(&mean, &images.iter().collect::<Vec<_>>(), &[], None, &mut out).unwrap();
    assert_eq!(device.into_host(out).unwrap(), [29.5; 1500]);
}

fn errors<D: Device>(device: &D) {
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

fn bits<D: Device>(device: &D) -> Results {
    let cases = cases();
    let each = |n: usize| {
        let inputs = inputs(n);
        let case =
            move |(name, e): &(&str, Expr)| (format!("{name} {n}"), evaluated(device, e, &inputs));
        cases.iter().map(case).collect::<Vec<_>>()
    };
    LENGTHS.into_iter().flat_map(each).collect()
}
