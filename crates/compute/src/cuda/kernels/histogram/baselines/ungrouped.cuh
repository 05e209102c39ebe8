// Samples of the fixed image in the order of the image, for the schemes and baselines that need no
// grouping: one number a voxel, its bin. The mathematics of sampling is that of ops/histogram.
#pragma once
#include "mask.cuh"

// The bin of a voxel that is no sample, or whose image is outside of the moving image.
#define NO_BIN 0xffffu

// The fixed image; `ImageShape` of ungrouped.rs.
struct ImageShape {
    u64 count;   // voxels
    u32 nx, ny;
};

// The moving image without its voxels; `TargetShape` of ungrouped.rs.
struct TargetShape {
    float last[3];     // largest index along each axis; 0 for a flat z axis
    float derivative[3];    // border ramps: min(1, distance * derivative + offset)
    float offset[3];
    i32 cell[3];       // largest index of the lower corner of a cell
    i32 row, slice;    // steps in memory; slice is 0 for a flat z axis
};

// What every kernel takes first: bin, weight (or null) and value (or null) of every voxel of the
// fixed image; the moving image as pairs of a voxel and the next one, its mask (or null); and the
// maps, twelve numbers each.
#define UNGROUPED \
    IN(u16) sample_bins, IN(float) sample_weights, IN(float) sample_values, ImageShape image, \
    IN(float2) pairs, IN(float) mask, TargetShape target, IN(float) maps
#define LOOK_ARGUMENTS sample_bins, sample_weights, sample_values, image, pairs, mask, target

// One map.
struct Affine {
    float m[12];
};

DEVICE Affine affine_of(IN(float) maps, u32 map) {
    Affine a;
    for (u32 k = 0; k < 12; ++k) a.m[k] = maps[12 * (u64)map + k];
    return a;
}

// What is learnt of one voxel: its bin, less `first`; weight; values of both images.
struct Looked {
    u32 bin;
    float w, x, y;
};

// Looks at voxel `i`, if its bin is one of `bins` bins from `first` on.
DEVICE Looked look(IN(u16) sample_bins, IN(float) sample_weights, IN(float) sample_values,
                   const ImageShape& image, IN(float2) pairs, IN(float) mask,
                   const TargetShape& target, const Affine& map, u64 i, u32 first, u32 bins) {
    Looked none = {NO_BIN, 0.0f, 0.0f, 0.0f};
    if (i >= image.count) return none;
    u32 bin = (u32)sample_bins[i] - first;
    if (bin >= bins) return none;
    // An image has at most 2^32 voxels.
    u32 line = (u32)i / image.nx, slice = line / image.ny;
    float x = (float)((u32)i - line * image.nx);
    float y = (float)(line - slice * image.ny), z = (float)slice;
    float f[3], w = 1.0f;
    i32 at[3];
#pragma unroll
    for (u32 r = 0; r < 3; ++r) {
        const float* m = map.m + 4 * r;
        float q = fmaf(m[0], x, fmaf(m[1], y, fmaf(m[2], z, m[3])));
        if (!(q >= 0.0f && q <= target.last[r])) return none;
        float distance = fminf(q, target.last[r] - q);
        w *= fminf(fmaf(distance, target.derivative[r], target.offset[r]), 1.0f);
        i32 n = __float2int_rz(q);
        at[r] = n < target.cell[r] ? n : target.cell[r];
        f[r] = q - (float)at[r];
    }
    i32 corner = at[0] + at[1] * target.row + at[2] * target.slice;
    float2 a = pairs[corner], b = pairs[corner + target.row];
    float2 c = pairs[corner + target.slice], d = pairs[corner + target.slice + target.row];
    float e = fmaf(f[0], a.y - a.x, a.x), g = fmaf(f[0], b.y - b.x, b.x);
    float h = fmaf(f[0], c.y - c.x, c.x), k = fmaf(f[0], d.y - d.x, d.x);
    float low = fmaf(f[1], g - e, e), high = fmaf(f[1], k - h, h);
    Looked s;
    s.bin = bin;
    s.y = fmaf(f[2], high - low, low);
    if (mask) {
        i32 up = corner + target.row, far = corner + target.slice;
        float ma = fmaf(f[0], mask[corner + 1] - mask[corner], mask[corner]);
        float mb = fmaf(f[0], mask[up + 1] - mask[up], mask[up]);
        float mc = fmaf(f[0], mask[far + 1] - mask[far], mask[far]);
        up += target.slice;
        float md = fmaf(f[0], mask[up + 1] - mask[up], mask[up]);
        float l = fmaf(f[1], mb - ma, ma), t = fmaf(f[1], md - mc, mc);
        w *= held_mask(fmaf(f[2], t - l, l));
    }
    if (sample_weights) w *= sample_weights[i];
    s.w = w;
    s.x = sample_values ? sample_values[i] : 0.0f;
    return s;
}
