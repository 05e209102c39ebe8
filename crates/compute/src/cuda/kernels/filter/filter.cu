// Filters with a window along one axis: weighted means and plain means. Lines of n samples that are
// `stride` apart; the result must not be the source.
#include "prelude.cuh"

// A parameter that is read where it lies, with indices known only at run time.
#ifdef VOXALIGN_EMULATION
#define IN_PLACE(T) const T
#else
#define IN_PLACE(T) const __grid_constant__ T
#endif

#define OUTPUTS 8
#define AHEAD 8
#define WEIGHTS 32u

struct Lines {
    u64 lines, stride, n;
    u32 line_blocks;   // blocks that cover the lines
    u32 reserved;
};

// The first weights of a symmetric window, from the centre on.
struct Weights { float of[WEIGHTS]; };

// The offset of the first sample of line `c` of lines that lie side by side.
DEVICE u64 column_base(u64 c, u64 stride, u64 n) {
    if (c < stride) return c;
    u64 q = ((c | stride) >> 32) == 0 ? (u64)((u32)c / (u32)stride) : c / stride;
    return c + q * stride * (n - 1);
}

// The quotient of numbers that are mostly small.
DEVICE u64 quotient(u64 a, u64 b) {
    return ((a | b) >> 32) == 0 ? (u64)((u32)a / (u32)b) : a / b;
}

// Sample i of a line, or that of the nearer end.
DEVICE float sample(IN(float) src, u64 base, u64 stride, i64 i, i64 n) {
    i = i < 0 ? 0 : i >= n ? n - 1 : i;
    return src[base + (u64)i * stride];
}

// What lies `distance` to both sides of the outputs, shifted by one sample outwards.
DEVICE void widen(IN(float) src, u64 base, const Lines& g, i64 first, i64 distance,
                  float (&before)[OUTPUTS], float (&after)[OUTPUTS]) {
#pragma unroll
    for (int m = OUTPUTS - 1; m > 0; --m) before[m] = before[m - 1];
#pragma unroll
    for (int m = 0; m < OUTPUTS - 1; ++m) after[m] = after[m + 1];
    before[0] = sample(src, base, g.stride, first - distance, (i64)g.n);
    after[OUTPUTS - 1] = sample(src, base, g.stride, first + OUTPUTS - 1 + distance, (i64)g.n);
}

// A symmetric weighted mean across rows. A thread gives OUTPUTS neighbouring samples of a line:
// each sample that it reads serves all of them. Weights beyond those passed by value are in `more`.
KERNEL(fir_columns, 256, IN(float) src, OUT(float) out, Lines g, u32 radius,
       IN_PLACE(Weights) weights, IN(float) more) {
    u32 group = blockIdx.x / g.line_blocks;
    u64 line = (u64)(blockIdx.x - group * g.line_blocks) * blockDim.x + threadIdx.x;
    u64 first = ((u64)group * blockDim.y + threadIdx.y) * OUTPUTS;
    if (line >= g.lines || first >= g.n) return;
    u64 base = column_base(line, g.stride, g.n);
    float before[OUTPUTS], after[OUTPUTS], sum[OUTPUTS];
#pragma unroll
    for (int m = 0; m < OUTPUTS; ++m) {
        before[m] = after[m] = sample(src, base, g.stride, (i64)first + m, (i64)g.n);
        sum[m] = weights.of[0] * before[m];
    }
    u32 passed = radius < WEIGHTS ? radius : WEIGHTS - 1;
#pragma unroll 4
    for (u32 k = 1; k <= passed; ++k) {
        widen(src, base, g, (i64)first, k, before, after);
#pragma unroll
        for (int m = 0; m < OUTPUTS; ++m)
            sum[m] = fmaf(weights.of[k], before[m] + after[m], sum[m]);
    }
    for (u32 k = WEIGHTS; k <= radius; ++k) {
        widen(src, base, g, (i64)first, k, before, after);
        float weight = more[k - WEIGHTS];
#pragma unroll
        for (int m = 0; m < OUTPUTS; ++m) sum[m] = fmaf(weight, before[m] + after[m], sum[m]);
    }
#pragma unroll
    for (int m = 0; m < OUTPUTS; ++m)
        if (first + m < g.n) out[base + (first + m) * g.stride] = sum[m];
}

