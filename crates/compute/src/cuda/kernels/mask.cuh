// What a mask counts between its voxels.
#pragma once
#include "prelude.cuh"

// The most that a mask counts; `MOST_MASK` of ops/histogram.
#define MOST_MASK 1.25f

// An interpolated mask within its limits; what is infinite or not a number counts 0.
DEVICE float held_mask(float v) {
    return v < INFINITY_F ? fminf(fmaxf(v, 0.0f), MOST_MASK) : 0.0f;
}
