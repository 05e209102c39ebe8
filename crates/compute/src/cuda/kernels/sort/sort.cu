// Radix sort by digits of eight bits, from the lowest on; each pass reads and writes the pairs
// once. A pass needs to know, for every tile of the input and every digit, where the tile's first
// key of that digit goes: the keys of lower digits (counted for all passes beforehand) and those of
// the same digit in earlier tiles. The latter are found while the pass runs: each tile publishes
// its counts, adds up those of the tiles before it until one has published a sum, and publishes
// its own sum.
//
// Macros: WIDE 0 keys of 32 bits, 1 keys of 64 bits; APPROXIMATE 1 sorts floats by places in their
// range; LARGE 1 for 2^30 keys and more, whose counts leave no room for flags in 32 bits; ITEMS
// keys of each thread, WARPS warps of a tile's block.
#include "prelude.cuh"

#if WIDE
typedef u64 Key;
#else
typedef u32 Key;
#endif

#define DIGITS 256u
#define TILE_THREADS (WARPS * 32)
#define TILE (TILE_THREADS * ITEMS)
#define MOST_PASSES (WIDE ? 8 : 4)
static_assert(32 * ITEMS <= 65536, "ranks in a warp have 16 bits");

// What a key's digits are those of: `turned` makes order numbers of keys, which are taken relative
// to `low` and are at most `span` then.
struct Order {
    u64 turned_if_negative, turned, low, span;
};

DEVICE Key order_number(Key key, const Order& order) {
    Key negative = Key(0) - (key >> (8 * sizeof(Key) - 1));
    return key ^ (negative & Key(order.turned_if_negative)) ^ Key(order.turned);
}

#if APPROXIMATE

// Places in the range of the finite keys, as the device of the host computes them.
struct Places {
    double low, scale;
};

DEVICE float float_of_order(u64 order) {
    u32 bits = u32(order) ^ 0x80000000u;
    return __uint_as_float(bits >> 31 ? bits ^ 0x7fffffffu : bits);
}
DEVICE Places places(IN(u64) range, const Order&) {
    Places p;
    // A range that no finite key has set gives no numbers; nothing is placed by it.
    double low = float_of_order(~range[0]), high = float_of_order(range[1]);
    p.low = low;
    p.scale = high > low ? 16777213.0 / (high - low) : 0.0;
    return p;
}
DEVICE Key place(Key key, const Places& p) {
    if ((key & 0x7fffffffu) >= 0x7f800000u) return key >> 31 ? 0u : 0xffffffu;
    return 1u + (u32)(((double)__uint_as_float(key) - p.low) * p.scale);
}

#else

typedef Order Places;
DEVICE Places places(IN(u64), const Order& order) { return order; }
DEVICE Key place(Key key, const Places& order) {
    Key number = order_number(key, order), low = Key(order.low), span = Key(order.span);
    number = number > low ? number - low : Key(0);
    return number < span ? number : span;
}

#endif

DEVICE u32 digit_of(Key place, u32 shift) { return (u32)(place >> shift) & (DIGITS - 1); }

// The least and the greatest order number: range[0] becomes the complement of the one, range[1]
// the other, so that both begin as zero. Keys that are not finite floats can be left out.
KERNEL(key_range, 512, IN(Key) keys, INOUT(u64) range, Order order, u32 finite_floats, u32 n) {
    SHARED(u64, least, 16);
    SHARED(u64, most, 16);
    u64 low = ~0ull, high = 0;
    for (u64 i = global_thread(); i < n; i += 4 * global_threads()) {
        Key key[4];
        u32 count = 0;
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            u64 at = i + k * global_threads();
            if (at < n) key[k] = keys[at], count = k + 1;
        }
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            if (k >= count || (finite_floats && (key[k] & 0x7fffffffu) >= 0x7f800000u)) continue;
            u64 number = order_number(key[k], order);
            low = min(low, number);
            high = max(high, number);
        }
    }
#pragma unroll
    for (u32 step = 16; step; step >>= 1) {
        low = min(low, (u64)__shfl_xor_sync(ALL_LANES, low, step));
        high = max(high, (u64)__shfl_xor_sync(ALL_LANES, high, step));
    }
    if (threadIdx.x % WARP == 0) {
        least[threadIdx.x / WARP] = low;
        most[threadIdx.x / WARP] = high;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (u32 w = 1; w < blockDim.x / WARP; ++w) {
            low = min(low, (u64)least[w]);
            high = max(high, (u64)most[w]);
        }
        atomicMax(&range[0], ~low);
        atomicMax(&range[1], high);
    }
}

