// Sums over all pairs of points. COMPONENTS is 1, 3 or 6; CAUCHY chooses the kernel.
#include "prelude.cuh"

#define THREADS 128
// Sources that are in shared memory, and are added up in single precision.
#define TILE 128u
// The numbers of a source: places and weights, in fours.
#define STRIDE ((3 + COMPONENTS + 3) / 4 * 4)
// The targets of a thread.
#define EACH (COMPONENTS == 6 ? 2 : 4)
// Farther apart than this, squared, a Gaussian is nothing.
#define REACH 127.0f

// 2^x; nothing below 2^-126.
DEVICE float power_of_two(float x) {
#ifdef VOXALIGN_EMULATION
    const float power = exp2f(x);
    return power < 1.17549435e-38f ? 0.0f : power;
#else
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#endif
}

// The bounds of points: at first those of nothing. What is not finite is everywhere.
struct Box { float low[3], high[3]; };

DEVICE void clear(Box& box) {
    for (int a = 0; a < 3; ++a) {
        box.low[a] = INFINITY_F;
        box.high[a] = -INFINITY_F;
    }
}

DEVICE void include(Box& box, const float* at, bool is_finite) {
    for (int a = 0; a < 3; ++a) {
        box.low[a] = is_finite ? fminf(box.low[a], at[a]) : -INFINITY_F;
        box.high[a] = is_finite ? fmaxf(box.high[a], at[a]) : INFINITY_F;
    }
}

// The same of all lanes.
DEVICE void of_warp(Box& box) {
    for (int a = 0; a < 3; ++a)
        for (u32 step = 16; step; step >>= 1) {
            box.low[a] = fminf(box.low[a], __shfl_xor_sync(ALL_LANES, box.low[a], step));
            box.high[a] = fmaxf(box.high[a], __shfl_xor_sync(ALL_LANES, box.high[a], step));
        }
}

DEVICE bool finite(float sum_of_sizes) { return sum_of_sizes < INFINITY_F; }

// Sources as they are read: scaled places, then weights; and the bounds of each tile of them, in two fours.
KERNEL(pair_sources, THREADS, IN(float) sources, IN(float) weights, u32 n, double scale, OUT(float) packed,
       OUT(float) boxes) {
    SHARED(float, ends, 6 * 4);
    const u32 rank = threadIdx.x, j = blockIdx.x * TILE + rank;
    float numbers[STRIDE], sizes = 0.0f;
    for (u32 k = 0; k < STRIDE; ++k) {
        numbers[k] = 0.0f;
        if (j < n && k < 3) numbers[k] = (float)((double)sources[(u64)k * n + j] * scale);
        if (j < n && k >= 3 && k < 3 + COMPONENTS) numbers[k] = weights[(u64)(k - 3) * n + j];
        sizes += fabsf(numbers[k]);
    }
    for (u32 k = 0; k < STRIDE / 4; ++k)
        store4(packed, (u64)j * (STRIDE / 4) + k,
               make_float4(numbers[4 * k], numbers[4 * k + 1], numbers[4 * k + 2], numbers[4 * k + 3]));
    Box box;
    clear(box);
    if (j < n) include(box, numbers, finite(sizes));
    of_warp(box);
    if ((rank & (WARP - 1)) == 0)
        for (int a = 0; a < 3; ++a) {
            ends[rank / WARP * 6 + a] = box.low[a];
            ends[rank / WARP * 6 + 3 + a] = box.high[a];
        }
    __syncthreads();
    if (rank >= 8) return;
    const u32 a = rank & 3;
    float end = 0.0f;
    if (a < 3) {
        end = ends[rank < 4 ? a : 3 + a];
        for (u32 w = 1; w < THREADS / WARP; ++w)
            end = rank < 4 ? fminf(end, ends[w * 6 + a]) : fmaxf(end, ends[w * 6 + 3 + a]);
    }
    boxes[(u64)blockIdx.x * 8 + rank] = end;
}

DEVICE float gap(float low, float high, float other_low, float other_high) {
    return fmaxf(0.0f, fmaxf(other_low - high, low - other_high));
}

