// Points in the voxels of a grid: their cells, the values there, and what they give. NODES is 2 for linear weights, 4 for cubic ones.
#pragma once
#include "prelude.cuh"

#define BEYOND_NOTHING 0u
#define BEYOND_NEAREST 1u
#define BEYOND_WRAPPED 2u

// The grid, what is beyond it, and the points: displacements of a grid of `of` voxels along each axis, or, where that
// is zero, positions. A block takes `tile` of them along each axis of that grid.
struct SplatSpace {
    u64 count;
    u32 dims[3];
    u32 beyond;
    u32 of[3];
    u32 tiles[2];
    u32 components;
};

#define AROUND (NODES * NODES * NODES)

struct Cell {
    u32 index[3][NODES];
    float weight[3][NODES], derivative[3][NODES];
};

// The same as on the CPU.
DEVICE bool along(float p, u32 n, u32 beyond, u32* index, float* weight, float* derivative) {
    u32 first;
    float t;
    bool inside;
    if (beyond == BEYOND_WRAPPED) {
        if (!(fabsf(p) <= 4194304.0f)) return false;
        const float size = (float)n, below = floorf(p);
        float low = below - size * floorf(below / size);
        if (low < 0.0f) low += size;
        if (low >= size) low -= size;
        first = (u32)low;
        t = p - below;
        inside = n > 1;
    } else {
        const float last = (float)(n - 1);
        const bool near = beyond == BEYOND_NEAREST && p == p;
        if (!near && !(p >= -0.5f && p <= last + 0.5f)) return false;
        const float at = fminf(fmaxf(p, 0.0f), last);
        const u32 below = (u32)at, most = n >= 2 ? n - 2 : 0u;
        first = below < most ? below : most;
        t = at - (float)first;
        inside = at == p && n > 1;
    }
    const u32 before = NODES / 2 - 1;
    for (u32 k = 0; k < NODES; ++k) {
        if (beyond == BEYOND_WRAPPED) {
            u32 i = first + k + (before ? n : 0u) - before;
            while (i >= n) i -= n;
            index[k] = i;
        } else {
            const u32 i = first + k < before ? 0u : first + k - before;
            index[k] = i < n - 1 ? i : n - 1;
        }
    }
    const float s = 1.0f - t;
#if NODES == 2
    weight[0] = s;
    weight[1] = t;
    derivative[0] = -1.0f;
    derivative[1] = 1.0f;
#else
    const float t2 = t * t, s2 = s * s, t3 = t2 * t, s3 = s2 * s, sixth = 1.0f / 6.0f;
    weight[0] = s3 * sixth;
    weight[1] = (3.0f * t3 - 6.0f * t2 + 4.0f) * sixth;
    weight[2] = (3.0f * s3 - 6.0f * s2 + 4.0f) * sixth;
    weight[3] = t3 * sixth;
    derivative[0] = -0.5f * s2;
    derivative[1] = 1.5f * t2 - 2.0f * t;
    derivative[2] = 2.0f * s - 1.5f * s2;
    derivative[3] = 0.5f * t2;
#endif
    if (!inside)
        for (int k = 0; k < NODES; ++k) derivative[k] = 0.0f;
    return true;
}

DEVICE bool cell_of(const SplatSpace& space, IN(float) positions, u64 point, Cell& cell) {
    float at[3];
    for (int a = 0; a < 3; ++a) at[a] = positions[a * space.count + point];
    if (space.of[0] != 0) {
        const u64 row = point / space.of[0];
        at[0] += (float)(u32)(point - row * space.of[0]);
        at[1] += (float)(u32)(row % space.of[1]);
        at[2] += (float)(u32)(row / space.of[1]);
    }
    bool is_one = true;
    for (int a = 0; a < 3; ++a)
        is_one = along(at[a], space.dims[a], space.beyond, cell.index[a], cell.weight[a], cell.derivative[a]) && is_one;
    return is_one;
}

DEVICE u64 voxel_of(const SplatSpace& space, u32 x, u32 y, u32 z) {
    return x + (u64)space.dims[0] * (y + (u64)space.dims[1] * z);
}

DEVICE u64 corner_of(const SplatSpace& space, const Cell& cell, int corner) {
    return voxel_of(space, cell.index[0][corner % NODES], cell.index[1][corner / NODES % NODES],
                    cell.index[2][corner / (NODES * NODES)]);
}

// The number of the cell: the voxel that its points lie behind.
DEVICE u64 number_of(const SplatSpace& space, const Cell& cell) {
    const u32 k = NODES / 2 - 1;
    return voxel_of(space, cell.index[0][k], cell.index[1][k], cell.index[2][k]);
}

DEVICE float weight_of(const Cell& cell, int corner) {
    return cell.weight[2][corner / (NODES * NODES)] * cell.weight[1][corner / NODES % NODES] *
           cell.weight[0][corner % NODES];
}

// Units by value: `bits` for the largest one. Not a number where values are not all finite.
DEVICE double units_by(double largest, bool finite, i32 bits) {
    if (!finite) return NAN_F;
    if (largest <= 0.0) return 1.0;
    const i32 exponent = (i32)((u64)__double_as_longlong(largest) >> 52) - 1022;
    return __longlong_as_double((i64)(u64)(bits - exponent + 1023) << 52);
}

DEVICE double units_of(IN(double) range, i32 bits) { return units_by(range[0], !(range[1] > 0.0), bits); }

DEVICE i64 contribution(double scaled, float weight) {
    return __double2ll_rn(scaled * (double)weight);
}

