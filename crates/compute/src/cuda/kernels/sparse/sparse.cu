// What is made of sparse matrices beside their products, and products of dense ones. In double precision and in the order of the CPU.
#include "prelude.cuh"

// An entry of a plane a thread.
KERNEL(refill, 256, IN(float) contributions, u64 count, IN(u32) starts, IN(u32) list, u64 listed, u64 entries, u64 numbers,
       OUT(float) values) {
    const u64 i = global_thread();
    if (i >= numbers) return;
    const u64 plane = i / entries, k = i % entries, end = min((u64)starts[k + 1], listed);
    double sum = 0.0;
    for (u64 at = starts[k]; at < end; ++at)
        sum += (double)contributions[plane * count + min((u64)list[at], count - 1)];
    values[i] = (float)sum;
}

// Vectors that go through the matrix together.
#define TOGETHER 4u

// A warp a row; four vectors for each of the blocks along y.
KERNEL(dense_product, 256, IN(float) matrix, u64 size, IN(float) x, u64 vectors, OUT(float) out) {
    const u64 row = global_thread() / WARP;
    const u32 lane = threadIdx.x % WARP;
    if (row >= size) return;
    for (u64 first = TOGETHER * blockIdx.y; first < vectors; first += TOGETHER * gridDim.y) {
        double sum[TOGETHER] = {};
        for (u64 k = lane; k < size; k += WARP) {
            const double m = matrix[row * size + k];
#pragma unroll
            for (u32 v = 0; v < TOGETHER; ++v)
                if (first + v < vectors) sum[v] += m * (double)x[(first + v) * size + k];
        }
#pragma unroll
        for (u32 v = 0; v < TOGETHER; ++v) {
            const double all = warp_sum(sum[v]);
            if (lane == 0 && first + v < vectors) out[(first + v) * size + row] = (float)all;
        }
    }
}

DEVICE bool is_finite(double v) { return fabs(v) < INFINITY_D; }

// The inverses of what is on the diagonal: a number, or a block of nine.
KERNEL(inverse_diagonal, 256, IN(u32) starts, u64 rows, IN(u32) columns, IN(float) values, u64 entries, u32 numbers,
       OUT(float) out) {
    const u64 row = global_thread();
    if (row >= rows) return;
    const u64 end = min((u64)starts[row + 1], entries);
    u64 k = starts[row];
    while (k < end && (u64)columns[k] != row) ++k;
    if (k >= end) {
        for (u32 p = 0; p < numbers; ++p) out[p * rows + row] = 0.0f;
        return;
    }
    if (numbers == 1) {
        const double r = 1.0 / (double)values[k];
        out[row] = is_finite(r) ? (float)r : 0.0f;
        return;
    }
    double m[9];
#pragma unroll
    for (u32 p = 0; p < 9; ++p) m[p] = (double)values[p * entries + k];
    const double a = m[4] * m[8] - m[5] * m[7], b = m[5] * m[6] - m[3] * m[8], c = m[3] * m[7] - m[4] * m[6];
    const double r = 1.0 / (m[0] * a + m[1] * b + m[2] * c);
    const double found[9] = {a * r, (m[2] * m[7] - m[1] * m[8]) * r, (m[1] * m[5] - m[2] * m[4]) * r,
                             b * r, (m[0] * m[8] - m[2] * m[6]) * r, (m[2] * m[3] - m[0] * m[5]) * r,
                             c * r, (m[1] * m[6] - m[0] * m[7]) * r, (m[0] * m[4] - m[1] * m[3]) * r};
#pragma unroll
    for (u32 p = 0; p < 9; ++p) out[p * rows + row] = is_finite(r) ? (float)found[p] : 0.0f;
}

// A row a thread; blocks where there are nine numbers of each.
KERNEL(diagonal_product, 256, IN(float) diagonal, u64 rows, u32 numbers, u32 components, IN(float) x, OUT(float) out) {
    const u64 row = global_thread();
    if (row >= rows) return;
    if (numbers == 1) {
        for (u32 c = 0; c < components; ++c)
            out[c * rows + row] = (float)((double)diagonal[row] * (double)x[c * rows + row]);
        return;
    }
    const double a = x[row], b = x[rows + row], c = x[2 * rows + row];
    for (u32 r = 0; r < 3; ++r) {
        const u64 at = 3 * r * rows + row;
        out[r * rows + row] = (float)((double)diagonal[at] * a + (double)diagonal[at + rows] * b +
                                      (double)diagonal[at + 2 * rows] * c);
    }
}
