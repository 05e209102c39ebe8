// Binned sums over the samples of a fixed image, and their derivatives. A block takes one tile under
// one map: blockIdx.x is the tile, blockIdx.y the map.
//
//   TERMS    sums of a bin: 3 (1, y, y^2) or 6 (1, x, y, x^2, y^2, x y)
//   DIRECT   whether all sums are of double precision
#include "sampler.cuh"

#ifndef TERMS
#define TERMS 3
#endif
#ifndef DIRECT
#define DIRECT 0
#endif
#if DIRECT
typedef double Real;
#else
typedef float Real;
#endif
#define WARPS (THREADS / WARP)

DEVICE float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
DEVICE double multiply_add(double a, double b, double c) { return fma(a, b, c); }

// The samples of one tile.
struct Samples {
    u64 place;       // of this thread's first
    u32 count;       // this thread has
    u32 each;        // threads have at most
    u32 len;         // of the tile
};

DEVICE Samples samples_of(const Tiling& tiling, u32 tile, u32 len) {
    Samples s;
    s.each = samples_each(len);
    s.len = len;
    s.place = tile_first(tiling, tile) + threadIdx.x;
    u32 begin = threadIdx.x * s.each;
    s.count = begin >= len ? 0 : (len - begin < s.each ? len - begin : s.each);
    return s;
}

// Sums this thread's samples in registers, and puts the sums of each bin into a place of its own:
// number threadIdx.x + rank of `slots` places a term. (From one place to the next either the thread
// or the rank grows.)
template <bool PLAIN, class P>
DEVICE void walk_sums(const Tiling& tiling, const MovingShape& moving, const Frame& frame,
                      const Cells& cells, P values, IN(float) mask, IN(u32) packed, IN(float) fixed,
                      IN(float) weights, const Samples& s, u32 slots, SHARED_POINTER(Real) out) {
    if (s.count == 0) return;
    Real sum[TERMS];
    u64 at = s.place;
    u32 next = packed[at], rank = next >> tiling.bits;
#pragma unroll
    for (u32 j = 0; j < TERMS; ++j) sum[j] = (Real)0;
    for (u32 k = 0; k < s.count; ++k, at += THREADS) {
        u32 word = next;
        if (k + 1 < s.count) next = packed[at + THREADS];
        float x = TERMS == 6 && fixed ? fixed[at] : 0.0f;
        float weight = !PLAIN && weights ? weights[at] : 1.0f;
        u32 of = word >> tiling.bits;
        if (of != rank) {
#pragma unroll
            for (u32 j = 0; j < TERMS; ++j) {
                out[j * slots + threadIdx.x + rank] = sum[j];
                sum[j] = (Real)0;
            }
            rank = of;
        }
        float local[3];
        unpack(tiling, word, local);
        Sampled v = sample<false, PLAIN>(moving, frame, cells, values, mask, local, weight);
        Real w = (Real)v.w, y = (Real)v.y;
        sum[0] += w;
        if (TERMS == 3) {
            Real wy = w * y;
            sum[1] += wy;
            sum[2] = multiply_add(wy, y, sum[2]);
        } else {
            Real wx = w * (Real)x, wy = w * y;
            sum[1] += wx;
            sum[2] += wy;
            sum[TERMS - 3] = multiply_add(wx, (Real)x, sum[TERMS - 3]);
            sum[TERMS - 2] = multiply_add(wy, y, sum[TERMS - 2]);
            sum[TERMS - 1] = multiply_add(wx, y, sum[TERMS - 1]);
        }
    }
#pragma unroll
    for (u32 j = 0; j < TERMS; ++j) out[j * slots + threadIdx.x + rank] = sum[j];
}

