// What finite differences on a grid are made of. A thread has W voxels that are neighbours along x, one or four, and
// goes along z with the values before, at and after them in registers; the neighbours along x and y
// are in the cache, as neighbouring threads ask for them too. The kernels for four voxels take grids
// whose size along x is a multiple of four, where rows are read and written 16 bytes at a time.
#pragma once
#include "values.cuh"

#define TILE_THREADS 256

// The output, how many tiles it has along x and y, and how many slices a tile has.
struct Tiles {
    u32 nx, ny, nz;
    u32 along_x, along_y;
    u32 slices;
};

// Factors of differences along each axis, between its ends and at them.
struct Scales {
    float middle[3], end[3];
};

// The place of a thread: its first voxel, its slices, and where the neighbours along x and y are.
struct Place {
    u64 index, slice;
    u32 z, slices;
    u32 left, right;    // distances in memory to the neighbours, zero where there are none
    u32 back, front;
    float along_y;
};

template <u32 W> DEVICE Place place_of(const Tiles& t, const Scales& s) {
    u32 tile = blockIdx.x;
    const u32 x = (tile % t.along_x * blockDim.x + threadIdx.x) * W;
    tile /= t.along_x;
    const u32 y = tile % t.along_y * blockDim.y + threadIdx.y;
    Place p;
    p.z = tile / t.along_y * t.slices;
    const u32 left = t.nz - p.z;
    p.slices = x < t.nx && y < t.ny ? (left < t.slices ? left : t.slices) : 0;
    p.slice = (u64)t.nx * t.ny;
    p.index = ((u64)p.z * t.ny + y) * t.nx + x;
    p.left = x > 0 ? 1 : 0;
    p.right = x + W < t.nx ? 1 : 0;
    p.back = y > 0 ? t.nx : 0;
    p.front = y + 1 < t.ny ? t.nx : 0;
    p.along_y = p.back && p.front ? s.middle[1] : s.end[1];
    return p;
}

// The values before, at and after voxels along z.
template <u32 W> struct Column {
    Values<W> before, here, after;
};

template <u32 W> DEVICE void begin(Column<W>& c, IN(float) src, const Place& p) {
    if (p.slices == 0) return;
    load(src, p.index, c.here);
    c.before = c.here;
    if (p.z > 0) load(src, p.index - p.slice, c.before);
}

template <u32 W> DEVICE void reach(Column<W>& c, IN(float) src, u64 i, u64 slice, bool is_last) {
    c.after = c.here;
    if (!is_last) load(src, i + slice, c.after);
}

template <u32 W> DEVICE void advance(Column<W>& c) {
    c.before = c.here;
    c.here = c.after;
}

// The neighbours along x of voxels of which the first is voxel i.
template <u32 W> struct Beside {
    float left, right;
};

template <u32 W> DEVICE Beside<W> beside(IN(float) src, u64 i, const Place& p) {
    Beside<W> b;
    b.right = src[i + (W - 1) + p.right];
    b.left = src[i - p.left];
    return b;
}
template <u32 W> DEVICE float left_of(const Values<W>& here, const Beside<W>& b, u32 k) {
    return k > 0 ? here.v[k > 0 ? k - 1 : 0] : b.left;
}
template <u32 W> DEVICE float right_of(const Values<W>& here, const Beside<W>& b, u32 k) {
    return k + 1 < W ? here.v[k + 1 < W ? k + 1 : 0] : b.right;
}

// The factors along x, of voxel k of a thread, and along z.
template <u32 W> DEVICE float scale_x(const Scales& s, const Place& p, u32 k) {
    return (k > 0 || p.left) && (k + 1 < W || p.right) ? s.middle[0] : s.end[0];
}
DEVICE float scale_z(const Scales& s, u32 z, u32 nz) {
    return z > 0 && z + 1 < nz ? s.middle[2] : s.end[2];
}
