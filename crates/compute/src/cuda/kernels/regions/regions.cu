// Several regions at once: a label for each point.
#include "whole.cuh"

// Sizes along the axes, and along how many axes neighbours may differ.
struct RegionShape { u32 nx, ny, nz, axes; };

// What values are summed in.
struct RegionUnits { double offset, scale; };

// The most labels.
#define LABELS 256u

// The points of each label, and the sums of their values. The sums are zero before.
KERNEL(label_sums, 256, IN(float) image, IN(u8) labels, u64 points, u32 count, RegionUnits units, OUT(u64) sums) {
    SHARED(u64, own, 2 * LABELS);
    for (u32 k = threadIdx.x; k < 2 * count; k += blockDim.x) own[k] = 0;
    __syncthreads();
    for (u64 i = global_thread(); i < points; i += (u64)gridDim.x * blockDim.x) {
        const u32 label = labels[i];
        if (label < count) {
            atomicAdd(&own[2 * label], (u64)1);
            atomicAdd(&own[2 * label + 1], (u64)whole(((double)image[i] - units.offset) * units.scale));
        }
    }
    __syncthreads();
    for (u32 k = threadIdx.x; k < 2 * count; k += blockDim.x)
        if (own[k]) atomicAdd(&sums[k], own[k]);
}

// The place of a neighbour along an axis, whose ends continue.
DEVICE u32 place(u32 at, u32 k, u32 radius, u32 n) {
    const u32 beyond = at + k;
    return beyond < radius ? 0u : min(beyond - radius, n - 1);
}

// Weighted shares along x of the points that have a label.
KERNEL(label_share_x, 256, IN(u8) labels, RegionShape shape, u64 points, u32 label, IN(float) weights, u32 radius, u64 to,
       OUT(float) out) {
    const u64 i = global_thread();
    if (i >= points) return;
    const u32 x = (u32)(i % shape.nx);
    const u64 row = i - x;
    float sum = 0.0f;
    for (u32 k = 0; k <= 2 * radius; ++k)
        sum += weights[k] * (labels[row + place(x, k, radius, shape.nx)] == label ? 1.0f : 0.0f);
    out[to + i] = sum;
}

// Weighted sums along y or z: of an axis of n points that are so far apart.
KERNEL(label_share_along, 256, IN(float) values, u64 from, u32 n, u64 stride, u64 points, IN(float) weights, u32 first, u32 radius,
       u64 to, OUT(float) out) {
    const u64 i = global_thread();
    if (i >= points) return;
    const u32 at = (u32)(i / stride % n);
    const u64 start = from + i - at * stride;
    float sum = 0.0f;
    for (u32 k = 0; k <= 2 * radius; ++k) sum += weights[first + k] * values[start + place(at, k, radius, n) * stride];
    out[to + i] = sum;
}

// How well labels fit points.
struct RegionScores { u32 has_means, has_shares, count, padding; double weight; };

DEVICE double score(const RegionScores& s, IN(float) image, IN(double) means, IN(float) given, IN(float) shares, u64 points,
                    u64 i, u32 label) {
    double fit;
    if (s.has_means) {
        const double off = means[label] - (double)image[i];
        fit = -(off * off);
    } else {
        fit = (double)given[label * points + i];
    }
    return s.has_shares ? fit + s.weight * (double)shares[label * points + i] : fit;
}

// A scan: points that have a neighbour of a label and fit it better than their own.
KERNEL(label_scan, 256, RegionShape shape, u64 points, u32 label, RegionScores scores, IN(float) image, IN(double) means,
       IN(float) given, IN(float) shares, IN(u8) labels, OUT(u8) next, OUT(u64) changed) {
    const u64 i = global_thread();
    bool takes = false;
    if (i < points) {
        const u32 own = labels[i];
        if (own != label && own < scores.count) {
            const u32 x = (u32)(i % shape.nx), y = (u32)(i / shape.nx % shape.ny), z = (u32)(i / shape.nx / shape.ny);
            bool near = false;
            for (i32 dz = -1; dz <= 1; ++dz)
                for (i32 dy = -1; dy <= 1; ++dy)
                    for (i32 dx = -1; dx <= 1; ++dx) {
                        const u32 axes = (dx != 0) + (dy != 0) + (dz != 0);
                        // What is before the first is beyond the last as well.
                        if (axes <= shape.axes && x + dx < shape.nx && y + dy < shape.ny && z + dz < shape.nz)
                            near |= labels[((u64)(z + dz) * shape.ny + y + dy) * shape.nx + x + dx] == label;
                    }
            takes = near && score(scores, image, means, given, shares, points, i, label) >
                                score(scores, image, means, given, shares, points, i, own);
        }
        next[i] = (u8)(takes ? label : own);
    }
    const u32 votes = __ballot_sync(ALL_LANES, takes);
    if (threadIdx.x % WARP == 0 && votes) atomicAdd(&changed[0], (u64)__popc(votes));
}