// The sums of every bin of a tile: `partials` has TERMS numbers for each map, tile and rank. `slots`
// places a term are in shared memory, or for tiles with very many bins in `scratch`; the box begins
// at float `box_at` of shared memory and has room for `room` floats.
KERNEL(binned_sums, PER_SM(THREADS, 2), Tiling tiling, MovingShape moving, IN(float) values,
       IN(float) mask, IN(double) maps, OneMap one, IN(u32) packed, IN(float) fixed,
       IN(float) weights, IN(u32) tile_len, IN(u32) tile_ranks, IN(u32) rank_start, u32 slots,
       u32 box_at, u32 room, INOUT(Real) scratch, OUT(double) partials) {
    DYNAMIC_SHARED(Real, places);
    DYNAMIC_SHARED(float, words);
    u32 tile = blockIdx.x, map = blockIdx.y, len = tile_len[tile], ranks = tile_ranks[tile];
    if (len == 0) return;
    u64 entries = (u64)tile * tiling.capacity;
    u64 unit = (u64)map * tile_count(tiling) + tile;
    u64 out = unit * tiling.capacity * TERMS;
    Frame frame = frame_of(moving, tiling, tile, maps, one, map);
    if (frame.outside) {
        for (u32 i = threadIdx.x; i < ranks * TERMS; i += THREADS) partials[out + i] = 0.0;
        return;
    }
    SHARED_POINTER(Real) slot = places;
    if (scratch) slot = scratch + unit * slots * TERMS;
    Samples s = samples_of(tiling, tile, len);
    if (box_fits(frame, room)) {
        SHARED_POINTER(float) box = words + box_at;
        stage(moving, frame, values, box);
        __syncthreads();
        Cells cells = cells_of_box(moving, frame);
        if (frame.inner && !mask && !weights)
            walk_sums<true>(tiling, moving, frame, cells, box, mask, packed, fixed, weights, s, slots,
                            slot);
        else
            walk_sums<false>(tiling, moving, frame, cells, box, mask, packed, fixed, weights, s, slots,
                             slot);
    } else {
        walk_sums<false>(tiling, moving, frame, cells_of_image(moving), values, mask, packed, fixed, weights,
                  s, slots, slot);
    }
    __syncthreads();
    // The places of a bin follow each other. Eight lanes add them, or a warp where bins are so few
    // that each has many.
    u32 lanes = ranks <= WARPS ? WARP : 8;
    u32 part = threadIdx.x & (lanes - 1);
    for (u32 from = 0; from < ranks; from += THREADS / lanes) {
        u32 rank = from + threadIdx.x / lanes;
        double sum[TERMS];
#pragma unroll
        for (u32 j = 0; j < TERMS; ++j) sum[j] = 0.0;
        if (rank < ranks) {
            u32 begin = rank_start[entries + rank];
            u32 end = rank + 1 < ranks ? rank_start[entries + rank + 1] : len;
            u32 last = (end - 1) / s.each + rank;
            for (u32 i = begin / s.each + rank + part; i <= last; i += lanes) {
#pragma unroll
                for (u32 j = 0; j < TERMS; ++j) sum[j] += (double)slot[j * slots + i];
            }
        }
#pragma unroll
        for (u32 j = 0; j < TERMS; ++j) {
            for (u32 step = lanes / 2; step; step >>= 1)
                sum[j] += __shfl_xor_sync(ALL_LANES, sum[j], step);
        }
        if (rank < ranks && part == 0) {
#pragma unroll
            for (u32 j = 0; j < TERMS; ++j) partials[out + (u64)rank * TERMS + j] = sum[j];
        }
    }
}

// Adds the tiles' sums of every bin in an order that depends on the tiles only: `lanes` lanes, a power
// of two of at most a block, take a bin of a map.
// `entries` is the number of entries of a map.
KERNEL(add_entries, 256, IN(double) partials, IN(u32) bin_first, IN(u64) bin_entries, u64 entries,
       u32 bins, u32 lanes, OUT(double) sums) {
    u32 bin = (u32)(global_thread() / lanes), part = threadIdx.x & (lanes - 1), map = blockIdx.y;
    SHARED(double, of_warps, 8 * TERMS);
    double sum[TERMS];
#pragma unroll
    for (u32 j = 0; j < TERMS; ++j) sum[j] = 0.0;
    if (bin < bins) {
        u32 end = bin_first[bin + 1];
        // Several loads are under way at once: the kernel has few threads.
#pragma unroll 8
        for (u32 i = bin_first[bin] + part; i < end; i += lanes) {
            u64 at = ((u64)map * entries + bin_entries[i]) * TERMS;
#pragma unroll
            for (u32 j = 0; j < TERMS; ++j) sum[j] += partials[at + j];
        }
    }
#pragma unroll
    for (u32 j = 0; j < TERMS; ++j)
        for (u32 step = (lanes < WARP ? lanes : WARP) / 2; step; step >>= 1)
            sum[j] += __shfl_xor_sync(ALL_LANES, sum[j], step);
    if (lanes > WARP) {
        const u32 warp = threadIdx.x / WARP, beyond = warp + lanes / WARP;
        if (threadIdx.x % WARP == 0) {
#pragma unroll
            for (u32 j = 0; j < TERMS; ++j) of_warps[warp * TERMS + j] = sum[j];
        }
        __syncthreads();
        if (part == 0) {
            for (u32 w = warp + 1; w < beyond; ++w) {
#pragma unroll
                for (u32 j = 0; j < TERMS; ++j) sum[j] += of_warps[w * TERMS + j];
            }
        }
    }
    if (bin < bins && part == 0) {
#pragma unroll
        for (u32 j = 0; j < TERMS; ++j) sums[((u64)map * bins + bin) * TERMS + j] = sum[j];
    }
}

