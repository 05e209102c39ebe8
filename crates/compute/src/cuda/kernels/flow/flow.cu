// Displaced voxels in their own grid, with the arithmetic of the CPU backend: the same operations in
// the same order, so the same bits (but for the signs of zeros). A displacement is cut to the grid and divided into whole voxels
// and a rest with the same sign, both exactly; interpolation counts from the voxel next towards the
// start to the neighbour beyond the position.
#include "interpolate.cuh"

// What sets the step: factor * scale, where the factor is one, or follows from the largest velocity.
struct Stepping {
    double scale[3];
    double step;
    double most;
    u64 limited;
};

// A grid of at most 2^31 - 1 voxels.
struct Grid {
    u32 dims[3];
    u32 strides[3];   // zero for an axis of size 1
};

// The part of a displacement along an axis that is inside the grid.
struct Along {
    i32 here, beyond;   // steps in memory to the voxel, and from there to the neighbour
    float rest;         // from the voxel, with the sign of the displacement
    float part;         // the same towards the neighbour
    bool up;            // whether the neighbour is the next voxel, not the one before
    bool inside;        // whether nothing was cut
};

DEVICE Along displaced(u32 at, u32 n, u32 stride, float s) {
    const float place = (float)at, last = (float)(n - 1);
    const float low = -place, high = last - place;
    // What is not a number becomes the lower limit.
    float cut = s > low ? s : low;
    cut = cut < high ? cut : high;
    const i32 whole = (i32)cut;
    Along a;
    a.rest = cut - (float)whole;
    a.up = 0.0f <= a.rest && place + (float)whole < last;
    a.here = whole * (i32)stride;
    a.beyond = a.up ? (i32)stride : -(i32)stride;
    a.inside = s == cut;
    a.part = a.up ? a.rest : -a.rest;
    return a;
}

// What is at the far end less what is at the near end of increasing coordinates.
DEVICE float rise(const Along& a, float here, float beyond) {
    return a.up ? beyond - here : here - beyond;
}
// Both factors have the other sign where the neighbour is before the voxel, which leaves their product.
DEVICE float between(const Along& a, float here, float beyond) {
    return here + a.part * (beyond - here);
}

// The eight values around a position: of the voxel `i` and its neighbours, x first.
struct Corners {
    float v[8];
};

DEVICE Corners corners_at(IN(float) src, u32 i, const Along& x, const Along& y, const Along& z) {
    Corners c;
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
        const i32 far = (k & 1u ? x.beyond : 0) + (k & 2u ? y.beyond : 0) + (k & 4u ? z.beyond : 0);
        c.v[k] = src[i + (u32)far];
    }
    return c;
}

DEVICE float value_of(const Corners& c, const Along& x, const Along& y, const Along& z) {
    const float near = between(y, between(x, c.v[0], c.v[1]), between(x, c.v[2], c.v[3]));
    const float far = between(y, between(x, c.v[4], c.v[5]), between(x, c.v[6], c.v[7]));
    return between(z, near, far);
}

// out = s + field(id + s) with s = factor * scale * velocity.
KERNEL(advance, AT_ONCE(TILE_THREADS, 3), IN(float) field, IN(float) velocity, Stepping by, IN(double) largest,
       Grid g, Tiles t, OUT(float) out) {
    SHARED(float, scale, 3);
    const u32 rank = thread_rank();
    if (rank < 3) {
        double factor = 1.0;
        if (by.limited) {
            factor = by.step / largest[0];
            // Written so that what is not a number becomes zero.
            if (!(fabs(factor) < INFINITY_D)) factor = 0.0;
            else if (factor > by.most) factor = by.most;
        }
        scale[rank] = (float)(factor * by.scale[rank]);
    }
    const Place at = place_of(t);
    const u64 n = at.step * t.nz;
    Vector next = {{0.0f, 0.0f, 0.0f}};
    if (at.slices) next = displacement(velocity, n, at.index);
    __syncthreads();
    const float sx = scale[0], sy = scale[1], sz = scale[2];
    u64 i = at.index;
    for (u32 k = 0; k < at.slices; ++k, i += at.step) {
        const float s[3] = {next.v[0] * sx, next.v[1] * sy, next.v[2] * sz};
        if (k + 1 < at.slices) next = displacement(velocity, n, i + at.step);
        const Along x = displaced(at.x, g.dims[0], g.strides[0], s[0]);
        const Along y = displaced(at.y, g.dims[1], g.strides[1], s[1]);
        const Along z = displaced(at.z + k, g.dims[2], g.strides[2], s[2]);
        const u32 here = (u32)i + (u32)(x.here + y.here + z.here);
#pragma unroll
        for (u32 a = 0; a < 3; ++a)
            __stcs(&out[i + a * n], s[a] + value_of(corners_at(field + a * n, here, x, y, z), x, y, z));
    }
}

// The residual w + u(i + w) at a displacement, its square, and the derivatives by the displacement.
struct Residual {
    float r[3];
    float square;
    float jacobian[3][3];
};

