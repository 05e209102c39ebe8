// Numbers of half precision, by their bits. A thread has eight numbers, of which two halves are one
// word in memory.
#include "half.cuh"

// The number of the upper bits, rounded to nearest by those below `shift`, ties to even.
DEVICE u32 rounded(u32 number, u32 shift) {
    const u32 kept = number >> shift, rest = number & ((1u << shift) - 1u), middle = 1u << (shift - 1u);
    return kept + (rest > middle || (rest == middle && (kept & 1u)) ? 1u : 0u);
}

DEVICE u32 half_of(float value) {
    const u32 bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    // Not a number, and quiet.
    if (magnitude > 0x7f800000u) return sign | 0x7e00u | (magnitude >> 13 & 0x3ffu);
    // From 65520 on it is infinite.
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
    // From the smallest normal number, 2^-14, on; the exponent counts from another number.
    if (magnitude >= 0x38800000u) return sign | rounded(magnitude - (112u << 23), 13u);
    // From half the smallest number, 2^-25, on: multiples of 2^-24.
    if (magnitude >= 0x33000000u)
        return sign | rounded((magnitude & 0x7fffffu) | 0x800000u, 126u - (magnitude >> 23));
    return sign;
}

DEVICE u32 pair_of(float a, float b) { return half_of(a) | half_of(b) << 16; }

KERNEL(to_half, 256, IN(float) src, u64 n, OUT(u32) pairs, OUT(u16) out) {
    const u64 i = global_thread();
    if (8 * i + 7 < n) {
        const float4 a = load4(src, 2 * i), b = load4(src, 2 * i + 1);
        store4(pairs, i, make_uint4(pair_of(a.x, a.y), pair_of(a.z, a.w), pair_of(b.x, b.y), pair_of(b.z, b.w)));
    } else {
        for (u64 k = 8 * i; k < n; ++k) out[k] = (u16)half_of(src[k]);
    }
}

KERNEL(to_single, 256, IN(u16) src, IN(u32) pairs, u64 n, OUT(float) out) {
    const u64 i = global_thread();
    if (8 * i + 7 < n) {
        const uint4 p = load4(pairs, i);
        store4(out, 2 * i, make_float4(single_of(p.x & 0xffffu), single_of(p.x >> 16), single_of(p.y & 0xffffu),
                                       single_of(p.y >> 16)));
        store4(out, 2 * i + 1, make_float4(single_of(p.z & 0xffffu), single_of(p.z >> 16), single_of(p.w & 0xffffu),
                                           single_of(p.w >> 16)));
    } else {
        for (u64 k = 8 * i; k < n; ++k) out[k] = single_of(src[k]);
    }
}
