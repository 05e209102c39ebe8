// Samples of joint histograms in whole numbers. WIDE: pixels have 16 bits; AXES: 2 or 3 that are interpolated
// along; CUBIC: the window over moving bins. All of it is told in ops/joint/mod.rs.
#pragma once
#include "prelude.cuh"

#ifndef WIDE
#define WIDE 0
#endif
#ifndef AXES
#define AXES 2
#endif
#ifndef CUBIC
#define CUBIC 1
#endif

#define MEMBER __device__ __forceinline__
#define NO_SAMPLE 255u
#define CUT 24
#define HALF (1ll << 23)
#define LOW_BITS 14
#define NUMBERS 21
#define MOST_SLOPE (1 << 22)

#if WIDE
typedef u16 Pixel;
#else
typedef u8 Pixel;
#endif

// `JointMap` and the others of joint/mod.rs.
struct JointMap { i64 matrix[9], offset[3]; };
struct JointBins {
    u32 moving[3], low, high, cut, factor, last, columns, entries, slope_cut;
};
// The fixed block, and the part of it: where it begins in the block and in the image, and its sizes.
struct JointPart { u32 block[3], shift[3], origin[3], dims[3]; };
// A block of moving pixels, and the coordinates that it answers for.
struct JointBrick { u64 pixels, row, plane; u32 origin[3], low[3], high[3], padding; };

// How threads share the pixels of a tile, of the fixed image: the lanes of a warp and the warps of a block along x, the pixels of a tile, from a thread to
// the next, from a pixel of a thread to its next, and the pixels of a thread; `Walk` of ops/joint/walk.rs. Before that, what exact coordinates change by from
// a pixel of a thread to its next along x, and the tiles of a part, and those along x and y.
struct JointWalk { i64 step[3]; u64 tiles; u32 across, down, lanes, warps, tile[2], apart[2], next[2], sides[2]; };

struct Sample { u32 q[3]; };

// The exact coordinates of a fixed pixel, with half of the last bit that is kept.
DEVICE void exact(const JointMap& map, u32 x, u32 y, u32 z, i64* c) {
#pragma unroll
    for (int r = 0; r < 3; ++r)
        c[r] = map.matrix[3 * r] * (i64)x + map.matrix[3 * r + 1] * (i64)y + map.matrix[3 * r + 2] * (i64)z +
               map.offset[r] + HALF;
}

// Whether a pixel with these coordinates is a sample, and which.
DEVICE bool sample_of(const JointBins& bins, const i64* c, Sample& s) {
    bool inside = true;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
        const i64 q = c[a] >> CUT;
        inside = inside && q >= 0 && q <= (i64)256 * (i64)(bins.moving[a] - 1);
        s.q[a] = (u32)q;
    }
    return inside;
}

DEVICE bool is_within(const u32* low, const u32* high, const Sample& s) {
    return s.q[0] >= low[0] && s.q[0] < high[0] && s.q[1] >= low[1] && s.q[1] < high[1] && s.q[2] >= low[2] &&
           s.q[2] < high[2];
}

DEVICE u32 cell_of(u32 q, u32 n) { return n > 1 ? min(q >> 8, n - 2) : 0u; }

// Where pixels are read: in a buffer of this device, which the emulation checks, or anywhere.
struct Here {
    IN(Pixel) pixels;
    MEMBER u32 at(u64 i) const { return pixels[i]; }
};
struct There {
    const Pixel* pixels;
    MEMBER u32 at(u64 i) const { return pixels[i]; }
};

struct Corners { u32 v[1 << AXES], w[3]; };

template <class Source>
DEVICE void read_corners(const JointBins& bins, const JointBrick& brick, const Source& source, const Sample& s,
                         Corners& c) {
    u32 cell[AXES];
    u64 next[3] = {1, brick.row, brick.plane};
#pragma unroll
    for (int a = 0; a < AXES; ++a) {
        const u32 m = cell_of(s.q[a], bins.moving[a]);
        c.w[a] = s.q[a] - (m << 8);
        cell[a] = m - brick.origin[a];
        if (bins.moving[a] == 1) next[a] = 0;
    }
    u64 first = cell[0] + (u64)(u32)brick.row * cell[1];
#if AXES == 3
    first += brick.plane * cell[2];
#endif
#pragma unroll
    for (u32 k = 0; k < 1u << AXES; ++k) {
        u64 at = first;
        if (k & 1) at += next[0];
        if (k & 2) at += next[1];
#if AXES == 3
        if (k & 4) at += next[2];
#endif
        c.v[k] = source.at(at);
    }
}

