// Joint histograms of blocks in whole numbers, and sums of their slopes.
#include "joint.cuh"

// Calls `work(x, y, z, bin, c)` for the pixels of the part, tile by tile: each thread has `side_x x side_y` neighbours of a tile. Before a tile that
// could bring more than `most` samples since the last time, all threads call `flush`.
template <class Work, class Flush>
DEVICE void each_pixel(const JointMap& map, const JointPart& part, IN(u8) fixed, u32 side_x, u32 side_y, u32 most,
                       Work& work, Flush& flush) {
    const u32 rows = blockDim.x / WARP;
    const u32 wide = WARP * side_x, high = rows * side_y;
    const u32 across = (part.dims[0] + wide - 1) / wide, down = (part.dims[1] + high - 1) / high;
    const u64 tiles = (u64)across * down * part.dims[2];
    u32 since = 0;
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        if (since && since + wide * high > most) {
            flush();
            since = 0;
        }
        since += wide * high;
        const u32 z = (u32)(tile / ((u64)across * down));
        const u32 rest = (u32)(tile % ((u64)across * down));
        const u32 x0 = rest % across * wide + (threadIdx.x & (WARP - 1)) * side_x;
        const u32 y0 = rest / across * high + threadIdx.x / WARP * side_y;
        if (x0 >= part.dims[0]) continue;
        const u32 x1 = min(x0 + side_x, part.dims[0]), y1 = min(y0 + side_y, part.dims[1]);
        for (u32 y = y0; y < y1; ++y) {
            const u64 row = part.block[0] * ((u64)part.block[1] * (part.shift[2] + z) + part.shift[1] + y) + part.shift[0];
            i64 c[3];
            exact(map, part.origin[0] + x0, part.origin[1] + y, part.origin[2] + z, c);
#pragma unroll 4
            for (u32 x = x0; x < x1; ++x) {
                const u32 bin = fixed[row + x];
                if (bin != NO_SAMPLE) work(bin, c);
                c[0] += map.matrix[0];
                c[1] += map.matrix[3];
                c[2] += map.matrix[6];
            }
        }
    }
    flush();
}

struct CountPixels {
    const JointBins& bins;
    const Bricks& bricks;
    SHARED_POINTER(i32) window;
    SHARED_POINTER(u32) table;
    INOUT(u64) out;
    bool here;
    u64 samples, elsewhere;

    MEMBER void operator()(u32 bin, const i64* c) {
        Sample s;
        if (!sample_of(bins, c, s)) return;
        Corners corners;
        const u32 b = find_corners(bins, bricks, s, corners);
        if (b == bricks.count) return;
        bool inside;
        add_count(bins, bin, place_of(bins, corners, inside), window, table, out, here);
        samples += 1;
        elsewhere += b != 0;
    }
};

struct FlushCounts {
    const JointBins& bins;
    u32 copies;
    SHARED_POINTER(u32) tables;
    INOUT(u64) out;
    MEMBER void operator()() { flush_counts(bins, copies, tables, out); }
};

// `copies` tables are in shared memory; none where they do not fit.
KERNEL(joint_count, 512, JointMap map, JointBins bins, JointPart part, IN(u8) fixed, JointBrick first,
       IN(JointBrick) all, u32 count, IN(Pixel) own, u32 side_x, u32 side_y, u32 most, u32 copies, INOUT(u64) out) {
    DYNAMIC_SHARED(u32, tables);
    SHARED(i32, window, 1024);
    clear_tables(copies * bins.entries, tables);
    if (CUBIC) make_window(false, window);
    __syncthreads();
    const u32 copy = copies ? threadIdx.x / WARP % copies : 0;
    const Bricks bricks = {first, all, count, own};
    CountPixels work = {bins, bricks, window, tables + copy * bins.entries, out, copies != 0, 0, 0};
    FlushCounts flush = {bins, copies, tables, out};
    each_pixel(map, part, fixed, side_x, side_y, most, work, flush);
    flush_tallies(work.samples, work.elsewhere, out, bins.entries);
}

struct SlopePixels {
    const JointBins& bins;
    const Bricks& bricks;
    IN(i32) slopes;
    SHARED_POINTER(i32) window;
    i64* sums;
    u64 samples, elsewhere;

    MEMBER void operator()(u32 bin, const i64* c) {
        Sample s;
        if (!sample_of(bins, c, s)) return;
        Corners corners;
        const u32 b = find_corners(bins, bricks, s, corners);
        if (b == bricks.count) return;
        add_slope(bins, corners, s, bin, slopes, window, sums);
        samples += 1;
        elsewhere += b != 0;
    }
};

struct FlushSlopes {
    i64* sums;
    INOUT(u64) out;
    MEMBER void operator()() { flush_slopes(sums, out); }
};

KERNEL(joint_slopes, 256, JointMap map, JointBins bins, JointPart part, IN(u8) fixed, JointBrick first,
       IN(JointBrick) all, u32 count, IN(Pixel) own, u32 side_x, u32 side_y, u32 most, IN(i32) slopes, INOUT(u64) out) {
    SHARED(i32, window, 1024);
    make_window(true, window);
    __syncthreads();
    i64 sums[OWN_SUMS];
    for (int k = 0; k < OWN_SUMS; ++k) sums[k] = 0;
    const Bricks bricks = {first, all, count, own};
    SlopePixels work = {bins, bricks, slopes, window, sums, 0, 0};
    FlushSlopes flush = {sums, out};
    each_pixel(map, part, fixed, side_x, side_y, most, work, flush);
    flush_tallies(work.samples, work.elsewhere, out, 2 * NUMBERS);
}
