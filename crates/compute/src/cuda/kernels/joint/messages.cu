// Messages: samples whose moving pixels another rank has.
#include "joint.cuh"

#define NOBODY 0xffffffffu

// How the moving image is cut, which coordinates are here, and how messages lie in memory; `JointOwners` of joint/mod.rs.
struct JointOwners {
    u32 each[3], more[3], parts[3], here_low[3], here_high[3], own, ranks, most, room, structures;
};

DEVICE u32 owner_part(const JointOwners& o, int a, u32 at) {
    const u32 of_larger = o.more[a] * (o.each[a] + 1);
    return at < of_larger ? at / (o.each[a] + 1) : o.more[a] + (at - of_larger) / max(o.each[a], 1u);
}

// A list of messages: its address where another GPU has it, and else 0; the first of them, how many there is room for, how many they are, and whether
// they are structures.
struct JointList { u64 far, first, room, n, structures; };

// The rank that a pixel of the part has to be sent to, if any.
DEVICE u32 receiver(const JointMap& map, const JointBins& bins, const JointPart& part, IN(u8) fixed,
                    const JointOwners& o, u32 x, u32 y, u32 z, u32& bin, Sample& s) {
    const u64 row = (u64)part.block[1] * (part.shift[2] + z) + part.shift[1] + y;
    bin = fixed[row * part.block[0] + part.shift[0] + x];
    if (bin == NO_SAMPLE) return NOBODY;
    i64 c[3];
    exact(map, part.origin[0] + x, part.origin[1] + y, part.origin[2] + z, c);
    if (!sample_of(bins, c, s) || is_within(o.here_low, o.here_high, s)) return NOBODY;
    u32 p[3];
    for (int a = 0; a < 3; ++a) p[a] = owner_part(o, a, cell_of(s.q[a], bins.moving[a]));
    const u32 owner = p[0] + o.parts[0] * (p[1] + o.parts[1] * p[2]);
    return owner == o.own ? NOBODY : owner;
}

// The same of pixel `i`.
DEVICE u32 receiver_of(const JointMap& map, const JointBins& bins, const JointPart& part, IN(u8) fixed,
                       const JointOwners& o, u64 i, u32& bin, Sample& s) {
    const u32 x = (u32)(i % part.dims[0]), y = (u32)(i / part.dims[0] % part.dims[1]),
              z = (u32)(i / ((u64)part.dims[0] * part.dims[1]));
    return receiver(map, bins, part, fixed, o, x, y, z, bin, s);
}

// The place of this lane's message in the list of its receiver: one addition for all lanes with the same. All lanes of a warp come here.
template <class Lengths>
DEVICE u32 place_in_list(u32 owner, Lengths lengths, u64 first) {
    const u32 lane = threadIdx.x & (WARP - 1);
    const u32 same = __match_any_sync(ALL_LANES, owner);
    const u32 leader = (u32)__ffs((int)same) - 1;
    u32 base = 0;
    if (lane == leader && owner != NOBODY) base = atomicAdd(&lengths[first + owner], (u32)__popc(same));
    base = __shfl_sync(ALL_LANES, base, (int)leader);
    return base + (u32)__popc(same & ((1u << lane) - 1));
}

DEVICE void write_message(const JointOwners& o, u64 at, u32 bin, const u32* q, INOUT(u32) words, INOUT(u8) bytes) {
    if (o.structures) {
        words[(1 + AXES) * at] = bin;
        for (u32 a = 0; a < AXES; ++a) words[(1 + AXES) * at + 1 + a] = q[a];
    } else {
        bytes[at] = (u8)bin;
        for (u32 a = 0; a < AXES; ++a) words[(o.room + 3) / 4 + (u64)a * o.room + at] = q[a];
    }
}

KERNEL(joint_clear, 256, INOUT(u32) numbers, u64 first, u64 n) {
    const u64 i = global_thread();
    if (i < n) numbers[first + i] = 0;
}

// Receivers whose messages are counted in shared memory first, and the pixels of a thread.
#define FEW 64
#define EACH 4

