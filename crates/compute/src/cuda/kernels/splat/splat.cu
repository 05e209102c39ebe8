// Interpolation at points and its exact adjoint, in fixed point. NODES is 2 for linear weights, 4 for cubic ones.
#include "cells.cuh"

template <bool WITH_DERIVATIVES>
DEVICE void gathered(IN(float) image, const SplatSpace& space, IN(float) positions, IN(float) moments,
                     OUT(float) out, OUT(float) derivatives) {
    const u64 point = global_thread();
    if (point >= space.count) return;
    const u64 voxels = (u64)space.dims[0] * space.dims[1] * space.dims[2];
    Cell cell;
    const bool is_one = cell_of(space, positions, point, cell);
    float sum[3] = {0.0f, 0.0f, 0.0f};
    for (u32 c = 0; c < space.components; ++c) {
        IN(float) here = image + c * voxels;
        float value = 0.0f;
        if (WITH_DERIVATIVES && is_one) {
            const float moment = moments[c * space.count + point];
            float by[3];
            value = value_and_derivatives(here, space, cell, by);
            for (int a = 0; a < 3; ++a) sum[a] += moment * by[a];
        } else if (is_one) {
            value = value_of(here, space, cell);
        }
        out[c * space.count + point] = value;
    }
    if (WITH_DERIVATIVES)
        for (int a = 0; a < 3; ++a) derivatives[a * space.count + point] = sum[a];
}

KERNEL(gather_values, 256, IN(float) image, SplatSpace space, IN(float) positions, OUT(float) out) {
    gathered<false>(image, space, positions, positions, out, out);
}

KERNEL(gather_gradients, 256, IN(float) image, SplatSpace space, IN(float) positions, IN(float) moments, OUT(float) out,
       OUT(float) derivatives) {
    gathered<true>(image, space, positions, moments, out, derivatives);
}

// Where a displacement leads to given positions: as on the CPU.
struct Rest {
    double square, step[3];
};

DEVICE Rest rest_of(IN(float) field, const SplatSpace& space, const double* at, const double* to, double singular) {
    const u64 voxels = (u64)space.dims[0] * space.dims[1] * space.dims[2];
    Cell cell;
    bool is_one = true;
    for (int a = 0; a < 3; ++a)
        is_one = along((float)at[a], space.dims[a], space.beyond, cell.index[a], cell.weight[a], cell.derivative[a]) && is_one;
    double r[3], m[3][3], c[3][3];
    for (int a = 0; a < 3; ++a) {
        IN(float) here = field + a * voxels;
        float derivatives[3] = {0.0f, 0.0f, 0.0f};
        r[a] = is_one ? (double)value_and_derivatives(here, space, cell, derivatives) : 0.0;
        for (int b = 0; b < 3; ++b) m[a][b] = (double)derivatives[b];
        r[a] += at[a] - to[a];
        m[a][a] += 1.0;
    }
    for (int a = 0; a < 3; ++a)
        for (int b = 0; b < 3; ++b) {
            const int a1 = (a + 1) % 3, a2 = (a + 2) % 3, b1 = (b + 1) % 3, b2 = (b + 2) % 3;
            c[a][b] = m[a1][b1] * m[a2][b2] - m[a1][b2] * m[a2][b1];
        }
    const double determinant = m[0][0] * c[0][0] + m[0][1] * c[0][1] + m[0][2] * c[0][2];
    const bool regular = fabs(determinant) > singular;
    Rest rest;
    for (int a = 0; a < 3; ++a)
        rest.step[a] = regular ? -(c[0][a] * r[0] + c[1][a] * r[1] + c[2][a] * r[2]) / determinant : -r[a];
    rest.square = r[0] * r[0] + r[1] * r[1] + r[2] * r[2];
    return rest;
}

KERNEL(origins, 256, IN(float) field, SplatSpace space, IN(float) positions, u32 steps, double near, double singular,
       INOUT(float) out) {
    const u64 point = global_thread();
    if (point >= space.count) return;
    double at[3], to[3], next[3];
    for (int a = 0; a < 3; ++a) {
        at[a] = (double)out[a * space.count + point];
        to[a] = (double)positions[a * space.count + point];
    }
    Rest rest = rest_of(field, space, at, to, singular);
    for (u32 i = 0; i < steps && !(rest.square <= near); ++i) {
        for (int a = 0; a < 3; ++a) next[a] = at[a] + rest.step[a];
        const Rest found = rest_of(field, space, next, to, singular);
        const bool better = found.square < rest.square;
        for (int a = 0; a < 3; ++a) {
            if (better) at[a] = next[a];
            else rest.step[a] *= 0.5;
        }
        if (better) rest = found;
    }
    for (int a = 0; a < 3; ++a) out[a * space.count + point] = (float)at[a];
}

