//! Energies of the derivatives of a field.

use crate::Dims;
use crate::cpu::Cpu;
use crate::cpu::simd::{LANES, Vectors, kernel};
use crate::cpu::stencil::{
    TASK, along_x, along_y, along_z, differences, neighbours, row, second_differences,
};

use super::cells::load_some;

/// The harmonic and the bending energy. All arguments have been checked; `factors` are one over the
/// squares of the spacing.
pub(super) fn energies(
    cpu: &Cpu,
    field: &[f32],
    dims: Dims,
    scale: [f64; 3],
    spacing: [f64; 3],
    factors: [f32; 3],
) -> [f64; 2] {
    let n = field.len() / 3;
    let inverse = spacing.map(|h| 1.0 / h);
    let (rows, all) = (TASK.div_ceil(dims[0]), dims[1] * dims[2]);
    let tasks = all.div_ceil(rows);
    // The pieces are the same for any number of threads.
    let parts = cpu.collect(3 * tasks, |task| {
        let (a, first) = (task / tasks, task % tasks * rows);
        let component = &field[a * n..(a + 1) * n];
        let range = [first, (first + rows).min(all)];
        let [harmonic, bending] =
            energies_of_rows(cpu.simd(), component, dims, inverse, factors, range);
        let square = scale[a] * scale[a];
        [square * harmonic, square * bending]
    });
    parts.iter().fold([0.0; 2], |a, b| [a[0] + b[0], a[1] + b[1]])
}

/// Adds the squares of a row.
#[inline(always)]
fn add_squares<V: Vectors>(v: V, row: &[f32], sum: V::D) -> V::D {
    let mut sum = sum;
    for at in (0..row.len()).step_by(LANES) {
        let x = v.widen(load_some(v, &row[at..], LANES.min(row.len() - at)));
        sum = v.add_wide(sum, v.mul_wide(x, x));
    }
    sum
}

kernel! {
    fn energies_of_rows<V>(
        v,
        src: &[f32],
        dims: Dims,
        inverse: [f64; 3],
        factors: [f32; 3],
        rows: [usize; 2],
    ) -> [f64; 2] {
        let nx = dims[0];
        let mut work = vec![0f32; 3 * nx];
        let (first, rest) = work.split_at_mut(nx);
        let (second, other) = rest.split_at_mut(nx);
        let zero = v.splat_wide(0.0);
        let (mut harmonic, mut straight, mut mixed) = (zero, zero, zero);
        for i in rows[0]..rows[1] {
            let at @ [y, z] = [i % dims[1], i / dims[1]];
            let here = row(src, dims, y, z);
            along_x(v, here, inverse[0], first);
            harmonic = add_squares(v, first, harmonic);
            along_y(v, src, dims, inverse[1], at, first);
            harmonic = add_squares(v, first, harmonic);
            along_x(v, first, inverse[0], second);
            mixed = add_squares(v, second, mixed);
            along_z(v, src, dims, inverse[2], at, first);
            harmonic = add_squares(v, first, harmonic);
            along_x(v, first, inverse[0], second);
            mixed = add_squares(v, second, mixed);
            // Along z, of the rows before and after, and then along y.
            let (before, after, scale) = neighbours(y, dims[1]);
            along_z(v, src, dims, inverse[2], [before, z], first);
            along_z(v, src, dims, inverse[2], [after, z], second);
            differences(v, first, second, (scale * inverse[1]) as f32, other);
            mixed = add_squares(v, other, mixed);

            for x in [0, nx - 1] {
                let (before, after, _) = neighbours(x, nx);
                first[x] = ((here[after] - here[x]) - (here[x] - here[before])) * factors[0];
            }
            if nx > 2 {
                let rows = [&here[..nx - 2], &here[1..nx - 1], &here[2..]];
                second_differences::<V, false>(v, rows, factors[0], &mut first[1..nx - 1]);
            }
            straight = add_squares(v, first, straight);
            let rows = [row(src, dims, before, z), here, row(src, dims, after, z)];
            second_differences::<V, false>(v, rows, factors[1], first);
            straight = add_squares(v, first, straight);
            let (before, after, _) = neighbours(z, dims[2]);
            let rows = [row(src, dims, y, before), here, row(src, dims, y, after)];
            second_differences::<V, false>(v, rows, factors[2], first);
            straight = add_squares(v, first, straight);
        }
        // Both orders of the mixed derivatives count.
        let bending = v.add_wide(straight, v.add_wide(mixed, mixed));
        let mut lanes = [[0f64; LANES]; 2];
        v.store_wide(harmonic, &mut lanes[0]);
        v.store_wide(bending, &mut lanes[1]);
        lanes.map(|lanes| lanes.into_iter().sum())
    }
}
