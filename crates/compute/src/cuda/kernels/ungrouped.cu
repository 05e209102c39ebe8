// The images as the schemes without grouping want them.
#include "prelude.cuh"
#include "ungrouped.cuh"

// The bins of voxels, in the arithmetic of the grouping; NO_BIN for those of no weight.
KERNEL(bin_voxels, 256, IN(float) values, IN(float) weights, float low, float scale, float last,
       u64 count, OUT(u16) bins) {
    for (u64 i = global_thread(); i < count; i += global_threads()) {
        float position = (values[i] - low) * scale;
        bool counts = !weights || weights[i] > 0.0f;
        // Held within the bins as whole numbers would be.
        bins[i] = counts ? (u16)__float2int_rz(fminf(fmaxf(position, 0.0f), last)) : (u16)NO_BIN;
    }
}

// Every value with the next one.
KERNEL(make_pairs, 256, IN(float) values, u64 count, OUT(float2) pairs) {
    for (u64 i = global_thread(); i < count; i += global_threads())
        pairs[i] = make_float2(values[i], values[i + 1 < count ? i + 1 : i]);
}

// The largest size of finite values, as its bits.
KERNEL(largest_size, 256, IN(float) values, u64 count, OUT(u32) largest) {
    SHARED(u32, of_warps, 32);
    u32 most = 0;
    for (u64 i = global_thread(); i < count; i += global_threads()) {
        u32 bits = __float_as_uint(fabsf(values[i]));
        if (bits < 0x7f800000u && bits > most) most = bits;
    }
    for (u32 step = 16; step; step >>= 1) {
        u32 other = __shfl_xor_sync(ALL_LANES, most, step);
        most = other > most ? other : most;
    }
    if ((threadIdx.x & (WARP - 1)) == 0) of_warps[threadIdx.x / WARP] = most;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (u32 k = 1; k < blockDim.x / WARP; ++k) most = of_warps[k] > most ? of_warps[k] : most;
    atomicMax(&largest[0], most);
}