// Points add to memory. Where all of a warp lie in one cell, they add up what they give first.
DEVICE void add_to_memory(const SplatSpace& space, bool is_one, const Cell& cell, double scaled, INOUT(i64) sums) {
    const u32 same = __match_any_sync(ALL_LANES, is_one ? number_of(space, cell) : ~0ull);
    const bool together = __all_sync(ALL_LANES, same == ALL_LANES && is_one);
    for (int corner = 0; corner < AROUND; ++corner) {
        i64 units = is_one ? contribution(scaled, weight_of(cell, corner)) : 0;
        if (together) {
            units = warp_sum(units);
            if ((thread_rank() & (WARP - 1)) != 0) units = 0;
        }
        if (units != 0) atomicAdd((u64*)&sums[corner_of(space, cell, corner)], (u64)units);
    }
}

KERNEL(splat_atomic, 256, IN(float) values, SplatSpace space, IN(float) positions, IN(double) range, i32 bits,
       INOUT(i64) sums) {
    const u64 point = global_thread();
    const u64 voxels = (u64)space.dims[0] * space.dims[1] * space.dims[2];
    const double units = units_of(range, bits);
    Cell cell;
    const bool is_one = point < space.count && cell_of(space, positions, point, cell);
    for (u32 c = 0; c < space.components; ++c) {
        const double scaled = is_one ? (double)values[c * space.count + point] * units : 0.0;
        add_to_memory(space, is_one, cell, scaled, sums + c * voxels);
    }
}

// The points of a block: neighbours in the list, or a tile of the displaced grid.
#define EACH 2
#define POINTS (EACH * 256)
#define TILE_X 16u
#define TILE_Y 8u
#define TILE_Z 4u
// Voxels that shared memory has room for.
#define ROOM 4096u

DEVICE u64 point_of(const SplatSpace& space, u32 number) {
    if (space.of[0] == 0) return (u64)blockIdx.x * POINTS + number;
    const u32 block = blockIdx.x, row = block / space.tiles[0];
    const u32 x = block % space.tiles[0] * TILE_X + number % TILE_X;
    const u32 y = row % space.tiles[1] * TILE_Y + number / TILE_X % TILE_Y;
    const u32 z = row / space.tiles[1] * TILE_Z + number / (TILE_X * TILE_Y);
    if (x >= space.of[0] || y >= space.of[1] || z >= space.of[2]) return ~0ull;
    return x + (u64)space.of[0] * (y + (u64)space.of[1] * z);
}