// The same along rows: a thread for each sample.
KERNEL(fir_rows, 256, IN(float) src, OUT(float) out, Lines g, u32 radius,
       IN_PLACE(Weights) weights, IN(float) more) {
    u64 v = global_thread();
    if (v >= g.lines * g.n) return;
    i64 n = (i64)g.n, base = (i64)(quotient(v, g.n) * g.n), i = (i64)v - base;
    float sum = weights.of[0] * src[v];
    u32 passed = radius < WEIGHTS ? radius : WEIGHTS - 1;
#pragma unroll 4
    for (u32 k = 1; k <= passed; ++k) {
        float pair = sample(src, base, 1, i - k, n) + sample(src, base, 1, i + k, n);
        sum = fmaf(weights.of[k], pair, sum);
    }
    for (u32 k = WEIGHTS; k <= radius; ++k) {
        float pair = sample(src, base, 1, i - k, n) + sample(src, base, 1, i + k, n);
        sum = fmaf(more[k - WEIGHTS], pair, sum);
    }
    out[v] = sum;
}

// How many samples of 0 .. n - 1 lie within `radius` of i, and one over it; `inverse` is that of a
// window with all of its samples.
DEVICE double one_over_count(u64 i, u64 n, u64 radius, double inverse) {
    if (i >= radius && i + radius < n) return inverse;
    u64 first = i > radius ? i - radius : 0, end = i + radius + 1 < n ? i + radius + 1 : n;
    return 1.0 / (double)(end - first);
}

// Means over windows across rows, as running sums. A thread has a segment of a line, at least as
// long as the window, so that the first sum costs no more than the rest.
KERNEL(box_columns, 256, IN(float) src, OUT(float) out, Lines g, u64 radius, u64 segment) {
    u32 group = blockIdx.x / g.line_blocks;
    u64 line = (u64)(blockIdx.x - group * g.line_blocks) * blockDim.x + threadIdx.x;
    u64 first = ((u64)group * blockDim.y + threadIdx.y) * segment;
    if (line >= g.lines || first >= g.n) return;
    u64 base = column_base(line, g.stride, g.n);
    u64 last = first + segment < g.n ? first + segment : g.n;
    u64 end = first + radius < g.n ? first + radius : g.n;
    double sum = 0.0, inverse = 1.0 / (double)(2 * radius + 1);
#pragma unroll 8
    for (u64 i = first > radius ? first - radius : 0; i < end; ++i)
        sum += (double)src[base + i * g.stride];
    for (u64 start = first; start < last; start += AHEAD) {
        float enters[AHEAD], leaves[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            u64 i = start + k;
            enters[k] = i < last && i + radius < g.n ? (float)src[base + (i + radius) * g.stride] : 0.0f;
            leaves[k] = i < last && i >= radius ? (float)src[base + (i - radius) * g.stride] : 0.0f;
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            u64 i = start + k;
            if (i < last) {
                sum += (double)enters[k];
                out[base + i * g.stride] = (float)(sum * one_over_count(i, g.n, radius, inverse));
                sum -= (double)leaves[k];
            }
        }
    }
}

// The same along rows: a warp has a segment, its lanes have neighbouring samples, and the running
// sum is that of a scan over the lanes.
KERNEL(box_rows, 256, IN(float) src, OUT(float) out, Lines g, u64 radius, u64 segment,
       u64 segments) {
    u64 warp = global_thread() / WARP;
    u32 lane = threadIdx.x & (WARP - 1);
    u64 line = quotient(warp, segments);
    if (line >= g.lines) return;
    u64 base = line * g.n, first = (warp - line * segments) * segment;
    u64 last = first + segment < g.n ? first + segment : g.n;
    u64 end = first + radius < g.n ? first + radius : g.n;
    double inverse = 1.0 / (double)(2 * radius + 1), part = 0.0;
#pragma unroll 4
    for (u64 i = (first > radius ? first - radius : 0) + lane; i < end; i += WARP)
        part += (double)src[base + i];
    double sum = warp_sum(part);
    for (u64 start = first; start < last; start += AHEAD * WARP) {
        double change[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            u64 i = start + k * WARP + lane;
            // What enters at sample i, and what has left since the sample before.
            float enters = i < last && i + radius < g.n ? (float)src[base + i + radius] : 0.0f;
            float leaves = i < last && i > first && i > radius ? (float)src[base + i - radius - 1] : 0.0f;
            change[k] = (double)enters - (double)leaves;
        }
#pragma unroll
        for (u32 step = 1; step < WARP; step <<= 1) {
#pragma unroll
            for (u32 k = 0; k < AHEAD; ++k) {
                double below = __shfl_up_sync(ALL_LANES, change[k], step);
                if (lane >= step) change[k] += below;
            }
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            u64 i = start + k * WARP + lane;
            double window = sum + change[k];
            if (i < last) out[base + i] = (float)(window * one_over_count(i, g.n, radius, inverse));
            sum = __shfl_sync(ALL_LANES, window, WARP - 1);
        }
    }
}
