// The schemes of Li et al. (2015), sections 3.2 to 3.5, for binned sums, and two that later GPUs
// allow. Samples come in the order of the image; what differs is where the counters are that the
// samples of a bin meet in. TERMS (3 or 6) sums a bin; y of the grid is the map.
#include "prelude.cuh"
#include "ungrouped.cuh"

#ifndef TERMS
#define TERMS 3
#endif

// What a sample adds to the counters of its bin.
struct Added {
    float v[TERMS];
};

DEVICE Added added(float w, float x, float y) {
    Added a;
    a.v[0] = w;
#if TERMS == 3
    a.v[1] = w * y;
    a.v[2] = w * (y * y);
#else
    a.v[1] = w * x;
    a.v[2] = w * y;
    a.v[3] = w * (x * x);
    a.v[4] = w * (y * y);
    a.v[5] = w * (x * y);
#endif
    return a;
}

// Adds the samples of this thread to counters that other threads meet.
template <class Table> DEVICE void add_samples(UNGROUPED, Table table) {
    Affine map = affine_of(maps, blockIdx.y);
    for (u64 i = global_thread(); i < image.count; i += global_threads()) {
        Looked s = look(LOOK_ARGUMENTS, map, i, 0, NO_BIN);
        if (s.bin == NO_BIN) continue;
        Added a = added(s.w, s.x, s.y);
        for (u32 k = 0; k < TERMS; ++k)
            if (a.v[k] != 0.0f) atomicAdd(&table[s.bin * TERMS + k], a.v[k]);
    }
}

// Counters in global memory, met by all threads.
KERNEL(global_atomic, 1024, UNGROUPED, u32 bins, INOUT(float) totals) {
    add_samples(LOOK_ARGUMENTS, maps, totals + (u64)blockIdx.y * bins * TERMS);
}

// A shadow histogram for every thread, in global memory: entry e of thread t is at e * threads + t,
// so that neighbours that meet the same bin write side by side.
KERNEL(global_merge, 1024, UNGROUPED, u32 bins, INOUT(float) shadows) {
    Affine map = affine_of(maps, blockIdx.y);
    u64 threads = global_threads(), thread = global_thread();
    u64 first = (u64)blockIdx.y * bins * TERMS * threads + thread;
    for (u64 i = thread; i < image.count; i += threads) {
        Looked s = look(LOOK_ARGUMENTS, map, i, 0, NO_BIN);
        if (s.bin == NO_BIN) continue;
        Added a = added(s.w, s.x, s.y);
        for (u32 k = 0; k < TERMS; ++k)
            shadows[first + ((u64)s.bin * TERMS + k) * threads] += a.v[k];
    }
}

// Adds the shadows of all threads, a block an entry, in a fixed order.
KERNEL(merge_threads, 256, IN(float) shadows, OUT(double) totals, u64 threads) {
    SHARED(double, scratch, 32);
    u64 entry = (u64)blockIdx.y * gridDim.x + blockIdx.x;
    double sum = 0.0;
    for (u64 t = threadIdx.x; t < threads; t += blockDim.x) sum += shadows[entry * threads + t];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) totals[entry] = sum;
}

// The sums of a block in shared memory.
template <class Table> DEVICE void clear(Table table, u32 entries) {
    for (u32 e = threadIdx.x; e < entries; e += blockDim.x) table[e] = 0;
    __syncthreads();
}

// A shadow histogram for every block, in shared memory, met by its threads; the blocks meet in
// global memory.
KERNEL(shared_atomic, 1024, UNGROUPED, u32 bins, INOUT(double) totals) {
    DYNAMIC_SHARED(float, table);
    u32 entries = bins * TERMS;
    clear(table, entries);
    add_samples(LOOK_ARGUMENTS, maps, table);
    __syncthreads();
    for (u32 e = threadIdx.x; e < entries; e += blockDim.x)
        if (table[e] != 0.0f) atomicAdd(&totals[(u64)blockIdx.y * entries + e], (double)table[e]);
}

// The same, but the blocks' histograms are kept apart and added by merge_blocks.
KERNEL(shared_merge, 1024, UNGROUPED, u32 bins, OUT(float) parts) {
    DYNAMIC_SHARED(float, table);
    u32 entries = bins * TERMS;
    clear(table, entries);
    add_samples(LOOK_ARGUMENTS, maps, table);
    __syncthreads();
    u64 first = ((u64)blockIdx.y * gridDim.x + blockIdx.x) * entries;
    for (u32 e = threadIdx.x; e < entries; e += blockDim.x) parts[first + e] = table[e];
}

// Adds the histograms of the warps of a block in their order and keeps the sum.
template <class Table, class Parts>
DEVICE void merge_warps(Table table, u32 entries, Parts parts) {
    __syncthreads();
    u32 warps = (blockDim.x + WARP - 1) / WARP;
    u64 first = ((u64)blockIdx.y * gridDim.x + blockIdx.x) * entries;
    for (u32 e = threadIdx.x; e < entries; e += blockDim.x) {
        float sum = 0.0f;
        for (u32 k = 0; k < warps; ++k) sum += table[k * entries + e];
        parts[first + e] = sum;
    }
}