KERNEL(splat_shared, 256, IN(float) values, SplatSpace space, IN(float) positions, IN(double) range, i32 bits,
       INOUT(i64) sums) {
    SHARED(u32, low_half, ROOM);
    SHARED(u32, high_half, ROOM);
    SHARED(u32, box, 6);
    const u32 rank = threadIdx.x;
    const u64 voxels = (u64)space.dims[0] * space.dims[1] * space.dims[2];
    const double units = units_of(range, bits);
    if (rank < 6) box[rank] = rank < 3 ? 0xffffffffu : 0u;
    __syncthreads();
    Cell cells[EACH];
    u64 points[EACH];
    bool are[EACH];
    u32 box_here[6] = {0xffffffffu, 0xffffffffu, 0xffffffffu, 0u, 0u, 0u};
    for (int k = 0; k < EACH; ++k) {
        points[k] = point_of(space, rank + k * 256);
        are[k] = points[k] < space.count && cell_of(space, positions, points[k], cells[k]);
        for (int a = 0; a < 3; ++a) {
            if (!are[k]) continue;
            for (int end = 0; end < NODES; ++end) {
                box_here[a] = min(box_here[a], cells[k].index[a][end]);
                box_here[3 + a] = max(box_here[3 + a], cells[k].index[a][end]);
            }
        }
    }
    for (int a = 0; a < 3; ++a) {
        const u32 least = __reduce_min_sync(ALL_LANES, box_here[a]);
        const u32 most = __reduce_max_sync(ALL_LANES, box_here[3 + a]);
        if ((rank & (WARP - 1)) == 0) {
            atomicMin(&box[a], least);
            atomicMax(&box[3 + a], most);
        }
    }
    __syncthreads();
    if (box[0] > box[3]) return;   // no point of the block is in the grid
    u32 first[3], size[3];
    for (int a = 0; a < 3; ++a) {
        first[a] = box[a];
        size[a] = box[3 + a] - box[a] + 1;
    }
    const u64 needed = (u64)size[0] * size[1] * size[2];
    if (needed > ROOM) {
        for (u32 c = 0; c < space.components; ++c)
            for (int k = 0; k < EACH; ++k) {
                const double scaled = are[k] ? (double)values[c * space.count + points[k]] * units : 0.0;
                add_to_memory(space, are[k], cells[k], scaled, sums + c * voxels);
            }
        return;
    }
    for (u32 c = 0; c < space.components; ++c) {
        for (u32 i = rank; i < (u32)needed; i += 256) low_half[i] = high_half[i] = 0;
        __syncthreads();
        for (int k = 0; k < EACH; ++k) {
            const double scaled = are[k] ? (double)values[c * space.count + points[k]] * units : 0.0;
            const u32 same = __match_any_sync(ALL_LANES, are[k] ? number_of(space, cells[k]) : ~0ull);
            const bool together = __all_sync(ALL_LANES, same == ALL_LANES && are[k]);
            if (!are[k]) continue;
            for (int corner = 0; corner < AROUND; ++corner) {
                i64 add = contribution(scaled, weight_of(cells[k], corner));
                if (together) {
                    add = warp_sum(add);
                    if ((rank & (WARP - 1)) != 0) add = 0;
                }
                if (add == 0) continue;
                const u32 at = cells[k].index[0][corner % NODES] - first[0]
                    + size[0] * (cells[k].index[1][corner / NODES % NODES] - first[1]
                    + size[1] * (cells[k].index[2][corner / (NODES * NODES)] - first[2]));
                // A number of 64 bits in two halves, as shared memory adds 32 bits at once.
                const u32 low = (u32)(u64)add;
                u32 high = (u32)((u64)add >> 32);
                if (low != 0) {
                    const u32 before = atomicAdd(&low_half[at], low);
                    if (before + low < low) high += 1;
                }
                if (high != 0) atomicAdd(&high_half[at], high);
            }
        }
        __syncthreads();
        for (u32 i = rank; i < (u32)needed; i += 256) {
            const u64 sum = (u64)low_half[i] | (u64)high_half[i] << 32;
            if (sum == 0) continue;
            const u32 x = i % size[0], row = i / size[0];
            const u32 y = row % size[1], z = row / size[1];
            const u64 voxel = first[0] + x + (u64)space.dims[0] * (first[1] + y + (u64)space.dims[1] * (first[2] + z));
            atomicAdd((u64*)&sums[c * voxels + voxel], sum);
        }
        __syncthreads();
    }
}

KERNEL(splat_values, 256, IN(i64) sums, IN(double) range, i32 bits, u64 n, OUT(float) out) {
    const u64 i = global_thread();
    if (i < n) out[i] = (float)((double)sums[i] * (1.0 / units_of(range, bits)));
}

// To the voxels that points reach alone: a table of their sums, found by the voxel. A key is one more than its voxel.
KERNEL(splat_add, 256, IN(float) values, SplatSpace space, IN(float) positions, IN(double) range, i32 bits, u32 slots,
       INOUT(u32) keys, INOUT(i64) sums) {
    const u64 point = global_thread();
    Cell cell;
    if (point >= space.count || !cell_of(space, positions, point, cell)) return;
    const double units = units_of(range, bits);
    for (int corner = 0; corner < AROUND; ++corner) {
        const u32 key = (u32)corner_of(space, cell, corner) + 1;
        u32 slot = key * 2654435761u;
        slot = (slot ^ (slot >> 15)) & (slots - 1);
        for (;;) {
            const u32 there = atomicCAS(&keys[slot], 0u, key);
            if (there == 0u || there == key) break;
            slot = (slot + 1) & (slots - 1);
        }
        const float weight = weight_of(cell, corner);
        for (u32 c = 0; c < space.components; ++c) {
            const i64 add = contribution((double)values[c * space.count + point] * units, weight);
            if (add != 0) atomicAdd((u64*)&sums[(u64)c * slots + slot], (u64)add);
        }
    }
}

KERNEL(splat_added, 256, SplatSpace space, IN(double) range, i32 bits, u32 slots, IN(u32) keys, IN(i64) sums,
       INOUT(float) out) {
    const u64 slot = global_thread();
    if (slot >= slots || keys[slot] == 0u) return;
    const u64 voxels = (u64)space.dims[0] * space.dims[1] * space.dims[2];
    const double back = 1.0 / units_of(range, bits);
    for (u32 c = 0; c < space.components; ++c) {
        const u64 i = c * voxels + keys[slot] - 1;
        out[i] = out[i] + (float)((double)sums[(u64)c * slots + slot] * back);
    }
}

