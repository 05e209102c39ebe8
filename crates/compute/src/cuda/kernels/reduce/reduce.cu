// Several numbers made of all elements, in one pass and one launch. The text before this file says
// which numbers, as macros:
//
//   TERMS                 how many numbers
//   MINIMA, MAXIMA        bits of those that are minima, and maxima; the others are sums
//   FOURS                 how many times four elements a thread loads at once
//   BLOCKS                the most blocks of a launch
//   RESIDENT              how many blocks shall fit on a multiprocessor
//   INPUTS                the parameters for the inputs
//   BEGIN                 declares a thread's part of each number
//   QUADS                 declares room for FOURS times four elements of each input
//   LOAD(g, i)            loads the i-th four elements into place g of the room
//   ADD_QUAD(g)           adds the four elements of place g
//   ADD_ELEMENT(i)        adds the i-th element
//   PARTS                 the parts of a thread, as doubles
//
// The order of all additions depends on the number of elements only: four elements after the other
// go to the threads in turn. Each block leaves its parts in
// memory; the block that comes last puts them together, in the order of the blocks.
#include "prelude.cuh"

#define THREADS 256u
#define WARPS (THREADS / WARP)

// Where the numbers go in the output.
struct Places { u32 at[24]; };

// Two parts of number k put together.
DEVICE double joined(u32 k, double a, double b) {
    if (MINIMA >> k & 1u) return fmin(a, b);
    if (MAXIMA >> k & 1u) return fmax(a, b);
    return a + b;
}

// The number k of no elements, or what does not change it.
DEVICE double neutral(u32 k) {
    return MINIMA >> k & 1u ? INFINITY_D : MAXIMA >> k & 1u ? -INFINITY_D : 0.0;
}

// The parts of a block's threads put together; thread k gets number k.
DEVICE double join_block(const double* part, SHARED_POINTER(double) scratch) {
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
    for (u32 k = 0; k < TERMS; ++k) {
        double v = part[k];
#pragma unroll
        for (u32 step = 16; step; step >>= 1)
            v = joined(k, v, __shfl_xor_sync(ALL_LANES, v, step));
        if (lane == 0) scratch[k * WARPS + warp] = v;
    }
    __syncthreads();
    double v = 0.0;
    if (threadIdx.x < TERMS) {
        v = scratch[threadIdx.x * WARPS];
#pragma unroll
        for (u32 w = 1; w < WARPS; ++w)
            v = joined(threadIdx.x, v, scratch[threadIdx.x * WARPS + w]);
    }
    return v;
}

// `partials` has TERMS * BLOCKS parts of the blocks, and `finished` counts those that have left
// theirs. They are those of a stream, in which launches come one after the other; the last block of
// each leaves the count at zero for the next.
KERNEL(reduce, AT_ONCE(THREADS, RESIDENT), INPUTS, OUT(double) out, Places places, u64 n,
       INOUT(double) partials, INOUT(u32) finished) {
    SHARED(double, scratch, TERMS * WARPS);
    SHARED(u32, is_last, 1);
    BEGIN
    // Which elements a thread adds, and in which order, does not depend on how many it loads at
    // once: a number is the same whichever others are made with it.
    // The distance is that of the largest grid: in a smaller one each thread has four at most.
    const u64 fours = n / 4, step = BLOCKS * THREADS;
    u64 i = global_thread();
    for (; i + (FOURS - 1) * step < fours; i += FOURS * step) {
        QUADS
#pragma unroll
        for (u32 g = 0; g < FOURS; ++g) { LOAD(g, i + g * step) }
#pragma unroll
        for (u32 g = 0; g < FOURS; ++g) { ADD_QUAD(g) }
    }
    if (FOURS > 1 && i < fours) {
        QUADS
#pragma unroll
        for (u32 g = 0; g < FOURS; ++g)
            if (i + g * step < fours) { LOAD(g, i + g * step) }
#pragma unroll
        for (u32 g = 0; g < FOURS; ++g)
            if (i + g * step < fours) { ADD_QUAD(g) }
    }
    const u64 rest = 4 * fours + global_thread();
    if (rest < n) { ADD_ELEMENT(rest) }

    double part[TERMS] = PARTS;
    double v = join_block(part, scratch);
    if (gridDim.x > 1) {
        if (threadIdx.x < TERMS) {
            partials[threadIdx.x * BLOCKS + blockIdx.x] = v;
            __threadfence();
        }
        __syncthreads();
        if (threadIdx.x == 0) is_last[0] = atomicAdd(&finished[0], 1u) == gridDim.x - 1 ? 1u : 0u;
        __syncthreads();
        if (is_last[0] == 0u) return;
        __threadfence();
#pragma unroll
        for (u32 k = 0; k < TERMS; ++k) {
            part[k] = neutral(k);
#pragma unroll
            for (u32 first = 0; first < BLOCKS; first += THREADS) {
                const u32 b = first + threadIdx.x;
                if (b < gridDim.x) part[k] = joined(k, part[k], __ldcg(&partials[k * BLOCKS + b]));
            }
        }
        v = join_block(part, scratch);
        if (threadIdx.x == 0) finished[0] = 0;
    }
    if (threadIdx.x < TERMS) out[places.at[threadIdx.x]] = v;
}
