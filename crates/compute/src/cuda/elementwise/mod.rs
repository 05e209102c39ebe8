//! Fused expressions on the GPU: a kernel is generated for each structure of an expression, with its constants
//! as parameters, and cached.

mod structure;
mod text;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::{Arg, Cuda, CudaBuffer, Program, Shape};
use crate::device::{DeviceBuffer, Memory};
use crate::error::{Result, check_len};
use crate::ops::Elementwise;
use crate::ops::expression::Expr;
use crate::ops::linear::Linear;
use structure::{Plan, Structure};
use text::{MOST_NUMBERS, MOST_POINTERS, NUMBERS, Tile};

/// The threads of a block.
const THREADS: u32 = 256;

/// The number of kernels that are kept before all are discarded: more than programs have expressions.
const MOST_KERNELS: usize = 2000;

plain! {
    /// Numbers that pass together.
    struct Numbers {
        v: [f32; NUMBERS],
    }
}

/// The kernel of a structure.
#[derive(Debug)]
struct Kernel {
    program: Program,
    tile: Tile,
}

impl Kernel {
    fn of(structure: &Structure) -> Arc<Self> {
        static KERNELS: LazyLock<Mutex<HashMap<Structure, Arc<Kernel>>>> =
            LazyLock::new(Mutex::default);
        let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = kernels.get(structure) {
            return Arc::clone(kernel);
        }
        let tile = Tile::of(structure);
        let program = Program::new("expression", &text::text(structure, tile));
        let kernel = Arc::new(Self { program, tile });
        if kernels.len() >= MOST_KERNELS {
            kernels.clear();
        }
        kernels.insert(structure.clone(), Arc::clone(&kernel));
        kernel
    }
}

impl Elementwise for Cuda {
    fn eval(
        &self,
        expr: &Expr,
        inputs: &[&CudaBuffer<f32>],
        params: &[f32],
        scalars: Option<&CudaBuffer<f64>>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        for input in inputs {
            check_len("input of an expression", out.len(), input.len())?;
        }
        let inputs: Vec<Arg> = inputs.iter().map(|&b| b.into()).collect();
        self.evaluate(expr, &inputs, params, scalars, out)
    }

    fn eval_in_place(
        &self,
        expr: &Expr,
        io: &mut CudaBuffer<f32>,
        inputs: &[&CudaBuffer<f32>],
        params: &[f32],
        scalars: Option<&CudaBuffer<f64>>,
    ) -> Result<()> {
        for input in inputs {
            check_len("input of an expression", io.len(), input.len())?;
        }
        let first = Arg::from(&*io);
        let inputs: Vec<Arg> =
            std::iter::once(first).chain(inputs.iter().map(|&b| b.into())).collect();
        self.evaluate(expr, &inputs, params, scalars, io)
    }
}

impl Cuda {
    /// Evaluates an expression of inputs as long as `out`, which may be one of them.
    fn evaluate(
        &self,
        expr: &Expr,
        inputs: &[Arg],
        params: &[f32],
        scalars: Option<&CudaBuffer<f64>>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let scalar_count = scalars.map_or(0, DeviceBuffer::len);
        let linear = Linear::new(expr, inputs.len(), params.len(), scalar_count)?;
        let n = out.len();
        if n == 0 {
            return Ok(());
        }
        // A buffer that is given several times is read once.
        let addresses: Vec<u64> = inputs.iter().map(Arg::address).collect();
        let plan = Plan::new(&linear, params, &addresses);
        let kernel = Kernel::of(&plan.structure);

        // What does not fit into the parameters of a kernel goes through memory.
        let mut args = Vec::new();
        let (mut numbers, mut pointers) = (None, None);
        if plan.numbers.len() > MOST_NUMBERS {
            args.push((&*numbers.insert(self.upload(&plan.numbers)?)).into());
        } else {
            for piece in plan.numbers.chunks(NUMBERS) {
                let mut values = Numbers { v: [0.0; NUMBERS] };
                values.v[..piece.len()].copy_from_slice(piece);
                args.push(Arg::of(values));
            }
        }
        if plan.inputs.len() > MOST_POINTERS {
            let list: Vec<u64> = plan.inputs.iter().map(|&i| addresses[i]).collect();
            args.push((&*pointers.insert(self.upload(&list)?)).into());
        } else {
            args.extend(plan.inputs.iter().map(|&i| inputs[i].clone()));
        }
        args.extend([Arg::optional(scalars), out.into(), Arg::of(n as u64)]);
        let shape = Shape::blocks(n.div_ceil(THREADS as usize * kernel.tile.elements()), THREADS);
        // SAFETY: the parameters are those that the text is written for; inputs are as long as
        // `out`, and elements beyond its length are not touched. Each thread reads its elements of
        // all inputs before it writes them, so `out` may be one of the inputs.
        unsafe { self.launch(kernel.program.kernel(0), shape, &args, inputs) }
    }
}
