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
    const u32 each = walk.tile[0] * walk.tile[1];
    const u32 lane = threadIdx.x & (WARP - 1), warp = threadIdx.x / WARP;
    const u32 first_x = (lane % walk.lanes + walk.lanes * (warp % walk.warps)) * walk.apart[0];
    const u32 first_y = (lane / walk.lanes + WARP / walk.lanes * (warp / walk.warps)) * walk.apart[1];
    u32 since = 0;
    for (u64 tile = blockIdx.x; tile < walk.tiles; tile += gridDim.x) {
        if (since && since + each > most) {
            flush();
            since = 0;
        }
        since += each;
        const u64 rows = tile / walk.across;
        const u32 x0 = (u32)(tile % walk.across) * walk.tile[0] + first_x;
        const u32 y0 = (u32)(rows % walk.down) * walk.tile[1] + first_y, z = (u32)(rows / walk.down);
        const u32 wide = pixels_within(x0, walk.next[0], walk.sides[0], part.dims[0]);
        const u32 high = pixels_within(y0, walk.next[1], walk.sides[1], part.dims[1]);
        if (wide == 0) continue;
        for (u32 sy = 0; sy < high; ++sy) {
            const u32 y = y0 + sy * walk.next[1];
            u64 at = part.block[0] * ((u64)part.block[1] * (part.shift[2] + z) + part.shift[1] + y) + part.shift[0] + x0;
            i64 c[3];
            exact(map, part.origin[0] + x0, part.origin[1] + y, part.origin[2] + z, c);
#pragma unroll 4
            for (u32 sx = 0; sx < wide; ++sx) {
                const u32 bin = fixed[at];
                if (bin != NO_SAMPLE) work(bin, c);
                at += walk.next[0];
                c[0] += walk.step[0];
                c[1] += walk.step[1];
                c[2] += walk.step[2];
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
    u32 samples, elsewhere;

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

// Blocks that run on a multiprocessor at once: what waits for memory of other devices is hidden by many. Eight corners need more registers.
#define BLOCKS (AXES == 2 ? 3 : 2)

// `copies` tables are in shared memory; none where they do not fit.
KERNEL(joint_count, AT_ONCE(512, BLOCKS), JointMap map, JointBins bins, JointPart part, IN(u8) fixed, JointBrick first,
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
    u32 samples, elsewhere;

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
