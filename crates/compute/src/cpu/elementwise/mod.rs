//! Fused elementwise operations on the CPU: an expression is compiled to instructions over registers that hold
//! a block of elements and stay in the L1 cache.

mod program;

use super::simd::{LANES, Lanes, Vectors, kernel};
use super::{Cpu, CpuBuffer};
use crate::device::DeviceBuffer;
use crate::error::{Result, check_len};
use crate::ops::Elementwise;
use crate::ops::elementwise::{Binary, Expr, Unary};
use crate::ops::{functions, linear};
use program::{Op, Operand, Program, compile};

/// The vectors of a block.
const BLOCK: usize = 1024 / LANES;

/// The elements of a task.
const TASK: usize = 1 << 15;

impl Elementwise for Cpu {
    fn eval(
        &self,
        expr: &Expr,
        inputs: &[&CpuBuffer<f32>],
        params: &[f32],
        scalars: Option<&CpuBuffer<f64>>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        for input in inputs {
            check_len("input of an expression", out.len(), input.len())?;
        }
        let scalars = scalars.map_or(&[][..], CpuBuffer::as_slice);
        let program = compile(expr, inputs.len(), params, scalars)?;
        self.chunks_mut(out.as_mut_slice(), TASK, |task, out| {
            let pieces: Vec<&[f32]> =
                inputs.iter().map(|i| &i.as_slice()[task * TASK..][..out.len()]).collect();
            evaluate(self.simd(), &program, &pieces, false, out);
        });
        Ok(())
    }

    fn eval_in_place(
        &self,
        expr: &Expr,
        io: &mut CpuBuffer<f32>,
        inputs: &[&CpuBuffer<f32>],
        params: &[f32],
        scalars: Option<&CpuBuffer<f64>>,
    ) -> Result<()> {
        for input in inputs {
            check_len("input of an expression", io.len(), input.len())?;
        }
        let scalars = scalars.map_or(&[][..], CpuBuffer::as_slice);
        let program = compile(expr, inputs.len() + 1, params, scalars)?;
        self.chunks_mut(io.as_mut_slice(), TASK, |task, io| {
            // The first piece is read from `io` itself.
            let mut pieces: Vec<&[f32]> = vec![&[]];
            pieces.extend(inputs.iter().map(|i| &i.as_slice()[task * TASK..][..io.len()]));
            evaluate(self.simd(), &program, &pieces, true, io);
        });
        Ok(())
    }
}

/// A register, or an input, of a block.
#[derive(Clone, Copy)]
enum Values<'a> {
    Same(f32),
    Each(&'a [Lanes]),
}

impl Values<'_> {
    #[inline(always)]
    fn get<V: Vectors>(self, v: V, i: usize) -> V::F {
        match self {
            Self::Same(value) => v.splat(value),
            Self::Each(values) => v.load(&values[i]),
        }
    }
}

kernel! {
    /// Evaluates the program; `in_place` means that `out` is the first input as well.
    fn evaluate<V>(v, program: &Program, inputs: &[&[f32]], in_place: bool, out: &mut [f32]) {
        let mut registers = vec![vec![[0f32; LANES]; BLOCK]; program.registers];
        // Inputs are read where they are, but for the ends, and for the one that is overwritten.
        let mut copies = vec![[[0f32; LANES]; BLOCK]; inputs.len()];
        let mut result = vec![[0f32; LANES]; BLOCK];
        for start in (0..out.len()).step_by(BLOCK * LANES) {
            let end = out.len().min(start + BLOCK * LANES);
            let count = (end - start).div_ceil(LANES);
            for (i, (input, copy)) in inputs.iter().zip(&mut copies).enumerate() {
                let from = if i == 0 && in_place {
                    &out[start..end]
                } else if end - start < count * LANES {
                    &input[start..end]
                } else {
                    continue;
                };
                copy.as_flattened_mut()[..from.len()].copy_from_slice(from);
            }
            let is_copied = |i: usize| (i == 0 && in_place) || end - start < count * LANES;
            for instruction in &program.instructions {
                let mut to = std::mem::take(&mut registers[instruction.to]);
                let values = |operand: Operand| match operand {
                    Operand::Uniform(value) => Values::Same(value),
                    Operand::Register(r) => Values::Each(&registers[r][..count]),
                    Operand::Input(i) if is_copied(i) => Values::Each(&copies[i][..count]),
                    Operand::Input(i) => Values::Each(inputs[i][start..end].as_chunks().0),
                };
                match instruction.op {
                    Op::Unary(op, a) => unary(v, op, values(a), &mut to[..count]),
                    Op::Binary(op, a, b) => binary(v, op, values(a), values(b), &mut to[..count]),
                    Op::Select(c, a, b) => {
                        choose(v, [values(c), values(a), values(b)], &mut to[..count]);
                    }
                }
                registers[instruction.to] = to;
            }
            let from = match program.result {
                Operand::Register(r) => registers[r].as_flattened(),
                Operand::Uniform(value) => {
                    result.as_flattened_mut().fill(value);
                    result.as_flattened()
                }
                Operand::Input(i) if is_copied(i) => copies[i].as_flattened(),
                Operand::Input(i) => &inputs[i][start..end],
            };
            out[start..end].copy_from_slice(&from[..end - start]);
        }
    }
}

