// Numbers of half precision, by their bits.
#pragma once
#include "prelude.cuh"

DEVICE float single_of(u32 half) {
    const u32 sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    u32 bits;
    if (magnitude > 0x7c00u) bits = 0x7fc00000u | magnitude << 13;
    else if (magnitude == 0x7c00u) bits = 0x7f800000u;
    else if (magnitude >= 0x0400u) bits = (magnitude << 13) + (112u << 23);
    // A multiple of 2^-24.
    else bits = __float_as_uint((float)magnitude * __uint_as_float(103u << 23));
    return __uint_as_float(sign | (bits & 0x7fffffffu));
}
