// Forces where displaced voxels are: the derivative of the interpolation, weighted at each voxel.
#include "interpolate.cuh"

// What each component of the output takes of the derivatives along the axes of the source.
struct Matrix {
    float m[3][3];
};

// The derivatives along the axes in the cell at `index` of a source that has a voxel after each but the last along x.
DEVICE Vector derivatives_at(IN(float) src, u32 index, const Source& s, const Linear& w) {
    float at[4], along[4];
#pragma unroll
    for (u32 r = 0; r < 4; ++r) {
        IN(float) p = src + (index + (r & 1u ? s.strides[1] : 0u) + (r & 2u ? s.strides[2] : 0u));
        const float p0 = p[0], p1 = p[1];
        at[r] = between(w, 0, p0, p1);
        along[r] = p1 - p0;
    }
    Vector d;
    d.v[0] = between(w, 2, between(w, 1, along[0], along[1]), between(w, 1, along[2], along[3]));
    d.v[1] = between(w, 2, at[1] - at[0], at[3] - at[2]);
    d.v[2] = between(w, 1, at[2], at[3]) - between(w, 1, at[0], at[1]);
    return d;
}

// Whether a local position is not before the first voxel of an axis of several and not after the last: elsewhere
// nothing changes along it.
DEVICE bool is_between(const Frame& f, const Source& s, const Vector& p, u32 a) {
    return (s.strides[a] != 0) & (f.low[a] <= p.v[a]) & (p.v[a] <= s.last[a] + f.low[a]);
}

// out[a] = derivative * (units * derivatives)[a].
KERNEL(force_at, AT_ONCE(TILE_THREADS, 4), IN(float) derivative, IN(float) src, Geometry g, Source s, Matrix units,
       IN(float) field, Tiles t, OUT(float) out) {
    SHARED(Frame, frames, TILE_ROWS);
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
        const float weight = __ldcs(&derivative[i]);
        const Frame f = frames[k * TILE_Y + threadIdx.y];
        const Vector p = moved(s, along(f, s, along_span), u);
        Vector d = {{0.0f, 0.0f, 0.0f}};
        if (is_inside(f, s, p)) {
            const Cell c = cell_of<true>(f, s, p);
            d = derivatives_at(src, c.index, s, linear_of(c));
#pragma unroll
            for (u32 a = 0; a < 3; ++a) d.v[a] = is_between(f, s, p, a) ? d.v[a] : 0.0f;
        }
#pragma unroll
        for (u32 a = 0; a < 3; ++a) __stcs(&out[i + a * n], weight * row_times(units.m[a], d));
    }
}
