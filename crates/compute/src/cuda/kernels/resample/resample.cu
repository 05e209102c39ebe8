// Warping of scalar images by an affine map or by a displacement field.
#include "interpolate.cuh"

#define NEAREST 0
#define LINEAR 1
#define CUBIC 2

// The weight of the farther neighbour of a cubic B-spline: t^3 / 6.
DEVICE float outer_weight(float t) { return (t * (t * t)) * (1.0f / 6.0f); }

// The weight of the nearer neighbour at distance t = 1 - u: 2/3 - t^2 (1 + u) / 2.
DEVICE float inner_weight(float t, float u) {
    return 2.0f / 3.0f - (t * t) * ((1.0f + u) * 0.5f);
}

// The voxel that stands for voxel `i` of an axis whose last is `last`, mirrored at the first and the
// last; `i` is at most one before or after them.
DEVICE u32 mirrored(i32 i, i32 last) {
    i32 k = i < 0 ? -i : i;
    k = k < 2 * last - k ? k : 2 * last - k;
    return (u32)(k > 0 ? k : 0);
}

// The cubic B-spline: 64 coefficients around the cell, summed along y, then z, then x.
DEVICE float cubic_at(IN(float) src, const Frame& f, const Source& s, const Geometry& g, const Cell& c) {
    float w[3][4];
    i32 at[3];
    bool interior = true;
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        float t = c.fraction[a], u = 1.0f - t;
        w[a][0] = outer_weight(u);
        w[a][1] = inner_weight(t, u);
        w[a][2] = inner_weight(u, t);
        w[a][3] = outer_weight(t);
        at[a] = c.local[a] - (i32)f.low[a];
        interior = interior && at[a] >= 1 && at[a] + 2 < (i32)g.dims[a];
    }
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (interior) {
        const u32 sy = s.strides[1], sz = s.strides[2];
        IN(float) slice = src + (c.index - 1 - sy - sz);
#pragma unroll
        for (u32 z = 0; z < 4; ++z) {
            float plane[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            IN(float) row = slice + (u64)z * sz;
#pragma unroll
            for (u32 y = 0; y < 4; ++y) {
                IN(float) p = row + (u64)y * sy;
#pragma unroll
                for (u32 x = 0; x < 4; ++x) plane[x] = plane[x] + w[1][y] * p[x];
            }
#pragma unroll
            for (u32 x = 0; x < 4; ++x) sum[x] = sum[x] + w[2][z] * plane[x];
        }
    } else {
        u32 along_x[4], along_y[4];
#pragma unroll
        for (u32 t = 0; t < 4; ++t) {
            along_x[t] = mirrored(at[0] + (i32)t - 1, (i32)g.dims[0] - 1) * s.strides[0];
            along_y[t] = mirrored(at[1] + (i32)t - 1, (i32)g.dims[1] - 1) * s.strides[1];
        }
#pragma unroll
        for (u32 z = 0; z < 4; ++z) {
            float plane[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            IN(float) row = src + mirrored(at[2] + (i32)z - 1, (i32)g.dims[2] - 1) * s.strides[2];
#pragma unroll
            for (u32 y = 0; y < 4; ++y) {
#pragma unroll
                for (u32 x = 0; x < 4; ++x)
                    plane[x] = plane[x] + w[1][y] * row[along_y[y] + along_x[x]];
            }
#pragma unroll
            for (u32 x = 0; x < 4; ++x) sum[x] = sum[x] + w[2][z] * plane[x];
        }
    }
    return (sum[0] * w[0][0] + sum[1] * w[0][1]) + (sum[2] * w[0][2] + sum[3] * w[0][3]);
}

template <int KIND, bool SIGNED>
DEVICE float sample(IN(float) src, const Frame& f, const Source& s, const Geometry& g, const Vector& p) {
    if (KIND == NEAREST) return src[nearest_of<SIGNED>(f, s, p)];
    Cell c = cell_of<SIGNED>(f, s, p);
    if (KIND == LINEAR) return linear_at(src, c.index, s, linear_of(c));
    return cubic_at(src, f, s, g, c);
}

template <int KIND>
DEVICE void warp_affine(IN(float) src, const Geometry& g, const Source& s, const Tiles& t, float outside, OUT(float) out,
                        SHARED_POINTER(Frame) frames) {
    const Place at = place_of(t);
    make_frames<true, true>(g, t, at, frames);
    u64 i = at.index;
    for (u32 k = 0; k < at.slices; ++k, i += at.step) {
        const Frame f = frames[k * TILE_Y + threadIdx.y];
        float value = outside;
        if (in_part(f, at.in_span)) {
            const Vector p = along(f, s, (float)(at.in_span - (f.part & 0xffffu)));
            value = sample<KIND, false>(src, f, s, g, p);
        }
        __stcs(&out[i], value);
    }
}

template <int KIND>
DEVICE void warp_field(IN(float) src, const Geometry& g, const Source& s, IN(float) field, const Tiles& t, float outside,
                       OUT(float) out, SHARED_POINTER(Frame) frames) {
    const Place at = place_of(t);
    const u64 n = at.step * t.nz;
    Vector next = {{0.0f, 0.0f, 0.0f}};
    if (at.slices) next = displacement(field, n, at.index);
    make_frames<false, false>(g, t, at, frames);
    const float along_span = (float)at.in_span;
    u64 i = at.index;
    for (u32 k = 0; k < at.slices; ++k, i += at.step) {
        const Vector u = next;
        // Asked for now, to be there for the next slice.
        if (k + 1 < at.slices) next = displacement(field, n, i + at.step);
        const Frame f = frames[k * TILE_Y + threadIdx.y];
        const Vector p = moved(s, along(f, s, along_span), u);
        float value = outside;
        if (is_inside(f, s, p)) value = sample<KIND, true>(src, f, s, g, p);
        __stcs(&out[i], value);
    }
}

KERNEL(affine_nearest, AT_ONCE(TILE_THREADS, 8), IN(float) src, Geometry g, Source s, Tiles t, float outside, OUT(float) out) {
    SHARED(Frame, frames, TILE_ROWS);
    warp_affine<NEAREST>(src, g, s, t, outside, out, frames);
}
KERNEL(affine_linear, AT_ONCE(TILE_THREADS, 8), IN(float) src, Geometry g, Source s, Tiles t, float outside, OUT(float) out) {
    SHARED(Frame, frames, TILE_ROWS);
    warp_affine<LINEAR>(src, g, s, t, outside, out, frames);
}
KERNEL(affine_cubic, TILE_THREADS, IN(float) src, Geometry g, Source s, Tiles t, float outside, OUT(float) out) {
    SHARED(Frame, frames, TILE_ROWS);
    warp_affine<CUBIC>(src, g, s, t, outside, out, frames);
}
KERNEL(field_nearest, AT_ONCE(TILE_THREADS, 8), IN(float) src, Geometry g, Source s, IN(float) field, Tiles t, float outside,
       OUT(float) out) {
    SHARED(Frame, frames, TILE_ROWS);
    warp_field<NEAREST>(src, g, s, field, t, outside, out, frames);
}
KERNEL(field_linear, TILE_THREADS, IN(float) src, Geometry g, Source s, IN(float) field, Tiles t, float outside,
       OUT(float) out) {
    SHARED(Frame, frames, TILE_ROWS);
    warp_field<LINEAR>(src, g, s, field, t, outside, out, frames);
}
KERNEL(field_cubic, TILE_THREADS, IN(float) src, Geometry g, Source s, IN(float) field, Tiles t, float outside,
       OUT(float) out) {
    SHARED(Frame, frames, TILE_ROWS);
    warp_field<CUBIC>(src, g, s, field, t, outside, out, frames);
}
