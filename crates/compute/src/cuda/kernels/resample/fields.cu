// Composition of displacement fields, and displacement fields on other grids.
#include "interpolate.cuh"

// The inverse of the linear part of the map.
struct Matrix {
    float m[3][3];
};

// inner + inverse * outer(map (id + inner)), where no `inner` is zero. The three components share
// the cell and its weights. A voxel of `outer` is `voxels` elements from its next component.
template <bool INNER>
DEVICE void composed(IN(float) outer, u64 voxels, const Geometry& g, const Source& s, const Matrix& inverse, IN(float) inner,
                     const Tiles& t, OUT(float) out, SHARED_POINTER(Frame) frames) {
    const Place at = place_of(t);
    const u64 n = at.step * t.nz;
    Vector next = {{0.0f, 0.0f, 0.0f}};
    if (INNER && at.slices) next = displacement(inner, n, at.index);
    make_frames<false, false>(g, t, at, frames);
    const float along_span = (float)at.in_span;
    u64 i = at.index;
    for (u32 k = 0; k < at.slices; ++k, i += at.step) {
        const Vector u = next;
        if (INNER && k + 1 < at.slices) next = displacement(inner, n, i + at.step);
        const Frame f = frames[k * TILE_Y + threadIdx.y];
        Vector p = along(f, s, along_span);
        if (INNER) p = moved(s, p, u);
        const Cell c = cell_of<true>(f, s, p);
        const Linear w = linear_of(c);
        Vector value;
#pragma unroll
        for (u32 a = 0; a < 3; ++a) value.v[a] = linear_at(outer + a * voxels, c.index, s, w);
#pragma unroll
        for (u32 a = 0; a < 3; ++a) {
            float sum = row_times(inverse.m[a], value);
            __stcs(&out[i + a * n], INNER ? u.v[a] + sum : sum);
        }
    }
}

KERNEL(compose_fields, AT_ONCE(TILE_THREADS, 5), IN(float) outer, u64 voxels, Geometry g, Source s, Matrix inverse, IN(float) inner,
       Tiles t, OUT(float) out) {
    SHARED(Frame, frames, TILE_ROWS);
    composed<true>(outer, voxels, g, s, inverse, inner, t, out, frames);
}
KERNEL(resample_field, AT_ONCE(TILE_THREADS, 5), IN(float) field, u64 voxels, Geometry g, Source s, Matrix inverse, IN(float) none,
       Tiles t, OUT(float) out) {
    SHARED(Frame, frames, TILE_ROWS);
    composed<false>(field, voxels, g, s, inverse, none, t, out, frames);
}
