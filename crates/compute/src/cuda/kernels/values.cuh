// One or four neighbouring values of a row, loaded and stored at once.
#pragma once
#include "prelude.cuh"

// The values of neighbouring voxels along x.
template <u32 W> struct Values {
    float v[W];
};

DEVICE void load(IN(float) src, u64 i, Values<1>& to) { to.v[0] = src[i]; }
DEVICE void load(IN(float) src, u64 i, Values<4>& to) {
    const float4 q = load4(src, i / 4);
    to.v[0] = q.x;
    to.v[1] = q.y;
    to.v[2] = q.z;
    to.v[3] = q.w;
}
DEVICE void store(OUT(float) out, u64 i, const Values<1>& from) { __stcs(&out[i], from.v[0]); }
DEVICE void store(OUT(float) out, u64 i, const Values<4>& from) {
    stream4(out, i / 4, make_float4(from.v[0], from.v[1], from.v[2], from.v[3]));
}
