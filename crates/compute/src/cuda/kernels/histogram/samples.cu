// Grouping the samples of a fixed image, and counts of values. How samples lie is told in
// sampler.cuh.
#include "sampler.cuh"

#define DIGITS 256u
#define WARPS (THREADS / WARP)
// Words that each thread sorts.
#define OWN 32u
// A place without a sample.
#define NONE 0xffffffffu

// How values fall into bins; `BinOf` of group.rs.
struct BinOf { float low, scale, last; };

DEVICE u32 bin_of(const BinOf& b, float v) {
    float p = (v - b.low) * b.scale;
    return (u32)__float2int_rz(fminf(fmaxf(p, 0.0f), b.last));
}

// The sum of `v` over the threads before this one; `total` is that over all. `scratch` has 33 words;
// calls need a barrier between them.
DEVICE u32 sum_before(u32 v, SHARED_POINTER(u32) scratch, u32& total) {
    u32 rank = thread_rank(), lane = rank & (WARP - 1), warps = block_threads() / WARP;
    u32 sum = v;
    for (u32 step = 1; step < WARP; step <<= 1) {
        u32 below = __shfl_up_sync(ALL_LANES, sum, step);
        if (lane >= step) sum += below;
    }
    if (lane == WARP - 1) scratch[rank / WARP] = sum;
    __syncthreads();
    if (rank < WARP) {
        u32 of_warp = lane < warps ? (u32)scratch[lane] : 0u, all = of_warp;
        for (u32 step = 1; step < WARP; step <<= 1) {
            u32 below = __shfl_up_sync(ALL_LANES, all, step);
            if (lane >= step) all += below;
        }
        scratch[lane] = all - of_warp;
        if (lane == WARP - 1) scratch[WARP] = all;
    }
    __syncthreads();
    total = scratch[WARP];
    return scratch[rank / WARP] + sum - v;
}

