// Joint histograms as others made them on GPUs, for comparison with ours (section 4.3 of Li et al.
// 2015). All count in whole units of weight, so that none depends on the order of its sums. TAPS is
// the number of columns that a value counts in: 4 for cubic windows, 1 for plain counts.
#include "prelude.cuh"
#include "ungrouped.cuh"

#ifndef TAPS
#define TAPS 4
#endif

// Where values fall among the columns; `Columns` of baselines.rs.
struct Columns {
    float low, per_value;
    float first, last;   // columns of the range's ends
    float units;         // of one unit of weight
    u32 count;
};

// The columns that a value counts in, from `column` on, and the units of each.
struct Taps {
    u32 column;
    u32 v[TAPS];
};

DEVICE Taps taps_of(const Columns& c, float y, float w) {
    float u = fminf(fmaxf(fmaf(y - c.low, c.per_value, c.first), c.first), c.last);
    float units = w * c.units;
    Taps out;
#if TAPS == 1
    out.column = (u32)__float2int_rz(u + 0.5f);
    out.v[0] = (u32)__float2int_rn(units);
#else
    i32 i = __float2int_rz(u);
    float t = u - (float)i, s = 1.0f - t;
    out.column = (u32)(i - 1);
    out.v[0] = (u32)__float2int_rn(units * (s * s * s / 6.0f));
    out.v[1] = (u32)__float2int_rn(units * (2.0f / 3.0f - t * t + 0.5f * (t * t * t)));
    out.v[2] = (u32)__float2int_rn(units * (2.0f / 3.0f - s * s + 0.5f * (s * s * s)));
    out.v[3] = (u32)__float2int_rn(units * (t * t * t / 6.0f));
#endif
    return out;
}

template <class Table> DEVICE void clear(Table table, u32 cells) {
    for (u32 e = threadIdx.x; e < cells; e += blockDim.x) table[e] = 0;
    __syncthreads();
}

// Shams and Kennedy (2007): a histogram for every warp in shared memory. Where all rows do not fit,
// the image is gone through several times (z of the grid), for some rows at a time. A block takes
// `share` voxels between two merges, few enough for 32 bits.
KERNEL(shams_warp, 1024, UNGROUPED, Columns columns, u32 rows, u32 rows_at_once, u32 share,
       INOUT(u64) joint) {
    Affine map = affine_of(maps, blockIdx.y);
    DYNAMIC_SHARED(u32, table);
    u32 first = blockIdx.z * rows_at_once;
    u32 here = rows - first < rows_at_once ? rows - first : rows_at_once;
    u32 cells = here * columns.count, warps = (blockDim.x + WARP - 1) / WARP;
    u32 own = threadIdx.x / WARP * cells;
    u64 to = ((u64)blockIdx.y * rows + first) * columns.count;
    for (u64 start = (u64)blockIdx.x * share; start < image.count; start += (u64)gridDim.x * share) {
        clear(table, cells * warps);
        for (u64 i = start + threadIdx.x; i < start + share; i += blockDim.x) {
            Looked s = look(LOOK_ARGUMENTS, map, i, first, here);
            if (s.bin == NO_BIN) continue;
            Taps t = taps_of(columns, s.y, s.w);
            u32 at = own + s.bin * columns.count + t.column;
            for (u32 k = 0; k < TAPS; ++k)
                if (t.v[k]) atomicAdd(&table[at + k], t.v[k]);
        }
        __syncthreads();
        for (u32 e = threadIdx.x; e < cells; e += blockDim.x) {
            u64 sum = 0;
            for (u32 k = 0; k < warps; ++k) sum += table[k * cells + e];
            if (sum) atomicAdd(&joint[to + e], sum);
        }
        __syncthreads();
    }
}

