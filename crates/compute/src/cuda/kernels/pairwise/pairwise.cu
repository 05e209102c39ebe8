// Sums over all pairs of points. COMPONENTS is 1, 3 or 6; CAUCHY chooses the kernel.
#include "prelude.cuh"

#define THREADS 128
// Sources that are in shared memory, and are added up in single precision.
#define TILE 128u
// The numbers of a source: places and weights, in fours.
#define STRIDE ((3 + COMPONENTS + 3) / 4 * 4)
// The targets of a thread.
#define EACH (COMPONENTS == 6 ? 2 : 4)

template <bool SLOPES>
DEVICE void pairs(IN(float) targets, IN(float) moments, u32 count, IN(float) sources, IN(float) weights, u32 n,
                  u32 part, double scale, OUT(double) sums, SHARED_POINTER(float) tile) {
    const int NUMBERS = COMPONENTS + (SLOPES ? 3 : 0);
    float at[EACH][3], moment[EACH][COMPONENTS];
    double all[EACH][NUMBERS];
    for (int e = 0; e < EACH; ++e) {
        const u32 i = (blockIdx.x * EACH + e) * THREADS + threadIdx.x;
        for (int a = 0; a < 3; ++a) at[e][a] = i < count ? (float)((double)targets[(u64)a * count + i] * scale) : 0.0f;
        for (int c = 0; c < COMPONENTS; ++c) moment[e][c] = SLOPES && i < count ? moments[(u64)c * count + i] : 0.0f;
        for (int s = 0; s < NUMBERS; ++s) all[e][s] = 0.0;
    }
    const u32 begin = blockIdx.y * part, end = min(n, begin + part);
    for (u32 first = begin; first < end; first += TILE) {
        const u32 here = min(TILE, end - first);
        __syncthreads();
        for (u32 j = threadIdx.x; j < TILE; j += THREADS) {
            for (u32 k = 0; k < STRIDE; ++k) {
                float value = 0.0f;
                if (j < here && k < 3) value = (float)((double)sources[(u64)k * n + first + j] * scale);
                if (j < here && k >= 3 && k < 3 + COMPONENTS) value = weights[(u64)(k - 3) * n + first + j];
                tile[j * STRIDE + k] = value;
            }
        }
        __syncthreads();
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
                const float k = exp2f(-fmaf(x, x, fmaf(y, y, z * z)));
#endif
                float dot = 0.0f;
#pragma unroll
                for (int c = 0; c < COMPONENTS; ++c) {
                    sum[e][c] = fmaf(k, source[3 + c], sum[e][c]);
                    if (SLOPES) dot = fmaf(moment[e][c], source[3 + c], dot);
                }
                if (SLOPES) {
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
        const u32 i = (blockIdx.x * EACH + e) * THREADS + threadIdx.x;
        if (i >= count) continue;
        for (int s = 0; s < NUMBERS; ++s) sums[((u64)blockIdx.y * NUMBERS + s) * count + i] = all[e][s];
    }
}

// A block has a part of the sources: its sums go beside those of the other parts.
KERNEL(pair_sums, THREADS, IN(float) targets, u32 count, IN(float) sources, IN(float) weights, u32 n, u32 part,
       double scale, OUT(double) sums) {
    SHARED(float, tile, TILE * STRIDE);
    pairs<false>(targets, targets, count, sources, weights, n, part, scale, sums, tile);
}

KERNEL(pair_sums_slopes, THREADS, IN(float) targets, IN(float) moments, u32 count, IN(float) sources,
       IN(float) weights, u32 n, u32 part, double scale, OUT(double) sums) {
    SHARED(float, tile, TILE * STRIDE);
    pairs<true>(targets, moments, count, sources, weights, n, part, scale, sums, tile);
}

// The sums of all parts, always in the same order: `n` numbers of each, times a factor.
KERNEL(pair_parts, 256, IN(double) sums, u64 each, u32 parts, u64 first, u64 n, double factor, OUT(float) out) {
    const u64 i = global_thread();
    if (i >= n) return;
    double sum = 0.0;
    for (u32 p = 0; p < parts; ++p) sum += sums[p * each + first + i];
    out[i] = (float)(sum * factor);
}