// Sorts the samples of one tile by bin; samples of a bin stay in the order of the image. A counting
// sort by the digits of the bin, lowest first, in which every warp owns a part of the words and a row
// of counters of its own.
KERNEL(sort_tiles, PER_SM(THREADS, 2), Tiling tiling, BinOf of, IN(float) values, IN(float) weights,
       u32 passes, OUT(u32) packed, OUT(float) sample_values, OUT(float) sample_weights,
       OUT(u32) tile_len, OUT(u32) tile_ranks, OUT(u32) rank_bin, OUT(u32) rank_start,
       INOUT(u32) counts, OUT(double) summary) {
    DYNAMIC_SHARED(u32, keys);  // one word a voxel of the tile
    SHARED(u32, counters, DIGITS * WARPS);
    SHARED(u32, scratch, 33);
    SHARED(double, sums, 32);
    u32 tile = blockIdx.x, rank = threadIdx.x, lane = rank & (WARP - 1), warp = rank / WARP;
    u32 lower = (1u << lane) - 1;
    u32 per_warp = (1u << tiling.bits) / WARPS;
    u32 own = per_warp / WARP, first = warp * per_warp + lane;
    u32 origin[3];
#pragma unroll
    for (u32 a = 0; a < 3; ++a) origin[a] = tile_origin(tiling, tile, a);

    u32 key[OWN];
    double weight = 0.0;
    float heaviest = 0.0f;
    bool odd = false;
#pragma unroll
    for (u32 j = 0; j < OWN; ++j) {
        key[j] = NONE;
        u32 local = first + j * WARP;
        u64 voxel;
        if (j < own && voxel_of(tiling, origin, local, voxel)) {
            float w = weights ? weights[voxel] : 1.0f;
            odd = odd || !(w >= 0.0f && w < INFINITY_F);
            if (w > 0.0f) {
                key[j] = bin_of(of, values[voxel]) << tiling.bits | local;
                weight += (double)w;
                heaviest = fmaxf(heaviest, w);
            }
        }
    }
    u32 len = 0;
    for (u32 pass = 0; pass < passes; ++pass) {
        u32 shift = tiling.bits + 8 * pass;
        for (u32 i = rank; i < DIGITS * WARPS; i += THREADS) counters[i] = 0;
        __syncthreads();
#pragma unroll
        for (u32 j = 0; j < OWN; ++j) {
            if (j >= own) continue;
            u32 digit = key[j] == NONE ? DIGITS : key[j] >> shift & (DIGITS - 1);
            u32 same = __match_any_sync(ALL_LANES, digit);
            if (digit < DIGITS && (same & lower) == 0) counters[digit * WARPS + warp] += __popc(same);
            __syncwarp();
        }
        __syncthreads();
        // The places of each digit's words: those of lower digits and of lower warps come before.
        const u32 each = DIGITS * WARPS / THREADS;
        u32 mine[each], sum = 0;
        for (u32 i = 0; i < each; ++i) {
            mine[i] = counters[rank * each + i];
            sum += mine[i];
        }
        u32 at = sum_before(sum, scratch, len);
        for (u32 i = 0; i < each; ++i) {
            counters[rank * each + i] = at;
            at += mine[i];
        }
        __syncthreads();
#pragma unroll
        for (u32 j = 0; j < OWN; ++j) {
            if (j >= own) continue;
            u32 digit = key[j] == NONE ? DIGITS : key[j] >> shift & (DIGITS - 1);
            u32 same = __match_any_sync(ALL_LANES, digit);
            u32 place = digit < DIGITS ? (u32)counters[digit * WARPS + warp] : 0u;
            __syncwarp();
            if (digit < DIGITS) {
                keys[place + __popc(same & lower)] = key[j];
                if ((same & lower) == 0) counters[digit * WARPS + warp] = place + __popc(same);
            }
            __syncwarp();
        }
        __syncthreads();
        if (pass + 1 < passes) {
#pragma unroll
            for (u32 j = 0; j < OWN; ++j) {
                u32 i = first + j * WARP;
                key[j] = j < own && i < len ? (u32)keys[i] : NONE;
            }
            __syncthreads();
        }
    }

    // The ranks of the bins: how many bins begin before.
    u32 heads = 0;
    for (u32 j = 0; j < own; ++j) {
        u32 i = first + j * WARP;
        bool head = i < len && (i == 0 || keys[i - 1] >> tiling.bits != keys[i] >> tiling.bits);
        heads += __popc(__ballot_sync(ALL_LANES, head));
    }
    u32 ranks;
    u32 before = sum_before(lane == 0 ? heads : 0u, scratch, ranks);
    before = __shfl_sync(ALL_LANES, before, 0);
    u64 entries = (u64)tile * tiling.capacity;
    u32 last_of_before = first >= 32 && first - lane - 1 < len ? (u32)keys[first - lane - 1] : 0u;
    __syncthreads();
    for (u32 j = 0; j < own; ++j) {
        u32 i = first + j * WARP;
        u32 k = i < len ? (u32)keys[i] : 0u;
        // The word before was replaced by the neighbour or at the last turn: it is kept.
        u32 k_before = __shfl_up_sync(ALL_LANES, k, 1);
        if (lane == 0) k_before = last_of_before;
        last_of_before = __shfl_sync(ALL_LANES, k, 31);
        u32 bin = k >> tiling.bits;
        bool head = i < len && (i == 0 || k_before >> tiling.bits != bin);
        u32 votes = __ballot_sync(ALL_LANES, head);
        u32 of = before + __popc(votes & (lower << 1 | 1)) - 1;
        if (i < len) keys[i] = of << tiling.bits | (k & ((1u << tiling.bits) - 1));
        if (head) {
            rank_bin[entries + of] = bin;
            rank_start[entries + of] = i;
            atomicAdd(&counts[bin], 1u);
        }
        before += __popc(votes);
    }
    __syncthreads();

    u32 each = samples_each(len);
    u64 place = tile_first(tiling, tile) + rank;
    for (u32 k = 0; k < each; ++k, place += THREADS) {
        u32 i = rank * each + k;
        if (i >= len) break;
        u32 word = keys[i];
        packed[place] = word;
        u64 voxel;
        voxel_of(tiling, origin, word & ((1u << tiling.bits) - 1), voxel);
        if (sample_values) sample_values[place] = values[voxel];
        if (sample_weights) sample_weights[place] = weights[voxel];
    }

    weight = block_sum(weight, sums);
    __syncthreads();
    double odd_ones = block_sum(odd ? 1.0 : 0.0, sums);
    for (u32 step = 16; step; step >>= 1)
        heaviest = fmaxf(heaviest, __shfl_xor_sync(ALL_LANES, heaviest, step));
    __syncthreads();
    if (lane == 0) sums[warp] = heaviest;
    __syncthreads();
    if (rank == 0) {
        double most = 0.0;
        for (u32 w = 0; w < WARPS; ++w) most = fmax(most, (double)sums[w]);
        tile_len[tile] = len;
        tile_ranks[tile] = ranks;
        summary[5 * (u64)tile] = (double)len;
        summary[5 * (u64)tile + 1] = weight;
        summary[5 * (u64)tile + 2] = most;
        summary[5 * (u64)tile + 3] = (double)ranks;
        summary[5 * (u64)tile + 4] = odd_ones;  // weights that are negative or not finite
    }
}

// Replaces counts by the sums of those before, in place, with the sum of all at the end. One block.
KERNEL(scan_counts, 1024, INOUT(u32) counts, u32 n) {
    SHARED(u32, scratch, 33);
    u32 before = 0;
    for (u32 from = 0; from <= n; from += 1024) {
        u32 i = from + threadIdx.x, total;
        u32 sum = sum_before(i < n ? counts[i] : 0u, scratch, total);
        if (i <= n) counts[i] = before + sum;
        before += total;
        __syncthreads();
    }
}