/// One operation on a block.
#[inline(always)]
fn unary<V: Vectors>(v: V, op: Unary, a: Values<'_>, to: &mut [Lanes]) {
    macro_rules! each {
        ($x:ident => $value:expr) => {
            for (i, to) in to.iter_mut().enumerate() {
                let $x = a.get(v, i);
                v.store($value, to);
            }
        };
    }
    match op {
        Unary::Neg => each!(x => v.neg(x)),
        Unary::Abs => each!(x => v.abs(x)),
        Unary::Sqrt => each!(x => v.sqrt(x)),
        Unary::Exp | Unary::Log => {
            for (i, to) in to.iter_mut().enumerate() {
                v.store(a.get(v, i), to);
                if op == Unary::Exp {
                    for x in to {
                        *x = functions::exp(*x);
                    }
                } else {
                    for x in to {
                        *x = functions::log(*x);
                    }
                }
            }
        }
    }
}

/// One operation on two blocks.
#[inline(always)]
fn binary<V: Vectors>(v: V, op: Binary, a: Values<'_>, b: Values<'_>, to: &mut [Lanes]) {
    macro_rules! each {
        ($x:ident, $y:ident => $value:expr) => {
            match (a, b) {
                (Values::Each(a), Values::Each(b)) => {
                    for ((to, x), y) in to.iter_mut().zip(a).zip(b) {
                        let ($x, $y) = (v.load(x), v.load(y));
                        v.store($value, to);
                    }
                }
                (Values::Each(a), Values::Same(b)) => {
                    let $y = v.splat(b);
                    for (to, x) in to.iter_mut().zip(a) {
                        let $x = v.load(x);
                        v.store($value, to);
                    }
                }
                (Values::Same(a), Values::Each(b)) => {
                    let $x = v.splat(a);
                    for (to, y) in to.iter_mut().zip(b) {
                        let $y = v.load(y);
                        v.store($value, to);
                    }
                }
                (Values::Same(a), Values::Same(b)) => {
                    to.fill([linear::binary(op, a, b); LANES]);
                }
            }
        };
    }
    let (one, zero) = (v.splat(1.0), v.splat(0.0));
    match op {
        Binary::Add => each!(x, y => v.add(x, y)),
        Binary::Sub => each!(x, y => v.sub(x, y)),
        Binary::Mul => each!(x, y => v.mul(x, y)),
        Binary::Div => each!(x, y => v.div(x, y)),
        Binary::Min => each!(x, y => v.min(x, y)),
        Binary::Max => each!(x, y => v.max(x, y)),
        Binary::Less => each!(x, y => v.select(v.lt(x, y), one, zero)),
        Binary::LessEqual => each!(x, y => v.select(v.le(x, y), one, zero)),
        Binary::Equal => each!(x, y => v.select(v.eq(x, y), one, zero)),
        Binary::Pow => {
            for (i, to) in to.iter_mut().enumerate() {
                let (mut x, mut y) = ([0.0; LANES], [0.0; LANES]);
                v.store(a.get(v, i), &mut x);
                v.store(b.get(v, i), &mut y);
                for l in 0..LANES {
                    to[l] = functions::pow(x[l], y[l]);
                }
            }
        }
    }
}

/// The second where the first is not zero, else the third.
#[inline(always)]
fn choose<V: Vectors>(v: V, [c, a, b]: [Values<'_>; 3], to: &mut [Lanes]) {
    let zero = v.splat(0.0);
    for (i, to) in to.iter_mut().enumerate() {
        let is_zero = v.eq(c.get(v, i), zero);
        v.store(v.select(is_zero, b.get(v, i), a.get(v, i)), to);
    }
}
