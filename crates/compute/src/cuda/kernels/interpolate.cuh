// Positions between the voxels of a source, and values there, with the arithmetic of the CPU
// backend: the same operations in the same order, so the same bits.
//
// A tile of the output is 32 voxels along x, 8 along y and up to 8 along z: a block of 32 x 8
// threads that goes from slice to slice, so that the lower plane of a cell is still in the cache
// from the slice before. Positions along a row count from a point that is computed in double
// precision, the frame; the first threads of a block make the frames of all rows of its tile.
#pragma once
#include "prelude.cuh"

#define TILE_X 32u
#define TILE_Y 8u
#define TILE_Z 8u
#define TILE_THREADS 256
#define TILE_ROWS 64

// Voxels of a row that share a frame: as many as on the CPU.
#define SPAN 256u

// The source and the map to it: the first axis is longer than one voxel, if any is; steps in memory
// are zero for an axis of size 1.
struct Geometry {
    double map[3][4];
    u32 dims[3];
    u32 strides[3];
};

// The output, how many tiles it has along x and y, and how many slices a tile has.
struct Tiles {
    u32 nx, ny, nz;
    u32 along_x, along_y;
    u32 slices;
};

// A voxel of the source, the base, from which positions are counted, so that they are small and
// single precision is exact enough.
struct __align__(16) Frame {
    float origin[3];   // the local position of the first voxel of the part
    u32 index;         // where the base is in memory, less what `floor_of` has too much
    float low[3];      // the local position of the first voxel of the source
    u32 part;          // the voxels of the span that are inside: first | end << 16; and FAR
};

// Local positions of a frame with this flag may be beyond 2^22.
#define FAR 0x80000000u

// What a thread needs of the geometry at every voxel. A parameter of its own, whose numbers are
// operands where they lie, so that they take no registers.
struct Source {
    float last[3], last_cell[3];   // the last voxel of an axis, and the last that has one after it
    float linear[3][3];
    u32 strides[3];
};

// The place of a thread in the output.
struct Place {
    u32 x, y, z;     // of its first voxel
    u32 slices;      // how many voxels it has; none beyond the output
    u32 in_span;     // x counted from the begin of the span
    u64 index, step; // of its first voxel in memory, and from slice to slice
};

DEVICE Place place_of(const Tiles& t) {
    u32 tile = blockIdx.x;
    u32 tx = tile % t.along_x;
    tile /= t.along_x;
    Place p;
    p.x = tx * TILE_X + threadIdx.x;
    p.y = tile % t.along_y * TILE_Y + threadIdx.y;
    p.z = tile / t.along_y * t.slices;
    u32 left = t.nz - p.z;
    p.slices = p.x < t.nx && p.y < t.ny ? (left < t.slices ? left : t.slices) : 0;
    p.in_span = p.x % SPAN;
    p.step = (u64)t.nx * t.ny;
    p.index = ((u64)p.z * t.ny + p.y) * t.nx + p.x;
    return p;
}

// Whole numbers that are not above values are found by a sum with a large number, rounded downwards:
// its last digits are the number. For values from 0 to 2^23 - 1, or if SIGNED below 2^22 either way.
template <bool SIGNED> DEVICE float large_number() { return SIGNED ? 12582912.0f : 8388608.0f; }
// Its bits, which are those of the sum for the number 0.
template <bool SIGNED> DEVICE u32 whole_bits() { return SIGNED ? 0x4b400000u : 0x4b000000u; }

// The whole numbers that are not above values: as bits that `whole_bits` is to be taken from, unless
// `far`; and as floats.
struct Whole {
    u32 bits[3];
    float floor[3];
};

template <bool SIGNED> DEVICE Whole floor_of(const float (&v)[3], bool far) {
    Whole w;
    if (SIGNED && far) {
#pragma unroll
        for (u32 a = 0; a < 3; ++a) {
            w.floor[a] = (float)(i32)v[a];
            if (v[a] < w.floor[a]) w.floor[a] = w.floor[a] - 1.0f;
            w.bits[a] = (u32)(i32)w.floor[a];
        }
    } else {
#pragma unroll
        for (u32 a = 0; a < 3; ++a) {
            const float sum = __fadd_rd(v[a], large_number<SIGNED>());
            w.floor[a] = sum - large_number<SIGNED>();
            w.bits[a] = (u32)__float_as_int(sum);
        }
    }
    return w;
}

// Voxels of a row from `first` to before `end`.
struct Range {
    u32 first, end;
};