// Adds this thread's part of the derivative to `sum`: for every sample the derivative of a function
// of the sums, whose derivative in each of them is `derivatives`, in the twelve entries of the map, over
// indices within the tile. `near` are the derivatives of the tile's ranks where they fit in shared
// memory (then `fits`), `derivatives` those of all bins.
template <bool PLAIN, class P>
DEVICE void walk_gradient(const Tiling& tiling, const MovingShape& moving, const Frame& frame,
                          const Cells& cells, P values, IN(float) mask, IN(u32) packed,
                          IN(float) fixed, IN(float) weights, const Samples& s, bool fits,
                          SHARED_POINTER(Real) near, IN(Real) derivatives, IN(u32) rank_bin,
                          Real (&sum)[12]) {
    if (s.count == 0) return;
    u64 at = s.place;
    u32 next = packed[at], rank = ~0u;
    bool varies = !PLAIN && (!frame.inner || mask);
    Real derivative[TERMS];
#pragma unroll
    for (u32 j = 0; j < TERMS; ++j) derivative[j] = (Real)0;
    for (u32 k = 0; k < s.count; ++k, at += THREADS) {
        u32 word = next;
        if (k + 1 < s.count) next = packed[at + THREADS];
        Real x = TERMS == 6 && fixed ? (Real)fixed[at] : (Real)0;
        float weight = !PLAIN && weights ? weights[at] : 1.0f;
        u32 of = word >> tiling.bits;
        if (of != rank) {
            rank = of;
            u64 bin = fits ? 0 : rank_bin[rank];
#pragma unroll
            for (u32 j = 0; j < TERMS; ++j)
                derivative[j] = fits ? (Real)near[rank * TERMS + j] : (Real)derivatives[bin * TERMS + j];
        }
        float local[3];
        unpack(tiling, word, local);
        Sampled v = sample<true, PLAIN>(moving, frame, cells, values, mask, local, weight);
        Real w = (Real)v.w, y = (Real)v.y, in_y, in_w;
        if (TERMS == 3) {
            in_y = w * (derivative[1] + derivative[2] * (y + y));
            in_w = derivative[0] + y * (derivative[1] + derivative[2] * y);
        } else {
            Real sx = derivative[1], sy = derivative[2], sxx = derivative[TERMS - 3], syy = derivative[TERMS - 2];
            Real sxy = derivative[TERMS - 1];
            in_y = w * (sy + syy * (y + y) + sxy * x);
            in_w = derivative[0] + x * (sx + sxx * x) + y * (sy + syy * y + sxy * x);
        }
#pragma unroll
        for (u32 r = 0; r < 3; ++r) {
            Real c = in_y * (Real)v.dy[r];
            if (varies) c = multiply_add(in_w, (Real)v.dw[r], c);
#pragma unroll
            for (u32 a = 0; a < 3; ++a) sum[4 * r + a] = multiply_add(c, (Real)local[a], sum[4 * r + a]);
            sum[4 * r + 3] += c;
        }
    }
}

// The derivative of a function of the binned sums, in the entries of the map: `partials` has twelve
// numbers for each map and tile. `derivatives` has TERMS numbers for each map and bin; those of the
// tile's bins are brought to shared memory if it has room for `near_ranks` of them, the most that a
// tile has (0 if it has not).
KERNEL(binned_gradient, PER_SM(THREADS, 2), Tiling tiling, MovingShape moving, IN(float) values,
       IN(float) mask, IN(double) maps, OneMap one, IN(u32) packed, IN(float) fixed,
       IN(float) weights, IN(u32) tile_len, IN(u32) tile_ranks, IN(u32) rank_bin, IN(Real) derivatives,
       u32 bins, u32 near_ranks, u32 box_at, u32 room, OUT(double) partials) {
    DYNAMIC_SHARED(Real, near);
    DYNAMIC_SHARED(float, words);
    SHARED(double, totals, 12 * WARPS);
    u32 tile = blockIdx.x, map = blockIdx.y, len = tile_len[tile], ranks = tile_ranks[tile];
    u64 entries = (u64)tile * tiling.capacity;
    u64 out = ((u64)map * tile_count(tiling) + tile) * 12;
    Frame frame = frame_of(moving, tiling, tile, maps, one, map);
    if (len == 0 || frame.outside) {
        if (threadIdx.x < 12) partials[out + threadIdx.x] = 0.0;
        return;
    }
    derivatives += (u64)map * bins * TERMS;
    rank_bin += entries;
    if (near_ranks) {
        for (u32 i = threadIdx.x; i < ranks * TERMS; i += THREADS)
            near[i] = derivatives[(u64)rank_bin[i / TERMS] * TERMS + i % TERMS];
    }
    Samples s = samples_of(tiling, tile, len);
    Real sum[12];
#pragma unroll
    for (u32 e = 0; e < 12; ++e) sum[e] = (Real)0;
    if (box_fits(frame, room)) {
        SHARED_POINTER(float) box = words + box_at;
        stage(moving, frame, values, box);
        __syncthreads();
        Cells cells = cells_of_box(moving, frame);
        if (frame.inner && !mask && !weights)
            walk_gradient<true>(tiling, moving, frame, cells, box, mask, packed, fixed, weights, s,
                                near_ranks > 0, near, derivatives, rank_bin, sum);
        else
            walk_gradient<false>(tiling, moving, frame, cells, box, mask, packed, fixed, weights, s,
                                 near_ranks > 0, near, derivatives, rank_bin, sum);
    } else {
        __syncthreads();
        walk_gradient<false>(tiling, moving, frame, cells_of_image(moving), values, mask, packed, fixed,
                      weights, s, near_ranks > 0, near, derivatives, rank_bin, sum);
    }
    add_map_sums(tiling, tile, sum, totals, partials + out);
}