// Every message goes to the end of the list of its receiver: one addition for each block of 32 x 32 pixels, where receivers are few. Warps have 8 x 4 pixels
// at a time, so that those who count their messages read moving pixels that are near each other.
KERNEL(joint_send, 256, JointMap map, JointBins bins, JointPart part, IN(u8) fixed, JointOwners owners,
       INOUT(u32) words, INOUT(u8) bytes, INOUT(u32) counts) {
    SHARED(u32, lengths, FEW);
    SHARED(u32, starts, FEW);
    const bool few = owners.ranks <= FEW;
    const u32 lane = threadIdx.x & (WARP - 1), warp = threadIdx.x / WARP;
    const u32 own_x = lane % 8 + warp % 4 * 8, own_y = lane / 8 + warp / 4 * 4;
    const u32 across = (part.dims[0] + 31) / 32, down = (part.dims[1] + 31) / 32;
    const u64 boxes = (u64)across * down * part.dims[2];
    for (u64 box = blockIdx.x; box < boxes; box += gridDim.x) {
        if (threadIdx.x < FEW) lengths[threadIdx.x] = 0;
        __syncthreads();
        const u32 z = (u32)(box / ((u64)across * down)), rest = (u32)(box % ((u64)across * down));
        const u32 x = rest % across * 32 + own_x, first_y = rest / across * 32 + own_y;
        u32 bin[EACH], owner[EACH], place[EACH];
        Sample s[EACH];
#pragma unroll
        for (u32 k = 0; k < EACH; ++k) {
            const u32 y = first_y + 8 * k;
            owner[k] = NOBODY;
            if (x < part.dims[0] && y < part.dims[1])
                owner[k] = receiver(map, bins, part, fixed, owners, x, y, z, bin[k], s[k]);
            place[k] = few ? place_in_list<SHARED_POINTER(u32)>(owner[k], lengths, 0) : place_in_list(owner[k], counts, 0);
        }
        __syncthreads();
        if (few && threadIdx.x < owners.ranks && lengths[threadIdx.x])
            starts[threadIdx.x] = atomicAdd(&counts[threadIdx.x], lengths[threadIdx.x]);
        __syncthreads();
#pragma unroll
        for (u32 k = 0; k < EACH; ++k) {
            if (owner[k] == NOBODY) continue;
            const u32 at = place[k] + (few ? starts[owner[k]] : 0u);
            write_message(owners, (u64)owner[k] * owners.most + at, bin[k], s[k].q, words, bytes);
        }
    }
}

// Every pixel has a slot of its own: receiver and bin, and its coordinates.
KERNEL(joint_fill_slots, 256, JointMap map, JointBins bins, JointPart part, IN(u8) fixed, JointOwners owners,
       INOUT(u32) slots, INOUT(u32) counts) {
    const u64 total = (u64)part.dims[0] * part.dims[1] * part.dims[2];
    const u32 lane = threadIdx.x & (WARP - 1);
    for (u64 first = global_thread() - lane; first < total; first += global_threads()) {
        const u64 i = first + lane;
        u32 bin = 0, owner = NOBODY;
        Sample s = {{0, 0, 0}};
        if (i < total) owner = receiver_of(map, bins, part, fixed, owners, i, bin, s);
        place_in_list(owner, counts, 0);
        if (i >= total) continue;
        slots[i] = owner == NOBODY ? NOBODY : owner << 8 | bin;
        if (owner != NOBODY)
            for (u32 a = 0; a < AXES; ++a) slots[(u64)(1 + a) * owners.most + i] = s.q[a];
    }
}

// Brings the messages in the slots together, list after list; nothing is to be done where none was sent. The lengths of lists so far follow the slots.
KERNEL(joint_compact, 256, JointOwners owners, u64 total, INOUT(u32) slots, IN(u32) counts, INOUT(u32) words,
       INOUT(u8) bytes) {
    bool sent = false;
    for (u32 r = 0; r < owners.ranks; ++r) sent = sent || counts[r] != 0;
    if (!sent) return;
    const u32 lane = threadIdx.x & (WARP - 1);
    for (u64 first = global_thread() - lane; first < total; first += global_threads()) {
        const u64 i = first + lane;
        const u32 slot = i < total ? slots[i] : NOBODY, owner = slot == NOBODY ? NOBODY : slot >> 8;
        const u32 place = place_in_list(owner, slots, (u64)(1 + AXES) * owners.most);
        if (owner == NOBODY) continue;
        u64 start = 0;
        for (u32 r = 0; r < owner; ++r) start += counts[r];
        u32 q[AXES];
        for (u32 a = 0; a < AXES; ++a) q[a] = slots[(u64)(1 + a) * owners.most + i];
        write_message(owners, start + place, slot & 255, q, words, bytes);
    }
}

