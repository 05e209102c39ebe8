// Sampling the moving image at mapped samples of the fixed image: the device code that all schemes
// of binned sums and joint histograms share. The mathematics is that of ops/histogram.
//
// The samples of a tile (a box of at most 2^14 voxels) are sorted by bin. The bins that occur in the
// tile are numbered from 0, lowest bin first: a bin's rank. A sample is one word,
//
//   rank << Tiling.bits | z << (bx + by) | y << bx | x
//
// with x, y, z its index within the tile. Thread t of THREADS takes the samples t each .. (t + 1)
// each - 1 of the tile's order, where each = samples_each(samples of the tile): sample t each + k lies
// at tile_first(tiling, tile) + k THREADS + t, so that a warp reads whole lines.
#pragma once
#include "mask.cuh"

// Threads that share a tile.
#define THREADS 512u

// Blocks that should fit on a multiprocessor at once, for the compiler's choice of registers.
#ifdef VOXALIGN_EMULATION
#define PER_SM(threads, blocks) threads
#else
#define PER_SM(threads, blocks) threads, blocks
#endif

// How the fixed image is cut into tiles; `Tiling` of group.rs.
struct Tiling {
    u32 size[3];      // of the image, voxels
    u32 tiles[3];     // along each axis
    u32 axis_bits[3]; // a tile has 2^axis_bits voxels along each axis
    u32 bits;         // their sum
    u32 capacity;     // bins that a tile has room for
};

// The moving image without its voxels; `MovingShape` of sampler.rs.
struct MovingShape {
    float last[3];      // largest index along each axis; 0 for a flat z axis
    float slope[3];     // border ramps: min(1, distance * slope + offset)
    float offset[3];
    i32 cell[3];        // largest index of the lower corner of a cell
    i32 row, slice;     // steps in memory; slice is 0 for a flat z axis
    u32 flat;           // whether the z axis is flat
};

// Twelve numbers of an affine map, row by row, passed by value where there is only one map.
struct OneMap { double m[12]; };

DEVICE u32 tile_count(const Tiling& t) { return t.tiles[0] * t.tiles[1] * t.tiles[2]; }

DEVICE u64 tile_first(const Tiling& t, u32 tile) { return (u64)tile << t.bits; }

// Index of a tile's first voxel along an axis.
DEVICE u32 tile_origin(const Tiling& t, u32 tile, u32 axis) {
    u32 at = axis == 0 ? tile % t.tiles[0]
           : axis == 1 ? tile / t.tiles[0] % t.tiles[1]
                       : tile / (t.tiles[0] * t.tiles[1]);
    return at << t.axis_bits[axis];
}

// The voxel of an index within a tile, or whether there is none.
DEVICE bool voxel_of(const Tiling& t, const u32 (&origin)[3], u32 local, u64& voxel) {
    u32 at[3];
    bool within = true;
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        at[a] = origin[a] + (local & ((1u << t.axis_bits[a]) - 1));
        within = within && at[a] < t.size[a];
        local >>= t.axis_bits[a];
    }
    voxel = ((u64)at[2] * t.size[1] + at[1]) * t.size[0] + at[0];
    return within;
}

// Samples that each thread takes of a tile of `len`.
DEVICE u32 samples_each(u32 len) { return (len + THREADS - 1) / THREADS; }

// A whole number below 2^23 as a float; cheaper than a conversion.
DEVICE float small_float(u32 v) { return __uint_as_float(0x4b000000u | v) - 8388608.0f; }

// The index of a sample within its tile.
DEVICE void unpack(const Tiling& t, u32 packed, float (&local)[3]) {
    u32 rest = packed;
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        local[a] = small_float(rest & ((1u << t.axis_bits[a]) - 1));
        rest >>= t.axis_bits[a];
    }
}

// One map as the samples of one tile see it.
struct Frame {
    float linear[9];
    float base[3];  // the image of the tile's first voxel
    i32 low[3];     // the box of moving voxels that cells of the tile's samples can have as corners
    i32 size[3];
    bool outside;   // no sample of the tile is within the moving image
    bool inner;     // all are, and none of them on a border ramp
};

// How the corners of cells lie in memory: corner (i, j, k) at i + row j + slice k - first.
struct Cells {
    i32 row, slice, first;
};

