// What displacements do to elements.
#include "tetrahedra.cuh"

#define LEAST 1024u

DEVICE double volume_of(const Edges& e) { return dot(e.a, cross(e.b, e.c)); }
DEVICE Vector plus(const Vector& a, const Vector& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }

KERNEL(volume_ratios, 256, IN(float) nodes, u64 count, IN(u32) corners, u64 elements, IN(float) displacements, OUT(float) ratios) {
    const u64 element = global_thread();
    if (element >= elements) return;
    const Tetrahedron t = tetrahedron(corners, count, element);
    const Edges x = edges(nodes, count, t), u = edges(displacements, count, t);
    const Edges both = {plus(x.a, u.a), plus(x.b, u.b), plus(x.c, u.c)};
    ratios[element] = (float)(volume_of(both) / volume_of(x));
}

// A ratio and its element.
struct Ratio { double value; u64 element; };

DEVICE Ratio lesser(const Ratio& a, const Ratio& b) {
    return b.value < a.value || (b.value == a.value && b.element < a.element) ? b : a;
}
DEVICE Ratio least_of_warp(Ratio r) {
#pragma unroll
    for (u32 step = 16; step; step >>= 1) {
        const Ratio other = {__shfl_xor_sync(ALL_LANES, r.value, step), __shfl_xor_sync(ALL_LANES, r.element, step)};
        r = lesser(r, other);
    }
    return r;
}

// The least of all, the first of several, by one block.
KERNEL(least_ratio, LEAST, IN(float) ratios, u64 elements, OUT(double) out) {
    SHARED(double, values, LEAST / WARP);
    SHARED(u64, places, LEAST / WARP);
    Ratio least = {INFINITY_D, 0};
    for (u64 i = threadIdx.x; i < elements; i += LEAST) {
        const float ratio = ratios[i];
        const Ratio next = {ratio == ratio ? (double)ratio : -INFINITY_D, i};
        if (next.value < least.value) least = next;
    }
    least = least_of_warp(least);
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    if (lane == 0) {
        values[warp] = least.value;
        places[warp] = least.element;
    }
    __syncthreads();
    if (warp > 0) return;
    least = {(double)values[lane], (u64)places[lane]};
    least = least_of_warp(least);
    if (lane == 0) {
        out[0] = least.value;
        out[1] = (double)least.element;
    }
}

KERNEL(strains, 256, IN(float) nodes, u64 count, IN(u32) corners, u64 elements, IN(float) displacements, IN(float) shear,
       OUT(float) out, OUT(float) mises) {
    const u64 element = global_thread();
    if (element >= elements) return;
    const Tetrahedron t = tetrahedron(corners, count, element);
    const Edges x = edges(nodes, count, t), u = edges(displacements, count, t);
    const Vector a = cross(x.b, x.c), b = cross(x.c, x.a), c = cross(x.a, x.b);
    const double volume = dot(x.a, a);
    const double xx = (u.a.x * a.x + u.b.x * b.x + u.c.x * c.x) / volume;
    const double yy = (u.a.y * a.y + u.b.y * b.y + u.c.y * c.y) / volume;
    const double zz = (u.a.z * a.z + u.b.z * b.z + u.c.z * c.z) / volume;
    const double yz = (u.a.y * a.z + u.b.y * b.z + u.c.y * c.z) / volume + (u.a.z * a.y + u.b.z * b.y + u.c.z * c.y) / volume;
    const double zx = (u.a.z * a.x + u.b.z * b.x + u.c.z * c.x) / volume + (u.a.x * a.z + u.b.x * b.z + u.c.x * c.z) / volume;
    const double xy = (u.a.x * a.y + u.b.x * b.y + u.c.x * c.y) / volume + (u.a.y * a.x + u.b.y * b.x + u.c.y * c.x) / volume;
    const double found[6] = {xx, yy, zz, yz, zx, xy};
#pragma unroll
    for (u32 k = 0; k < 6; ++k) out[k * elements + element] = (float)found[k];
    const double p = xx - yy, q = yy - zz, r = zz - xx;
    const double squares = 2.0 * (p * p + q * q + r * r) + 3.0 * (yz * yz + zx * zx + xy * xy);
    mises[element] = (float)((double)shear[element] * sqrt(squares));
}
