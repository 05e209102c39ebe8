// The images as the schemes without grouping want them.
#include "sampler.cuh"
#include "ungrouped.cuh"

// Grouped samples back in the order of the image: the bin of every voxel, NO_BIN for those that are no
// sample, and the values and weights of samples where they are kept. A block takes a tile.
KERNEL(spread_samples, THREADS, Tiling tiling, IN(u32) packed, IN(float) sample_values,
       IN(float) sample_weights, IN(u32) tile_len, IN(u32) rank_bin, OUT(u16) bins, OUT(float) values,
       OUT(float) weights) {
    u32 tile = blockIdx.x, rank = threadIdx.x, origin[3];
#pragma unroll
    for (u32 a = 0; a < 3; ++a) origin[a] = tile_origin(tiling, tile, a);
    u64 voxel;
    for (u32 local = rank; local < 1u << tiling.bits; local += THREADS) {
        if (!voxel_of(tiling, origin, local, voxel)) continue;
        bins[voxel] = (u16)NO_BIN;
        if (values) values[voxel] = 0.0f;
        if (weights) weights[voxel] = 0.0f;
    }
    __syncthreads();
    u32 len = tile_len[tile], each = samples_each(len);
    u64 entries = (u64)tile * tiling.capacity, place = tile_first(tiling, tile) + rank;
    for (u32 k = 0; k < each; ++k, place += THREADS) {
        if (rank * each + k >= len) break;
        u32 word = packed[place];
        voxel_of(tiling, origin, word & ((1u << tiling.bits) - 1), voxel);
        bins[voxel] = (u16)rank_bin[entries + (word >> tiling.bits)];
        if (values) values[voxel] = sample_values[place];
        if (weights) weights[voxel] = sample_weights[place];
    }
}

// Every value with the next one.
KERNEL(make_pairs, 256, IN(float) values, u64 count, OUT(float2) pairs) {
    for (u64 i = global_thread(); i < count; i += global_threads())
        pairs[i] = make_float2(values[i], values[i + 1 < count ? i + 1 : i]);
}

// The largest size of finite values, as its bits.
KERNEL(largest_size, 256, IN(float) values, u64 count, INOUT(u32) largest) {
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