// For every bin the entries that tiles have of it, in the order of tiles. `lanes` lanes, a power of
// two, take a bin.
KERNEL(list_entries, 256, Tiling tiling, IN(u32) tile_ranks, IN(u32) rank_bin, IN(u32) bin_first,
       u32 bins, u32 lanes, OUT(u64) entries) {
    u32 bin = (u32)(global_thread() / lanes), lane = threadIdx.x & (WARP - 1);
    u32 part = lane & (lanes - 1), shift = lane - part;
    u32 of_bin = lanes == WARP ? ALL_LANES : (1u << lanes) - 1;
    u32 at = 0, end = 0, tiles = tile_count(tiling);
    if (bin < bins) {
        at = bin_first[bin];
        end = bin_first[bin + 1];
    }
    for (u32 from = 0; from < tiles; from += lanes) {
        u32 tile = from + part;
        u64 first = (u64)tile * tiling.capacity;
        bool found = false;
        u32 low = 0;
        if (tile < tiles && at < end) {
            u32 high = tile_ranks[tile], ranks = high;
            while (low < high) {
                u32 middle = (low + high) / 2;
                if (rank_bin[first + middle] < bin) low = middle + 1;
                else high = middle;
            }
            found = low < ranks && rank_bin[first + low] == bin;
        }
        u32 votes = __ballot_sync(ALL_LANES, found) >> shift & of_bin;
        if (found) entries[at + __popc(votes & ((1u << part) - 1))] = first + low;
        at += __popc(votes);
    }
}

// Counts values in equal bins. Every thread remembers the bin of the values just before, which are
// often alike; so threads seldom meet in a counter. Counters are in shared memory where they fit
// (`here` of them), else in `counts`: below, above, and the bins.
KERNEL(count_values, 256, IN(float) values, IN(float) weights, u64 n, float low, float high,
       double scale, u32 bins, u32 here, INOUT(u64) counts) {
    DYNAMIC_SHARED(u32, counters);
    for (u32 i = threadIdx.x; i < here; i += blockDim.x) counters[i] = 0;
    __syncthreads();
    double start = (double)low;
    u64 below = 0, above = 0;
    u32 bin = 0, run = 0;
    // A thread takes four values that follow each other.
    u64 fours = (n + 3) / 4;
    for (u64 four = global_thread(); four < fours; four += global_threads()) {
        u64 first = 4 * four;
        u32 count = n - first < 4 ? (u32)(n - first) : 4;
        float v[4], w[4] = {1.0f, 1.0f, 1.0f, 1.0f};
        if (count == 4) {
            float4 four_values = load4(values, four);
            v[0] = four_values.x, v[1] = four_values.y, v[2] = four_values.z, v[3] = four_values.w;
            if (weights) {
                float4 u = load4(weights, four);
                w[0] = u.x, w[1] = u.y, w[2] = u.z, w[3] = u.w;
            }
        } else {
            for (u32 j = 0; j < 4; ++j) {
                v[j] = j < count ? values[first + j] : NAN_F;
                if (weights) w[j] = j < count ? weights[first + j] : 0.0f;
            }
        }
        for (u32 j = 0; j < 4; ++j) {
            if (!(w[j] > 0.0f)) continue;
            if (v[j] >= low && v[j] <= high) {
                u32 b = (u32)(i32)(((double)v[j] - start) * scale);
                if (b > bins - 1) b = bins - 1;
                if (b != bin && run) {
                    if (here) atomicAdd(&counters[bin], run);
                    else atomicAdd(&counts[2 + bin], (u64)run);
                    run = 0;
                }
                bin = b;
                run += 1;
            } else if (fabsf(v[j]) < INFINITY_F) {
                below += v[j] < low;
                above += v[j] > high;
            }
        }
    }
    if (run) {
        if (here) atomicAdd(&counters[bin], run);
        else atomicAdd(&counts[2 + bin], (u64)run);
    }
    below = warp_sum(below);
    above = warp_sum(above);
    if ((threadIdx.x & (WARP - 1)) == 0) {
        if (below) atomicAdd(&counts[0], below);
        if (above) atomicAdd(&counts[1], above);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < here; i += blockDim.x) {
        u32 c = counters[i];
        if (c) atomicAdd(&counts[2 + i], (u64)c);
    }
}

// Adds the tiles' derivatives of every map, in the order of tiles. A warp takes one number.
KERNEL(add_tiles, 256, IN(double) partials, u32 tiles, u32 numbers, OUT(double) sums) {
    u32 number = (u32)(global_thread() / WARP), lane = threadIdx.x & (WARP - 1);
    if (number >= numbers) return;
    u64 first = (u64)(number / 12) * tiles * 12 + number % 12;
    double sum = 0.0;
    for (u32 t = lane; t < tiles; t += WARP) sum += partials[first + (u64)t * 12];
    sum = warp_sum(sum);
    if (lane == 0) sums[number] = sum;
}
