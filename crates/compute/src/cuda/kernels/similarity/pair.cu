// Joint histograms of two images on one grid, and the derivative of a function of them.
#include "columns.cuh"

#define THREADS 512u
// Voxels whose windows are added in the counters of a block.
#define CHUNK_BITS 15u
#define NONE 0xffffffffu
// The counters of a block have 32 bits and so many times larger units, as a power of two. What wraps
// around is carried over to the counters of all: at the soonest after 2^7 voxels of the largest weight,
// for no window is higher than 2/3.
#define SHIFT 7u

// Where values fall among the rows; `Rows` of pair.rs.
struct Rows { float low, per_value, last; };

// The row's first entry. What is not a number falls into the first row.
DEVICE u32 row_of(const Rows& rows, float f, u32 width) {
    const float row = (f - rows.low) * rows.per_value;
    return (u32)__float2int_rz(fminf(fmaxf(row, 0.0f), rows.last)) * width;
}

// A weight, 0 where it is negative or not finite: counters have no sign.
DEVICE float counted(float w) { return w > 0.0f && w < INFINITY_F ? w : 0.0f; }

// The sum of a thread's voxels that follow each other and touch the same entries.
struct Pending {
    u32 entry;
    float sum[4];
};

DEVICE void put_down(const Pending& p, float scale, bool fits, SHARED_POINTER(u32) here,
                     INOUT(u64) all) {
    if (p.entry == NONE) return;
    if (!fits) return flush_far(all + p.entry, p.sum, scale);
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
        const u32 v = (u32)__float2int_rn(p.sum[k] * scale);
        if (v == 0) continue;
        const u32 before = atomicAdd(&here[p.entry + k], v);
        if (before + v < before) atomicAdd(&all[p.entry + k], (u64)1 << (32 + SHIFT));
    }
}

DEVICE void take_up(Pending& p, const Rows& rows, const Columns& columns, float f, float m, float w,
                    float scale, bool fits, SHARED_POINTER(u32) here, INOUT(u64) all) {
    u32 column;
    float t, b[4];
    place_of(columns, m, column, t);
    window(t, b);
    const u32 entry = row_of(rows, f, columns.count) + column;
    if (entry != p.entry) {
        put_down(p, scale, fits, here, all);
        p.entry = entry;
#pragma unroll
        for (u32 k = 0; k < 4; ++k) p.sum[k] = 0.0f;
    }
#pragma unroll
    for (u32 k = 0; k < 4; ++k) p.sum[k] = fmaf(counted(w), b[k], p.sum[k]);
}

// Counts in fixed point: the largest weight is 2^31, `scale` the units of a weight of 1. Where the
// entries fit in shared memory (`here_entries` is then their number), a block has counters there. A
// block takes one chunk: a thread's sum of 64 windows is less than 2^31 of the larger units.
KERNEL(pair_histogram, AT_ONCE(THREADS, 2), IN(float) fixed, IN(float) moving, IN(float) weights, u64 n,
       Rows rows, Columns columns, float scale, u32 here_entries, INOUT(u64) counts) {
    DYNAMIC_SHARED(u32, here);
    const bool fits = here_entries > 0;
    for (u32 i = threadIdx.x; i < here_entries; i += THREADS) here[i] = 0;
    __syncthreads();
    const u64 first = (u64)blockIdx.x << CHUNK_BITS;
    const u32 len = n - first < (1u << CHUNK_BITS) ? (u32)(n - first) : 1u << CHUNK_BITS;
    if (fits) scale *= 1.0f / (float)(1u << SHIFT);
    Pending p;
    p.entry = NONE;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) p.sum[k] = 0.0f;
    for (u32 i = threadIdx.x; i < len / 4; i += THREADS) {
        const float4 f = load4(fixed, first / 4 + i), m = load4(moving, first / 4 + i);
        float4 w = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
        if (weights) w = load4(weights, first / 4 + i);
        take_up(p, rows, columns, f.x, m.x, w.x, scale, fits, here, counts);
        take_up(p, rows, columns, f.y, m.y, w.y, scale, fits, here, counts);
        take_up(p, rows, columns, f.z, m.z, w.z, scale, fits, here, counts);
        take_up(p, rows, columns, f.w, m.w, w.w, scale, fits, here, counts);
    }
    if (threadIdx.x < len % 4) {
        const u64 i = first + len / 4 * 4 + threadIdx.x;
        take_up(p, rows, columns, fixed[i], moving[i], weights ? weights[i] : 1.0f, scale, fits, here,
                counts);
    }
    put_down(p, scale, fits, here, counts);
    __syncthreads();
    for (u32 i = threadIdx.x; i < here_entries; i += THREADS) {
        const u32 v = here[i];
        if (v) atomicAdd(&counts[i], (u64)v << SHIFT);
    }
}

template <class T>
DEVICE float derivative_of(const Rows& rows, const Columns& columns, T table, float f, float m, float w) {
    u32 column;
    float t, d[4], derivative = 0.0f;
    const bool within = place_of(columns, m, column, t);
    window_derivative(t, d);
    const u32 entry = row_of(rows, f, columns.count) + column;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) derivative = fmaf(table[entry + k], d[k], derivative);
    return within ? derivative * columns.per_value * counted(w) : 0.0f;
}

template <class T>
DEVICE void derivatives_of(IN(float) fixed, IN(float) moving, IN(float) weights, u64 n, const Rows& rows,
                      const Columns& columns, T table, OUT(float) out) {
    for (u64 i = global_thread(); i < n / 4; i += global_threads()) {
        const float4 f = load4(fixed, i), m = load4(moving, i);
        float4 w = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
        if (weights) w = load4(weights, i);
        store4(out, i, make_float4(derivative_of(rows, columns, table, f.x, m.x, w.x),
                                   derivative_of(rows, columns, table, f.y, m.y, w.y),
                                   derivative_of(rows, columns, table, f.z, m.z, w.z),
                                   derivative_of(rows, columns, table, f.w, m.w, w.w)));
    }
    const u64 i = n / 4 * 4 + global_thread();
    if (i < n)
        out[i] = derivative_of(rows, columns, table, fixed[i], moving[i], weights ? weights[i] : 1.0f);
}

// The derivative of the function whose derivative in each entry is `table`, which is brought to shared
// memory where it has room for it.
KERNEL(pair_derivatives, AT_ONCE(THREADS, 2), IN(float) fixed, IN(float) moving, IN(float) weights, u64 n,
       Rows rows, Columns columns, u32 here_entries, IN(float) table, OUT(float) out) {
    DYNAMIC_SHARED(float, here);
    for (u32 i = threadIdx.x; i < here_entries; i += THREADS) here[i] = table[i];
    __syncthreads();
    if (here_entries > 0) derivatives_of(fixed, moving, weights, n, rows, columns, here, out);
    else derivatives_of(fixed, moving, weights, n, rows, columns, table, out);
}