// The sum over this and all lower threads of a block, modulo 2^32. `scratch` has 32 elements.
template <class Table> DEVICE u32 inclusive_scan(u32 v, Table scratch) {
    u32 lane = threadIdx.x & (WARP - 1), warp = threadIdx.x / WARP;
    for (u32 step = 1; step < WARP; step <<= 1) {
        u32 other = __shfl_up_sync(ALL_LANES, v, step);
        if (lane >= step) v += other;
    }
    if (lane == WARP - 1) scratch[warp] = v;
    __syncthreads();
    for (u32 k = 0; k < warp; ++k) v += scratch[k];
    __syncthreads();
    return v;
}

// Shams et al. (2010): a block sorts the cells that its voxels fall into, and adds up runs of one
// cell. No two threads change a counter at the same time, and every block has counters of its own
// in global memory: no atomics. Blocks have a power of two of at least 32 threads.
KERNEL(sort_and_count, 1024, UNGROUPED, Columns columns, u32 rows, INOUT(u64) parts) {
    Affine map = affine_of(maps, blockIdx.y);
    DYNAMIC_SHARED(u32, memory);
    SHARED(u32, scratch, 32);
    const u32 NONE = 0xffffffffu;
    u32 n = blockDim.x, t = threadIdx.x;
    // Cell and thread of the voxels, sorted; units by thread; sums of units over what is sorted.
    u32 cell = 0, thread = n, units = 2 * n, sums = (2 + TAPS) * n;
    u64 own = ((u64)blockIdx.y * gridDim.x + blockIdx.x) * ((u64)rows * columns.count);
    for (u64 start = (u64)blockIdx.x * n; start < image.count; start += global_threads()) {
        Looked s = look(LOOK_ARGUMENTS, map, start + t, 0, NO_BIN);
        bool counts = s.bin != NO_BIN;
        Taps taps = taps_of(columns, s.y, s.w);
        memory[cell + t] = counts ? s.bin * columns.count + taps.column : NONE;
        memory[thread + t] = t;
        for (u32 k = 0; k < TAPS; ++k) memory[units + k * n + t] = counts ? taps.v[k] : 0u;
        __syncthreads();
        for (u32 size = 2; size <= n; size <<= 1)
            for (u32 step = size / 2; step; step >>= 1) {
                u32 other = t ^ step;
                if (other > t) {
                    u32 a = memory[cell + t], b = memory[cell + other];
                    if ((t & size) == 0 ? b < a : a < b) {
                        memory[cell + t] = b;
                        memory[cell + other] = a;
                        u32 swapped = memory[thread + t];
                        memory[thread + t] = memory[thread + other];
                        memory[thread + other] = swapped;
                    }
                }
                __syncthreads();
            }
        u32 mine = memory[cell + t], from = memory[thread + t];
        bool ends = mine != NONE && (t + 1 == n || memory[cell + t + 1] != mine);
        // The first place of the run that ends here.
        u32 low = 0, high = t;
        while (ends && low < high) {
            u32 middle = (low + high) / 2;
            if (memory[cell + middle] < mine) low = middle + 1;
            else high = middle;
        }
        for (u32 k = 0; k < TAPS; ++k) {
            u32 sum = inclusive_scan(memory[units + k * n + from], scratch + 0);
            memory[sums + t] = sum;
            __syncthreads();
            if (ends) parts[own + mine + k] += sum - (low ? memory[sums + low - 1] : 0u);
            __syncthreads();
        }
    }
}

// Adds the histograms of the blocks.
KERNEL(merge_counts, 256, IN(u64) parts, OUT(u64) joint, u64 cells, u32 count) {
    u64 e = global_thread();
    if (e >= cells) return;
    u64 sum = 0;
    for (u32 b = 0; b < count; ++b) sum += parts[((u64)blockIdx.y * count + b) * cells + e];
    joint[(u64)blockIdx.y * cells + e] = sum;
}

