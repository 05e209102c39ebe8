// What samples have, summed over those of each element at its four corners: COMPONENTS numbers at each, in double precision.
#include "spots.cuh"

DEVICE void add_sample(PLACED, IN(u32) samples, u64 at, IN(float) values, double* sum) {
    const u64 n = sampling.count, i = min((u64)samples[at], n - 1);
    Spot spot;
    if (!SPOT(i, spot)) return;
#pragma unroll
    for (u32 c = 0; c < COMPONENTS; ++c) {
        const double value = (double)values[c * n + i];
#pragma unroll
        for (u32 k = 0; k < 4; ++k) sum[COMPONENTS * k + c] += spot.w[k] * value;
    }
}
#define ADD(at) add_sample(sampling, box, points, nodes, count, corners, elements, located, samples, at, values, sum)

KERNEL(element_sums_by_threads, 256, PLACED, IN(u32) starts, IN(u32) samples, u64 listed, IN(float) values, OUT(double) parts) {
    const u64 element = global_thread();
    if (element >= elements) return;
    double sum[4 * COMPONENTS] = {};
    const u64 end = min((u64)starts[element + 1], listed);
    for (u64 at = starts[element]; at < end; ++at) ADD(at);
#pragma unroll
    for (u32 k = 0; k < 4 * COMPONENTS; ++k) parts[4 * COMPONENTS * element + k] = sum[k];
}

// A warp an element.
KERNEL(element_sums_by_warps, 256, PLACED, IN(u32) starts, IN(u32) samples, u64 listed, IN(float) values, OUT(double) parts) {
    const u64 element = global_thread() / WARP;
    const u32 lane = threadIdx.x % WARP;
    if (element >= elements) return;
    double sum[4 * COMPONENTS] = {};
    const u64 end = min((u64)starts[element + 1], listed);
    for (u64 at = (u64)starts[element] + lane; at < end; at += WARP) ADD(at);
#pragma unroll
    for (u32 k = 0; k < 4 * COMPONENTS; ++k) {
        const double all = warp_sum(sum[k]);
        if (lane == 0) parts[4 * COMPONENTS * element + k] = all;
    }
}
