// Joint histograms with cubic B-spline windows over the moving values, and their derivative. A block
// takes one tile under one map: blockIdx.x is the tile, blockIdx.y the map.
#include "columns.cuh"
#include "sampler.cuh"

#define WARPS (THREADS / WARP)

// Counts this thread's samples. Those that follow each other often fall into the same columns: their
// windows are added in registers first, so that threads seldom meet in a counter.
// Rows of counters are those of the tile's ranks (`here`), or of all bins (`all`).
template <bool PLAIN, class P>
DEVICE void walk_joint(const Tiling& tiling, const MovingShape& moving, const Frame& frame,
                       const Cells& cells, P values, IN(float) mask, IN(u32) packed,
                       IN(float) weights, u64 at, u32 count, const Columns& columns, float scale,
                       bool fits, SHARED_POINTER(u32) here, INOUT(u64) all,
                       IN(u32) rank_bin) {
    u32 next = count ? packed[at] : 0u, rank = 0, column = ~0u;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (u32 k = 0; k <= count; ++k, at += THREADS) {
        u32 word = next, to = ~0u;
        Sampled v;
        v.w = 0.0f;
        float b[4];
        if (k < count) {
            if (k + 1 < count) next = packed[at + THREADS];
            float weight = !PLAIN && weights ? weights[at] : 1.0f;
            float local[3], t;
            unpack(tiling, word, local);
            v = sample<false, PLAIN>(moving, frame, cells, values, mask, local, weight);
            if (!(v.w > 0.0f)) continue;
            place_of(columns, v.y, to, t);
            window(t, b);
        }
        u32 of = word >> tiling.bits;
        if (to != column || of != rank) {
            if (column != ~0u) {
                if (fits) flush(here + (rank * columns.count + column), sum, scale);
                else flush_far(all + ((u64)rank_bin[rank] * columns.count + column), sum, scale);
            }
#pragma unroll
            for (u32 j = 0; j < 4; ++j) sum[j] = 0.0f;
            rank = of;
            column = to;
        }
        if (k < count) {
#pragma unroll
            for (u32 j = 0; j < 4; ++j) sum[j] = fmaf(v.w, b[j], sum[j]);
        }
    }
}

// Joint histograms in fixed point: the largest weight is 2^31, `scale` the units of a weight of 1. The
// counters of a tile are in shared memory where it has room for `here_ranks` rows, the most that a
// tile has (0 if it has not). They have 32 bits and a larger unit, 2^shift: so many samples of the
// largest weight cannot make one overflow, for no window is higher than 2/3. Counters of the image
// have 64 bits.
KERNEL(joint_histogram, PER_SM(THREADS, 2), Tiling tiling, MovingShape moving, IN(float) values,
       IN(float) mask, IN(double) maps, OneMap one, IN(u32) packed, IN(float) weights,
       IN(u32) tile_len, IN(u32) tile_ranks, IN(u32) rank_bin, Columns columns, u32 bins, float scale,
       u32 here_ranks, u32 box_at, u32 room, INOUT(u64) counts) {
    DYNAMIC_SHARED(u32, here);
    DYNAMIC_SHARED(float, words);
    u32 tile = blockIdx.x, map = blockIdx.y, len = tile_len[tile], ranks = tile_ranks[tile];
    Frame frame = frame_of(moving, tiling, tile, maps, one, map);
    if (len == 0 || frame.outside) return;
    rank_bin += (u64)tile * tiling.capacity;
    counts += (u64)map * bins * columns.count;
    bool fits = here_ranks > 0;
    u32 shift = fits && len > 1 ? 32 - (u32)__clz((i32)(len - 1)) : 0;
    scale *= 1.0f / (float)(1u << shift);
    if (fits)
        for (u32 i = threadIdx.x; i < ranks * columns.count; i += THREADS) here[i] = 0;
    u32 each = samples_each(len), begin = threadIdx.x * each;
    u32 count = begin >= len ? 0 : (len - begin < each ? len - begin : each);
    u64 at = tile_first(tiling, tile) + threadIdx.x;
    if (box_fits(frame, room)) {
        SHARED_POINTER(float) box = words + box_at;
        stage(moving, frame, values, box);
        __syncthreads();
        Cells cells = cells_of_box(moving, frame);
        if (frame.inner && !mask && !weights)
            walk_joint<true>(tiling, moving, frame, cells, box, mask, packed, weights, at, count,
                             columns, scale, fits, here, counts, rank_bin);
        else
            walk_joint<false>(tiling, moving, frame, cells, box, mask, packed, weights, at, count,
                              columns, scale, fits, here, counts, rank_bin);
    } else {
        __syncthreads();
        walk_joint<false>(tiling, moving, frame, cells_of_image(moving), values, mask, packed, weights, at,
                   count, columns, scale, fits, here, counts, rank_bin);
    }
    if (!fits) return;
    __syncthreads();
    // A warp takes a row.
    for (u32 rank = threadIdx.x / WARP; rank < ranks; rank += WARPS) {
        u64 row = (u64)rank_bin[rank] * columns.count;
        for (u32 c = threadIdx.x & (WARP - 1); c < columns.count; c += WARP) {
            u32 v = here[rank * columns.count + c];
            if (v) atomicAdd(&counts[row + c], (u64)v << shift);
        }
    }
}