// Chen et al. (2009): the voxels are sorted by bin beforehand, so that a block only touches some
// rows, which it keeps in shared memory. A block's item: its first and last place in `order`, its
// first row and the number of its rows.
KERNEL(chen_sorted, 1024, UNGROUPED, Columns columns, u32 rows, IN(u32) order, IN(uint4) items,
       INOUT(u64) joint) {
    Affine map = affine_of(maps, blockIdx.y);
    DYNAMIC_SHARED(u32, table);
    uint4 item = items[blockIdx.x];
    u32 cells = item.w * columns.count;
    clear(table, cells);
    for (u32 j = item.x + threadIdx.x; j < item.y; j += blockDim.x) {
        Looked s = look(LOOK_ARGUMENTS, map, order[j], item.z, item.w);
        if (s.bin == NO_BIN) continue;
        Taps t = taps_of(columns, s.y, s.w);
        for (u32 k = 0; k < TAPS; ++k)
            if (t.v[k]) atomicAdd(&table[s.bin * columns.count + t.column + k], t.v[k]);
    }
    __syncthreads();
    u64 to = ((u64)blockIdx.y * rows + item.z) * columns.count;
    for (u32 e = threadIdx.x; e < cells; e += blockDim.x)
        if (table[e]) atomicAdd(&joint[to + e], (u64)table[e]);
}

// Columns that get extra counters, and how many each.
#define CROWDED 8u
#define COPIES 8u

// How often columns are met by every `step`-th value of the moving image.
KERNEL(profile_columns, 256, IN(float2) pairs, u64 count, u32 step, Columns columns,
       INOUT(u32) met) {
    for (u64 i = global_thread() * step; i < count; i += global_threads() * step) {
        Taps t = taps_of(columns, pairs[i].x, 1.0f);
        for (u32 k = 0; k < TAPS; ++k) atomicAdd(&met[t.column + k], 1u);
    }
}

// Numbers the columns that hold more than a sixteenth of the values, the first CROWDED of them;
// the others have CROWDED.
KERNEL(crowded_columns, 32, IN(u32) met, u32 columns, u32 values, OUT(u32) slots) {
    u32 lane = threadIdx.x, found = 0;
    for (u32 base = 0; base < columns; base += WARP) {
        u32 c = base + lane;
        bool crowded = c < columns && met[c] > values / 16;
        u32 all = __ballot_sync(ALL_LANES, crowded);
        u32 number = found + (u32)__popc(all & ((1u << lane) - 1));
        if (c < columns) slots[c] = crowded && number < CROWDED ? number : CROWDED;
        found += (u32)__popc(all);
    }
}

// Vetter and Westermann (2011): the same with extra counters for crowded columns, over which the
// lanes of a warp are spread.
KERNEL(vetter_crowded, 1024, UNGROUPED, Columns columns, u32 rows, IN(u32) order, IN(uint4) items,
       IN(u32) slots, INOUT(u64) joint) {
    Affine map = affine_of(maps, blockIdx.y);
    DYNAMIC_SHARED(u32, table);
    uint4 item = items[blockIdx.x];
    u32 cells = item.w * columns.count;
    clear(table, cells + item.w * (CROWDED * COPIES));
    u32 copy = cells + (threadIdx.x & (COPIES - 1));
    for (u32 j = item.x + threadIdx.x; j < item.y; j += blockDim.x) {
        Looked s = look(LOOK_ARGUMENTS, map, order[j], item.z, item.w);
        if (s.bin == NO_BIN) continue;
        Taps t = taps_of(columns, s.y, s.w);
        for (u32 k = 0; k < TAPS; ++k) {
            if (!t.v[k]) continue;
            u32 slot = slots[t.column + k];
            u32 at = slot < CROWDED ? copy + (s.bin * CROWDED + slot) * COPIES
                                    : s.bin * columns.count + t.column + k;
            atomicAdd(&table[at], t.v[k]);
        }
    }
    __syncthreads();
    u64 to = ((u64)blockIdx.y * rows + item.z) * columns.count;
    for (u32 e = threadIdx.x; e < cells; e += blockDim.x) {
        u32 row = e / columns.count, slot = slots[e % columns.count];
        u64 sum = table[e];
        if (slot < CROWDED)
            for (u32 k = 0; k < COPIES; ++k) sum += table[cells + (row * CROWDED + slot) * COPIES + k];
        if (sum) atomicAdd(&joint[to + e], sum);
    }
}
