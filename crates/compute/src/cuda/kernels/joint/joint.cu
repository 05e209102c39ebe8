// Joint histograms of blocks in whole numbers, and sums of their slopes.
#include "joint.cuh"

// The pixels of a thread along an axis that are in the part, from the first on.
DEVICE u32 pixels_within(u32 first, u32 next, u32 most, u32 size) {
    return first < size ? min(most, (size - first + next - 1) / next) : 0u;
}

// Calls `work(bin, c)` for the pixels of the part that are samples, tile by tile, as `walk` shares them among threads. Before a tile that could bring
// more than `most` samples since the last time, all threads call `flush`.
template <class Work, class Flush>
DEVICE void each_pixel(const JointMap& map, const JointPart& part, IN(u8) fixed, const JointWalk& walk, u32 most,
                       Work& work, Flush& flush) {
    const u32 across = (part.dims[0] + walk.tile[0] - 1) / walk.tile[0];
    const u32 down = (part.dims[1] + walk.tile[1] - 1) / walk.tile[1];
    const u64 tiles = (u64)across * down * part.dims[2];
    const u32 each = walk.tile[0] * walk.tile[1];
    const u32 lane = threadIdx.x & (WARP - 1), warp = threadIdx.x / WARP;
    const u32 first_x = (lane % walk.lanes + walk.lanes * (warp % walk.warps)) * walk.apart[0];
    const u32 first_y = (lane / walk.lanes + WARP / walk.lanes * (warp / walk.warps)) * walk.apart[1];
    i64 step_x[3], step_y[3];
#pragma unroll
    for (int r = 0; r < 3; ++r) {
        step_x[r] = map.matrix[3 * r] * (i64)walk.next[0];
        step_y[r] = map.matrix[3 * r + 1] * (i64)walk.next[1];
    }
    u32 since = 0;
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        if (since && since + each > most) {
            flush();
            since = 0;
        }
        since += each;
        const u32 z = (u32)(tile / ((u64)across * down));
        const u32 rest = (u32)(tile % ((u64)across * down));
        const u32 x0 = rest % across * walk.tile[0] + first_x, y0 = rest / across * walk.tile[1] + first_y;
        const u32 wide = pixels_within(x0, walk.next[0], walk.sides[0], part.dims[0]);
        const u32 high = pixels_within(y0, walk.next[1], walk.sides[1], part.dims[1]);
        if (wide == 0) continue;
        i64 left[3];
        exact(map, part.origin[0] + x0, part.origin[1] + y0, part.origin[2] + z, left);
        u64 row = part.block[0] * ((u64)part.block[1] * (part.shift[2] + z) + part.shift[1] + y0) + part.shift[0] + x0;
        for (u32 sy = 0; sy < high; ++sy) {
            i64 c[3] = {left[0], left[1], left[2]};
            u64 at = row;
#pragma unroll 4
            for (u32 sx = 0; sx < wide; ++sx) {
                const u32 bin = fixed[at];
                if (bin != NO_SAMPLE) work(bin, c);
                at += walk.next[0];
                c[0] += step_x[0];
                c[1] += step_x[1];
                c[2] += step_x[2];
            }
            row += (u64)walk.next[1] * part.block[0];
            left[0] += step_y[0];
            left[1] += step_y[1];
            left[2] += step_y[2];
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
       IN(JointBrick) all, u32 count, IN(Pixel) own, JointWalk walk, u32 most, u32 copies, INOUT(u64) out) {
    DYNAMIC_SHARED(u32, tables);
    SHARED(i32, window, 1024);
    clear_tables(copies * bins.entries, tables);
    if (CUBIC) make_window(false, window);
    __syncthreads();
    const u32 copy = copies ? threadIdx.x / WARP % copies : 0;
    const Bricks bricks = {first, all, count, own};
    CountPixels work = {bins, bricks, window, tables + copy * bins.entries, out, copies != 0, 0, 0};
    FlushCounts flush = {bins, copies, tables, out};
    each_pixel(map, part, fixed, walk, most, work, flush);
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
       IN(JointBrick) all, u32 count, IN(Pixel) own, JointWalk walk, u32 most, IN(i32) slopes, INOUT(u64) out) {
    SHARED(i32, window, 1024);
    make_window(true, window);
    __syncthreads();
    i64 sums[OWN_SUMS];
    for (int k = 0; k < OWN_SUMS; ++k) sums[k] = 0;
    const Bricks bricks = {first, all, count, own};
    SlopePixels work = {bins, bricks, slopes, window, sums, 0, 0};
    FlushSlopes flush = {sums, out};
    each_pixel(map, part, fixed, walk, most, work, flush);
    flush_tallies(work.samples, work.elsewhere, out, 2 * NUMBERS);
}
