// The coefficients of the cubic B-spline through an image, along one axis at a time: a causal and an
// anticausal recursion of first order, started as for a signal mirrored at its first and last
// sample. The recursions are in double precision, what is between them is stored in single.
#include "prelude.cuh"

// sqrt(3) - 2
#define POLE -0.2679491924311227

// The powers of the pole from here on are below the precision of the sums.
#define HORIZON 30

// Samples that are read together.
#define BATCH 8u

DEVICE double power(double base, u32 exponent) {
    double result = 1.0;
    for (;;) {
        if (exponent & 1) result *= base;
        exponent >>= 1;
        if (!exponent) return result;
        base *= base;
    }
}

// The weights of the first samples in the start of the recursion, one for each thread; in place of
// that of the first, which is one, the factor of the sum. `weights` has HORIZON elements.
DEVICE void start_weights(u32 n, SHARED_POINTER(double) weights) {
    const u32 k = thread_rank(), last = n - 1;
    const u32 period = last < 1u << 30 ? 2 * last : 0x7fffffffu;
    if (k < HORIZON && k <= last) {
        double w = k ? power(POLE, k) : 1.0 / (1.0 - power(POLE, period));
        if (k && k < last) w += power(POLE, period - k);
        weights[k] = w;
    }
    __syncthreads();
}

// The samples of a line.
template <class Pointer, class Index> struct Line {
    Pointer p;
    Index step;
};

// Solves a line of at least two samples.
template <class From, class To, class Index>
DEVICE void solve(Line<From, Index> from, Line<To, Index> to, u32 n, SHARED_POINTER(double) weights) {
    const u32 last = n - 1;
    double sum = (double)from.p[0];
    for (u32 k = 1; k < HORIZON && k < n; ++k)
        sum = sum + weights[k] * (double)from.p[(Index)k * from.step];
    const double gain = (1.0 - POLE) * (1.0 - 1.0 / POLE), pole = POLE;
    double state = (sum * weights[0]) * gain, before = state;
    to.p[0] = (float)state;
    float x[BATCH];
    for (u32 first = 1; first < n; first += BATCH) {
#pragma unroll
        for (u32 k = 0; k < BATCH; ++k)
            if (first + k < n) x[k] = from.p[(Index)(first + k) * from.step];
#pragma unroll
        for (u32 k = 0; k < BATCH; ++k)
            if (first + k < n) {
                before = state;
                state = gain * (double)x[k] + pole * state;
                to.p[(Index)(first + k) * to.step] = (float)state;
            }
    }
    state = (POLE / (POLE * POLE - 1.0)) * (state + pole * before);
    to.p[(Index)last * to.step] = (float)state;
    for (u32 done = 0; done < last; done += BATCH) {
#pragma unroll
        for (u32 k = 0; k < BATCH; ++k)
            if (done + k < last) x[k] = to.p[(Index)(last - 1 - done - k) * to.step];
#pragma unroll
        for (u32 k = 0; k < BATCH; ++k)
            if (done + k < last) {
                state = pole * (state - (double)x[k]);
                to.p[(Index)(last - 1 - done - k) * to.step] = (float)state;
            }
    }
}

// Lines of `n` samples `step` elements apart; the first samples of `step` lines are next to each
// other in memory, and those of the next `step` lines are `step * n` elements further on.
//
// 32 lines a block, in shared memory between reading and writing: 33 * n floats. One warp computes,
// all of them copy.
KERNEL(prefilter_lines, 256, IN_OR_OUT(float) from, INOUT(float) to, u64 step, u32 n, u64 lines) {
    DYNAMIC_SHARED(float, samples);
    SHARED(double, weights, 32);
    const u32 lane = threadIdx.x, warp = threadIdx.y, warps = blockDim.y;
    start_weights(n, weights);
    if (step == 1) {
        // Lines are rows of memory.
        const u64 first = (u64)blockIdx.x * 32;
        for (u32 r = warp; r < 32 && first + r < lines; r += warps) {
            const u64 row = (first + r) * n;
#pragma unroll 8
            for (u32 i = lane; i < n; i += 32) samples[i * 33 + r] = from[row + i];
        }
        __syncthreads();
        if (warp == 0 && first + lane < lines) {
            Line<INOUT(float), u32> line = {samples + lane, 33};
            solve(line, line, n, weights);
        }
        __syncthreads();
        for (u32 r = warp; r < 32 && first + r < lines; r += warps) {
            const u64 row = (first + r) * n;
            for (u32 i = lane; i < n; i += 32) to[row + i] = samples[i * 33 + r];
        }
    } else {
        const u64 panels = (step + 31) / 32, panel = blockIdx.x % panels, group = blockIdx.x / panels;
        const u64 column = panel * 32 + lane, at = group * step * n + column;
        if (column < step) {
#pragma unroll 8
            for (u32 i = warp; i < n; i += warps) samples[i * 33 + lane] = from[at + i * step];
        }
        __syncthreads();
        if (warp == 0 && column < step) {
            Line<INOUT(float), u32> line = {samples + lane, 33};
            solve(line, line, n, weights);
        }
        __syncthreads();
        if (column < step)
            for (u32 i = warp; i < n; i += warps) to[at + i * step] = samples[i * 33 + lane];
    }
}

// The same for lines too long for shared memory, one a thread.
KERNEL(prefilter_long_lines, 64, IN_OR_OUT(float) from, INOUT(float) to, u64 step, u32 n, u64 lines) {
    SHARED(double, weights, 32);
    start_weights(n, weights);
    const u64 line = global_thread();
    if (line >= lines) return;
    const u64 at = line / step * step * n + line % step;
    Line<IN_OR_OUT(float), u64> in = {from + at, step};
    Line<INOUT(float), u64> out = {to + at, step};
    solve(in, out, n, weights);
}

// Every element twice, for images of one voxel: a cell needs two.
KERNEL(twice, 32, IN(float) from, OUT(float) to, u32 n) {
    u64 i = global_thread();
    if (i < n) to[2 * i] = to[2 * i + 1] = from[i];
}
