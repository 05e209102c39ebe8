//! Reductions on the GPU: a kernel is generated for each list of reductions, and cached.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::declare::size_of_is_known;
use super::{Arg, Cuda, CudaBuffer, Program, SCRATCH, Shape};
use crate::device::{DeviceBuffer, Memory};
use crate::error::{Result, check_len};
use crate::ops::Reduce;
use crate::ops::reduce::{Reduction, check};

/// The threads of a block.
pub(super) const THREADS: u32 = 256;

/// The most blocks of a launch: four on each multiprocessor of the largest GPUs, all at once. This affects the
/// rounding of the result, and so is the same for all GPUs.
pub(super) const BLOCKS: usize = 528;

/// The most numbers of a launch, so that their parts stay in registers.
const MOST_TERMS: usize = 24;
/// Bytes of the parts of blocks, at the begin of the scratch; the count of blocks comes after them.
pub(super) const PARTIALS: usize = MOST_TERMS * BLOCKS * size_of::<f64>();
const _: () = assert!(PARTIALS + size_of::<u32>() <= SCRATCH);
/// The most inputs of a launch.
const MOST_INPUTS: usize = 8;

/// The number of programs that are kept before all are discarded: more than programs have lists of numbers.
const MOST_PROGRAMS: usize = 2000;

plain! {
    /// Where the numbers of a launch go.
    struct Places {
        at: [u32; MOST_TERMS],
    }
}

impl Reduce for Cuda {
    fn reduce(&self, inputs: &[&CudaBuffer<f32>], what: &[Reduction]) -> Result<Vec<f64>> {
        let mut out = self.alloc_unset(what.len())?;
        self.reduce_into(inputs, what, &mut out)?;
        if what.is_empty() { Ok(Vec::new()) } else { self.download(&out) }
    }

    fn reduce_into(
        &self,
        inputs: &[&CudaBuffer<f32>],
        what: &[Reduction],
        out: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        check_len("output of a reduction", what.len(), out.len())?;
        let lengths: Vec<usize> = inputs.iter().map(|b| b.len()).collect();
        let n = check(&lengths, what)?;
        for group in groups(what) {
            let program = program(&group.terms, group.inputs.len());
            let mut args: Vec<Arg> = group.inputs.iter().map(|&i| inputs[i].into()).collect();
            let places = Places { at: group.places };
            args.extend([(&mut *out).into(), Arg::of(places), Arg::of(n as u64)]);
            let blocks = n.div_ceil(4 * THREADS as usize).clamp(1, BLOCKS);
            let shape = Shape::blocks(blocks, THREADS);
            self.with_scratch(|address| {
                args.push(Arg::memory(address, PARTIALS));
                args.push(Arg::memory(address + PARTIALS as u64, size_of::<u32>()));
                // SAFETY: the parameters are those that the text is written for; inputs have `n`
                // elements, places are within the output, and the scratch has room for the parts of
                // the most numbers and blocks.
                unsafe { self.launch(program.kernel(0), shape, &args, &[]) }
            })?;
        }
        Ok(())
    }
}

/// Numbers of one launch.
#[derive(Debug, PartialEq, Default)]
struct Group {
    /// The numbers, of inputs counted within the group.
    terms: Vec<Reduction>,
    /// Where they go.
    places: [u32; MOST_TERMS],
    /// The inputs of the group.
    inputs: Vec<usize>,
}

/// The same number of the inputs that `of` gives for its inputs.
fn with_inputs(r: Reduction, mut of: impl FnMut(usize) -> usize) -> Reduction {
    match r {
        Reduction::Sum(a) => Reduction::Sum(of(a)),
        Reduction::SumSquares(a) => Reduction::SumSquares(of(a)),
        Reduction::SumAbs(a) => Reduction::SumAbs(of(a)),
        Reduction::Dot(a, b) => Reduction::Dot(of(a), of(b)),
        Reduction::SumSquaredDifference(a, b) => Reduction::SumSquaredDifference(of(a), of(b)),
        Reduction::Min(a) => Reduction::Min(of(a)),
        Reduction::Max(a) => Reduction::Max(of(a)),
        Reduction::MaxAbs(a) => Reduction::MaxAbs(of(a)),
        Reduction::CountNonFinite(a) => Reduction::CountNonFinite(of(a)),
    }
}