// How many keys have each digit in each pass: bins[pass][digit], zero before.
KERNEL(count_digits, 512, IN(Key) keys, INOUT(u32) bins, IN(u64) range, Order order, u32 passes, u32 n) {
    SHARED(u32, counts, MOST_PASSES * DIGITS);
    for (u32 i = threadIdx.x; i < MOST_PASSES * DIGITS; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    Places p = places(range, order);
    for (u64 i = global_thread(); i < n; i += 8 * global_threads()) {
        Key key[8];
#pragma unroll
        for (u32 k = 0; k < 8; ++k) {
            u64 at = i + k * global_threads();
            key[k] = at < n ? (Key)keys[at] : Key(0);
        }
#pragma unroll
        for (u32 k = 0; k < 8; ++k) {
            if (i + k * global_threads() >= n) break;
            Key number = place(key[k], p);
#pragma unroll
            for (u32 pass = 0; pass < MOST_PASSES; ++pass)
                if (pass < passes) atomicAdd(&counts[pass * DIGITS + digit_of(number, 8 * pass)], 1u);
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < passes * DIGITS; i += blockDim.x)
        if (counts[i]) atomicAdd(&bins[i], (u32)counts[i]);
}

// The word that a tile publishes for a digit: a count with a flag in the highest bits.
#if LARGE
typedef u64 Status;
#define FLAG_SHIFT 62
#else
typedef u32 Status;
#define FLAG_SHIFT 30
#endif
#define COUNTED 1u   // the keys of the digit in the tile
#define SUMMED 2u    // the place after the last of them: all before are added up

// Words of different tiles are looked at at once, so that a tile that has to look far back waits
// less.
#define WINDOW 8u

DEVICE void publish(INOUT(Status) status, u64 at, u32 flag, u32 count) {
    // One access, which carries all that is said: nothing has to be ordered with it.
    *(volatile Status*)&status[at] = (Status)flag << FLAG_SHIFT | count;
}

// Where the keys of a digit in this tile begin.
DEVICE u32 look_back(INOUT(Status) status, u32 tile, u32 digit) {
    u32 sum = 0, row = tile;   // rows from `row` on are added up
    for (;;) {
        Status word[WINDOW];
#pragma unroll
        for (u32 k = 0; k < WINDOW; ++k)
            word[k] = k < row ? *(volatile Status*)&status[(u64)(row - 1 - k) * DIGITS + digit] : Status(0);
        bool published = true;
#pragma unroll
        for (u32 k = 0; k < WINDOW; ++k) {
            u32 flag = (u32)(word[k] >> FLAG_SHIFT);
            published = published && flag != 0;
            if (published) {
                sum += (u32)(word[k] & (((Status)1 << FLAG_SHIFT) - 1));
                row -= 1;
                if (flag == SUMMED) return sum;
            }
        }
    }
}

// The sum of the values of the threads before; for the first 256 threads, called by all.
DEVICE u32 sum_before(u32 v, SHARED_POINTER(u32) scratch) {
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, sum = v;
#pragma unroll
    for (u32 step = 1; step < WARP; step <<= 1) {
        u32 other = __shfl_up_sync(ALL_LANES, sum, step);
        if (lane >= step) sum += other;
    }
    if (lane == WARP - 1) scratch[warp] = sum;
    __syncthreads();
#pragma unroll
    for (u32 w = 0; w < DIGITS / WARP; ++w)
        if (w < warp) sum += scratch[w];
    __syncthreads();
    return sum - v;
}

#ifdef VOXALIGN_EMULATION
#define TILE_BOUNDS TILE_THREADS
#else
// Two blocks on a multiprocessor: one computes while the other waits for memory.
#define TILE_BOUNDS TILE_THREADS, 2
#endif

// A pass. `status` is zero before; the block leaves zeros in `next_status`, for the next pass.
// Without `values` these are positions; without `sorted_values` keys are sorted alone.
KERNEL(sort_pass, TILE_BOUNDS, IN(Key) keys, IN(u32) values, OUT(Key) sorted_keys, OUT(u32) sorted_values,
       INOUT(Status) status, OUT(Status) next_status, INOUT(u32) ticket, IN(u32) bins, IN(u64) range,
       Order order, u32 shift, u32 n) {
    SHARED(u32, counts, WARPS * DIGITS);   // of each warp; then the slots where its digits begin
    SHARED(u32, target, DIGITS);           // of each digit: its place in the output less its slot
    SHARED(u32, scratch, 32);
    DYNAMIC_SHARED(Key, key_slots);        // keys sorted by digit, and after them values
    DYNAMIC_SHARED(u32, all_slots);
    SHARED_POINTER(u32) value_slots = all_slots + TILE * (sizeof(Key) / sizeof(u32));
    const u32 thread = threadIdx.x, lane = thread % WARP, warp = thread / WARP;

    // Tiles are numbered as blocks begin: those before are under way, so that waiting for them ends.
    if (thread == 0) scratch[0] = atomicAdd(&ticket[0], 1u);
    for (u32 i = thread; i < WARPS * DIGITS; i += TILE_THREADS) counts[i] = 0;
    __syncthreads();
    const u32 tile = scratch[0], first = tile * TILE;
    const u32 here = n - first < TILE ? n - first : TILE;
    // The first key of this thread, the next is a warp's width on; and how many positions there are
    // from it on in the tile. So all addresses are one and an offset that the compiler knows.
    const u32 mine = warp * (WARP * ITEMS) + lane, begin_mine = first + mine;
    const i32 left = (i32)here - (i32)mine;
    const Places p = places(range, order);
    __syncthreads();

    IN(Key) my_keys = keys + begin_mine;
    Key key[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        key[i] = (i32)(i * WARP) < left ? (Key)my_keys[i * WARP] : Key(0);
    }

    // Each warp counts its digits in the order of its keys. What is beyond the end of the input
    // gets the last digit, and so slots after those of all keys.
    u32 slot[ITEMS];   // with the digit in the upper half, until it is known
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        u32 digit = (i32)(i * WARP) < left ? digit_of(place(key[i], p), shift) : DIGITS - 1;
        u32 same = ALL_LANES;
#pragma unroll
        for (u32 bit = 0; bit < 8; ++bit) {
            bool set = digit >> bit & 1u;
            u32 vote = __ballot_sync(ALL_LANES, set);
            same &= set ? vote : ~vote;
        }
        u32 before = counts[warp * DIGITS + digit];
        u32 below = __popc(same & ((1u << lane) - 1u));
        __syncwarp();
        if (below == 0) counts[warp * DIGITS + digit] = before + __popc(same);
        __syncwarp();
        slot[i] = before + below | digit << 16;
    }
    __syncthreads();

    u32 total = 0;
    if (thread < DIGITS) {
#pragma unroll
        for (u32 w = 0; w < WARPS; ++w) {
            u32 count = counts[w * DIGITS + thread];
            counts[w * DIGITS + thread] = total;
            total += count;
        }
    }
    // Padding has slots, but no place in the output.
    const u32 kept = thread == DIGITS - 1 ? total - (TILE - here) : total;
    if (tile == 0) {
        u32 begin = sum_before(thread < DIGITS ? (u32)bins[thread] : 0u, scratch);
        if (thread < DIGITS) {
            publish(status, thread, SUMMED, begin + kept);
            target[thread] = begin;
        }
    } else if (thread < DIGITS) {
        publish(status, (u64)tile * DIGITS + thread, COUNTED, kept);
    }
    const u32 begin_slot = sum_before(total, scratch);
    if (thread < DIGITS) {
#pragma unroll
        for (u32 w = 0; w < WARPS; ++w) counts[w * DIGITS + thread] += begin_slot;
        if (next_status) next_status[(u64)tile * DIGITS + thread] = 0;
    }
    __syncthreads();

#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        slot[i] = (slot[i] & 0xffffu) + counts[warp * DIGITS + (slot[i] >> 16)];
        key_slots[slot[i]] = key[i];
    }
    if (sorted_values) {
        // One condition for both cases, and reads that the compiler must not move up: else it keeps
        // so much for later that registers do not suffice.
        IN(u32) my_values = values + begin_mine;
        u32 value[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; ++i)
            value[i] = values && (i32)(i * WARP) < left ? *(const volatile u32*)&my_values[i * WARP]
                                                        : begin_mine + i * WARP;
#pragma unroll
        for (u32 i = 0; i < ITEMS; ++i) value_slots[slot[i]] = value[i];
    }
    if (thread < DIGITS) {
        u32 begin = target[thread];
        if (tile > 0) {
            begin = look_back(status, tile, thread);
            publish(status, (u64)tile * DIGITS + thread, SUMMED, begin + kept);
        }
        target[thread] = begin - begin_slot;
    }
    __syncthreads();

    // Neighbours in the slots are neighbours in the output, but where a digit ends.
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        u32 at = thread + i * TILE_THREADS;
        Key k = key_slots[at];
        u32 to = target[digit_of(place(k, p), shift)] + at;
        if (at < here) {
            sorted_keys[to] = k;
            if (sorted_values) sorted_values[to] = value_slots[at];
        }
    }
}

