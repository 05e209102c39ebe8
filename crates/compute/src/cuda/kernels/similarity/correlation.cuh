// What the kernels of local correlation have in common.
#pragma once
#include "prelude.cuh"

// The coefficients at the centre of a window: p = 2 w a / (b c), q = p a / c, r = p f_mean - q m_mean;
// and w times the squared correlation.
struct Coefficients { float p, q, r, energy; };

DEVICE Coefficients coefficients(float a, float b, float c, float f_mean, float m_mean, float w) {
    // In this order no number is far from one over the variances.
    const float over_c = __fdividef(1.0f, c), a_b = __fdividef(a, b), a_c = a * over_c;
    Coefficients k;
    k.energy = w * (a_b * a_c);
    k.p = (w + w) * a_b * over_c;
    k.q = k.p * a_c;
    k.r = fmaf(k.p, f_mean, -(k.q * m_mean));
    return k;
}

// The voxels of a window along an axis.
DEVICE u32 window_size(u32 at, u32 radius, u32 size) {
    const u32 before = at < radius ? at : radius, after = size - 1 - at;
    return before + (after < radius ? after : radius) + 1;
}
