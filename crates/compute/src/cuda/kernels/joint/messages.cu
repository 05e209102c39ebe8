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

// The rank that a pixel of the part has to be sent to, if any.
DEVICE u32 receiver(const JointMap& map, const JointBins& bins, const JointPart& part, IN(u8) fixed,
                    const JointOwners& o, u64 i, u32& bin, Sample& s) {
    const u32 x = (u32)(i % part.dims[0]), y = (u32)(i / part.dims[0] % part.dims[1]),
              z = (u32)(i / ((u64)part.dims[0] * part.dims[1]));
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

// The place of this lane's message in the list of its receiver: one addition for all lanes with the same. All lanes of a warp come here.
DEVICE u32 place_in_list(u32 owner, INOUT(u32) lengths, u64 first) {
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

// Every message goes to the end of the list of its receiver.
KERNEL(joint_send, 256, JointMap map, JointBins bins, JointPart part, IN(u8) fixed, JointOwners owners,
       INOUT(u32) words, INOUT(u8) bytes, INOUT(u32) counts) {
    const u64 total = (u64)part.dims[0] * part.dims[1] * part.dims[2];
    const u32 lane = threadIdx.x & (WARP - 1);
    for (u64 first = global_thread() - lane; first < total; first += global_threads()) {
        u32 bin = 0, owner = NOBODY;
        Sample s = {{0, 0, 0}};
        if (first + lane < total) owner = receiver(map, bins, part, fixed, owners, first + lane, bin, s);
        const u32 place = place_in_list(owner, counts, 0);
        if (owner != NOBODY) write_message(owners, (u64)owner * owners.most + place, bin, s.q, words, bytes);
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
        if (i < total) owner = receiver(map, bins, part, fixed, owners, i, bin, s);
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

// Reads a message of a list of `n`; false where its cell is not in the brick.
DEVICE bool read_message(const JointBrick& brick, u32 structures, IN(u32) words, IN(u8) bytes, u64 n, u64 i, u32& bin,
                         Sample& s) {
    s.q[2] = 0;
    if (structures) {
        bin = words[(1 + AXES) * i];
        for (u32 a = 0; a < AXES; ++a) s.q[a] = words[(1 + AXES) * i + 1 + a];
    } else {
        bin = bytes[i];
        for (u32 a = 0; a < AXES; ++a) s.q[a] = words[(n + 3) / 4 + a * n + i];
    }
    return bin < NO_SAMPLE && is_within(brick.low, brick.high, s);
}

KERNEL(joint_receive_counts, 512, JointBins bins, JointBrick brick, IN(Pixel) own, u32 structures, IN(u32) words,
       IN(u8) bytes, u64 n, u32 most, u32 copies, INOUT(u64) out) {
    DYNAMIC_SHARED(u32, tables);
    SHARED(i32, window, 1024);
    clear_tables(copies * bins.entries, tables);
    if (CUBIC) make_window(false, window);
    __syncthreads();
    const u32 copy = copies ? threadIdx.x / WARP % copies : 0;
    const Bricks bricks = {brick, nullptr, 1, own};
    u64 samples = 0;
    u32 since = 0;
    for (u64 first = (u64)blockIdx.x * blockDim.x; first < n; first += global_threads()) {
        if (since && since + blockDim.x > most) {
            flush_counts(bins, copies, tables, out);
            since = 0;
        }
        since += blockDim.x;
        u32 bin;
        Sample s;
        const u64 i = first + threadIdx.x;
        if (i >= n || !read_message(brick, structures, words, bytes, n, i, bin, s)) continue;
        Corners corners;
        find_corners(bins, bricks, s, corners);
        bool inside;
        add_count(bins, bin, place_of(bins, corners, inside), window, tables + copy * bins.entries, out, copies != 0);
        samples += 1;
    }
    flush_counts(bins, copies, tables, out);
    flush_tallies(samples, 0, out, bins.entries);
}

KERNEL(joint_receive_slopes, 256, JointBins bins, JointBrick brick, IN(Pixel) own, u32 structures, IN(u32) words,
       IN(u8) bytes, u64 n, u32 most, IN(i32) slopes, INOUT(u64) out) {
    SHARED(i32, window, 1024);
    make_window(true, window);
    __syncthreads();
    i64 sums[OWN_SUMS];
    for (int k = 0; k < OWN_SUMS; ++k) sums[k] = 0;
    const Bricks bricks = {brick, nullptr, 1, own};
    u64 samples = 0;
    u32 since = 0;
    for (u64 first = (u64)blockIdx.x * blockDim.x; first < n; first += global_threads()) {
        if (since && since + blockDim.x > most) {
            flush_slopes(sums, out);
            since = 0;
        }
        since += blockDim.x;
        u32 bin;
        Sample s;
        const u64 i = first + threadIdx.x;
        if (i >= n || !read_message(brick, structures, words, bytes, n, i, bin, s)) continue;
        Corners corners;
        find_corners(bins, bricks, s, corners);
        add_slope(bins, corners, s, bin, slopes, window, sums);
        samples += 1;
    }
    flush_slopes(sums, out);
    flush_tallies(samples, 0, out, 2 * NUMBERS);
}