// The same of few points, by one block.
KERNEL(splat_few, 256, IN(float) values, SplatSpace space, IN(float) positions, i32 bits, u32 slots, INOUT(float) out) {
    SHARED(u32, keys, SLOTS);
    SHARED(u32, low_half, SLOTS);
    SHARED(u32, high_half, SLOTS);
    SHARED(u32, most, 1);
    const Table table = {keys, low_half, high_half, most};
    add_few(space, positions, values, bits, slots, table, out);
}

// Without atomic operations. The voxel of every contribution, behind all voxels where there is none.
KERNEL(splat_keys, 256, SplatSpace space, IN(float) positions, OUT(u32) keys) {
    const u64 point = global_thread();
    if (point >= space.count) return;
    Cell cell;
    const bool is_one = cell_of(space, positions, point, cell);
    for (int corner = 0; corner < AROUND; ++corner)
        keys[AROUND * point + corner] = is_one ? (u32)corner_of(space, cell, corner) : 0xffffffffu;
}

// Running sums of sorted contributions, of each block on its own, and the sum of the block.
#define SCANNED 8
KERNEL(splat_scan, 256, IN(float) values, SplatSpace space, IN(float) positions, IN(double) range, i32 bits,
       IN(u32) order, u64 n, OUT(i64) running, OUT(i64) totals) {
    SHARED(i64, warps, 8);
    const u32 rank = threadIdx.x, lane = rank & (WARP - 1);
    const u64 begin = ((u64)blockIdx.x * 256 + rank) * SCANNED;
    const double units = units_of(range, bits);
    i64 own[SCANNED], sum = 0;
    for (int k = 0; k < SCANNED; ++k) {
        if (begin + k < n) {
            const u32 number = order[begin + k];
            Cell cell;
            if (cell_of(space, positions, number / AROUND, cell))
                sum += contribution((double)values[number / AROUND] * units, weight_of(cell, number % AROUND));
        }
        own[k] = sum;
    }
    i64 before = sum;
    for (u32 step = 1; step < WARP; step *= 2) {
        const i64 other = __shfl_up_sync(ALL_LANES, before, step);
        if (lane >= step) before += other;
    }
    if (lane == WARP - 1) warps[rank / WARP] = before;
    __syncthreads();
    before -= sum;
    for (u32 w = 0; w < rank / WARP; ++w) before += warps[w];
    for (int k = 0; k < SCANNED; ++k)
        if (begin + k < n) running[begin + k] = before + own[k];
    if (rank == 255) totals[blockIdx.x] = before + sum;
}

// The sums of all blocks before each: one block goes through them.
KERNEL(splat_scan_totals, 1024, u64 n, INOUT(i64) totals) {
    SHARED(i64, warps, 32);
    const u32 rank = threadIdx.x, lane = rank & (WARP - 1);
    i64 carried = 0;
    for (u64 begin = 0; begin < n; begin += 1024) {
        const i64 own = begin + rank < n ? (i64)totals[begin + rank] : 0;
        i64 before = own;
        for (u32 step = 1; step < WARP; step *= 2) {
            const i64 other = __shfl_up_sync(ALL_LANES, before, step);
            if (lane >= step) before += other;
        }
        if (lane == WARP - 1) warps[rank / WARP] = before;
        __syncthreads();
        i64 all = 0;
        for (u32 w = 0; w < 32; ++w) {
            if (w < rank / WARP) before += warps[w];
            all += warps[w];
        }
        if (begin + rank < n) totals[begin + rank] = carried + before - own;
        carried += all;
        __syncthreads();
    }
}

// The sum of a voxel: the running sum at the end of its segment, less that before its begin. Each voxel has one end and
// one begin, so that nothing meets.
KERNEL(splat_segments, 256, IN(u32) keys, u64 n, u64 voxels, IN(i64) running, IN(i64) totals, u32 begins,
       INOUT(i64) sums) {
    const u64 i = global_thread();
    if (i >= n) return;
    const u32 key = keys[i];
    if (key >= voxels) return;
    const u64 block = 256 * SCANNED;
    if (begins) {
        if (i > 0 && keys[i - 1] != key) sums[key] = sums[key] - (running[i - 1] + totals[(i - 1) / block]);
    } else if (i + 1 == n || keys[i + 1] != key) {
        sums[key] = running[i] + totals[i / block];
    }
}