// The place of the interpolated value among the moving bins, and whether it is within their range.
DEVICE u32 place_of(const JointBins& bins, const Corners& c, bool& inside) {
    const u32 ux = c.w[0], uy = c.w[1], lx = 256 - ux, ly = 256 - uy;
    const u32 near = (c.v[0] * lx + c.v[1] * ux) * ly + (c.v[2] * lx + c.v[3] * ux) * uy;
#if AXES == 3
    const u32 far = (c.v[4] * lx + c.v[5] * ux) * ly + (c.v[6] * lx + c.v[7] * ux) * uy;
    const u32 uz = c.w[2], lz = 256 - uz;
#if WIDE
    const u32 value = (u32)(((u64)near * lz + (u64)far * uz) >> bins.cut);
#else
    const u32 value = (near * lz + far * uz) >> bins.cut;
#endif
#else
    const u32 value = near >> bins.cut;
#endif
    inside = bins.low <= value && value <= bins.high;
    const u32 t = min(max(value, bins.low), bins.high) - bins.low;
    return min(t * bins.factor >> 16, bins.last);
}

// The difference of the two faces of a cell across each axis.
DEVICE void differences(const Corners& c, i64* d) {
    i64 v[1 << AXES];
    for (int k = 0; k < 1 << AXES; ++k) v[k] = c.v[k];
    const i64 ux = c.w[0], uy = c.w[1], lx = 256 - ux, ly = 256 - uy;
#if AXES == 3
    const i64 uz = c.w[2], lz = 256 - uz;
    const i64 x0 = (v[1] - v[0]) * ly + (v[3] - v[2]) * uy, x1 = (v[5] - v[4]) * ly + (v[7] - v[6]) * uy;
    const i64 y0 = v[2] * lx + v[3] * ux - v[0] * lx - v[1] * ux;
    const i64 y1 = v[6] * lx + v[7] * ux - v[4] * lx - v[5] * ux;
    d[0] = x0 * lz + x1 * uz;
    d[1] = y0 * lz + y1 * uz;
    d[2] = (v[4] * lx + v[5] * ux) * ly + (v[6] * lx + v[7] * ux) * uy - (v[0] * lx + v[1] * ux) * ly -
           (v[2] * lx + v[3] * ux) * uy;
#else
    d[0] = (v[1] - v[0]) * ly + (v[3] - v[2]) * uy;
    d[1] = v[2] * lx + v[3] * ux - v[0] * lx - v[1] * ux;
#endif
}

// A fraction times 4096, rounded to nearest.
DEVICE i32 scaled(i64 numerator, i64 denominator) {
    const i64 n = 2 * numerator * 4096 + denominator, d = 2 * denominator;
    i64 q = n / d;
    if (n % d < 0) q -= 1;
    return (i32)q;
}

// The weights of the window at place `i` of 256, or their derivatives: as `window_tables` of ops/joint/bins.rs.
DEVICE void window_row(u32 i, bool derivatives, SHARED_POINTER(i32) row) {
    const i64 t = i, s = 256 - t, cube = 256ll * 256 * 256;
    i32 w[4];
    if (derivatives) {
        const i64 all = 2 * 256 * 256;
        w[0] = scaled(-s * s, all);
        w[1] = scaled(3 * t * t - 1024 * t, all);
        w[2] = scaled(1024 * s - 3 * s * s, all);
        w[3] = scaled(t * t, all);
    } else {
        w[0] = scaled(s * s * s, 6 * cube);
        w[1] = scaled(4 * cube - 1536 * t * t + 3 * t * t * t, 6 * cube);
        w[2] = scaled(4 * cube - 1536 * s * s + 3 * s * s * s, 6 * cube);
        w[3] = scaled(t * t * t, 6 * cube);
    }
    int largest = 0;
    for (int k = 1; k < 4; ++k)
        if (abs(w[k]) > abs(w[largest])) largest = k;
    w[largest] += (derivatives ? 0 : 4096) - (w[0] + w[1] + w[2] + w[3]);
    for (int k = 0; k < 4; ++k) row[k] = w[k];
}

// The table of the window in shared memory; a barrier has to follow.
DEVICE void make_window(bool derivatives, SHARED_POINTER(i32) window) {
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x) window_row(i, derivatives, window + 4 * i);
}

// The first brick, which most samples are in, and the others.
struct Bricks {
    const JointBrick& first;
    IN(JointBrick) all;
    u32 count;
    // The pixels of the first, where they are in a buffer of this device.
    IN(Pixel) own;
};

// Finds the first brick that has a sample, and reads the corners of its cell; the number of bricks where none has it.
DEVICE u32 find_corners(const JointBins& bins, const Bricks& bricks, const Sample& s, Corners& corners) {
    if (is_within(bricks.first.low, bricks.first.high, s)) {
        if (bricks.own != nullptr) {
            const Here here = {bricks.own};
            read_corners(bins, bricks.first, here, s, corners);
        } else {
            const There there = {reinterpret_cast<const Pixel*>(bricks.first.pixels)};
            read_corners(bins, bricks.first, there, s, corners);
        }
        return 0;
    }
    for (u32 b = 1; b < bricks.count; ++b) {
        const JointBrick brick = bricks.all[b];
        if (!is_within(brick.low, brick.high, s)) continue;
        const There there = {reinterpret_cast<const Pixel*>(brick.pixels)};
        read_corners(bins, brick, there, s, corners);
        return b;
    }
    return bricks.count;
}

