// The elements that samples are in, and the bins in which they are looked for.
#include "tetrahedra.cuh"

#define TOLERANCE 1e-6
#define WITHIN 2e-3
#define MARGIN 1e-5
#define SCANNING 1024u

// The lowest corner of the bins, their edge, and their number along each axis.
struct BinSpace { double origin[3], edge; u64 dims[3]; };

KERNEL(locate_in_box, 256, Sampling sampling, KuhnCells box, IN(float) points, OUT(u32) out) {
    const u64 i = global_thread();
    if (i >= sampling.count) return;
    InCell in;
    u32 found = OUTSIDE, axes;
    if (cell_in(box, position(sampling, points, i), in))
        found = (u32)(6 * (in.cell[0] + box.cells[0] * (in.cell[1] + box.cells[1] * in.cell[2])) + path_of(in.s, axes));
    out[i] = found;
}

DEVICE u64 bin_along(const BinSpace& grid, u32 axis, double p) {
    const double at = floor((p - grid.origin[axis]) / grid.edge);
    return (u64)fmin(fmax(at, 0.0), (double)(grid.dims[axis] - 1));
}

DEVICE bool is_in(IN(float) nodes, u64 count, IN(u32) corners, u64 elements, u32 element, const Vector& p, double bound) {
    if (element >= elements) return false;
    double w[4];
    if (!weights_in(nodes, count, tetrahedron(corners, count, element), p, w)) return false;
    return w[0] >= bound && w[1] >= bound && w[2] >= bound && w[3] >= bound;
}

KERNEL(locate_by_bins, 256, Sampling sampling, IN(float) points, IN(float) nodes, u64 count, IN(u32) corners, u64 elements,
       BinSpace grid, IN(u32) starts, IN(u32) listed, u64 pairs, IN(u32) before, IN(u32) neighbours, OUT(u32) out) {
    const u64 i = global_thread();
    if (i >= sampling.count) return;
    const Vector p = position(sampling, points, i);
    if (before != nullptr && before[i] < elements) {
        const u32 old = before[i];
        u32 found = is_in(nodes, count, corners, elements, old, p, WITHIN) ? old : OUTSIDE;
        for (u32 k = 0; k < 4 && found == OUTSIDE; ++k) {
            const u32 beside = neighbours[4 * (u64)old + k];
            if (is_in(nodes, count, corners, elements, beside, p, WITHIN)) found = beside;
        }
        if (found != OUTSIDE) {
            out[i] = found;
            return;
        }
    }
    const u64 bin = bin_along(grid, 0, p.x) + grid.dims[0] * (bin_along(grid, 1, p.y) + grid.dims[1] * bin_along(grid, 2, p.z));
    const u64 end = min((u64)starts[bin + 1], pairs);
    u32 found = OUTSIDE;
    for (u64 at = starts[bin]; at < end && found == OUTSIDE; ++at) {
        const u32 element = listed[at];
        if (is_in(nodes, count, corners, elements, element, p, -TOLERANCE)) found = element;
    }
    out[i] = found;
}

// The first and the last bin of an element along each axis.
struct BinRange { u64 low[3], high[3]; };

DEVICE bool bins_of(const BinSpace& grid, IN(float) nodes, u64 count, IN(u32) corners, u64 element, BinRange& range) {
    const Tetrahedron t = tetrahedron(corners, count, element);
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        const double x0 = nodes[a * count + t.node[0]], x1 = nodes[a * count + t.node[1]];
        const double x2 = nodes[a * count + t.node[2]], x3 = nodes[a * count + t.node[3]];
        if (!(fabs(x0) < INFINITY_D && fabs(x1) < INFINITY_D && fabs(x2) < INFINITY_D && fabs(x3) < INFINITY_D)) return false;
        double low = fmin(fmin(fmin(x0, x1), x2), x3), high = fmax(fmax(fmax(x0, x1), x2), x3);
        const double margin = (high - low) * MARGIN;
        low -= margin;
        high += margin;
        range.low[a] = bin_along(grid, a, low);
        range.high[a] = bin_along(grid, a, high);
    }
    return true;
}

// How many bins the box of each element meets.
KERNEL(bin_counts, 256, IN(float) nodes, u64 count, IN(u32) corners, u64 elements, BinSpace grid, OUT(u64) counts) {
    const u64 element = global_thread();
    if (element >= elements) return;
    BinRange r;
    u64 found = 0;
    if (bins_of(grid, nodes, count, corners, element, r))
        found = (r.high[0] - r.low[0] + 1) * (r.high[1] - r.low[1] + 1) * (r.high[2] - r.low[2] + 1);
    counts[element] = found;
}

// Their sums before each element, and over all, by one block: each thread has neighbours.
KERNEL(bin_offsets, SCANNING, IN(u64) counts, u64 elements, OUT(u32) offsets, OUT(u64) sum) {
    SHARED(u64, sums, SCANNING);
    const u64 each = (elements + SCANNING - 1) / SCANNING, first = min(each * threadIdx.x, elements);
    const u64 end = min(first + each, elements);
    u64 own = 0;
    for (u64 i = first; i < end; ++i) own += counts[i];
    sums[threadIdx.x] = own;
    __syncthreads();
    for (u32 step = 1; step < SCANNING; step *= 2) {
        const u64 before = threadIdx.x >= step ? (u64)sums[threadIdx.x - step] : 0ull;
        __syncthreads();
        sums[threadIdx.x] = (u64)sums[threadIdx.x] + before;
        __syncthreads();
    }
    u64 offset = (u64)sums[threadIdx.x] - own;
    for (u64 i = first; i < end; ++i) {
        offsets[i] = (u32)offset;
        offset += counts[i];
    }
    if (threadIdx.x == SCANNING - 1) sum[0] = (u64)sums[threadIdx.x];
}

KERNEL(bin_pairs, 256, IN(float) nodes, u64 count, IN(u32) corners, u64 elements, BinSpace grid, IN(u32) offsets, u64 pairs,
       OUT(u32) bins, OUT(u32) of) {
    const u64 element = global_thread();
    if (element >= elements) return;
    BinRange r;
    if (!bins_of(grid, nodes, count, corners, element, r)) return;
    u64 at = offsets[element];
    for (u64 k = r.low[2]; k <= r.high[2]; ++k)
        for (u64 j = r.low[1]; j <= r.high[1]; ++j)
            for (u64 i = r.low[0]; i <= r.high[0]; ++i, ++at) {
                if (at >= pairs) return;
                bins[at] = (u32)(i + grid.dims[0] * (j + grid.dims[1] * k));
                of[at] = (u32)element;
            }
}

// Where the keys of each number begin.
KERNEL(key_starts, 256, IN(u32) keys, u64 count, u64 numbers, OUT(u32) starts) {
    const u64 key = global_thread();
    if (key >= numbers) return;
    u64 low = 0, high = count;
    while (low < high) {
        const u64 middle = (low + high) / 2;
        if ((u64)keys[middle] < key) low = middle + 1;
        else high = middle;
    }
    starts[key] = (u32)low;
}