DEVICE Frame frame_of(const MovingShape& moving, const Tiling& tiling, u32 tile, IN(double) maps,
                      const OneMap& one, u32 map) {
    Frame f;
    f.outside = false;
    f.inner = true;
    double origin[3];
#pragma unroll
    for (u32 a = 0; a < 3; ++a) origin[a] = (double)tile_origin(tiling, tile, a);
#pragma unroll
    for (u32 r = 0; r < 3; ++r) {
        double m[4];
#pragma unroll
        for (u32 c = 0; c < 4; ++c) {
            m[c] = maps ? maps[12 * (u64)map + 4 * r + c] : one.m[4 * r + c];
            // A flat image has no third coordinate.
            if (r == 2 && moving.flat) m[c] = 0.0;
        }
        float base = (float)(m[0] * origin[0] + m[1] * origin[1] + m[2] * origin[2] + m[3]);
        float least = base, most = base, margin = fabsf(base);
#pragma unroll
        for (u32 c = 0; c < 3; ++c) {
            float a = (float)m[c];
            float reach = a * small_float((1u << tiling.axis_bits[c]) - 1);
            f.linear[3 * r + c] = a;
            least += fminf(reach, 0.0f);
            most += fmaxf(reach, 0.0f);
            margin += fabsf(reach);
        }
        // Positions are rounded; the box is not to be left by that.
        margin = 1e-3f + 1e-6f * margin;
        least -= margin;
        most += margin;
        f.base[r] = base;
        float cell = (float)moving.cell[r], last = moving.last[r];
        // Written so that what is not a number gives the whole image.
        f.low[r] = __float2int_rz(fminf(fmaxf(least, 0.0f), cell));
        f.size[r] = __float2int_rz(fmaxf(fminf(most, cell), 0.0f)) - f.low[r] + 2;
        bool flat = r == 2 && moving.flat;
        if (flat) f.size[r] = 1;
        f.outside = f.outside || most < 0.0f || least > last;
        // The ramp reaches 1 at this distance.
        float width = moving.slope[r] > 0.0f ? 1.0f / moving.slope[r] + 1e-3f : 0.0f;
        f.inner = f.inner && (flat || (least >= width && most <= last - width));
    }
    return f;
}

// The cells of the whole image, for a pointer to its first voxel.
DEVICE Cells cells_of_image(const MovingShape& moving) {
    return Cells{moving.row, moving.slice, 0};
}

// The cells of a box brought to shared memory by `stage`.
DEVICE Cells cells_of_box(const MovingShape& moving, const Frame& f) {
    // An odd step from row to row spreads the rows over the banks.
    i32 row = f.size[0] | 1;
    i32 slice = moving.flat ? 0 : row * f.size[1];
    return Cells{row, slice, f.low[0] + f.low[1] * row + f.low[2] * slice};
}

// Whether the box has room in so many floats.
DEVICE bool box_fits(const Frame& f, u32 room) {
    u64 floats = (u64)(f.size[0] | 1) * (u64)f.size[1] * (u64)f.size[2];
    return floats <= room;
}

// Brings the box of moving voxels to shared memory, by all threads of the block; a barrier has to
// follow. A thread keeps to its column of the box and goes through rows, several loads ahead.
template <class P>
DEVICE void stage(const MovingShape& moving, const Frame& f, IN(float) values, P box) {
    const u32 ahead = 8;
    u32 rank = thread_rank(), threads = block_threads();
    u32 width = (u32)f.size[0], height = (u32)f.size[1], rows = height * (u32)f.size[2];
    u32 row = width | 1, moving_row = (u32)moving.row;
    u32 to_next_slice = (u32)moving.slice - height * moving_row;
    u32 columns = width < threads ? width : threads;
    u32 groups = threads / columns, group = rank / columns;
    if (group >= groups) return;
    for (u32 x = rank - group * columns; x < width; x += columns) {
        u32 y = group % height, z = group / height;
        u32 from = (u32)f.low[0] + x + ((u32)f.low[1] + y) * moving_row +
                   ((u32)f.low[2] + z) * (u32)moving.slice;
        for (u32 r = group; r < rows; r += ahead * groups) {
            float v[ahead];
#pragma unroll
            for (u32 j = 0; j < ahead; ++j) {
                v[j] = r + j * groups < rows ? values[from] : 0.0f;
                y += groups;
                from += groups * moving_row;
                while (y >= height) {
                    y -= height;
                    from += to_next_slice;
                }
            }
#pragma unroll
            for (u32 j = 0; j < ahead; ++j)
                if (r + j * groups < rows) box[(r + j * groups) * row + x] = v[j];
        }
    }
}

// What is learnt of one sample.
struct Sampled {
    float w;      // weight, 0 if the sample does not count
    float y;      // value of the moving image
    float dy[3];  // its derivative along the moving axes
    float dw[3];  // that of the weight
};

// The value in a cell whose lower corner is element `at`, and its derivative.
template <bool GRAD, class P>
DEVICE float trilinear(P p, i32 at, i32 row, i32 slice, const float (&f)[3], float (&d)[3]) {
    float a0 = p[at], a1 = p[at + 1], b0 = p[at + row], b1 = p[at + row + 1];
    at += slice;
    float c0 = p[at], c1 = p[at + 1], d0 = p[at + row], d1 = p[at + row + 1];
    float da = a1 - a0, db = b1 - b0, dc = c1 - c0, dd = d1 - d0;
    float a = fmaf(f[0], da, a0), b = fmaf(f[0], db, b0);
    float c = fmaf(f[0], dc, c0), e = fmaf(f[0], dd, d0);
    float ab = b - a, ce = e - c;
    float low = fmaf(f[1], ab, a), high = fmaf(f[1], ce, c);
    if (GRAD) {
        float xl = fmaf(f[1], db - da, da), xh = fmaf(f[1], dd - dc, dc);
        d[0] = fmaf(f[2], xh - xl, xl);
        d[1] = fmaf(f[2], ce - ab, ab);
        d[2] = high - low;
    }
    return fmaf(f[2], high - low, low);
}

