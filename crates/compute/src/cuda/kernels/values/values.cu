// Values of images: taken over from the memory of others, and counted.
#include "half.cuh"

// The first place, the steps along each axis, and the sizes along x and y.
struct Places {
    i64 first, steps[3];
    u64 dims[2];
};

// Values of any type as floats; the types are in the order of `Number::ALL`. All pointers are one.
KERNEL(values_of, 256, IN(u8) bytes, IN(u16) of_two, IN(u32) of_four, IN(u64) of_eight, Places at, u32 number,
       u64 n, OUT(float) out) {
    const u64 i = global_thread();
    if (i >= n) return;
    const u64 x = i % at.dims[0], row = i / at.dims[0], y = row % at.dims[1], z = row / at.dims[1];
    const u64 p = (u64)(at.first + (i64)x * at.steps[0] + (i64)y * at.steps[1] + (i64)z * at.steps[2]);
    float value;
    switch (number) {
        case 0: value = bytes[p] != 0 ? 1.0f : 0.0f; break;
        case 1: value = (float)(signed char)bytes[p]; break;
        case 2: value = (float)bytes[p]; break;
        case 3: value = (float)(i16)of_two[p]; break;
        case 4: value = (float)of_two[p]; break;
        case 5: value = (float)(i32)of_four[p]; break;
        case 6: value = (float)of_four[p]; break;
        case 7: value = (float)(i64)of_eight[p]; break;
        case 8: value = (float)of_eight[p]; break;
        case 9: value = single_of(of_two[p]); break;
        case 10: value = __uint_as_float(of_four[p]); break;
        default: value = (float)__longlong_as_double((i64)of_eight[p]); break;
    }
    out[i] = value;
}

// The ends of the ranges of both images.
struct Ranges {
    double of[2][2];
};

// The bin of a value: beyond the ends of the range the last ones.
DEVICE u32 bin_of(double value, double low, double high, u32 bins) {
    const double width = high - low;
    const double at = (width > 0.0 ? (value - low) / width : 0.0) * (double)bins;
    return !(at > 0.0) ? 0u : at >= (double)bins ? bins - 1u : (u32)at;
}

// Counts pairs of values in bins, those of the second slowest. Counters are in shared memory where they fit (`here` of
// them), else in `counts`. A thread remembers the pair just before, which is often the same.
KERNEL(count_pairs, 256, IN(float) first, IN(float) second, IN(float) weights, u64 n, Ranges ranges, u32 bins, u32 here,
       INOUT(u64) counts) {
    DYNAMIC_SHARED(u32, counters);
    for (u32 i = threadIdx.x; i < here; i += blockDim.x) counters[i] = 0;
    __syncthreads();
    u32 pair = 0, run = 0;
    for (u64 i = global_thread(); i < n; i += global_threads()) {
        const float a = first[i], b = second[i];
        if (!(fabsf(a) < INFINITY_F) || !(fabsf(b) < INFINITY_F)) continue;
        if (weights && !(weights[i] > 0.0f)) continue;
        const u32 column = bin_of((double)a, ranges.of[0][0], ranges.of[0][1], bins);
        const u32 found = bin_of((double)b, ranges.of[1][0], ranges.of[1][1], bins) * bins + column;
        if (found != pair && run) {
            if (here) atomicAdd(&counters[pair], run);
            else atomicAdd(&counts[pair], (u64)run);
            run = 0;
        }
        pair = found;
        run += 1;
    }
    if (run) {
        if (here) atomicAdd(&counters[pair], run);
        else atomicAdd(&counts[pair], (u64)run);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < here; i += blockDim.x)
        if (counters[i]) atomicAdd(&counts[i], (u64)counters[i]);
}

// Counts the voxels above a value in each slice across x, then y, then z. A warp takes a row at a time; counters of the
// slices across x are in shared memory where they fit.
KERNEL(count_slices, 256, IN(float) image, u32 nx, u32 ny, u64 rows, float above, u32 here, INOUT(u64) counts) {
    DYNAMIC_SHARED(u32, columns);
    for (u32 i = threadIdx.x; i < here; i += blockDim.x) columns[i] = 0;
    __syncthreads();
    const u32 lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    for (u64 row = (u64)blockIdx.x * warps + threadIdx.x / WARP; row < rows; row += (u64)gridDim.x * warps) {
        u32 count = 0;
        for (u32 x = lane; x < nx; x += WARP) {
            if (!(image[row * nx + x] > above)) continue;
            count += 1;
            if (here) atomicAdd(&columns[x], 1u);
            else atomicAdd(&counts[x], (u64)1);
        }
        count = warp_sum(count);
        if (lane == 0 && count) {
            atomicAdd(&counts[(u64)nx + row % ny], (u64)count);
            atomicAdd(&counts[(u64)nx + ny + row / ny], (u64)count);
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < here; i += blockDim.x)
        if (columns[i]) atomicAdd(&counts[i], (u64)columns[i]);
}
