// Iterations of fronts: the totals of a set, plans of tiles, and the next set, of tiles or of all points.
#include "front.cuh"

// What an iteration counts, after its tiles, in the order of a slot.
#define COUNTS 7
#define INNER 0
#define OUTER 1
#define INWARDS 2
#define OUTWARDS 3
#define DIFFERENT 4
#define SUM 5
#define SQUARES 6
#define SLOT 8

// Adds what the threads of a block have counted to a slot and to the totals.
DEVICE void conclude(const i64* counted, INOUT(u64) slot, INOUT(u64) totals) {
    SHARED(i64, scratch, 32);
    i64 all[COUNTS];
#pragma unroll
    for (u32 i = 0; i < COUNTS; ++i) {
        all[i] = block_sum(counted[i], scratch);
        __syncthreads();
    }
    if (thread_rank() != 0) return;
#pragma unroll
    for (u32 i = 0; i < COUNTS; ++i)
        if (all[i] != 0) atomicAdd(&slot[1 + i], (u64)all[i]);
    const i64 grown = all[INWARDS] - all[OUTWARDS];
    if (grown != 0) atomicAdd(&totals[0], (u64)grown);
    if (all[SUM] != 0) atomicAdd(&totals[1], (u64)all[SUM]);
    if (all[SQUARES] != 0) atomicAdd(&totals[2], (u64)all[SQUARES]);
}

// The totals of a set, to both outputs, which are zero before. A thread a point, and those of a word beyond a row.
KERNEL(front_begin, 256, FrontShape shape, IN(u32) set, IN(float) values, FrontUnits units, INOUT(u64) totals, INOUT(u64) log) {
    SHARED(i64, scratch, 32);
    i64 sums[5] = {};
    const u64 padded = 64ull * shape.row, all = padded * shape.ny * shape.nz;
    for (u64 i = global_thread(); i < all; i += global_threads()) {
        const u64 row = i / padded, x = i % padded;
        if (x >= shape.nx) continue;
        const bool inside = set[i / 32] >> (i % 32) & 1u;
        sums[0] += inside;
        if (!values) continue;
        i64 value[2];
        in_units(units, values[row * shape.nx + x], value);
        sums[3] += value[0];
        sums[4] += value[1];
        if (inside) {
            sums[1] += value[0];
            sums[2] += value[1];
        }
    }
    for (u32 i = 0; i < 5; ++i) {
        const i64 sum = block_sum(sums[i], scratch);
        if (thread_rank() == 0 && sum != 0) {
            atomicAdd(&totals[i], (u64)sum);
            atomicAdd(&log[i], (u64)sum);
        }
        __syncthreads();
    }
}

// Slots of the iteration before, of this one and of the next; whether an iteration that changes nothing in two is the last; all points.
struct FrontSlots { u64 before, here, after, points; u32 number, repeats; };

// Whether there is nothing to do any more.
DEVICE bool has_ended(const FrontSlots& slots, IN(u64) totals, INOUT(u64) log) {
    if (totals[0] == 0 || totals[0] == slots.points) return true;
    const bool still = log[slots.before + 1 + INWARDS] == 0 && log[slots.before + 1 + OUTWARDS] == 0;
    const bool repeats = slots.repeats && slots.number >= 3 && log[slots.before + 1 + DIFFERENT] == 0;
    return slots.number > 0 && (still || repeats);
}

