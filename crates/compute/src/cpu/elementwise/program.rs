//! Expressions compiled to a sequence of instructions over registers.

use std::collections::HashMap;

use crate::error::Result;
use crate::ops::elementwise::{Binary, Expr, Unary};
use crate::ops::linear::{Linear, Operation, Value, binary, unary};

/// Where an operand is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Operand {
    /// The same number for all elements.
    Uniform(f32),
    /// An input.
    Input(usize),
    /// A register.
    Register(usize),
}

/// The operation of an instruction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Op {
    Unary(Unary, Operand),
    Binary(Binary, Operand, Operand),
    Select(Operand, Operand, Operand),
}

/// An instruction, and the register that gets its result: never one of its operands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instruction {
    pub(super) op: Op,
    pub(super) to: usize,
}

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) instructions: Vec<Instruction>,
    pub(super) registers: usize,
    pub(super) result: Operand,
}

/// The instructions so far, with registers numbered as if there were no end of them. Equal parts
/// have one value.
#[derive(Default)]
struct Compiler {
    ops: Vec<Op>,
    known: HashMap<Key, Operand>,
}

type Key = (u8, u8, [(u8, u64); 3]);

/// Compiles an expression; parameters and scalars become constants.
pub(super) fn compile(
    expr: &Expr,
    inputs: usize,
    params: &[f32],
    scalars: &[f64],
) -> Result<Program> {
    let linear = Linear::new(expr, inputs, params.len(), scalars.len())?;
    let mut compiler = Compiler::default();
    let mut results: Vec<Operand> = Vec::with_capacity(linear.operations.len());
    let operand = |results: &[Operand], value: Value| match value {
        Value::Constant(bits) => Operand::Uniform(f32::from_bits(bits)),
        Value::Param(i) => Operand::Uniform(params[i]),
        Value::Scalar(i) => Operand::Uniform(scalars[i] as f32),
        Value::Input(i) => Operand::Input(i),
        Value::Result(i) => results[i],
    };
    for &operation in &linear.operations {
        let get = |value| operand(&results, value);
        let value = compiler.emit(match operation {
            Operation::Unary(op, a) => Op::Unary(op, get(a)),
            Operation::Binary(op, a, b) => Op::Binary(op, get(a), get(b)),
            Operation::Select(c, a, b) => Op::Select(get(c), get(a), get(b)),
        });
        results.push(value);
    }
    Ok(allocate(&compiler.ops, operand(&results, linear.result)))
}

impl Compiler {
    /// The value of an operation, computed now if the operands are known.
    fn emit(&mut self, op: Op) -> Operand {
        match op {
            Op::Unary(op, Operand::Uniform(a)) => return Operand::Uniform(unary(op, a)),
            Op::Binary(op, Operand::Uniform(a), Operand::Uniform(b)) => {
                return Operand::Uniform(binary(op, a, b));
            }
            Op::Select(Operand::Uniform(c), a, b) => return if c != 0.0 { a } else { b },
            _ => {}
        }
        let next = Operand::Register(self.ops.len());
        let value = *self.known.entry(key(op)).or_insert(next);
        if value == next {
            self.ops.push(op);
        }
        value
    }
}

fn key(op: Op) -> Key {
    let operand = |o: Operand| match o {
        Operand::Uniform(v) => (0, u64::from(v.to_bits())),
        Operand::Input(i) => (1, i as u64),
        Operand::Register(i) => (2, i as u64),
    };
    let none = (3, 0);
    match op {
        Op::Unary(op, a) => (0, op as u8, [operand(a), none, none]),
        Op::Binary(op, a, b) => (1, op as u8, [operand(a), operand(b), none]),
        Op::Select(c, a, b) => (2, 0, [operand(c), operand(a), operand(b)]),
    }
}

/// The operands of an operation.
fn operands(op: &mut Op) -> [Option<&mut Operand>; 3] {
    match op {
        Op::Unary(_, a) => [Some(a), None, None],
        Op::Binary(_, a, b) => [Some(a), Some(b), None],
        Op::Select(c, a, b) => [Some(c), Some(a), Some(b)],
    }
}

/// Gives each value a register from its operation to its last use, as few as there can be.
fn allocate(ops: &[Op], result: Operand) -> Program {
    let mut last_use = vec![0; ops.len()];
    for (i, op) in ops.iter().enumerate() {
        for operand in operands(&mut op.clone()).into_iter().flatten() {
            if let Operand::Register(r) = *operand {
                last_use[r] = i;
            }
        }
    }
    if let Operand::Register(r) = result {
        last_use[r] = ops.len();
    }
    let mut place = vec![0; ops.len()];
    let (mut free, mut registers) = (Vec::new(), 0);
    let mut instructions = Vec::with_capacity(ops.len());
    for (i, op) in ops.iter().enumerate() {
        let to = free.pop().unwrap_or_else(|| {
            registers += 1;
            registers - 1
        });
        place[i] = to;
        let mut op = *op;
        let mut ended = Vec::new();
        for operand in operands(&mut op).into_iter().flatten() {
            if let Operand::Register(r) = operand {
                if last_use[*r] == i && !ended.contains(&place[*r]) {
                    ended.push(place[*r]);
                }
                *r = place[*r];
            }
        }
        free.extend(ended);
        instructions.push(Instruction { op, to });
    }
    let result = match result {
        Operand::Register(r) => Operand::Register(place[r]),
        other => other,
    };
    Program { instructions, registers, result }
}
