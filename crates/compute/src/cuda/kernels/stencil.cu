// Finite differences on a grid. A block of 32 x 8 threads goes along z with the values before, at
// and after its voxels in registers; the neighbours along x and y are in the cache, as neighbouring
// threads ask for them too.
#include "prelude.cuh"

#define TILE_X 32u
#define TILE_Y 8u
#define TILE_THREADS 256

// The output, how many tiles it has along x and y, and how many slices a tile has.
struct Tiles {
    u32 nx, ny, nz;
    u32 along_x, along_y;
    u32 slices;
};

// Factors of differences along each axis, between its ends and at them.
struct Scales {
    float middle[3], end[3];
};

// The place of a thread: its first voxel, its slices, and where the neighbours along x and y are.
struct Place {
    u64 index, slice;
    u32 z, slices;
    u32 left, right;    // distances in memory to the neighbours, zero where there are none
    u32 back, front;
    float along_x, along_y;
};

DEVICE Place place_of(const Tiles& t, const Scales& s) {
    u32 tile = blockIdx.x;
    const u32 x = tile % t.along_x * TILE_X + threadIdx.x;
    tile /= t.along_x;
    const u32 y = tile % t.along_y * TILE_Y + threadIdx.y;
    Place p;
    p.z = tile / t.along_y * t.slices;
    const u32 left = t.nz - p.z;
    p.slices = x < t.nx && y < t.ny ? (left < t.slices ? left : t.slices) : 0;
    p.slice = (u64)t.nx * t.ny;
    p.index = ((u64)p.z * t.ny + y) * t.nx + x;
    p.left = x > 0 ? 1 : 0;
    p.right = x + 1 < t.nx ? 1 : 0;
    p.back = y > 0 ? t.nx : 0;
    p.front = y + 1 < t.ny ? t.nx : 0;
    p.along_x = p.left && p.right ? s.middle[0] : s.end[0];
    p.along_y = p.back && p.front ? s.middle[1] : s.end[1];
    return p;
}

// The values before, at and after a voxel along z.
struct Column {
    float before, here, after;
};

DEVICE Column column_at(IN(float) src, const Place& p) {
    Column c = {0.0f, 0.0f, 0.0f};
    if (p.slices) {
        c.here = src[p.index];
        c.before = p.z > 0 ? src[p.index - p.slice] : c.here;
    }
    return c;
}

DEVICE void reach(Column& c, IN(float) src, u64 i, u64 slice, bool is_last) {
    c.after = is_last ? c.here : src[i + slice];
}

DEVICE void advance(Column& c) {
    c.before = c.here;
    c.here = c.after;
}

// The factor along z.
DEVICE float scale_z(const Scales& s, u32 z, u32 nz) {
    return z > 0 && z + 1 < nz ? s.middle[2] : s.end[2];
}

KERNEL(gradient, TILE_THREADS, IN(float) src, Tiles t, Scales s, OUT(float) out) {
    const Place p = place_of(t, s);
    const u64 n = p.slice * t.nz;
    Column c = column_at(src, p);
    u64 i = p.index;
#pragma unroll 2
    for (u32 k = 0; k < p.slices; ++k, i += p.slice) {
        const u32 z = p.z + k;
        reach(c, src, i, p.slice, z + 1 == t.nz);
        const float right = src[i + p.right], left = src[i - p.left];
        const float front = src[i + p.front], back = src[i - p.back];
        __stcs(&out[i], (right - left) * p.along_x);
        __stcs(&out[i + n], (front - back) * p.along_y);
        __stcs(&out[i + 2 * n], (c.after - c.before) * scale_z(s, z, t.nz));
        advance(c);
    }
}

KERNEL(divergence, TILE_THREADS, IN(float) field, Tiles t, Scales s, OUT(float) out) {
    const Place p = place_of(t, s);
    const u64 n = p.slice * t.nz;
    IN(float) fy = field + n;
    IN(float) fz = field + 2 * n;
    Column c = column_at(fz, p);
    u64 i = p.index;
#pragma unroll 2
    for (u32 k = 0; k < p.slices; ++k, i += p.slice) {
        const u32 z = p.z + k;
        reach(c, fz, i, p.slice, z + 1 == t.nz);
        const float right = field[i + p.right], left = field[i - p.left];
        const float front = fy[i + p.front], back = fy[i - p.back];
        const float along_x = (right - left) * p.along_x, along_y = (front - back) * p.along_y;
        __stcs(&out[i], along_x + along_y + (c.after - c.before) * scale_z(s, z, t.nz));
        advance(c);
    }
}

// Here the scales are the same at the ends as between them.
KERNEL(laplacian, TILE_THREADS, IN(float) src, Tiles t, Scales s, OUT(float) out) {
    const Place p = place_of(t, s);
    Column c = column_at(src, p);
    u64 i = p.index;
#pragma unroll 2
    for (u32 k = 0; k < p.slices; ++k, i += p.slice) {
        reach(c, src, i, p.slice, p.z + k + 1 == t.nz);
        const float right = src[i + p.right], left = src[i - p.left];
        const float front = src[i + p.front], back = src[i - p.back];
        const float along_x = ((right - c.here) - (c.here - left)) * s.middle[0];
        const float along_y = ((front - c.here) - (c.here - back)) * s.middle[1];
        const float along_z = ((c.after - c.here) - (c.here - c.before)) * s.middle[2];
        __stcs(&out[i], along_x + along_y + along_z);
        advance(c);
    }
}

KERNEL(jacobian_determinant, TILE_THREADS, IN(float) field, Tiles t, Scales s, OUT(float) out) {
    const Place p = place_of(t, s);
    const u64 n = p.slice * t.nz;
    Column c[3];
#pragma unroll
    for (u32 r = 0; r < 3; ++r) c[r] = column_at(field + r * n, p);
    u64 i = p.index;
    for (u32 k = 0; k < p.slices; ++k, i += p.slice) {
        const u32 z = p.z + k;
        const float along_z = scale_z(s, z, t.nz);
        float m[3][3];
#pragma unroll
        for (u32 r = 0; r < 3; ++r) {
            IN(float) src = field + r * n;
            reach(c[r], src, i, p.slice, z + 1 == t.nz);
            const float right = src[i + p.right], left = src[i - p.left];
            const float front = src[i + p.front], back = src[i - p.back];
            m[r][0] = (right - left) * p.along_x;
            m[r][1] = (front - back) * p.along_y;
            m[r][2] = (c[r].after - c[r].before) * along_z;
            advance(c[r]);
        }
#pragma unroll
        for (u32 r = 0; r < 3; ++r) m[r][r] = m[r][r] + 1.0f;
        float determinant = 0.0f;
#pragma unroll
        for (u32 a = 0; a < 3; ++a) {
            const u32 b = (a + 1) % 3, d = (a + 2) % 3;
            const float minor = m[1][b] * m[2][d] - m[1][d] * m[2][b];
            determinant = determinant + m[0][a] * minor;
        }
        __stcs(&out[i], determinant);
    }
}