// The tiles that an iteration goes over, a thread a tile. The slot is zero before.
KERNEL(front_plan, 256, FrontShape shape, FrontSlots slots, u32 with_fronts, IN(u32) tiles, IN(u64) totals, OUT(u32) plan,
       INOUT(u64) log) {
    SHARED(u32, counts, 8);
    SHARED(u32, first, 1);
    const u32 tile = (u32)global_thread(), lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    bool planned = false;
    if (tile < shape.tiles && !has_ended(slots, totals, log)) {
        planned = slots.number == 0 || (with_fronts && tiles[shape.tiles + tile] != 0);
        const u32 x = tile % shape.tx, y = tile / shape.tx % shape.ty, z = tile / (shape.tx * shape.ty);
        for (i32 dz = -DEEP; dz <= DEEP && !planned; ++dz)
            for (i32 dy = -1; dy <= 1; ++dy)
                for (i32 dx = -1; dx <= 1; ++dx)
                    if (x + dx < shape.tx && y + dy < shape.ty && z + dz < shape.tz)
                        planned |= tiles[tile + dx + (i32)shape.tx * (dy + (i32)shape.ty * dz)] == slots.number;
    }
    const u32 votes = __ballot_sync(ALL_LANES, planned);
    if (lane == 0) counts[warp] = __popc(votes);
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 all = 0;
        for (u32 w = 0; w < 8; ++w) {
            const u32 count = counts[w];
            counts[w] = all;
            all += count;
        }
        first[0] = all ? (u32)atomicAdd(&log[slots.here], (u64)all) : 0;
        if (blockIdx.x == 0)
            for (u32 i = 0; i < SLOT; ++i) log[slots.after + i] = 0;
    }
    __syncthreads();
    if (planned) plan[first[0] + counts[warp] + __popc(votes & ((1u << lane) - 1))] = tile;
}

// All tiles, or none. The slot is zero before.
KERNEL(front_look, 32, FrontShape shape, FrontSlots slots, IN(u64) totals, INOUT(u64) log) {
    if (threadIdx.x != 0) return;
    log[slots.here] = has_ended(slots, totals, log) ? 0 : shape.tiles;
    for (u32 i = 0; i < SLOT; ++i) log[slots.after + i] = 0;
}

// The next points of an element of a row: windows of the set, before and after; and what is of the front before.
template <class Element, class Set, class In, class Out>
DEVICE void advanced(const Set& set, const In& in, const Out& out, const FrontShape& s, u32 k, u32 y, u32 z,
                     typename Width<Element>::Window* found) {
    typedef typename Width<Element>::Window Window;
    const Window points = points_of<Element>(s, k);
    Window inside[5 * (1 + 4 * DEEP)], outside[5 * (1 + 4 * DEEP)], left[3 * (1 + 2 * DEEP)], grown = 0;
#pragma unroll
    for (i32 dz = -2 * DEEP; dz <= 2 * DEEP; ++dz)
#pragma unroll
        for (i32 dy = -2; dy <= 2; ++dy) {
            const i32 at = (dz + 2 * DEEP) * 5 + dy + 2;
            const bool is_row = y + dy < s.ny && z + dz < s.nz;
            inside[at] = window<Element>(set, s, k, y + dy, z + dz) & points;
            outside[at] = is_row ? points & ~inside[at] : 0;
        }
#pragma unroll
    for (i32 dz = -DEEP; dz <= DEEP; ++dz)
#pragma unroll
        for (i32 dy = -1; dy <= 1; ++dy) {
            const i32 at = (dz + 2 * DEEP) * 5 + dy + 2;
            const Window comes = around(inside, at, 5) & outside[at] & window<Element>(in, s, k, y + dy, z + dz);
            left[(dz + DEEP) * 3 + dy + 1] = outside[at] & ~comes;
            if (dz == 0 && dy == 0) grown = inside[at] | comes;
        }
    const i32 here = 10 * DEEP + 2;
    const Window goes = inside[here] & around(left, 3 * DEEP + 1, 3) & window<Element>(out, s, k, y, z);
    const Window mask = ((Window)1 << Width<Element>::points) - 1;
    found[0] = inside[here] >> HALO & mask;
    found[1] = (grown & ~goes) >> HALO & mask;
    found[2] = (inside[here] & around(outside, here, 5)) >> HALO & mask;
    found[3] = (outside[here] & around(inside, here, 5)) >> HALO & mask;
}

// What points that come in and go out, from an x on, add to the sums.
DEVICE void measure(IN(float) values, const FrontUnits& units, u64 first, u32 before, u32 after, i64* counted) {
    for (u32 moved = before ^ after; moved; moved &= moved - 1) {
        const u32 bit = __ffs((i32)moved) - 1;
        i64 value[2];
        in_units(units, values[first + bit], value);
        const i64 sign = after >> bit & 1u ? 1 : -1;
        counted[SUM] += sign * value[0];
        counted[SQUARES] += sign * value[1];
    }
}

// The lanes that have a tile, and its rows that each has.
#define TILE_LANES (TILE_ROWS < 32 ? TILE_ROWS : 32)
#define TILE_EACH (TILE_ROWS / TILE_LANES)

