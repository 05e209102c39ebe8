// Exponential, logarithm and power, operation for operation as ops/functions.rs has them, so that
// every backend gives the same bits. They are computed in double to some 1e-10 and then rounded.
#pragma once

// Adding and taking away this rounds to an integer, which is then in the low bits.
#define ROUND_TO_INTEGER 6755399441055744.0
#define LN_2 0.693147180559945309417232121458176568
#define LOG2_E 1.44269504088896340735992468100189214
#define ROOT_2 1.41421356237309504880168872420969808

// e to the x. Beyond the exponents of float the result is one that rounds to 0 or infinity.
DEVICE double exp_wide(double x) {
    x = x < -110.0 ? -110.0 : x;
    x = x > 90.0 ? 90.0 : x;
    const double shifted = x * LOG2_E + ROUND_TO_INTEGER;
    const double r = x - (shifted - ROUND_TO_INTEGER) * LN_2;
    double sum = 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 1.0 / 2.0;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    const u64 power = ((u64)__double_as_longlong(shifted) << 52) + 0x3ff0000000000000ull;
    return sum * __longlong_as_double((i64)power);
}

// The natural logarithm of a positive and finite normal number.
DEVICE double log_wide(double x) {
    const u64 bits = (u64)__double_as_longlong(x);
    double m = __longlong_as_double((i64)((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull));
    // The exponent as a number, without a conversion from 64-bit integers.
    double exponent = __longlong_as_double((i64)((bits >> 52) | 0x4338000000000000ull));
    exponent = exponent - ROUND_TO_INTEGER - 1023.0;
    const bool above = m > ROOT_2;
    m = above ? 0.5 * m : m;
    exponent = above ? exponent + 1.0 : exponent;
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double sum = 1.0 / 17.0;
    sum = sum * z + 1.0 / 15.0;
    sum = sum * z + 1.0 / 13.0;
    sum = sum * z + 1.0 / 11.0;
    sum = sum * z + 1.0 / 9.0;
    sum = sum * z + 1.0 / 7.0;
    sum = sum * z + 1.0 / 5.0;
    sum = sum * z + 1.0 / 3.0;
    sum = sum * z + 1.0;
    return exponent * LN_2 + 2.0 * s * sum;
}

DEVICE float exponential(float x) { return (float)exp_wide((double)x); }

DEVICE float logarithm(float x) {
    float value = (float)log_wide((double)x);
    value = x == INFINITY_F ? x : value;
    value = x == 0.0f ? -INFINITY_F : value;
    return x >= 0.0f ? value : NAN_F;
}

DEVICE float power(float x, float y) {
    const float size = fabsf(x), size_y = fabsf(y);
    if (x == 1.0f || y == 0.0f || (x == -1.0f && size_y == INFINITY_F)) return 1.0f;
    if (x != x || y != y) return NAN_F;
    const bool small = size_y < 16777216.0f;
    const i32 whole = small ? (i32)y : 0;
    const bool is_integer = !small || (float)whole == y;
    const bool is_odd = small && is_integer && (whole & 1) == 1;
    float result;
    if (size == 0.0f || size == INFINITY_F) {
        result = (size == 0.0f) == (y > 0.0f) ? 0.0f : INFINITY_F;
    } else if (x < 0.0f && !is_integer && size_y != INFINITY_F) {
        return NAN_F;
    } else {
        result = (float)exp_wide((double)y * log_wide((double)size));
    }
    return is_odd && __float_as_int(x) < 0 ? -result : result;
}