// A shadow histogram for every warp, in shared memory, met by its lanes.
KERNEL(shared_warp, 1024, UNGROUPED, u32 bins, OUT(float) parts) {
    Affine map = affine_of(maps, blockIdx.y);
    DYNAMIC_SHARED(float, table);
    u32 entries = bins * TERMS, warps = (blockDim.x + WARP - 1) / WARP;
    clear(table, entries * warps);
    u32 own = threadIdx.x / WARP * entries;
    for (u64 i = global_thread(); i < image.count; i += global_threads()) {
        Looked s = look(LOOK_ARGUMENTS, map, i, 0, NO_BIN);
        if (s.bin == NO_BIN) continue;
        Added a = added(s.w, s.x, s.y);
        for (u32 k = 0; k < TERMS; ++k)
            if (a.v[k] != 0.0f) atomicAdd(&table[own + s.bin * TERMS + k], a.v[k]);
    }
    merge_warps(table, entries, parts);
}

// The lanes of a warp that meet in a bin add up first, by pointer jumping along their list; the
// first of them changes the warp's histogram. No two lanes ever change the same counter: no atomics,
// and the same bits at every run. Blocks are whole warps.
KERNEL(warp_aggregated, 1024, UNGROUPED, u32 bins, OUT(float) parts) {
    Affine map = affine_of(maps, blockIdx.y);
    DYNAMIC_SHARED(float, table);
    u32 entries = bins * TERMS, lane = threadIdx.x & (WARP - 1);
    clear(table, entries * (blockDim.x / WARP));
    u32 own = threadIdx.x / WARP * entries;
    // All lanes take part in every round, whether they have a sample or not.
    for (u64 base = global_thread() - lane; base < image.count; base += global_threads()) {
        Looked s = look(LOOK_ARGUMENTS, map, base + lane, 0, NO_BIN);
        if (!__any_sync(ALL_LANES, s.bin != NO_BIN)) continue;
        Added a = added(s.w, s.x, s.y);
        u32 peers = __match_any_sync(ALL_LANES, s.bin);
        bool leads = (peers & ((1u << lane) - 1)) == 0;
        // The next lane of the same bin; the lane itself ends the list.
        u32 after = lane == 31 ? 0 : peers & ~((2u << lane) - 1);
        u32 next = after ? (u32)__ffs((int)after) - 1 : lane;
        while (__any_sync(ALL_LANES, next != lane)) {
            bool more = next != lane;
            for (u32 k = 0; k < TERMS; ++k) {
                float other = __shfl_sync(ALL_LANES, a.v[k], next);
                if (more) a.v[k] += other;
            }
            u32 further = __shfl_sync(ALL_LANES, next, next);
            next = more && further != next ? further : lane;
        }
        if (leads && s.bin != NO_BIN)
            for (u32 k = 0; k < TERMS; ++k) table[own + s.bin * TERMS + k] += a.v[k];
        __syncwarp();
    }
    merge_warps(table, entries, parts);
}

// Adds the histograms of the blocks, in a fixed order: 32 entries a block, a warp for every 32nd
// histogram.
KERNEL(merge_blocks, 1024, IN(float) parts, OUT(double) totals, u32 entries, u32 count) {
    SHARED(double, sums, 1024);
    u32 lane = threadIdx.x & (WARP - 1), slice = threadIdx.x / WARP;
    u32 e = blockIdx.x * WARP + lane;
    double sum = 0.0;
    if (e < entries)
        for (u32 b = slice; b < count; b += WARP)
            sum += parts[((u64)blockIdx.y * count + b) * entries + e];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (slice == 0 && e < entries) {
        for (u32 k = 1; k < WARP; ++k) sum += sums[k * WARP + lane];
        totals[(u64)blockIdx.y * entries + e] = sum;
    }
}

// How many units of the counters one unit of each term is, for the first TERMS.
struct Scales {
    float v[6];
};

// Whole numbers are added in any order with the same result. A counter is two words of shared
// memory; the upper one only changes when the lower one overflows. The blocks meet in 64 bits.
KERNEL(fixed_point, 1024, UNGROUPED, u32 bins, Scales scales, INOUT(u64) totals) {
    Affine map = affine_of(maps, blockIdx.y);
    DYNAMIC_SHARED(u32, table);
    u32 entries = bins * TERMS;
    clear(table, 2 * entries);
    for (u64 i = global_thread(); i < image.count; i += global_threads()) {
        Looked s = look(LOOK_ARGUMENTS, map, i, 0, NO_BIN);
        if (s.bin == NO_BIN) continue;
        Added a = added(s.w, s.x, s.y);
        for (u32 k = 0; k < TERMS; ++k) {
            i32 units = __float2int_rn(a.v[k] * scales.v[k]);
            if (units == 0) continue;
            u32 at = s.bin * TERMS + k;
            u32 old = atomicAdd(&table[at], (u32)units);
            // The carry, less one where the upper word of the summand is all ones.
            u32 up = (u32)(old + (u32)units < old) - (u32)(units < 0);
            if (up) atomicAdd(&table[entries + at], up);
        }
    }
    __syncthreads();
    for (u32 e = threadIdx.x; e < entries; e += blockDim.x) {
        u64 sum = (u64)table[entries + e] << 32 | table[e];
        if (sum) atomicAdd(&totals[(u64)blockIdx.y * entries + e], sum);
    }
}
