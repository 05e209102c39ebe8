// What nodes have, at samples.
#include "spots.cuh"

// The linear map of displacements to voxels.
struct Units { double m[3][3]; };

DEVICE double value_at(const Spot& spot, IN(float) values, u64 first) {
    return spot.w[0] * (double)values[first + spot.node[0]] + spot.w[1] * (double)values[first + spot.node[1]] +
           spot.w[2] * (double)values[first + spot.node[2]] + spot.w[3] * (double)values[first + spot.node[3]];
}

KERNEL(weights, 256, PLACED, OUT(float) out) {
    const u64 i = global_thread(), n = sampling.count;
    if (i >= n) return;
    Spot spot;
    const bool inside = SPOT(i, spot);
#pragma unroll
    for (u32 k = 0; k < 4; ++k) out[k * n + i] = inside ? (float)spot.w[k] : 0.0f;
}

KERNEL(to_samples, 256, PLACED, IN(float) values, u32 components, OUT(float) out) {
    const u64 i = global_thread(), n = sampling.count;
    if (i >= n) return;
    Spot spot;
    const bool inside = SPOT(i, spot);
    for (u32 c = 0; c < components; ++c) out[c * n + i] = inside ? (float)value_at(spot, values, c * count) : 0.0f;
}

KERNEL(field, 256, PLACED, IN(float) displacements, Units units, OUT(float) out) {
    const u64 i = global_thread(), n = sampling.count;
    if (i >= n) return;
    Spot spot;
    double x = 0.0, y = 0.0, z = 0.0;
    const bool inside = SPOT(i, spot);
    if (inside) {
        x = value_at(spot, displacements, 0);
        y = value_at(spot, displacements, count);
        z = value_at(spot, displacements, 2 * count);
    }
#pragma unroll
    for (u32 r = 0; r < 3; ++r)
        out[r * n + i] = inside ? (float)(units.m[r][0] * x + units.m[r][1] * y + units.m[r][2] * z) : 0.0f;
}