/// The launches for a list of numbers: one, unless there are very many. Numbers of the same inputs
/// are kept together.
fn groups(what: &[Reduction]) -> Vec<Group> {
    let mut order: Vec<usize> = (0..what.len()).collect();
    let fits = |group: &Group, r: Reduction| {
        let [a, b] = r.inputs();
        let new = |i: usize| usize::from(!group.inputs.contains(&i));
        let more = new(a) + if a == b { 0 } else { new(b) };
        group.terms.len() < MOST_TERMS && group.inputs.len() + more <= MOST_INPUTS
    };
    let add = |group: &mut Group, place: usize| {
        group.places[group.terms.len()] = place as u32;
        let inputs = &mut group.inputs;
        group.terms.push(with_inputs(what[place], |i| {
            inputs.iter().position(|&known| known == i).unwrap_or_else(|| {
                inputs.push(i);
                inputs.len() - 1
            })
        }));
    };
    let split = |order: &[usize]| {
        let mut groups: Vec<Group> = Vec::new();
        for &place in order {
            match groups.last_mut() {
                Some(group) if fits(group, what[place]) => add(group, place),
                _ => {
                    let mut group = Group::default();
                    add(&mut group, place);
                    groups.push(group);
                }
            }
        }
        groups
    };
    let groups = split(&order);
    if groups.len() <= 1 {
        return groups;
    }
    order.sort_by_key(|&place| what[place].inputs());
    split(&order)
}

/// The program for a list of numbers.
fn program(terms: &[Reduction], inputs: usize) -> Program {
    static PROGRAMS: LazyLock<Mutex<HashMap<Vec<Reduction>, Program>>> =
        LazyLock::new(Mutex::default);
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = programs.get(terms) {
        return program.clone();
    }
    let mut text = macros(terms, inputs);
    text.push_str(include_str!("kernels/reduce/reduce.cu"));
    text.push_str(&size_of_is_known::<Places>());
    let program = Program::new("reduce", &text);
    if programs.len() >= MOST_PROGRAMS {
        programs.clear();
    }
    programs.insert(terms.to_vec(), program.clone());
    program
}

/// A thread's state for a number, how it adds the element, and its part as a double. `a0` is the element of input
/// 0.
fn term(t: usize, r: Reduction) -> [String; 3] {
    let [a, b] = r.inputs();
    let float = |value: &str| format!("float t{t} = {value};");
    let wide = format!("double t{t} = 0.0;");
    let (begin, add) = match r {
        Reduction::Sum(_) => (wide, format!("t{t} += (double)a{a};")),
        Reduction::SumAbs(_) => (wide, format!("t{t} += fabs((double)a{a});")),
        // The product of two floats is exact: nothing is lost by the fused operation.
        Reduction::SumSquares(_) | Reduction::Dot(..) => {
            (wide, format!("t{t} = fma((double)a{a}, (double)a{b}, t{t});"))
        }
        Reduction::SumSquaredDifference(..) => (
            wide,
            format!(
                "const double e{t} = (double)a{a} - (double)a{b}; t{t} = fma(e{t}, e{t}, t{t});"
            ),
        ),
        Reduction::Min(_) => (float("INFINITY_F"), format!("t{t} = fminf(t{t}, a{a});")),
        Reduction::Max(_) => (float("-INFINITY_F"), format!("t{t} = fmaxf(t{t}, a{a});")),
        Reduction::MaxAbs(_) => (float("0.0f"), format!("t{t} = fmaxf(t{t}, fabsf(a{a}));")),
        Reduction::CountNonFinite(_) => {
            (format!("u32 t{t} = 0;"), format!("t{t} += fabsf(a{a}) < INFINITY_F ? 0u : 1u;"))
        }
    };
    [begin, add, format!("(double)t{t}")]
}

