//! The structure of an expression: its operations without its constants, which is the key of a kernel.

use std::collections::HashMap;

use crate::ops::linear::{Linear, Operation, Value, binary, unary};

/// An operation of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Step {
    /// The operations. `Value::Param` is a number that the kernel gets as a parameter; there are no constants.
    pub(super) operation: Operation,
    /// Whether the value differs from element to element.
    pub(super) varies: bool,
}

/// The operations of an expression, with its inputs and numbers counted by their first use.
/// Expressions that differ in numbers only have the same structure.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Structure {
    pub(super) steps: Vec<Step>,
    pub(super) result: Value,
    pub(super) inputs: usize,
    pub(super) numbers: usize,
}

/// A structure, and what it is to be evaluated with.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) structure: Structure,
    /// For each input of the structure its place among those of the expression.
    pub(super) inputs: Vec<usize>,
    /// The numbers.
    pub(super) numbers: Vec<f32>,
}

/// A value of the expression.
#[derive(Debug, Clone, Copy)]
enum Known {
    /// A number that is known here.
    Host(f32),
    /// A value that the kernel finds, by its name there, and whether it varies.
    Device(Value, bool),
}

struct Planner<'a> {
    params: &'a [f32],
    /// For each input the first one that is the same buffer.
    first_same: Vec<usize>,
    results: Vec<Known>,
    steps: Vec<Step>,
    inputs: Vec<usize>,
    input_slots: HashMap<usize, usize>,
    numbers: Vec<f32>,
    number_slots: HashMap<Value, usize>,
}

impl Plan {
    /// Constant folding: operations on numbers alone are done at once. `addresses` show which inputs are the same.
    pub(super) fn new(linear: &Linear, params: &[f32], addresses: &[u64]) -> Self {
        let mut firsts = HashMap::new();
        let first_same =
            addresses.iter().enumerate().map(|(i, a)| *firsts.entry(*a).or_insert(i)).collect();
        let mut planner = Planner {
            params,
            first_same,
            results: Vec::with_capacity(linear.operations.len()),
            steps: Vec::new(),
            inputs: Vec::new(),
            input_slots: HashMap::new(),
            numbers: Vec::new(),
            number_slots: HashMap::new(),
        };
        for &operation in &linear.operations {
            let known = planner.step(operation);
            planner.results.push(known);
        }
        let (result, _) = planner.named(linear.result);
        let structure = Structure {
            steps: planner.steps,
            result,
            inputs: planner.inputs.len(),
            numbers: planner.numbers.len(),
        };
        Self { structure, inputs: planner.inputs, numbers: planner.numbers }
    }
}

impl Planner<'_> {
    fn known(&mut self, value: Value) -> Known {
        match value {
            Value::Constant(bits) => Known::Host(f32::from_bits(bits)),
            Value::Param(i) => Known::Host(self.params[i]),
            Value::Scalar(_) => Known::Device(value, false),
            Value::Input(i) => {
                let first = self.first_same[i];
                let next = self.inputs.len();
                let slot = *self.input_slots.entry(first).or_insert(next);
                if slot == next {
                    self.inputs.push(first);
                }
                Known::Device(Value::Input(slot), true)
            }
            Value::Result(i) => self.results[i],
        }
    }

    /// The name of a value in the kernel, and whether it varies. A number becomes a parameter.
    fn named(&mut self, value: Value) -> (Value, bool) {
        match self.known(value) {
            Known::Device(name, varies) => (name, varies),
            Known::Host(number) => {
                // Numbers are told apart by where they come from, not by what they are: the
                // structure does not change when two of them happen to be equal.
                let next = self.numbers.len();
                let slot = *self.number_slots.entry(value).or_insert(next);
                if slot == next {
                    self.numbers.push(number);
                }
                (Value::Param(slot), false)
            }
        }
    }

    fn step(&mut self, operation: Operation) -> Known {
        let (operation, varies) = match operation {
            Operation::Unary(op, a) => {
                if let Known::Host(a) = self.known(a) {
                    return Known::Host(unary(op, a));
                }
                let (a, varies) = self.named(a);
                (Operation::Unary(op, a), varies)
            }
            Operation::Binary(op, a, b) => {
                if let (Known::Host(a), Known::Host(b)) = (self.known(a), self.known(b)) {
                    return Known::Host(binary(op, a, b));
                }
                let ((a, first), (b, second)) = (self.named(a), self.named(b));
                (Operation::Binary(op, a, b), first || second)
            }
            Operation::Select(c, a, b) => {
                let known = [c, a, b].map(|v| self.known(v));
                if let [Known::Host(c), Known::Host(a), Known::Host(b)] = known {
                    return Known::Host(if c == 0.0 { b } else { a });
                }
                let [c, a, b] = [c, a, b].map(|v| self.named(v));
                (Operation::Select(c.0, a.0, b.0), c.1 || a.1 || b.1)
            }
        };
        self.steps.push(Step { operation, varies });
        Known::Device(Value::Result(self.steps.len() - 1), varies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::expression::{Expr, param, scalar, x};

    fn plan(expr: &Expr, params: &[f32], addresses: &[u64]) -> Plan {
        let linear = Linear::new(expr, addresses.len(), params.len(), 2).unwrap();
        Plan::new(&linear, params, addresses)
    }

    #[test]
    fn numbers_are_no_part_of_the_structure() {
        let expr = |c: f32| (x(2) * param(1) + c) * (param(0) - 0.5) + scalar(1) * x(1);
        let a = plan(&expr(0.5), &[2.0, 3.0], &[10, 20, 30]);
        let b = plan(&expr(3.0), &[3.0, 3.0], &[10, 20, 30]);
        assert_eq!(a.structure, b.structure);
        assert_eq!((a.inputs, a.numbers), (vec![2, 1], vec![3.0, 0.5, 1.5]));
        assert_eq!(b.numbers, [3.0, 3.0, 2.5]);
    }

    #[test]
    fn a_buffer_is_read_once() {
        let twice = plan(&(x(0) + x(1)), &[], &[7, 7]);
        assert_eq!((twice.structure.inputs, twice.inputs), (1, vec![0]));
    }
}
