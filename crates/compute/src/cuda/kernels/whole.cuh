// Whole numbers, in which values are summed so that sums are the same in any order.
#pragma once
#include "prelude.cuh"

// To the nearest whole number, at most 2^62 either way; zero of what is not a number.
DEVICE i64 whole(double value) {
    const double most = 4611686018427387904.0;
    // Written so that what is not a number becomes zero.
    if (value >= most) value = most;
    else if (value <= -most) value = -most;
    else if (!(value == value)) value = 0.0;
    return __double2ll_rn(value);
}