/// The macros that `reduce.cu` is written with.
fn macros(terms: &[Reduction], inputs: usize) -> String {
    // Loads of a thread that are on their way at once: some 128 bytes.
    let fours = match inputs {
        0 | 1 => 8,
        2 => 4,
        3 | 4 => 2,
        _ => 1,
    };
    let each = |range: Range<usize>, separator: &str, item: &dyn Fn(usize) -> String| {
        range.map(item).collect::<Vec<_>>().join(separator)
    };
    let bits = |is: fn(&Reduction) -> bool| {
        terms.iter().enumerate().map(|(t, r)| u32::from(is(r)) << t).sum::<u32>()
    };
    let minima = bits(|r| matches!(r, Reduction::Min(_)));
    let maxima = bits(|r| matches!(r, Reduction::Max(_) | Reduction::MaxAbs(_)));
    let parts: Vec<[String; 3]> = terms.iter().enumerate().map(|(t, &r)| term(t, r)).collect();
    let all = |which: usize, separator: &str| {
        each(0..terms.len(), separator, &|t| parts[t][which].clone())
    };
    let list = |item: &dyn Fn(usize) -> String| each(0..inputs, ", ", item);
    let quad = each(0..4, " ", &|c| {
        let component = ["x", "y", "z", "w"][c];
        format!("ADD({})", list(&|k| format!("q{k}[g].{component}")))
    });
    let mut text = String::new();
    let mut define = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "#define {name} {value}");
    };
    define("TERMS", format!("{}u", terms.len()));
    define("MINIMA", format!("{minima}u"));
    define("MAXIMA", format!("{maxima}u"));
    define("FOURS", format!("{fours}u"));
    define("BLOCKS", format!("{BLOCKS}u"));
    // All blocks at once on the largest GPUs, or half of them where parts need more registers.
    define("RESIDENT", if terms.len() <= 12 { "4" } else { "2" }.to_owned());
    define("INPUTS", list(&|k| format!("IN(float) x{k}")));
    define("BEGIN", all(0, " "));
    define("QUADS", format!("float4 {};", list(&|k| format!("q{k}[FOURS]"))));
    define("LOAD(g, i)", each(0..inputs, " ", &|k| format!("q{k}[g] = load4(x{k}, i);")));
    let values = each(0..inputs, " ", &|k| format!("const float a{k} = v{k};"));
    define(
        &format!("ADD({})", list(&|k| format!("v{k}"))),
        format!("{{ {values} {} }}", all(1, " ")),
    );
    define("ADD_QUAD(g)", quad);
    define("ADD_ELEMENT(i)", format!("ADD({})", list(&|k| format!("x{k}[i]"))));
    define("PARTS", format!("{{ {} }}", all(2, ", ")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_numbers_take_one_launch_and_many_read_each_input_once() {
        use Reduction::{Dot, Sum, SumSquares};
        let few = groups(&[Dot(3, 1), Sum(1)]);
        assert_eq!(few.len(), 1);
        assert_eq!((&few[0].terms, &few[0].inputs), (&vec![Dot(0, 1), Sum(1)], &vec![3, 1]));
        let sums = (0..40).map(Sum).chain((0..40).map(SumSquares));
        let many = groups(&sums.collect::<Vec<_>>());
        let mut read: Vec<usize> = many.iter().flat_map(|g| g.inputs.clone()).collect();
        read.sort_unstable();
        assert_eq!(read, (0..40).collect::<Vec<_>>());
        let mut places: Vec<u32> =
            many.iter().flat_map(|g| g.places[..g.terms.len()].to_vec()).collect();
        places.sort_unstable();
        assert_eq!(places, (0..80).collect::<Vec<_>>());
        assert!(groups(&[]).is_empty());
    }
}
