//! Source code of the kernel of an expression.

use std::fmt::Write;

use super::structure::{Step, Structure};
use super::{Numbers, THREADS};
use crate::cuda::declare::size_of_is_known;
use crate::ops::elementwise::{Binary, Unary};
use crate::ops::linear::{Operation, Value};

/// Numbers that one parameter of a kernel holds.
pub(super) const NUMBERS: usize = 32;
/// Numbers that are passed as parameters; if there are more, all are in a buffer.
pub(super) const MOST_NUMBERS: usize = 8 * NUMBERS;
/// Inputs that are passed as parameters, of which a kernel can have 4 KB; if there are more, a buffer
/// has their addresses.
pub(super) const MOST_POINTERS: usize = 256;

/// The elements of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tile {
    /// This many times four elements in a row; adjacent threads have adjacent elements.
    Fours(usize),
    /// A single one.
    One,
}

impl Tile {
    /// Enough elements that the loads of a multiprocessor's threads keep the memory busy (some 64 KB
    /// on their way), few enough that they stay in registers and that the text stays small.
    pub(super) fn of(structure: &Structure) -> Self {
        let cost: usize = structure.steps.iter().map(weight).sum();
        let fours = match structure.inputs {
            0 | 1 => 4,
            2 | 3 => 2,
            4..=12 => 1,
            _ => return Self::One,
        };
        // Where the arithmetic takes longer than the memory, loads need not be as many.
        match cost {
            0..150 => Self::Fours(fours),
            150..1000 => Self::Fours(1),
            _ => Self::One,
        }
    }

    /// The number of elements.
    pub(super) fn elements(self) -> usize {
        match self {
            Self::Fours(count) => 4 * count,
            Self::One => 1,
        }
    }
}

/// About the instructions of an operation.
fn weight(step: &Step) -> usize {
    match step.operation {
        _ if !step.varies => 0,
        Operation::Unary(Unary::Exp, _) => 30,
        Operation::Unary(Unary::Log, _) => 50,
        Operation::Binary(Binary::Pow, ..) => 100,
        Operation::Unary(Unary::Sqrt, _) | Operation::Binary(Binary::Div, ..) => 10,
        _ => 1,
    }
}

/// The name of a value.
fn name(value: Value) -> String {
    match value {
        // A structure has no constants.
        Value::Constant(bits) => format!("__int_as_float({bits:#010x})"),
        Value::Param(i) => format!("c{i}"),
        Value::Scalar(i) => format!("s{i}"),
        Value::Input(i) => format!("x{i}"),
        Value::Result(i) => format!("t{i}"),
    }
}

/// An operation.
fn term(operation: Operation) -> String {
    match operation {
        Operation::Unary(op, a) => {
            let a = name(a);
            match op {
                Unary::Neg => format!("-{a}"),
                Unary::Abs => format!("fabsf({a})"),
                Unary::Sqrt => format!("sqrtf({a})"),
                Unary::Exp => format!("exponential({a})"),
                Unary::Log => format!("logarithm({a})"),
            }
        }
        Operation::Binary(op, a, b) => {
            let (a, b) = (name(a), name(b));
            match op {
                Binary::Add => format!("{a} + {b}"),
                Binary::Sub => format!("{a} - {b}"),
                Binary::Mul => format!("{a} * {b}"),
                Binary::Div => format!("{a} / {b}"),
                Binary::Min => format!("{a} < {b} ? {a} : {b}"),
                Binary::Max => format!("{a} > {b} ? {a} : {b}"),
                Binary::Pow => format!("power({a}, {b})"),
                Binary::Less => format!("{a} < {b} ? 1.0f : 0.0f"),
                Binary::LessEqual => format!("{a} <= {b} ? 1.0f : 0.0f"),
                Binary::Equal => format!("{a} == {b} ? 1.0f : 0.0f"),
            }
        }
        Operation::Select(c, a, b) => {
            format!("{} != 0.0f ? {} : {}", name(c), name(a), name(b))
        }
    }
}

/// The scalars of the device that are used.
fn scalars(structure: &Structure) -> Vec<usize> {
    let operands = structure.steps.iter().flat_map(|step| match step.operation {
        Operation::Unary(_, a) => vec![a],
        Operation::Binary(_, a, b) => vec![a, b],
        Operation::Select(c, a, b) => vec![c, a, b],
    });
    let mut used: Vec<usize> = operands
        .chain([structure.result])
        .filter_map(|v| if let Value::Scalar(i) = v { Some(i) } else { None })
        .collect();
    used.sort_unstable();
    used.dedup();
    used
}

/// The operations that vary, or those that do not.
fn steps(structure: &Structure, varies: bool) -> String {
    let mut text = String::new();
    for (i, step) in structure.steps.iter().enumerate().filter(|(_, s)| s.varies == varies) {
        let _ = writeln!(text, "    const float t{i} = {};", term(step.operation));
    }
    text
}