// Values at points.
DEVICE float value_of(IN(float) image, const SplatSpace& space, const Cell& cell) {
    float sum = 0.0f;
#pragma unroll
    for (int z = 0; z < NODES; ++z) {
        float plane = 0.0f;
#pragma unroll
        for (int y = 0; y < NODES; ++y) {
            float line = 0.0f;
#pragma unroll
            for (int x = 0; x < NODES; ++x)
                line += cell.weight[0][x] * image[voxel_of(space, cell.index[0][x], cell.index[1][y], cell.index[2][z])];
            plane += cell.weight[1][y] * line;
        }
        sum += cell.weight[2][z] * plane;
    }
    return sum;
}

// The same with its derivatives along x, y and z: each in the order of the value, so that the bits are those of the value
// with derivatives for weights along the axis.
DEVICE float value_and_derivatives(IN(float) image, const SplatSpace& space, const Cell& cell, float* derivatives) {
    float sum = 0.0f, by[3] = {0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int z = 0; z < NODES; ++z) {
        float plane = 0.0f, plane_x = 0.0f, plane_y = 0.0f;
#pragma unroll
        for (int y = 0; y < NODES; ++y) {
            float line = 0.0f, line_x = 0.0f;
#pragma unroll
            for (int x = 0; x < NODES; ++x) {
                const float value = image[voxel_of(space, cell.index[0][x], cell.index[1][y], cell.index[2][z])];
                line += cell.weight[0][x] * value;
                line_x += cell.derivative[0][x] * value;
            }
            plane += cell.weight[1][y] * line;
            plane_x += cell.weight[1][y] * line_x;
            plane_y += cell.derivative[1][y] * line;
        }
        sum += cell.weight[2][z] * plane;
        by[0] += cell.weight[2][z] * plane_x;
        by[1] += cell.weight[2][z] * plane_y;
        by[2] += cell.derivative[2][z] * plane;
    }
    for (int a = 0; a < 3; ++a) derivatives[a] = by[a];
    return sum;
}

// Few points, by one block of 256 threads: what they give, FEW contributions at most, is added in a table in shared memory, found by the
// voxel, a power of two of slots, and then to memory. A key is one more than its voxel. The bits are those of `splat_add`.
#define FEW 1024u
#define SLOTS 2048u
#define FEW_EACH (FEW / 256u)

struct Table {
    SHARED_POINTER(u32) keys;
    SHARED_POINTER(u32) low_half;
    SHARED_POINTER(u32) high_half;
    SHARED_POINTER(u32) most;
};

template <class Values>
DEVICE void add_few(const SplatSpace& space, IN(float) positions, Values values, i32 bits, u32 slots, Table table,
                    INOUT(float) out) {
    const u32 rank = threadIdx.x, count = (u32)space.count;
    const u64 voxels = (u64)space.dims[0] * space.dims[1] * space.dims[2];
    for (u32 i = rank; i < slots; i += 256) table.keys[i] = 0;
    if (rank == 0) table.most[0] = 0;
    __syncthreads();
    // Floats of one sign are in the order of their bits.
    float most = 0.0f;
    for (u32 i = rank; i < space.components * count; i += 256) {
        const float size = fabsf(values[i]);
        most = size < INFINITY_F ? fmaxf(most, size) : INFINITY_F;
        if (!(most < INFINITY_F)) break;
    }
    const u32 most_here = __reduce_max_sync(ALL_LANES, __float_as_uint(most));
    if ((rank & (WARP - 1)) == 0) atomicMax(&table.most[0], most_here);
    u32 slot[FEW_EACH];
    float weight[FEW_EACH];
    for (u32 k = 0; k < FEW_EACH; ++k) {
        const u32 number = rank + 256 * k, corner = number % AROUND;
        slot[k] = SLOTS;
        Cell cell;
        if (number >= count * AROUND || !cell_of(space, positions, number / AROUND, cell)) continue;
        const u32 key = (u32)corner_of(space, cell, (int)corner) + 1;
        u32 at = key * 2654435761u;
        at = (at ^ (at >> 15)) & (slots - 1);
        for (;;) {
            const u32 there = atomicCAS(&table.keys[at], 0u, key);
            if (there == 0u || there == key) break;
            at = (at + 1) & (slots - 1);
        }
        slot[k] = at;
        weight[k] = weight_of(cell, (int)corner);
    }
    __syncthreads();
    const float largest = __int_as_float((int)table.most[0]);
    const double units = units_by((double)largest, largest < INFINITY_F, bits), back = 1.0 / units;
    for (u32 c = 0; c < space.components; ++c) {
        for (u32 i = rank; i < slots; i += 256) table.low_half[i] = table.high_half[i] = 0;
        __syncthreads();
        for (u32 k = 0; k < FEW_EACH; ++k) {
            if (slot[k] == SLOTS) continue;
            const u32 point = (rank + 256 * k) / AROUND;
            const i64 add = contribution((double)values[c * count + point] * units, weight[k]);
            // A number of 64 bits in two halves, as shared memory adds 32 bits at once.
            const u32 low = (u32)(u64)add;
            u32 high = (u32)((u64)add >> 32);
            if (low != 0) {
                const u32 before = atomicAdd(&table.low_half[slot[k]], low);
                if (before + low < low) high += 1;
            }
            if (high != 0) atomicAdd(&table.high_half[slot[k]], high);
        }
        __syncthreads();
        for (u32 i = rank; i < slots; i += 256) {
            if (table.keys[i] == 0u) continue;
            const i64 sum = (i64)((u64)table.low_half[i] | (u64)table.high_half[i] << 32);
            const u64 voxel = c * voxels + table.keys[i] - 1;
            out[voxel] = out[voxel] + (float)((double)sum * back);
        }
        __syncthreads();
    }
}