// The tiles of a plan.
KERNEL(front_step, 256, FrontShape shape, IN(Cell) set, IN(Cell) signs, IN(float) values, FrontUnits units, u64 slot,
       u32 stamp, IN(u32) plan, INOUT(Cell) next, INOUT(u32) tiles, INOUT(u64) totals, INOUT(u64) log) {
    const u32 lane = threadIdx.x % TILE_LANES, together = WARP / TILE_LANES;
    const u64 count = min((u64)log[slot], (u64)shape.tiles), a_set = (u64)shape.row * CELLS * shape.ny * shape.nz;
    i64 counted[COUNTS] = {};
    for (u64 first = global_thread() / WARP * together; first < count; first += global_threads() / WARP * together) {
        const u64 k = first + threadIdx.x % WARP / TILE_LANES;
        const u32 tile = k < count ? plan[k] : shape.tiles;
        const bool is_tile = tile < shape.tiles;
        const u32 x = tile % shape.tx, ty = tile / shape.tx % shape.ty, tz = tile / (shape.tx * shape.ty);
        u32 of_front = 0, moved = 0;
        if (is_tile)
            for (u32 each = 0; each < TILE_EACH; ++each) {
                const u32 row = lane + each * TILE_LANES;
                const u32 y = ty * TILE_Y + row % TILE_Y, z = tz * TILE_Z + row / TILE_Y;
                if (y >= shape.ny || z >= shape.nz) continue;
                u32 found[4];
                advanced<Cell>(set, signs, signs + a_set, shape, x, y, z, found);
                const u64 r = (u64)z * shape.ny + y, at = r * (shape.row * CELLS) + x;
                const u32 old = next[at];
                next[at] = (Cell)found[1];
                of_front += (u32)__popc(found[2]) | (u32)__popc(found[3]) << 16;
                counted[INWARDS] += __popc(found[1] & ~found[0]);
                counted[OUTWARDS] += __popc(found[0] & ~found[1]);
                counted[DIFFERENT] += __popc(found[1] ^ old);
                moved |= found[0] ^ found[1];
                if (values) measure(values, units, r * shape.nx + (u64)x * TILE_X, found[0], found[1], counted);
            }
        moved = moved != 0;
#pragma unroll
        for (u32 step = TILE_LANES / 2; step; step >>= 1) {
            of_front += __shfl_xor_sync(ALL_LANES, of_front, step);
            moved |= __shfl_xor_sync(ALL_LANES, moved, step);
        }
        if (lane == 0 && is_tile) {
            const u32 before = tiles[shape.tiles + tile];
            tiles[shape.tiles + tile] = of_front;
            if (moved) tiles[tile] = stamp;
            counted[INNER] += (i64)(of_front & 0xffffu) - (i64)(before & 0xffffu);
            counted[OUTER] += (i64)(of_front >> 16) - (i64)(before >> 16);
        }
    }
    conclude(counted, log + slot, totals);
}

// All points, 32 a thread at a time.
KERNEL(front_step_all, 256, FrontShape shape, IN(u32) set, IN(u32) signs, IN(float) values, FrontUnits units, u64 slot,
       INOUT(u32) next, INOUT(u64) totals, INOUT(u64) log) {
    if (log[slot] == 0) return;
    const u32 row = 2 * shape.row;
    const u64 all = (u64)row * shape.ny * shape.nz;
    i64 counted[COUNTS] = {};
    for (u64 i = global_thread(); i < all; i += global_threads()) {
        const u64 r = i / row;
        const u32 k = (u32)(i % row), y = (u32)(r % shape.ny), z = (u32)(r / shape.ny);
        u64 found[4];
        advanced<u32>(set, signs, signs + all, shape, k, y, z, found);
        const u32 before = (u32)found[0], after = (u32)found[1], old = next[i];
        next[i] = after;
        counted[INNER] += __popc((u32)found[2]);
        counted[OUTER] += __popc((u32)found[3]);
        counted[INWARDS] += __popc(after & ~before);
        counted[OUTWARDS] += __popc(before & ~after);
        counted[DIFFERENT] += __popc(after ^ old);
        if (values) measure(values, units, r * shape.nx + 32ull * k, before, after, counted);
    }
    conclude(counted, log + slot, totals);
}
