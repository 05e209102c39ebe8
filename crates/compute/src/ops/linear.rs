//! Expressions as sequences of operations with common parts shared: the input of every backend's compiler.

use std::collections::HashMap;

use super::elementwise::{Binary, Expr, MAX_DEPTH, Node, Unary};
use super::functions;
use crate::error::{ComputeError, Result};

/// An operand, or the value of a whole expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    /// A number, by its bits.
    Constant(u32),
    /// A number from the host.
    Param(usize),
    /// A number of the device.
    Scalar(usize),
    /// The element of an input.
    Input(usize),
    /// The result of an earlier operation.
    Result(usize),
}

/// An operation on values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Unary(Unary, Value),
    Binary(Binary, Value, Value),
    /// The second where the first is not zero, else the third.
    Select(Value, Value, Value),
}

/// An expression as a sequence of operations, no two of them the same.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    pub(crate) operations: Vec<Operation>,
    pub(crate) result: Value,
}

impl Linear {
    /// The operations of an expression, in an order in which they can be done.
    ///
    /// # Errors
    /// An input, parameter or scalar beyond the number of those that are given; an expression
    /// deeper than [`MAX_DEPTH`].
    pub(crate) fn new(expr: &Expr, inputs: usize, params: usize, scalars: usize) -> Result<Self> {
        let mut builder = Builder {
            given: [inputs, params, scalars],
            operations: Vec::new(),
            known: HashMap::new(),
            seen: HashMap::new(),
        };
        let result = builder.value(expr, MAX_DEPTH)?;
        Ok(Self { operations: builder.operations, result })
    }
}

struct Builder {
    /// The numbers of inputs, parameters and scalars.
    given: [usize; 3],
    operations: Vec<Operation>,
    known: HashMap<Operation, Value>,
    /// Values of shared parts, so that they are gone through once.
    seen: HashMap<*const Node, Value>,
}

impl Builder {
    fn value(&mut self, expr: &Expr, depth: usize) -> Result<Value> {
        let address: *const Node = expr.node();
        if let Some(&value) = self.seen.get(&address) {
            return Ok(value);
        }
        let Some(depth) = depth.checked_sub(1) else {
            return Err(ComputeError::argument(
                "depth of an expression",
                format!("more than {MAX_DEPTH}"),
                "at most that; evaluate part of it first",
            ));
        };
        let [inputs, params, scalars] = self.given;
        let present = |what, i: usize, n: usize, value| {
            if i < n {
                Ok(value)
            } else {
                Err(ComputeError::argument(what, format!("{i} of {n}"), "one of those given"))
            }
        };
        let value = match expr.node() {
            Node::Constant(c) => Value::Constant(c.to_bits()),
            &Node::Input(i) => present("input of an expression", i, inputs, Value::Input(i))?,
            &Node::Param(i) => present("parameter of an expression", i, params, Value::Param(i))?,
            &Node::Scalar(i) => present("scalar of an expression", i, scalars, Value::Scalar(i))?,
            Node::Unary(op, a) => {
                let a = self.value(a, depth)?;
                self.emit(Operation::Unary(*op, a))
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.value(a, depth)?, self.value(b, depth)?);
                self.emit(Operation::Binary(*op, a, b))
            }
            Node::Select(c, a, b) => {
                let c = self.value(c, depth)?;
                let (a, b) = (self.value(a, depth)?, self.value(b, depth)?);
                self.emit(Operation::Select(c, a, b))
            }
        };
        self.seen.insert(address, value);
        Ok(value)
    }

    fn emit(&mut self, operation: Operation) -> Value {
        let next = Value::Result(self.operations.len());
        let value = *self.known.entry(operation).or_insert(next);
        if value == next {
            self.operations.push(operation);
        }
        value
    }
}

/// An operation on one number.
pub(crate) fn unary(op: Unary, a: f32) -> f32 {
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
pub(crate) fn binary(op: Binary, a: f32, b: f32) -> f32 {
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