// The number of the segment of a position: how many segments begin at it or before.
DEVICE u32 segment_of(IN(u32) starts, u32 segments, u32 position) {
    u32 low = 0, high = segments;
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        if (starts[middle] <= position) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Keys that sort by segment and within it by place.
KERNEL(compose, 256, IN(Key) keys, IN(u32) starts, OUT(u64) composed, IN(u64) range, Order order,
       u32 key_bits, u32 segments, u32 n) {
    Places p = places(range, order);
    u64 i = global_thread();
    if (i < n) composed[i] = (u64)segment_of(starts, segments, (u32)i) << key_bits | place(keys[i], p);
}

// The segments of positions.
KERNEL(segments_of, 256, IN(u32) positions, IN(u32) starts, OUT(u32) found, u32 segments, u32 n) {
    u64 i = global_thread();
    if (i < n) found[i] = segment_of(starts, segments, positions[i]);
}

// Keys, and values if there are any, at positions.
KERNEL(gather, 256, IN(Key) keys, IN(u32) values, IN(u32) positions, OUT(Key) sorted_keys,
       OUT(u32) sorted_values, u32 n) {
    u64 i = global_thread();
    if (i >= n) return;
    u32 from = positions[i];
    sorted_keys[i] = keys[from];
    sorted_values[i] = values ? (u32)values[from] : from;
}