// The voxels of a range that are inside along an axis. As rounding keeps the order, positions along
// a row never turn back, and the voxels inside are a range.
DEVICE Range inside_along(Range r, double row, double step, u32 n) {
    if (r.first >= r.end) return r;
    const double low = -0.5, high = (double)n - 0.5;
    const double p = row + step * (double)r.first, q = row + step * (double)(r.end - 1);
    if (low <= p && p <= high && low <= q && q <= high) return r;
    const bool rising = step >= 0.0;
    // A guess by division, made exact by a few steps. What is not a number becomes the first.
    double guess = ((rising ? low : high) - row) / step;
    u32 x = (u32)fmin(fmax(guess, (double)r.first), (double)r.end);
    while (x > r.first) {
        double at = row + step * (double)(x - 1);
        if (rising ? at < low : at > high) break;
        --x;
    }
    while (x < r.end) {
        double at = row + step * (double)x;
        if (!(rising ? at < low : at > high)) break;
        ++x;
    }
    r.first = x;
    guess = ((rising ? high : low) - row) / step;
    x = (u32)fmin(fmax(guess, (double)r.first), (double)r.end);
    // Written so that a position that is not a number is beyond.
    while (x > r.first) {
        double at = row + step * (double)(x - 1);
        if (rising ? at <= high : at >= low) break;
        --x;
    }
    while (x < r.end) {
        double at = row + step * (double)x;
        if (!(rising ? at <= high : at >= low)) break;
        ++x;
    }
    r.end = x;
    return r;
}

// The frame of row y, z for the span that begins at voxel `first`. With RANGE it has the voxels
// that are inside, otherwise all. With INSIDE its positions count from the first that is inside and
// are nowhere below zero, but for rounding; otherwise from `first`, and are anywhere.
template <bool RANGE, bool INSIDE>
DEVICE Frame frame_of(const Geometry& g, u32 nx, u32 first, u32 y, u32 z) {
    Range r;
    r.first = first;
    r.end = nx - first < SPAN ? nx : first + SPAN;
    double row[3];
#pragma unroll
    for (u32 a = 0; a < 3; ++a)
        row[a] = g.map[a][1] * (double)y + g.map[a][2] * (double)z + g.map[a][3];
    if (RANGE) {
#pragma unroll
        for (u32 a = 0; a < 3; ++a) r = inside_along(r, row[a], g.map[a][0], g.dims[a]);
    }
    Frame f;
    bool far = false;
    u32 from = INSIDE ? r.first : first;
    f.index = 0;
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        double p = row[a] + g.map[a][0] * (double)from, near = p, low = -16777216.0, high = 16777216.0;
        if (INSIDE) {
            double q = row[a] + g.map[a][0] * (double)(r.end - 1);
            near = fmin(p, q);
            low = 0.0;
            high = g.dims[a] > 2 ? (double)(g.dims[a] - 2) : 0.0;
        }
        i32 base = (i32)fmin(fmax(near, low), high);
        i32 beyond = (i32)g.dims[a] - base;
        far = far || base >= 1 << 22 || beyond >= 1 << 22 || base <= -(1 << 22) || beyond <= -(1 << 22);
        f.origin[a] = (float)(p - (double)base);
        f.low[a] = 0.0f - (float)base;
        f.index += (u32)base * g.strides[a];
    }
    // Sums and products of indices wrap around: what is taken away here comes back in `cell_of`.
    if (INSIDE || !far) f.index -= whole_bits<!INSIDE>() * (g.strides[0] + g.strides[1] + g.strides[2]);
    f.part = r.first < r.end ? (r.first - first) | (r.end - first) << 16 : 0;
    if (far) f.part |= FAR;
    return f;
}

// Makes the frames of the tile of the block, one for each row: y first, then z.
template <bool RANGE, bool INSIDE>
DEVICE void make_frames(const Geometry& g, const Tiles& t, const Place& at, SHARED_POINTER(Frame) frames) {
    const u32 rank = thread_rank();
    const u32 y = at.y - threadIdx.y + rank % TILE_Y, z = at.z + rank / TILE_Y;
    if (rank < TILE_Y * t.slices && y < t.ny && z < t.nz)
        frames[rank] = frame_of<RANGE, INSIDE>(g, t.nx, (at.x - threadIdx.x) / SPAN * SPAN, y, z);
    __syncthreads();
}

// Whether the voxel is in the part of the span that is inside.
DEVICE bool in_part(const Frame& f, u32 in_span) {
    return in_span >= (f.part & 0xffffu) && in_span < (f.part >> 16 & 0x7fffu);
}

// A local position, or a vector.
struct Vector {
    float v[3];
};

