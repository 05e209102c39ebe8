// Finite differences on a grid, as differences.cuh has them.
#include "differences.cuh"

template <u32 W>
DEVICE void gradient_of(IN(float) src, const Tiles& t, const Scales& s, OUT(float) out) {
    const Place p = place_of<W>(t, s);
    const u64 n = p.slice * t.nz;
    Column<W> c;
    begin(c, src, p);
    u64 i = p.index;
#pragma unroll 2
    for (u32 k = 0; k < p.slices; ++k, i += p.slice) {
        const u32 z = p.z + k;
        const float along_z = scale_z(s, z, t.nz);
        reach(c, src, i, p.slice, z + 1 == t.nz);
        const Beside<W> b = beside<W>(src, i, p);
        Values<W> front, back, dx, dy, dz;
        load(src, i + p.front, front);
        load(src, i - p.back, back);
#pragma unroll
        for (u32 e = 0; e < W; ++e) {
            dx.v[e] = (right_of(c.here, b, e) - left_of(c.here, b, e)) * scale_x<W>(s, p, e);
            dy.v[e] = (front.v[e] - back.v[e]) * p.along_y;
            dz.v[e] = (c.after.v[e] - c.before.v[e]) * along_z;
        }
        store(out, i, dx);
        store(out, i + n, dy);
        store(out, i + 2 * n, dz);
        advance(c);
    }
}

template <u32 W>
DEVICE void divergence_of(IN(float) field, const Tiles& t, const Scales& s, OUT(float) out) {
    const Place p = place_of<W>(t, s);
    const u64 n = p.slice * t.nz;
    IN(float) fy = field + n;
    IN(float) fz = field + 2 * n;
    Column<W> c;
    begin(c, fz, p);
    u64 i = p.index;
#pragma unroll 2
    for (u32 k = 0; k < p.slices; ++k, i += p.slice) {
        const u32 z = p.z + k;
        const float scale = scale_z(s, z, t.nz);
        reach(c, fz, i, p.slice, z + 1 == t.nz);
        Values<W> here, front, back, sum;
        if (W > 1) load(field, i, here);
        const Beside<W> b = beside<W>(field, i, p);
        load(fy, i + p.front, front);
        load(fy, i - p.back, back);
#pragma unroll
        for (u32 e = 0; e < W; ++e) {
            const float along_x = (right_of(here, b, e) - left_of(here, b, e)) * scale_x<W>(s, p, e);
            const float along_y = (front.v[e] - back.v[e]) * p.along_y;
            sum.v[e] = along_x + along_y + (c.after.v[e] - c.before.v[e]) * scale;
        }
        store(out, i, sum);
        advance(c);
    }
}

// Here the scales are the same at the ends as between them.
template <u32 W>
DEVICE void laplacian_of(IN(float) src, const Tiles& t, const Scales& s, OUT(float) out) {
    const Place p = place_of<W>(t, s);
    Column<W> c;
    begin(c, src, p);
    u64 i = p.index;
#pragma unroll 2
    for (u32 k = 0; k < p.slices; ++k, i += p.slice) {
        reach(c, src, i, p.slice, p.z + k + 1 == t.nz);
        const Beside<W> b = beside<W>(src, i, p);
        Values<W> front, back, sum;
        load(src, i + p.front, front);
        load(src, i - p.back, back);
#pragma unroll
        for (u32 e = 0; e < W; ++e) {
            const float here = c.here.v[e];
            const float right = right_of(c.here, b, e), left = left_of(c.here, b, e);
            const float along_x = ((right - here) - (here - left)) * s.middle[0];
            const float along_y = ((front.v[e] - here) - (here - back.v[e])) * s.middle[1];
            const float along_z = ((c.after.v[e] - here) - (here - c.before.v[e])) * s.middle[2];
            sum.v[e] = along_x + along_y + along_z;
        }
        store(out, i, sum);
        advance(c);
    }
}

template <u32 W>
DEVICE void jacobian_of(IN(float) field, const Tiles& t, const Scales& s, OUT(float) out) {
    const Place p = place_of<W>(t, s);
    const u64 n = p.slice * t.nz;
    Column<W> c[3];
#pragma unroll
    for (u32 r = 0; r < 3; ++r) begin(c[r], field + r * n, p);
    u64 i = p.index;
    for (u32 k = 0; k < p.slices; ++k, i += p.slice) {
        const u32 z = p.z + k;
        const float along_z = scale_z(s, z, t.nz);
        Beside<W> b[3];
        Values<W> front[3], back[3], determinant;
#pragma unroll
        for (u32 r = 0; r < 3; ++r) {
            IN(float) src = field + r * n;
            reach(c[r], src, i, p.slice, z + 1 == t.nz);
            b[r] = beside<W>(src, i, p);
            load(src, i + p.front, front[r]);
            load(src, i - p.back, back[r]);
        }
#pragma unroll
        for (u32 e = 0; e < W; ++e) {
            float m[3][3];
#pragma unroll
            for (u32 r = 0; r < 3; ++r) {
                m[r][0] = (right_of(c[r].here, b[r], e) - left_of(c[r].here, b[r], e)) * scale_x<W>(s, p, e);
                m[r][1] = (front[r].v[e] - back[r].v[e]) * p.along_y;
                m[r][2] = (c[r].after.v[e] - c[r].before.v[e]) * along_z;
                m[r][r] = m[r][r] + 1.0f;
            }
            float sum = 0.0f;
#pragma unroll
            for (u32 a = 0; a < 3; ++a) {
                const u32 j = (a + 1) % 3, l = (a + 2) % 3;
                const float minor = m[1][j] * m[2][l] - m[1][l] * m[2][j];
                sum = sum + m[0][a] * minor;
            }
            determinant.v[e] = sum;
        }
        store(out, i, determinant);
#pragma unroll
        for (u32 r = 0; r < 3; ++r) advance(c[r]);
    }
}

KERNEL(gradient, TILE_THREADS, IN(float) src, Tiles t, Scales s, OUT(float) out) {
    gradient_of<1>(src, t, s, out);
}
KERNEL(gradient_of_fours, TILE_THREADS, IN(float) src, Tiles t, Scales s, OUT(float) out) {
    gradient_of<4>(src, t, s, out);
}
KERNEL(divergence, TILE_THREADS, IN(float) field, Tiles t, Scales s, OUT(float) out) {
    divergence_of<1>(field, t, s, out);
}
KERNEL(divergence_of_fours, TILE_THREADS, IN(float) field, Tiles t, Scales s, OUT(float) out) {
    divergence_of<4>(field, t, s, out);
}
KERNEL(laplacian, TILE_THREADS, IN(float) src, Tiles t, Scales s, OUT(float) out) {
    laplacian_of<1>(src, t, s, out);
}
KERNEL(laplacian_of_fours, TILE_THREADS, IN(float) src, Tiles t, Scales s, OUT(float) out) {
    laplacian_of<4>(src, t, s, out);
}
KERNEL(jacobian_determinant, TILE_THREADS, IN(float) field, Tiles t, Scales s, OUT(float) out) {
    jacobian_of<1>(field, t, s, out);
}
KERNEL(jacobian_determinant_of_fours, TILE_THREADS, IN(float) field, Tiles t, Scales s, OUT(float) out) {
    jacobian_of<4>(field, t, s, out);
}