// Messages that are read in a buffer of this device, which the emulation checks, or where another one has them.
struct Letters {
    const JointList& list;
    IN(u32) words;
    IN(u8) bytes;

    MEMBER u32 word(u64 i) const {
        if (list.far) return reinterpret_cast<const u32*>(list.far)[i];
        return words[i];
    }
    MEMBER u32 byte(u64 i) const {
        if (list.far) return reinterpret_cast<const u8*>(list.far)[i];
        return bytes[i];
    }

    // Reads a message; false where its cell is not in the brick.
    MEMBER bool read(const JointBrick& brick, u64 k, u32& bin, Sample& s) const {
        const u64 i = list.first + k;
        s.q[2] = 0;
        if (list.structures) {
            bin = word((1 + AXES) * i);
            for (u32 a = 0; a < AXES; ++a) s.q[a] = word((1 + AXES) * i + 1 + a);
        } else {
            bin = byte(i);
            for (u32 a = 0; a < AXES; ++a) s.q[a] = word((list.room + 3) / 4 + a * list.room + i);
        }
        return bin < NO_SAMPLE && is_within(brick.low, brick.high, s);
    }
};

KERNEL(joint_receive_counts, 512, JointBins bins, JointBrick brick, IN(Pixel) own, JointList list, IN(u32) words,
       IN(u8) bytes, u32 most, u32 copies, INOUT(u64) out) {
    DYNAMIC_SHARED(u32, tables);
    SHARED(i32, window, 1024);
    clear_tables(copies * bins.entries, tables);
    if (CUBIC) make_window(false, window);
    __syncthreads();
    const u32 copy = copies ? threadIdx.x / WARP % copies : 0;
    const Bricks bricks = {brick, nullptr, 1, own};
    const Letters letters = {list, words, bytes};
    u64 samples = 0;
    u32 since = 0;
    for (u64 first = (u64)blockIdx.x * blockDim.x; first < list.n; first += global_threads()) {
        if (since && since + blockDim.x > most) {
            flush_counts(bins, copies, tables, out);
            since = 0;
        }
        since += blockDim.x;
        u32 bin;
        Sample s;
        const u64 i = first + threadIdx.x;
        if (i >= list.n || !letters.read(brick, i, bin, s)) continue;
        Corners corners;
        find_corners(bins, bricks, s, corners);
        bool inside;
        add_count(bins, bin, place_of(bins, corners, inside), window, tables + copy * bins.entries, out, copies != 0);
        samples += 1;
    }
    flush_counts(bins, copies, tables, out);
    flush_tallies(samples, 0, out, bins.entries);
}

KERNEL(joint_receive_slopes, 256, JointBins bins, JointBrick brick, IN(Pixel) own, JointList list, IN(u32) words,
       IN(u8) bytes, u32 most, IN(i32) slopes, INOUT(u64) out) {
    SHARED(i32, window, 1024);
    make_window(true, window);
    __syncthreads();
    i64 sums[OWN_SUMS];
    for (int k = 0; k < OWN_SUMS; ++k) sums[k] = 0;
    const Bricks bricks = {brick, nullptr, 1, own};
    const Letters letters = {list, words, bytes};
    u64 samples = 0;
    u32 since = 0;
    for (u64 first = (u64)blockIdx.x * blockDim.x; first < list.n; first += global_threads()) {
        if (since && since + blockDim.x > most) {
            flush_slopes(sums, out);
            since = 0;
        }
        since += blockDim.x;
        u32 bin;
        Sample s;
        const u64 i = first + threadIdx.x;
        if (i >= list.n || !letters.read(brick, i, bin, s)) continue;
        Corners corners;
        find_corners(bins, bricks, s, corners);
        add_slope(bins, corners, s, bin, slopes, window, sums);
        samples += 1;
    }
    flush_slopes(sums, out);
    flush_tallies(samples, 0, out, 2 * NUMBERS);
}