// The local position of voxel `k`, counted from the first voxel of the frame.
DEVICE Vector along(const Frame& f, const Source& s, float k) {
    Vector p;
#pragma unroll
    for (u32 a = 0; a < 3; ++a) p.v[a] = f.origin[a] + k * s.linear[a][0];
    return p;
}

DEVICE float row_times(const float* m, const Vector& u) {
    return m[0] * u.v[0] + m[1] * u.v[1] + m[2] * u.v[2];
}

// The position moved by the linear part of the map of a displacement.
DEVICE Vector moved(const Source& s, Vector p, const Vector& u) {
#pragma unroll
    for (u32 a = 0; a < 3; ++a) p.v[a] = p.v[a] + row_times(s.linear[a], u);
    return p;
}

// The displacement of a voxel, that is read but once.
DEVICE Vector displacement(IN(float) field, u64 voxels, u64 i) {
    Vector u;
    u.v[0] = __ldcs(&field[i]);
    u.v[1] = __ldcs(&field[i + voxels]);
    u.v[2] = __ldcs(&field[i + 2 * voxels]);
    return u;
}

// Whether a local position is inside the source; one that is not a number is not.
DEVICE bool is_inside(const Frame& f, const Source& s, const Vector& p) {
    bool inside = true;
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        float low = f.low[a], high = s.last[a] + low;
        inside = inside & (low - 0.5f <= p.v[a]) & (p.v[a] <= high + 0.5f);
    }
    return inside;
}

// A position between voxels: where the lower corner of the cell is in memory, the corner counted
// from the base of the frame, and how far the position is from it along each axis, from 0 to 1.
struct Cell {
    u32 index;
    i32 local[3];
    float fraction[3];
};

// The cell of a local position, moved to the nearest point between voxels.
template <bool SIGNED> DEVICE Cell cell_of(const Frame& f, const Source& s, const Vector& position) {
    const bool far = SIGNED && (f.part & FAR) != 0;
    float p[3], q[3];
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        p[a] = fminf(fmaxf(position.v[a], SIGNED ? f.low[a] : 0.0f), s.last[a] + f.low[a]);
        q[a] = fminf(p[a], s.last_cell[a] + f.low[a]);
    }
    const Whole w = floor_of<SIGNED>(q, far);
    Cell c;
    c.index = f.index;
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        c.local[a] = (i32)(w.bits[a] - (far ? 0u : whole_bits<SIGNED>()));
        c.fraction[a] = p[a] - w.floor[a];
        c.index += w.bits[a] * s.strides[a];
    }
    return c;
}

// Where the voxel nearest to a local position is in memory.
template <bool SIGNED> DEVICE u32 nearest_of(const Frame& f, const Source& s, const Vector& position) {
    float p[3];
#pragma unroll
    for (u32 a = 0; a < 3; ++a)
        p[a] = fminf(fmaxf(position.v[a] + 0.5f, SIGNED ? f.low[a] : 0.0f), s.last[a] + f.low[a]);
    const Whole w = floor_of<SIGNED>(p, (f.part & FAR) != 0);
    return f.index + w.bits[0] * s.strides[0] + w.bits[1] * s.strides[1] + w.bits[2] * s.strides[2];
}

// The weights of trilinear interpolation. Between `a` and `b` it counts from the nearer end, so that
// it gives exactly `a` at 0, `b` at 1, and `a` wherever `a = b`.
struct Linear {
    bool lower[3];       // whether the nearer end is the lower one
    float distance[3];   // signed, from the nearer end
};

DEVICE Linear linear_of(const Cell& c) {
    Linear w;
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        w.lower[a] = c.fraction[a] < 0.5f;
        w.distance[a] = w.lower[a] ? c.fraction[a] : c.fraction[a] - 1.0f;
    }
    return w;
}

DEVICE float between(const Linear& w, u32 axis, float a, float b) {
    float near = w.lower[axis] ? a : b;
    return near + w.distance[axis] * (b - a);
}

// The value in the cell at `index` of a source that has a voxel after each but the last along x.
DEVICE float linear_at(IN(float) src, u32 index, const Source& s, const Linear& w) {
    IN(float) p = src + index;
    IN(float) q = src + (index + s.strides[1]);
    IN(float) r = src + (index + s.strides[2]);
    IN(float) t = src + (index + s.strides[1] + s.strides[2]);
    const float p0 = p[0], p1 = p[1], q0 = q[0], q1 = q[1];
    const float r0 = r[0], r1 = r[1], t0 = t[0], t1 = t[1];
    float near = between(w, 1, between(w, 0, p0, p1), between(w, 0, q0, q1));
    float far = between(w, 1, between(w, 0, r0, r1), between(w, 0, t0, t1));
    return between(w, 2, near, far);
}