template <bool DERIVATIVES>
DEVICE void pairs(IN(float) targets, IN(float) moments, u32 count, IN(float) packed, IN(float) boxes, u32 n, u32 part,
                  double scale, OUT(double) sums, SHARED_POINTER(float) tile) {
    const int NUMBERS = COMPONENTS + (DERIVATIVES ? 3 : 0);
    const u32 lane = threadIdx.x & (WARP - 1);
    // The targets of a warp follow each other.
    const u32 own = (blockIdx.x * THREADS + threadIdx.x - lane) * EACH + lane;
    float at[EACH][3], moment[EACH][COMPONENTS];
    double all[EACH][NUMBERS];
    Box box;
    clear(box);
    for (int e = 0; e < EACH; ++e) {
        const u32 i = own + e * WARP;
        float sizes = 0.0f;
        for (int a = 0; a < 3; ++a) {
            at[e][a] = i < count ? (float)((double)targets[(u64)a * count + i] * scale) : 0.0f;
            sizes += fabsf(at[e][a]);
        }
        for (int c = 0; c < COMPONENTS; ++c) {
            moment[e][c] = DERIVATIVES && i < count ? moments[(u64)c * count + i] : 0.0f;
            sizes += fabsf(moment[e][c]);
        }
        if (i < count) include(box, at[e], finite(sizes));
        for (int s = 0; s < NUMBERS; ++s) all[e][s] = 0.0;
    }
    of_warp(box);
    const u32 begin = blockIdx.y * part, end = min(n, begin + part);
    for (u32 first = begin; first < end; first += TILE) {
        const u32 here = min(TILE, end - first), number = first / TILE;
        bool near = true;
#if !CAUCHY
        // All of them add nothing where they are far.
        const float4 low = load4(boxes, (u64)number * 2), high = load4(boxes, (u64)number * 2 + 1);
        const float x = gap(box.low[0], box.high[0], low.x, high.x), y = gap(box.low[1], box.high[1], low.y, high.y),
                    z = gap(box.low[2], box.high[2], low.z, high.z);
        near = !(x * x + y * y + z * z > REACH);
#endif
        // A barrier, too: before it the last tile is still read.
        if (!__syncthreads_or(near)) continue;
        for (u32 k = 0; k < STRIDE / 4; ++k)
            store4(tile, k * THREADS + threadIdx.x,
                   load4(packed, (u64)number * (TILE * STRIDE / 4) + k * THREADS + threadIdx.x));
        __syncthreads();
        if (!near) continue;
        float sum[EACH][NUMBERS];
        for (int e = 0; e < EACH; ++e)
            for (int s = 0; s < NUMBERS; ++s) sum[e][s] = 0.0f;
#pragma unroll 2
        for (u32 j = 0; j < here; ++j) {
            float source[STRIDE];
            for (u32 k = 0; k < STRIDE / 4; ++k) {
                const float4 four = load4(tile, j * (STRIDE / 4) + k);
                source[4 * k] = four.x;
                source[4 * k + 1] = four.y;
                source[4 * k + 2] = four.z;
                source[4 * k + 3] = four.w;
            }
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const float x = at[e][0] - source[0], y = at[e][1] - source[1], z = at[e][2] - source[2];
#if CAUCHY
                const float k = __fdividef(1.0f, fmaf(x, x, fmaf(y, y, fmaf(z, z, 1.0f))));
#else
                const float k = power_of_two(fmaf(-x, x, fmaf(-y, y, -(z * z))));
#endif
                float dot = DERIVATIVES ? moment[e][0] * source[3] : 0.0f;
#pragma unroll
                for (int c = 0; c < COMPONENTS; ++c) {
                    sum[e][c] = fmaf(k, source[3 + c], sum[e][c]);
                    if (DERIVATIVES && c > 0) dot = fmaf(moment[e][c], source[3 + c], dot);
                }
                if (DERIVATIVES) {
#if CAUCHY
                    dot *= k;
#endif
                    dot *= k;
                    sum[e][COMPONENTS] = fmaf(dot, x, sum[e][COMPONENTS]);
                    sum[e][COMPONENTS + 1] = fmaf(dot, y, sum[e][COMPONENTS + 1]);
                    sum[e][COMPONENTS + 2] = fmaf(dot, z, sum[e][COMPONENTS + 2]);
                }
            }
        }
        for (int e = 0; e < EACH; ++e)
            for (int s = 0; s < NUMBERS; ++s) all[e][s] += (double)sum[e][s];
    }
    for (int e = 0; e < EACH; ++e) {
        const u32 i = own + e * WARP;
        if (i >= count) continue;
        for (int s = 0; s < NUMBERS; ++s) sums[((u64)blockIdx.y * NUMBERS + s) * count + i] = all[e][s];
    }
}

// A block has a part of the sources: its sums go beside those of the other parts.
KERNEL(pair_sums, THREADS, IN(float) targets, u32 count, IN(float) packed, IN(float) boxes, u32 n, u32 part,
       double scale, OUT(double) sums) {
    SHARED(float, tile, TILE * STRIDE);
    pairs<false>(targets, targets, count, packed, boxes, n, part, scale, sums, tile);
}

KERNEL(pair_sums_derivatives, THREADS, IN(float) targets, IN(float) moments, u32 count, IN(float) packed,
       IN(float) boxes, u32 n, u32 part, double scale, OUT(double) sums) {
    SHARED(float, tile, TILE * STRIDE);
    pairs<true>(targets, moments, count, packed, boxes, n, part, scale, sums, tile);
}

// The sums of all parts, always in the same order: `n` numbers of each, times a factor.
KERNEL(pair_parts, 256, IN(double) sums, u64 each, u32 parts, u64 first, u64 n, double factor, OUT(float) out) {
    const u64 i = global_thread();
    if (i >= n) return;
    double sum = 0.0;
    for (u32 p = 0; p < parts; ++p) sum += sums[p * each + first + i];
    out[i] = (float)(sum * factor);
}