// Adds this thread's part of the derivative to `sum`, over indices within the tile.
template <bool PLAIN, class P>
DEVICE void walk_joint_gradient(const Tiling& tiling, const MovingShape& moving, const Frame& frame,
                                const Cells& cells, P values, IN(float) mask, IN(u32) packed,
                                IN(float) weights, u64 at, u32 count, const Columns& columns,
                                bool fits, SHARED_POINTER(float) here, IN(float) table,
                                IN(u32) rank_bin, float (&sum)[12]) {
    u32 next = count ? packed[at] : 0u;
    bool varies = !PLAIN && (!frame.inner || mask);
    for (u32 k = 0; k < count; ++k, at += THREADS) {
        u32 word = next;
        if (k + 1 < count) next = packed[at + THREADS];
        float weight = !PLAIN && weights ? weights[at] : 1.0f;
        float local[3], t, b[4], d[4];
        unpack(tiling, word, local);
        Sampled v = sample<true, PLAIN>(moving, frame, cells, values, mask, local, weight);
        u32 column, rank = word >> tiling.bits;
        bool within = place_of(columns, v.y, column, t);
        window(t, b);
        window_derivative(t, d);
        float value = 0.0f, derivative = 0.0f;
        u64 far = fits ? 0 : (u64)rank_bin[rank] * columns.count + column;
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
            float c = fits ? (float)here[rank * columns.count + column + j] : table[far + j];
            value = fmaf(c, b[j], value);
            derivative = fmaf(c, d[j], derivative);
        }
        float in_y = within ? derivative * columns.per_value * v.w : 0.0f;
#pragma unroll
        for (u32 r = 0; r < 3; ++r) {
            float c = in_y * v.dy[r];
            if (varies) c = fmaf(value, v.dw[r], c);
#pragma unroll
            for (u32 a = 0; a < 3; ++a) sum[4 * r + a] = fmaf(c, local[a], sum[4 * r + a]);
            sum[4 * r + 3] += c;
        }
    }
}

// The derivative of a function of the joint histogram, whose derivative in each entry is `table`, in
// the entries of the map: twelve numbers for each map and tile. The rows of the tile's bins are
// brought to shared memory where it has room for `here_ranks` of them.
KERNEL(joint_gradient, PER_SM(THREADS, 2), Tiling tiling, MovingShape moving, IN(float) values,
       IN(float) mask, IN(double) maps, OneMap one, IN(u32) packed, IN(float) weights,
       IN(u32) tile_len, IN(u32) tile_ranks, IN(u32) rank_bin, Columns columns, u32 bins,
       IN(float) table, u32 here_ranks, u32 box_at, u32 room, OUT(double) partials) {
    DYNAMIC_SHARED(float, here);
    DYNAMIC_SHARED(float, words);
    SHARED(double, totals, 12 * WARPS);
    u32 tile = blockIdx.x, map = blockIdx.y, len = tile_len[tile], ranks = tile_ranks[tile];
    u64 out = ((u64)map * tile_count(tiling) + tile) * 12;
    Frame frame = frame_of(moving, tiling, tile, maps, one, map);
    if (len == 0 || frame.outside) {
        if (threadIdx.x < 12) partials[out + threadIdx.x] = 0.0;
        return;
    }
    rank_bin += (u64)tile * tiling.capacity;
    table += (u64)map * bins * columns.count;
    bool fits = here_ranks > 0;
    if (fits)
        for (u32 rank = threadIdx.x / WARP; rank < ranks; rank += WARPS) {
            u64 row = (u64)rank_bin[rank] * columns.count;
            for (u32 c = threadIdx.x & (WARP - 1); c < columns.count; c += WARP)
                here[rank * columns.count + c] = table[row + c];
        }
    u32 each = samples_each(len), begin = threadIdx.x * each;
    u32 count = begin >= len ? 0 : (len - begin < each ? len - begin : each);
    u64 at = tile_first(tiling, tile) + threadIdx.x;
    float sum[12];
#pragma unroll
    for (u32 e = 0; e < 12; ++e) sum[e] = 0.0f;
    if (box_fits(frame, room)) {
        SHARED_POINTER(float) box = words + box_at;
        stage(moving, frame, values, box);
        __syncthreads();
        Cells cells = cells_of_box(moving, frame);
        if (frame.inner && !mask && !weights)
            walk_joint_gradient<true>(tiling, moving, frame, cells, box, mask, packed, weights, at,
                                      count, columns, fits, here, table, rank_bin, sum);
        else
            walk_joint_gradient<false>(tiling, moving, frame, cells, box, mask, packed, weights, at,
                                       count, columns, fits, here, table, rank_bin, sum);
    } else {
        __syncthreads();
        walk_joint_gradient<false>(tiling, moving, frame, cells_of_image(moving), values, mask, packed,
                            weights, at, count, columns, fits, here, table, rank_bin, sum);
    }
    add_map_sums(tiling, tile, sum, totals, partials + out);
}
