//! Expressions compiled to a sequence of instructions over registers.

use std::collections::HashMap;

use super::functions;
use crate::error::{ComputeError, Result};
use crate::ops::elementwise::{Binary, Expr, MAX_DEPTH, Node, Unary};

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

/// What an instruction does.
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

/// A value while compiling: as an operand, with registers numbered as if there were no end of them.
/// Structurally equal parts have one value.
struct Compiler<'a> {
    inputs: usize,
    params: &'a [f32],
    scalars: &'a [f64],
    ops: Vec<Op>,
    known: HashMap<Key, Operand>,
    /// Values of shared parts, so that they are gone through once.
    seen: HashMap<*const Node, Operand>,
}

type Key = (u8, u8, [(u8, u64); 3]);

/// Compiles an expression; parameters and scalars become constants.
pub(super) fn compile(
    expr: &Expr,
    inputs: usize,
    params: &[f32],
    scalars: &[f64],
) -> Result<Program> {
    let mut compiler = Compiler {
        inputs,
        params,
        scalars,
        ops: Vec::new(),
        known: HashMap::new(),
        seen: HashMap::new(),
    };
    let result = compiler.value(expr, MAX_DEPTH)?;
    Ok(allocate(&compiler.ops, result))
}

impl Compiler<'_> {
    fn value(&mut self, expr: &Expr, depth: usize) -> Result<Operand> {
        let address: *const Node = expr.node();
        if let Some(&value) = self.seen.get(&address) {
            return Ok(value);
        }
        let Some(depth) = depth.checked_sub(1) else {
            return Err(ComputeError::argument(
                "depth of an expression",
                format!("more than {MAX_DEPTH}"),
                "at most that; evaluate a part of it first",
            ));
        };
        let missing = |what, i: &usize, n: usize| {
            Err(ComputeError::argument(what, format!("{i} of {n}"), "one of those given"))
        };
        let value = match expr.node() {
            Node::Constant(c) => Operand::Uniform(*c),
            Node::Input(i) if *i < self.inputs => Operand::Input(*i),
            Node::Input(i) => return missing("input of an expression", i, self.inputs),
            Node::Param(i) => match self.params.get(*i) {
                Some(&p) => Operand::Uniform(p),
                None => return missing("parameter of an expression", i, self.params.len()),
            },
            Node::Scalar(i) => match self.scalars.get(*i) {
                Some(&s) => Operand::Uniform(s as f32),
                None => return missing("scalar of an expression", i, self.scalars.len()),
            },
            Node::Unary(op, a) => {
                let a = self.value(a, depth)?;
                self.emit(Op::Unary(*op, a))
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.value(a, depth)?, self.value(b, depth)?);
                self.emit(Op::Binary(*op, a, b))
            }
            Node::Select(c, a, b) => {
                let c = self.value(c, depth)?;
                let (a, b) = (self.value(a, depth)?, self.value(b, depth)?);
                self.emit(Op::Select(c, a, b))
            }
        };
        self.seen.insert(address, value);
        Ok(value)
    }

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

/// An operation on one number.
pub(super) fn unary(op: Unary, a: f32) -> f32 {
    match op {
        Unary::Neg => -a,
        Unary::Abs => a.abs(),
        Unary::Sqrt => a.sqrt(),
        Unary::Exp => functions::exp(a),
        Unary::Log => functions::log(a),
    }
}

/// An operation on two numbers.
#[allow(clippy::float_cmp)]
pub(super) fn binary(op: Binary, a: f32, b: f32) -> f32 {
    let truth = |is: bool| if is { 1.0 } else { 0.0 };
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Min => {
            if a < b {
                a
            } else {
                b
            }
        }
        Binary::Max => {
            if a > b {
                a
            } else {
                b
            }
        }
        Binary::Pow => functions::pow(a, b),
        Binary::Less => truth(a < b),
        Binary::LessEqual => truth(a <= b),
        Binary::Equal => truth(a == b),
    }
}
