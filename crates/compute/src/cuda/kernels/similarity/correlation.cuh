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

// The same for derivatives in both images, so that exchanging these exchanges q and r to the last bit.
struct BothCoefficients { float p, q, r, q_fixed, r_fixed, energy; };

DEVICE BothCoefficients both_coefficients(float a, float b, float c, float f_mean, float m_mean, float w) {
    const float over_b = __fdividef(1.0f, b), over_c = __fdividef(1.0f, c);
    const float a_b = a * over_b, a_c = a * over_c;
    BothCoefficients k;
    k.energy = w * (a_b * a_c);
    k.p = w * (a_b * over_c) + w * (a_c * over_b);
    k.q = k.p * a_c;
    k.r = k.p * f_mean - k.q * m_mean;
    k.q_fixed = k.p * a_b;
    k.r_fixed = k.p * m_mean - k.q_fixed * f_mean;
    return k;
}

// Blocks that look for the centres of images; as in correlation.rs.
#define CENTRES 16u

// Numbers near the means of two images, from what the blocks have found.
DEVICE void centres_of(IN(double) centres, float& fixed, float& moving) {
    double f = 0.0, m = 0.0;
#pragma unroll
    for (u32 i = 0; i < CENTRES; ++i) {
        f += centres[2 * i];
        m += centres[2 * i + 1];
    }
    fixed = (float)f;
    moving = (float)m;
}

// The voxels of a window along an axis.
DEVICE u32 window_size(u32 at, u32 radius, u32 size) {
    const u32 before = at < radius ? at : radius, after = size - 1 - at;
    return before + (after < radius ? after : radius) + 1;
}
