// Products of sparse matrices with vectors. Entries are blocks of 3 x 3 numbers, in nine planes, where BLOCKS is 1, and numbers otherwise;
// vectors have COMPONENTS components. In double precision and in the order of the CPU.
#include "prelude.cuh"

// Adds what entry k gives its row.
DEVICE void add_entry(IN(u32) columns, IN(float) values, u64 entries, u64 width, IN(float) x, u64 k, double* sum) {
    const u64 j = min((u64)columns[k], width - 1);
#if BLOCKS
    const double a = x[j], b = x[width + j], c = x[2 * width + j];
#pragma unroll
    for (u32 r = 0; r < 3; ++r) {
        const u64 at = 3 * r * entries + k;
        sum[r] += (double)values[at] * a + (double)values[at + entries] * b + (double)values[at + 2 * entries] * c;
    }
#else
    const double value = values[k];
#pragma unroll
    for (u32 c = 0; c < COMPONENTS; ++c) sum[c] += value * (double)x[c * width + j];
#endif
}

// The sums of a row by a thread.
DEVICE void row_by_thread(IN(u32) starts, u64 row, IN(u32) columns, IN(float) values, u64 entries, u64 width, IN(float) x,
                          double* sum) {
    const u64 end = min((u64)starts[row + 1], entries);
    for (u64 k = starts[row]; k < end; ++k) add_entry(columns, values, entries, width, x, k, sum);
}

// What a warp adds to them, of a lane.
DEVICE void row_by_lane(IN(u32) starts, u64 row, IN(u32) columns, IN(float) values, u64 entries, u64 width, IN(float) x,
                        double* sum) {
    const u64 end = min((u64)starts[row + 1], entries);
    const u32 lane = threadIdx.x % WARP;
    for (u64 k = (u64)starts[row] + lane; k < end; k += WARP) add_entry(columns, values, entries, width, x, k, sum);
}

// An iteration of Chebyshev's for a number of a vector, with that of the product.
DEVICE float chebyshev_at(u64 at, IN(float) before, IN(float) x, IN(float) right, double omega, double gamma, double product) {
    const double last = before[at], now = x[at];
    return (float)(last + omega * (now - last + gamma * ((double)right[at] - product)));
}

KERNEL(product_by_threads, 256, IN(u32) starts, u64 rows, IN(u32) columns, IN(float) values, u64 entries, u64 width,
       IN(float) x, OUT(float) out) {
    const u64 row = global_thread();
    if (row >= rows) return;
    double sum[COMPONENTS] = {};
    row_by_thread(starts, row, columns, values, entries, width, x, sum);
#pragma unroll
    for (u32 c = 0; c < COMPONENTS; ++c) out[c * rows + row] = (float)sum[c];
}

// A warp a row.
KERNEL(product_by_warps, 256, IN(u32) starts, u64 rows, IN(u32) columns, IN(float) values, u64 entries, u64 width,
       IN(float) x, OUT(float) out) {
    const u64 row = global_thread() / WARP;
    if (row >= rows) return;
    double sum[COMPONENTS] = {};
    row_by_lane(starts, row, columns, values, entries, width, x, sum);
#pragma unroll
    for (u32 c = 0; c < COMPONENTS; ++c) {
        const double all = warp_sum(sum[c]);
        if (threadIdx.x % WARP == 0) out[c * rows + row] = (float)all;
    }
}

KERNEL(chebyshev_by_threads, 256, IN(u32) starts, u64 rows, IN(u32) columns, IN(float) values, u64 entries, u64 width,
       IN(float) before, IN(float) x, IN(float) right, double omega, double gamma, OUT(float) out) {
    const u64 row = global_thread();
    if (row >= rows) return;
    double sum[COMPONENTS] = {};
    row_by_thread(starts, row, columns, values, entries, width, x, sum);
#pragma unroll
    for (u32 c = 0; c < COMPONENTS; ++c) {
        out[c * rows + row] = chebyshev_at(c * rows + row, before, x, right, omega, gamma, sum[c]);
    }
}

// A warp a row.
KERNEL(chebyshev_by_warps, 256, IN(u32) starts, u64 rows, IN(u32) columns, IN(float) values, u64 entries, u64 width,
       IN(float) before, IN(float) x, IN(float) right, double omega, double gamma, OUT(float) out) {
    const u64 row = global_thread() / WARP;
    if (row >= rows) return;
    double sum[COMPONENTS] = {};
    row_by_lane(starts, row, columns, values, entries, width, x, sum);
#pragma unroll
    for (u32 c = 0; c < COMPONENTS; ++c) {
        const double all = warp_sum(sum[c]);
        if (threadIdx.x % WARP == 0) {
            out[c * rows + row] = chebyshev_at(c * rows + row, before, x, right, omega, gamma, all);
        }
    }
}
