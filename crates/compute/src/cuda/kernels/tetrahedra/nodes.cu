// Sums of elements, and of the cells of a box, at nodes: COMPONENTS numbers each.
#include "tetrahedra.cuh"

#define NUMBERS (8 * COMPONENTS)
// The threads of a cell.
#define BLOCK 128u
#define WARPS (BLOCK / WARP)

// From cells to indices of voxels.
struct FromCells { double map[3][4]; };

KERNEL(node_sums, 256, IN(double) parts, u64 corners, IN(u32) starts, IN(u32) places, u64 nodes, OUT(float) out) {
    const u64 node = global_thread();
    if (node >= nodes) return;
    double sum[COMPONENTS] = {};
    const u64 end = min((u64)starts[node + 1], corners);
    for (u64 at = starts[node]; at < end; ++at) {
        const u64 place = min((u64)places[at], corners - 1);
#pragma unroll
        for (u32 c = 0; c < COMPONENTS; ++c) sum[c] += parts[COMPONENTS * place + c];
    }
#pragma unroll
    for (u32 c = 0; c < COMPONENTS; ++c) out[c * nodes + node] = (float)sum[c];
}

// The indices along an axis that voxels within a cell may have: from the first one on, so many.
DEVICE u64 range_of(const FromCells& from, u32 axis, const u64* cell, u64 size, u64& first) {
    const double* m = from.map[axis];
    const double half = 0.5 + 10.0 * BORDER;
    const double middle = m[0] * ((double)cell[0] + 0.5) + m[1] * ((double)cell[1] + 0.5) + m[2] * ((double)cell[2] + 0.5) + m[3];
    const double reach = (fabs(m[0]) + fabs(m[1]) + fabs(m[2])) * half + 10.0 * BORDER;
    const double low = fmax(ceil(middle - reach), 0.0), high = fmin(floor(middle + reach), (double)(size - 1));
    first = 0;
    if (!(low <= high)) return 0;
    first = (u64)low;
    return (u64)(high - low) + 1;
}

// The weight at a corner of the cell, whose bits say where it is high.
DEVICE double corner_weight(u32 corner, const double* s) {
    double high = 1.0, low = 0.0;
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        if (corner >> a & 1u) high = fmin(high, s[a]);
        else low = fmax(low, s[a]);
    }
    return fmax(high - low, 0.0);
}

// The sums over the voxels of a cell at its eight corners: a block a cell.
KERNEL(cell_sums, BLOCK, Sampling sampling, KuhnCells box, FromCells from, IN(float) values, OUT(double) sums) {
    SHARED(double, scratch, WARPS * NUMBERS);
    const u64 number = blockIdx.x, row = number / box.cells[0], n = sampling.count;
    const u64 cell[3] = {number % box.cells[0], row % box.cells[1], row / box.cells[1]};
    u64 first[3], size[3];
#pragma unroll
    for (u32 a = 0; a < 3; ++a) size[a] = range_of(from, a, cell, sampling.dims[a], first[a]);
    double sum[NUMBERS] = {};
    const u64 all = size[0] * size[1] * size[2];
    for (u64 k = threadIdx.x; k < all; k += BLOCK) {
        const u64 line = k / size[0], x = first[0] + k % size[0], y = first[1] + line % size[1], z = first[2] + line / size[1];
        InCell in;
        if (!cell_in(box, mapped(sampling, (double)x, (double)y, (double)z), in)) continue;
        if (in.cell[0] != cell[0] || in.cell[1] != cell[1] || in.cell[2] != cell[2]) continue;
        const u64 i = x + sampling.dims[0] * (y + sampling.dims[1] * z);
        double value[COMPONENTS];
#pragma unroll
        for (u32 c = 0; c < COMPONENTS; ++c) value[c] = (double)values[c * n + i];
#pragma unroll
        for (u32 corner = 0; corner < 8; ++corner) {
            const double weight = corner_weight(corner, in.s);
#pragma unroll
            for (u32 c = 0; c < COMPONENTS; ++c) sum[COMPONENTS * corner + c] += weight * value[c];
        }
    }
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
    for (u32 k = 0; k < NUMBERS; ++k) {
        const double of_warp = warp_sum(sum[k]);
        if (lane == 0) scratch[warp * NUMBERS + k] = of_warp;
    }
    __syncthreads();
    const u32 k = threadIdx.x;
    if (k < NUMBERS)
        sums[NUMBERS * number + k] = ((double)scratch[k] + (double)scratch[2 * NUMBERS + k]) +
                                     ((double)scratch[NUMBERS + k] + (double)scratch[3 * NUMBERS + k]);
}

// Each node gathers from the cells around it, in rising order.
KERNEL(cell_nodes, 256, KuhnCells box, IN(double) sums, u64 nodes, OUT(float) out) {
    const u64 node = global_thread();
    if (node >= nodes) return;
    const u64 nx = box.cells[0] + 1, ny = box.cells[1] + 1, row = node / nx;
    const u64 at[3] = {node % nx, row % ny, row / ny};
    double sum[COMPONENTS] = {};
#pragma unroll
    for (u32 around = 0; around < 8; ++around) {
        u64 cell[3];
        u32 corner = 0;
        bool is_there = true;
#pragma unroll
        for (u32 a = 0; a < 3; ++a) {
            const u32 below = 1u - (around >> a & 1u);
            corner |= below << a;
            is_there = is_there && at[a] >= below && at[a] - below < box.cells[a];
            cell[a] = at[a] - below;
        }
        if (!is_there) continue;
        const u64 first = NUMBERS * (cell[0] + box.cells[0] * (cell[1] + box.cells[1] * cell[2])) + COMPONENTS * corner;
#pragma unroll
        for (u32 c = 0; c < COMPONENTS; ++c) sum[c] += sums[first + c];
    }
#pragma unroll
    for (u32 c = 0; c < COMPONENTS; ++c) out[c * nodes + node] = (float)sum[c];
}
