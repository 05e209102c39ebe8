// Cubic B-spline windows over values: the columns of joint histograms.
#pragma once
#include "prelude.cuh"

// Where values fall among the columns; `Columns` of joint.rs.
struct Columns {
    float low, per_value, first, last;
    u32 count;
};

// The lowest of the four columns that a value touches, and its place between the middle two. Whether
// it is within the range: others are held at its ends.
DEVICE bool place_of(const Columns& c, float y, u32& column, float& t) {
    float u = (y - c.low) * c.per_value + c.first;
    bool within = c.first <= u && u <= c.last;
    u = fminf(fmaxf(u, c.first), c.last);
    i32 i = __float2int_rz(u);
    t = u - (float)i;
    column = (u32)(i - 1);
    return within;
}

DEVICE void window(float t, float (&b)[4]) {
    float s = 1.0f - t, t2 = t * t, s2 = s * s;
    const float sixth = 1.0f / 6.0f, two_thirds = 2.0f / 3.0f;
    b[0] = s2 * s * sixth;
    b[1] = fmaf(t2 * t, 0.5f, two_thirds - t2);
    b[2] = fmaf(s2 * s, 0.5f, two_thirds - s2);
    b[3] = t2 * t * sixth;
}

DEVICE void window_derivative(float t, float (&d)[4]) {
    float s = 1.0f - t, t2 = t * t, s2 = s * s;
    d[0] = -0.5f * s2;
    d[1] = fmaf(1.5f, t2, -2.0f * t);
    d[2] = fmaf(-1.5f, s2, 2.0f * s);
    d[3] = 0.5f * t2;
}

// Adds four sums to the counters of a row, as whole numbers.
DEVICE void flush(SHARED_POINTER(u32) row, const float (&sum)[4], float scale) {
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
        i32 v = __float2int_rn(sum[k] * scale);
        if (v) atomicAdd(&row[k], (u32)v);
    }
}

DEVICE void flush_far(INOUT(u64) row, const float (&sum)[4], float scale) {
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
        i64 v = __float2ll_rn(sum[k] * scale);
        if (v) atomicAdd(&row[k], (u64)v);
    }
}
