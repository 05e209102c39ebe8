// Warping of labels by an affine map or by a displacement field.
#include "interpolate.cuh"

// The label with the largest sum of trilinear weights; of equal sums the smallest label.
DEVICE i32 majority_at(IN(i32) src, const Source& s, const Cell& c) {
    i32 found[8];
    bool same = true;
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
        found[k] = src[c.index + (k & 1) * s.strides[0] + (k >> 1 & 1) * s.strides[1] + (k >> 2) * s.strides[2]];
        same = same && found[k] == found[0];
    }
    if (same) return found[0];
    float weight[8];
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
        float x = k & 1 ? c.fraction[0] : 1.0f - c.fraction[0];
        float y = k & 2 ? c.fraction[1] : 1.0f - c.fraction[1];
        float z = k & 4 ? c.fraction[2] : 1.0f - c.fraction[2];
        weight[k] = x * y * z;
    }
    float most = -INFINITY_F;
    i32 best = 0;
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
        float sum = 0.0f;
#pragma unroll
        for (u32 j = 0; j < 8; ++j)
            if (found[j] == found[k]) sum = sum + weight[j];
        if (sum > most || (sum == most && found[k] < best)) {
            most = sum;
            best = found[k];
        }
    }
    return best;
}

template <bool MAJORITY, bool FIELD>
DEVICE void warp_labels(IN(i32) src, const Geometry& g, const Source& s, IN(float) field, const Tiles& t, i32 outside,
                        OUT(i32) out, SHARED_POINTER(Frame) frames) {
    const Place at = place_of(t);
    make_frames<!FIELD, false>(g, t, at, frames);
    const u64 n = at.step * t.nz;
    const float along_span = (float)at.in_span;
    u64 i = at.index;
    for (u32 k = 0; k < at.slices; ++k, i += at.step) {
        const Frame f = frames[k * TILE_Y + threadIdx.y];
        Vector p = along(f, s, along_span);
        if (FIELD) p = moved(s, p, displacement(field, n, i));
        i32 label = outside;
        if (FIELD ? is_inside(f, s, p) : in_part(f, at.in_span))
            label = MAJORITY ? majority_at(src, s, cell_of<true>(f, s, p)) : src[nearest_of<true>(f, s, p)];
        __stcs(&out[i], label);
    }
}

KERNEL(labels_affine_nearest, AT_ONCE(TILE_THREADS, 8), IN(i32) src, Geometry g, Source s, IN(float) field, Tiles t, i32 outside,
       OUT(i32) out) {
    SHARED(Frame, frames, TILE_ROWS);
    warp_labels<false, false>(src, g, s, field, t, outside, out, frames);
}
KERNEL(labels_affine_majority, TILE_THREADS, IN(i32) src, Geometry g, Source s, IN(float) field, Tiles t, i32 outside,
       OUT(i32) out) {
    SHARED(Frame, frames, TILE_ROWS);
    warp_labels<true, false>(src, g, s, field, t, outside, out, frames);
}
KERNEL(labels_field_nearest, AT_ONCE(TILE_THREADS, 8), IN(i32) src, Geometry g, Source s, IN(float) field, Tiles t, i32 outside,
       OUT(i32) out) {
    SHARED(Frame, frames, TILE_ROWS);
    warp_labels<false, true>(src, g, s, field, t, outside, out, frames);
}
KERNEL(labels_field_majority, TILE_THREADS, IN(i32) src, Geometry g, Source s, IN(float) field, Tiles t, i32 outside,
       OUT(i32) out) {
    SHARED(Frame, frames, TILE_ROWS);
    warp_labels<true, true>(src, g, s, field, t, outside, out, frames);
}