// Samples the moving image at the image of `local`. `values` with `cells` are the image or its box
// in shared memory; `mask` may be null. The weight is multiplied by `weight`. Without GRAD the
// derivatives are not set.
//
// PLAIN stands for an inner tile, no mask and no weights: every sample weighs 1, and the derivative of
// the weight is not set. Other samples take the same steps and more, so that it changes no bit.
template <bool GRAD, bool PLAIN, class P>
DEVICE Sampled sample(const MovingShape& moving, const Frame& frame, const Cells& cells, P values,
                      IN(float) mask, const float (&local)[3], float weight) {
    Sampled s;
    float q[3], f[3], d[3], ramp[3] = {1.0f, 1.0f, 1.0f};
    i32 i[3];
    bool inside = true;
    float w = 1.0f;
#pragma unroll
    for (u32 r = 0; r < 3; ++r) {
        float p = fmaf(frame.linear[3 * r], local[0],
                       fmaf(frame.linear[3 * r + 1], local[1],
                            fmaf(frame.linear[3 * r + 2], local[2], frame.base[r])));
        if (PLAIN) {
            i[r] = __float2int_rz(p);
            f[r] = p - (float)i[r];
            continue;
        }
        q[r] = fminf(fmaxf(p, 0.0f), moving.last[r]);
        inside = inside && q[r] == p;
        i32 n = __float2int_rz(q[r]);
        i[r] = n < moving.cell[r] ? n : moving.cell[r];
        f[r] = q[r] - (float)i[r];
    }
    if (!PLAIN && !frame.inner) {
#pragma unroll
        for (u32 r = 0; r < 3; ++r) {
            float distance = fminf(q[r], moving.last[r] - q[r]);
            ramp[r] = fminf(fmaf(distance, moving.slope[r], moving.offset[r]), 1.0f);
        }
        w = inside ? ramp[0] * ramp[1] * ramp[2] : 0.0f;
    }
    s.y = trilinear<GRAD>(values, i[0] + i[1] * cells.row + i[2] * cells.slice - cells.first,
                          cells.row, cells.slice, f, s.dy);
    if (PLAIN) {
        s.w = 1.0f;
        return s;
    }
    if (GRAD) {
#pragma unroll
        for (u32 r = 0; r < 3; ++r) {
            // On the ramp: + slope in the lower half, - slope in the upper.
            bool on = inside && ramp[r] < 1.0f;
            float slope = q[r] < 0.5f * moving.last[r] ? moving.slope[r] : -moving.slope[r];
            s.dw[r] = on ? slope * (ramp[(r + 1) % 3] * ramp[(r + 2) % 3]) : 0.0f;
        }
    }
    if (mask) {
        float v = trilinear<GRAD>(mask, i[0] + i[1] * moving.row + i[2] * moving.slice, moving.row,
                                  moving.slice, f, d);
        const float u = held_mask(v);
        if (GRAD) {
#pragma unroll
            for (u32 r = 0; r < 3; ++r) s.dw[r] = fmaf(s.dw[r], u, u == v ? w * d[r] : 0.0f);
        }
        w *= u;
    }
    if (GRAD) {
#pragma unroll
        for (u32 r = 0; r < 3; ++r) s.dw[r] *= weight;
    }
    s.w = w * weight;
    return s;
}

// Adds the threads' sums over indices within the tile to `totals` (12 a warp) and writes the tile's
// sums over indices of the image: each coordinate gains the tile's origin times the fourth number.
template <class T>
DEVICE void add_map_sums(const Tiling& tiling, u32 tile, const T (&sum)[12],
                         SHARED_POINTER(double) totals, OUT(double) out) {
    u32 rank = threadIdx.x, lane = rank & (WARP - 1), warps = blockDim.x / WARP;
#pragma unroll
    for (u32 e = 0; e < 12; ++e) {
        double v = warp_sum((double)sum[e]);
        if (lane == 0) totals[12 * (rank / WARP) + e] = v;
    }
    __syncthreads();
    double v = 0.0;
    if (rank < 12)
        for (u32 w = 0; w < warps; ++w) v += totals[12 * w + rank];
    // The first warp has all twelve numbers.
    if (rank < WARP) {
        double fourth = __shfl_sync(ALL_LANES, v, (i32)(rank | 3));
        if (rank < 12) {
            u32 axis = rank & 3;
            if (axis < 3) v += (double)tile_origin(tiling, tile, axis) * fourth;
            out[rank] = v;
        }
    }
}