/// The text of the kernel `evaluate`: numbers, inputs, scalars, output, elements. Inputs are not
/// declared as apart from the output, which may be one of them.
pub(super) fn text(structure: &Structure, tile: Tile) -> String {
    // Writing to a string does not fail; results of `write!` are left aside.
    let mut text = String::from("#include \"prelude.cuh\"\n");
    let uses_functions = structure.steps.iter().any(|step| {
        matches!(
            step.operation,
            Operation::Unary(Unary::Exp | Unary::Log, _) | Operation::Binary(Binary::Pow, ..)
        )
    });
    if uses_functions {
        text.push_str("#include \"functions.cuh\"\n");
    }
    let (inputs, numbers) = (structure.inputs, structure.numbers);
    let by_value = numbers <= MOST_NUMBERS;
    let by_pointer = inputs <= MOST_POINTERS;
    let _ = writeln!(text, "struct Numbers {{ float v[{NUMBERS}]; }};");
    text.push_str(&size_of_is_known::<Numbers>());
    let _ = write!(text, "KERNEL(evaluate, {THREADS}, ");
    if by_value {
        for i in 0..numbers.div_ceil(NUMBERS) {
            let _ = write!(text, "Numbers n{i}, ");
        }
    } else {
        text.push_str("IN(float) numbers, ");
    }
    if by_pointer {
        for i in 0..inputs {
            let _ = write!(text, "IN_OR_OUT(float) p{i}, ");
        }
    } else {
        text.push_str("IN(u64) inputs, ");
    }
    text.push_str("IN(double) scalars, INOUT(float) out, u64 n) {\n");
    for i in 0..numbers {
        let _ = if by_value {
            writeln!(text, "    const float c{i} = n{}.v[{}];", i / NUMBERS, i % NUMBERS)
        } else {
            writeln!(text, "    const float c{i} = numbers[{i}];")
        };
    }
    for i in scalars(structure) {
        let _ = writeln!(text, "    const float s{i} = (float)scalars[{i}];");
    }
    text.push_str(&steps(structure, false));
    match tile {
        Tile::One => one(structure, by_pointer, &mut text),
        Tile::Fours(count) => fours(structure, count, &mut text),
    }
    text.push_str("}\n");
    text
}

/// The rest of a kernel for one element a thread.
fn one(structure: &Structure, by_pointer: bool, text: &mut String) {
    text.push_str("    const u64 i = global_thread();\n    if (i >= n) return;\n");
    for k in 0..structure.inputs {
        let _ = if by_pointer {
            writeln!(text, "    const float x{k} = p{k}[i];")
        } else {
            writeln!(text, "    const float x{k} = ((const float*)inputs[{k}])[i];")
        };
    }
    text.push_str(&steps(structure, true));
    let _ = writeln!(text, "    out[i] = {};", name(structure.result));
}

/// The rest of a kernel for several times four elements a thread. All loads come before the first
/// use; the last block, which has less, goes element by element.
fn fours(structure: &Structure, count: usize, text: &mut String) {
    let inputs = 0..structure.inputs;
    let list =
        |item: &dyn Fn(usize) -> String| inputs.clone().map(item).collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "    auto value = [&]({}) {{", list(&|k| format!("float x{k}")));
    text.push_str(&steps(structure, true));
    let _ = writeln!(text, "    return (float){};\n    }};", name(structure.result));
    let fours = THREADS as usize * count;
    let _ = writeln!(
        text,
        "    const u64 first = (u64)blockIdx.x * {fours}u, next = first + {fours}u;\n    \
         if (4 * next <= n) {{\n    \
         const u64 i = first + threadIdx.x;"
    );
    for k in inputs.clone() {
        let _ = writeln!(text, "    float4 q{k}[{count}];");
    }
    // In the order of memory, so that what lies together is asked for together.
    for g in 0..count {
        for k in inputs.clone() {
            let at = g * THREADS as usize;
            let _ = writeln!(text, "    q{k}[{g}] = load4(p{k}, i + {at}u);");
        }
    }
    for g in 0..count {
        let values = ["x", "y", "z", "w"]
            .map(|c| format!("value({})", list(&|k| format!("q{k}[{g}].{c}"))))
            .join(", ");
        let at = g * THREADS as usize;
        let _ = writeln!(text, "    store4(out, i + {at}u, make_float4({values}));");
    }
    let _ = writeln!(
        text,
        "    }} else {{\n    \
         for (u64 i = 4 * first + threadIdx.x; i < n; i += {THREADS}u) out[i] = value({});\n    }}",
        list(&|k| format!("p{k}[i]"))
    );
}