DEVICE Residual residual_at(IN(float) field, u64 n, const Grid& g, const u32 (&at)[3], u32 i, const float (&w)[3]) {
    const Along x = displaced(at[0], g.dims[0], g.strides[0], w[0]);
    const Along y = displaced(at[1], g.dims[1], g.strides[1], w[1]);
    const Along z = displaced(at[2], g.dims[2], g.strides[2], w[2]);
    const u32 here = i + (u32)(x.here + y.here + z.here);
    Residual e;
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        const Corners c = corners_at(field + a * n, here, x, y, z);
        float along[4], line[4];
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            along[k] = rise(x, c.v[2 * k], c.v[2 * k + 1]);
            line[k] = c.v[2 * k] + x.rest * along[k];
        }
        const float near = between(y, line[0], line[1]), far = between(y, line[2], line[3]);
        const float dx = between(z, between(y, along[0], along[1]), between(y, along[2], along[3]));
        const float dy = between(z, rise(y, line[0], line[1]), rise(y, line[2], line[3]));
        const float dz = rise(z, near, far);
        e.r[a] = w[a] + between(z, near, far);
        // Beyond the border nothing changes.
        e.jacobian[a][0] = x.inside ? dx : 0.0f;
        e.jacobian[a][1] = y.inside ? dy : 0.0f;
        e.jacobian[a][2] = z.inside ? dz : 0.0f;
        e.jacobian[a][a] = e.jacobian[a][a] + 1.0f;
    }
    e.square = e.r[0] * e.r[0] + e.r[1] * e.r[1] + e.r[2] * e.r[2];
    return e;
}

// Newton's step, or where the derivative is near singular that of the fixed point.
DEVICE void newton(const Residual& e, float (&d)[3]) {
    float cofactor[3][3];
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        const u32 a1 = (a + 1) % 3, a2 = (a + 2) % 3;
#pragma unroll
        for (u32 b = 0; b < 3; ++b) {
            const u32 b1 = (b + 1) % 3, b2 = (b + 2) % 3;
            cofactor[a][b] = e.jacobian[a1][b1] * e.jacobian[a2][b2] - e.jacobian[a1][b2] * e.jacobian[a2][b1];
        }
    }
    const float determinant =
        e.jacobian[0][0] * cofactor[0][0] + e.jacobian[0][1] * cofactor[0][1] + e.jacobian[0][2] * cofactor[0][2];
    const bool regular = SINGULAR < fabsf(determinant);
    const float inverse = -1.0f / determinant;
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        const float sum = cofactor[0][a] * e.r[0] + cofactor[1][a] * e.r[1] + cofactor[2][a] * e.r[2];
        d[a] = regular ? sum * inverse : -e.r[a];
    }
}

// The inverse of a field from the displacements in `out` on. `ends` gets the bits of the largest
// square of a residual, and how many are above the tolerance; in any order these are the same.
KERNEL(invert, 256, IN(float) field, u64 n, Grid g, float tolerance, u32 iterations, INOUT(float) out, INOUT(u64) ends) {
    SHARED(u32, most, 1);
    const u64 i = global_thread();
    if (threadIdx.x == 0) most[0] = 0;
    __syncthreads();
    bool left = false;
    if (i < n) {
        const u32 row = (u32)i / g.dims[0];
        const u32 at[3] = {(u32)i % g.dims[0], row % g.dims[1], row / g.dims[1]};
        float w[3], d[3], part = 1.0f;
#pragma unroll
        for (u32 a = 0; a < 3; ++a) w[a] = out[i + a * n];
        Residual e = residual_at(field, n, g, at, (u32)i, w);
        newton(e, d);
        for (u32 k = 0; k < iterations && !(e.square <= tolerance); ++k) {
            float next[3];
#pragma unroll
            for (u32 a = 0; a < 3; ++a) next[a] = w[a] + part * d[a];
            const Residual found = residual_at(field, n, g, at, (u32)i, next);
            // Where it is better go on from there, elsewhere less far, or another way.
            if (found.square < e.square) {
                e = found;
                newton(e, d);
#pragma unroll
                for (u32 a = 0; a < 3; ++a) w[a] = next[a];
                part = 1.0f;
            } else {
                part = part * 0.5f;
                if (part < SHORTEST) {
                    part = 1.0f;
#pragma unroll
                    for (u32 a = 0; a < 3; ++a) d[a] = -e.r[a];
                }
            }
        }
#pragma unroll
        for (u32 a = 0; a < 3; ++a) out[i + a * n] = w[a];
        left = !(e.square <= tolerance);
        // What is not a number is as bad as can be.
        const float square = e.square >= 0.0f ? e.square : INFINITY_F;
        atomicMax(&most[0], __float_as_uint(square));
    }
    const int count = __syncthreads_count(left ? 1 : 0);
    if (threadIdx.x == 0) {
        atomicMax(&ends[0], (u64)most[0]);
        if (count) atomicAdd(&ends[1], (u64)count);
    }
}

// The displacement less the part of it that stays within the grid.
DEVICE float beyond(float u, u32 at, u32 n) {
    const float low = -(float)at, high = (float)(n - 1u - at);
    return u < low ? u - low : u > high ? u - high : u * 0.0f;
}

// How far each displacement leads out of the grid.
KERNEL(overshoot, 256, IN(float) field, u64 n, Grid g, OUT(float) out) {
    const u64 i = global_thread();
    if (i >= n) return;
    const u32 row = (u32)i / g.dims[0];
    const float x = beyond(field[i], (u32)i % g.dims[0], g.dims[0]);
    const float y = beyond(field[i + n], row % g.dims[1], g.dims[1]);
    const float z = beyond(field[i + 2 * n], row / g.dims[1], g.dims[2]);
    out[i] = sqrtf(x * x + y * y + z * z);
}