// Adds a sample to a table of counts: one of `copies` in shared memory, or that of all.
DEVICE void add_count(const JointBins& bins, u32 bin, u32 place, SHARED_POINTER(i32) window,
                      SHARED_POINTER(u32) table, INOUT(u64) out, bool here) {
    const u32 at = bin * bins.columns + (place >> 8);
    if (at + (CUBIC ? 4 : 1) > bins.entries) return;
#if CUBIC
    const u32 row = 4 * (place & 255);
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
        const u32 weight = (u32)window[row + k];
        if (here) atomicAdd(&table[at + k], weight);
        else atomicAdd(&out[at + k], (u64)weight);
    }
#else
    if (here) atomicAdd(&table[at], 1u);
    else atomicAdd(&out[at], (u64)1);
#endif
}

// Adds the tables of a block to that of all, and clears them. All threads come here.
DEVICE void flush_counts(const JointBins& bins, u32 copies, SHARED_POINTER(u32) tables, INOUT(u64) out) {
    __syncthreads();
    for (u32 i = threadIdx.x; i < bins.entries; i += blockDim.x) {
        u64 sum = 0;
        for (u32 k = 0; k < copies; ++k) {
            sum += tables[k * bins.entries + i];
            tables[k * bins.entries + i] = 0;
        }
        if (sum) atomicAdd(&out[i], sum);
    }
    __syncthreads();
}

// Adds the slopes of a sample to the sums of this thread.
DEVICE void add_slope(const JointBins& bins, const Corners& corners, const Sample& s, u32 bin, IN(i32) slopes,
                      SHARED_POINTER(i32) window, i64* sums) {
    bool inside;
    const u32 place = place_of(bins, corners, inside), at = bin * bins.columns + (place >> 8);
    if (!inside || at + 4 > bins.entries) return;
    i64 sum = 1 << 11;
    const u32 row = 4 * (place & 255);
#pragma unroll
    for (u32 k = 0; k < 4; ++k)
        sum += (i64)window[row + k] * (i64)max(-MOST_SLOPE, min(MOST_SLOPE, (i32)slopes[at + k]));
    const i64 slope = sum >> 12;
    i64 d[AXES];
    differences(corners, d);
#pragma unroll
    for (int r = 0; r < AXES; ++r) {
        const i64 h = (slope * d[r] + (1ll << (bins.slope_cut - 1))) >> bins.slope_cut;
        sums[r] += h;
#pragma unroll
        for (int e = 0; e < AXES; ++e) {
            sums[AXES + AXES * r + e] += h * (i64)(s.q[e] & ((1u << LOW_BITS) - 1));
            sums[AXES + AXES * (AXES + r) + e] += h * (i64)(s.q[e] >> LOW_BITS);
        }
    }
}

#define OWN_SUMS (AXES + 2 * AXES * AXES)

// Adds the sums of the threads of a warp to those of all, split into numbers of 32 bits, and clears them.
DEVICE void flush_slopes(i64* sums, INOUT(u64) out) {
#pragma unroll
    for (int k = 0; k < OWN_SUMS; ++k) {
        const i64 sum = warp_sum(sums[k]);
        sums[k] = 0;
        // The place among those of three axes.
        int number = k;
        if (k >= AXES) {
            const int place = k - AXES, upper = place / (AXES * AXES), rest = place % (AXES * AXES);
            number = 3 + 9 * upper + 3 * (rest / AXES) + rest % AXES;
        }
        if ((threadIdx.x & (WARP - 1)) == 0 && sum != 0) {
            atomicAdd(&out[2 * number], (u64)(sum & 0xffffffffll));
            atomicAdd(&out[2 * number + 1], (u64)(sum >> 32));
        }
    }
}

// Adds numbers of samples to the last two of all. All lanes of a warp come here.
DEVICE void flush_tallies(u64 samples, u64 elsewhere, INOUT(u64) out, u32 first) {
    samples = warp_sum(samples);
    elsewhere = warp_sum(elsewhere);
    if ((threadIdx.x & (WARP - 1)) == 0) {
        if (samples) atomicAdd(&out[first], samples);
        if (elsewhere) atomicAdd(&out[first + 1], elsewhere);
    }
}

// The tables in shared memory, all zero, one of which is that of this warp. A barrier has to follow.
DEVICE void clear_tables(u32 numbers, SHARED_POINTER(u32) tables) {
    for (u32 i = threadIdx.x; i < numbers; i += blockDim.x) tables[i] = 0;
}
