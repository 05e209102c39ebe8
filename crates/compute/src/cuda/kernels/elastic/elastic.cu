// The elastic operator L v = gamma v - sum of weighted second differences, and across axes where
// components depend on each other; and sweeps of red-black relaxation. The order of operations is
// that of the CPU. Beyond the border there are zeros, or the other end of the axis.
#include "values.cuh"

#define TILE_THREADS 256

// A grid, how many tiles it has along x and y, and how many slices a tile has.
struct Tiles {
    u32 nx, ny, nz;
    u32 along_x, along_y;
    u32 slices;
};

// Factors, by component and axis; in a sweep `take` is that of the residual (or of force and
// neighbours), `keep` that of the value itself.
struct Constants {
    float second[9], mixed[9];
    float gamma, take[3], keep[3];
    u32 is_periodic;
};

// ((after - here) - (here - before)) weight
DEVICE float second_difference(float before, float here, float after, float weight) {
    return ((after - here) - (here - before)) * weight;
}

// The neighbour of place i of an axis of n, one step before or after; n where there is none.
DEVICE u32 before(u32 i, u32 n, u32 is_periodic) { return i > 0 ? i - 1 : is_periodic ? n - 1 : n; }
DEVICE u32 after(u32 i, u32 n, u32 is_periodic) { return i + 1 < n ? i + 1 : is_periodic ? 0 : n; }

// Values of a row, or zeros where there is no such row (or slice).
template <u32 W> DEVICE void load_row(IN(float) src, u64 row, u32 x, u32 nx, bool is_there, Values<W>& to) {
    if (is_there) {
        load(src, row * nx + x, to);
    } else {
#pragma unroll
        for (u32 e = 0; e < W; ++e) to.v[e] = 0.0f;
    }
}

// L v, or f - L v, of one component, where components do not depend on each other. A thread has W
// voxels along x, and goes along z with the values before, at and after them in registers.
template <u32 W, bool RESIDUAL>
DEVICE void apply(IN(float) f, IN(float) field, const Tiles& t, const Constants& s, OUT(float) result) {
    const u32 own = blockIdx.y;
    const u64 n = (u64)t.nx * t.ny * t.nz;
    IN(float) v = field + own * n;
    OUT(float) out = result + own * n;
    u32 tile = blockIdx.x;
    const u32 x = (tile % t.along_x * blockDim.x + threadIdx.x) * W;
    tile /= t.along_x;
    const u32 y = tile % t.along_y * blockDim.y + threadIdx.y;
    const u32 first = tile / t.along_y * t.slices;
    if (x >= t.nx || y >= t.ny) return;
    const u32 rest = t.nz - first, slices = rest < t.slices ? rest : t.slices;
    const u32 left = before(x, t.nx, s.is_periodic), right = after(x + W - 1, t.nx, s.is_periodic);
    const u32 back = before(y, t.ny, s.is_periodic), front = after(y, t.ny, s.is_periodic);
    const float wx = s.second[3 * own], wy = s.second[3 * own + 1], wz = s.second[3 * own + 2];
    Values<W> below, here, above;
    const u32 z_below = before(first, t.nz, s.is_periodic);
    load_row(v, (u64)z_below * t.ny + y, x, t.nx, z_below < t.nz, below);
    load_row(v, (u64)first * t.ny + y, x, t.nx, true, here);
#pragma unroll 2
    for (u32 k = 0; k < slices; ++k) {
        const u32 z = first + k, z_above = after(z, t.nz, s.is_periodic);
        const u64 slice = (u64)z * t.ny, row = slice + y, i = row * t.nx + x;
        load_row(v, (u64)z_above * t.ny + y, x, t.nx, z_above < t.nz, above);
        Values<W> ahead, behind, force, value;
        load_row(v, slice + front, x, t.nx, front < t.ny, ahead);
        load_row(v, slice + back, x, t.nx, back < t.ny, behind);
        if (RESIDUAL) load(f + own * n, i, force);
        const float l = left < t.nx ? v[row * t.nx + left] : 0.0f;
        const float r = right < t.nx ? v[row * t.nx + right] : 0.0f;
#pragma unroll
        for (u32 e = 0; e < W; ++e) {
            const float c = here.v[e];
            const float le = e > 0 ? here.v[e > 0 ? e - 1 : 0] : l;
            const float re = e + 1 < W ? here.v[e + 1 < W ? e + 1 : 0] : r;
            float sum = second_difference(le, c, re, wx);
            sum = sum + second_difference(behind.v[e], c, ahead.v[e], wy);
            sum = sum + second_difference(below.v[e], c, above.v[e], wz);
            const float product = s.gamma * c - sum;
            value.v[e] = RESIDUAL ? force.v[e] - product : product;
        }
        store(out, i, value);
        below = here;
        here = above;
    }
}

KERNEL(product, TILE_THREADS, IN(float) v, Tiles t, Constants s, OUT(float) out) {
    apply<1, false>(v, v, t, s, out);
}
KERNEL(product_of_fours, TILE_THREADS, IN(float) v, Tiles t, Constants s, OUT(float) out) {
    apply<4, false>(v, v, t, s, out);
}
KERNEL(residual, TILE_THREADS, IN(float) f, IN(float) v, Tiles t, Constants s, OUT(float) out) {
    apply<1, true>(f, v, t, s, out);
}
KERNEL(residual_of_fours, TILE_THREADS, IN(float) f, IN(float) v, Tiles t, Constants s, OUT(float) out) {
    apply<4, true>(f, v, t, s, out);
}

// A voxel and its neighbours along each axis: place 0 before, 1 at, 2 after it; the size where there
// is none.
struct Near {
    u32 at[3][3];
    u32 size[3];
};

DEVICE float value_at(IN(float) v, const Near& p, u32 dx, u32 dy, u32 dz) {
    const u32 x = p.at[0][dx], y = p.at[1][dy], z = p.at[2][dz];
    if (x >= p.size[0] || y >= p.size[1] || z >= p.size[2]) return 0.0f;
    return v[((u64)z * p.size[1] + y) * p.size[0] + x];
}

// L v of component `own` at a voxel, where components may depend on each other.
DEVICE float coupled_product(IN(float) v, u64 n, const Near& p, const Constants& s, u32 own) {
    IN(float) u = v + own * n;
    const float c = value_at(u, p, 1, 1, 1);
    float sum = second_difference(value_at(u, p, 0, 1, 1), c, value_at(u, p, 2, 1, 1), s.second[3 * own]);
    sum = sum + second_difference(value_at(u, p, 1, 0, 1), c, value_at(u, p, 1, 2, 1), s.second[3 * own + 1]);
    sum = sum + second_difference(value_at(u, p, 1, 1, 0), c, value_at(u, p, 1, 1, 2), s.second[3 * own + 2]);
    for (u32 other = 0; other < 3; ++other) {
        if (other == own) continue;
        const float weight = s.mixed[3 * own + other];
        if (weight == 0.0f) continue;
        IN(float) w = v + other * n;
        float ahead, behind;
        if (own + other == 1) {
            ahead = value_at(w, p, 2, 2, 1) - value_at(w, p, 0, 2, 1);
            behind = value_at(w, p, 2, 0, 1) - value_at(w, p, 0, 0, 1);
        } else if (own + other == 2) {
            ahead = value_at(w, p, 2, 1, 2) - value_at(w, p, 0, 1, 2);
            behind = value_at(w, p, 2, 1, 0) - value_at(w, p, 0, 1, 0);
        } else {
            ahead = value_at(w, p, 1, 2, 2) - value_at(w, p, 1, 0, 2);
            behind = value_at(w, p, 1, 2, 0) - value_at(w, p, 1, 0, 0);
        }
        sum = sum + (ahead - behind) * weight;
    }
    return s.gamma * c - sum;
}

// The place of a thread in a tile of one slice; whether it is inside of the grid.
DEVICE bool near_of(const Tiles& t, const Constants& s, u32 k, Near& p) {
    u32 tile = blockIdx.x;
    const u32 x = tile % t.along_x * blockDim.x + threadIdx.x;
    tile /= t.along_x;
    const u32 y = tile % t.along_y * blockDim.y + threadIdx.y, z = tile / t.along_y * t.slices + k;
    const u32 here[3] = {x, y, z}, size[3] = {t.nx, t.ny, t.nz};
    for (u32 a = 0; a < 3; ++a) {
        p.size[a] = size[a];
        p.at[a][0] = before(here[a], size[a], s.is_periodic);
        p.at[a][1] = here[a];
        p.at[a][2] = after(here[a], size[a], s.is_periodic);
    }
    return x < t.nx && y < t.ny && z < t.nz;
}
DEVICE u64 index_of(const Near& p) {
    return ((u64)p.at[2][1] * p.size[1] + p.at[1][1]) * p.size[0] + p.at[0][1];
}

KERNEL(coupled_product_of, TILE_THREADS, IN(float) v, Tiles t, Constants s, OUT(float) out) {
    const u64 n = (u64)t.nx * t.ny * t.nz;
    for (u32 k = 0; k < t.slices; ++k) {
        Near p;
        if (!near_of(t, s, k, p)) return;
        out[blockIdx.y * n + index_of(p)] = coupled_product(v, n, p, s, blockIdx.y);
    }
}
KERNEL(coupled_residual, TILE_THREADS, IN(float) f, IN(float) v, Tiles t, Constants s, OUT(float) out) {
    const u64 n = (u64)t.nx * t.ny * t.nz;
    for (u32 k = 0; k < t.slices; ++k) {
        Near p;
        if (!near_of(t, s, k, p)) return;
        const u64 i = blockIdx.y * n + index_of(p);
        out[i] = f[i] - coupled_product(v, n, p, s, blockIdx.y);
    }
}

// What relaxes a component that does not depend on the others.
struct Relaxing {
    float wx, wy, wz, take, keep;
};

DEVICE Relaxing relaxing(const Constants& s, u32 own) {
    return {s.second[3 * own], s.second[3 * own + 1], s.second[3 * own + 2], s.take[own], s.keep[own]};
}

// A value that is relaxed. Differences would gain nothing: the value itself is rounded at each step.
DEVICE float relaxed(const Relaxing& r, float force, float c, float left, float right, float back, float front,
                     float below, float above) {
    float sum = force + (left + right) * r.wx;
    sum = sum + (back + front) * r.wy;
    sum = sum + (below + above) * r.wz;
    return c * r.keep + sum * r.take;
}

// One colour of component `own`, which may depend on the others; all else is copied.
KERNEL(relax_coupled_colour, TILE_THREADS, IN(float) f, IN(float) v, Tiles t, Constants s, u32 own, u32 colour, OUT(float) out) {
    const u64 n = (u64)t.nx * t.ny * t.nz;
    for (u32 k = 0; k < t.slices; ++k) {
        Near p;
        if (!near_of(t, s, k, p)) return;
        const u64 i = blockIdx.y * n + index_of(p);
        float c = v[i];
        if (blockIdx.y == own && ((p.at[0][1] + p.at[1][1] + p.at[2][1]) & 1) == colour)
            c = c + (f[i] - coupled_product(v, n, p, s, own)) * s.take[own];
        out[i] = c;
    }
}

// One colour of all components, which do not depend on each other; all else is copied.
KERNEL(relax_colour, TILE_THREADS, IN(float) f, IN(float) v, Tiles t, Constants s, u32 colour, OUT(float) out) {
    const u64 n = (u64)t.nx * t.ny * t.nz;
    IN(float) u = v + blockIdx.y * n;
    for (u32 k = 0; k < t.slices; ++k) {
        Near p;
        if (!near_of(t, s, k, p)) return;
        const u64 i = index_of(p);
        float c = u[i];
        if (((p.at[0][1] + p.at[1][1] + p.at[2][1]) & 1) == colour)
            c = relaxed(relaxing(s, blockIdx.y), f[blockIdx.y * n + i], c, value_at(u, p, 0, 1, 1), value_at(u, p, 2, 1, 1),
                        value_at(u, p, 1, 0, 1), value_at(u, p, 1, 2, 1), value_at(u, p, 1, 1, 0), value_at(u, p, 1, 1, 2));
        out[blockIdx.y * n + i] = c;
    }
}

// Both colours of a component in one pass: see Algorithm 3 of Ha (2011). A thread has two voxels along
// x, of which one has each colour, and goes along z; a warp has a row. The block has two voxels more
// on each side than it writes: the even points need their neighbours as they were, the odd ones need
// the even ones around them. At each step the even points of the slice above and the odd ones of the
// slice at hand are relaxed; they have the same place K in their pairs, which is that of all threads
// of a warp.
#define SWEEP_ROWS 16
// A slice in shared memory: first the rows of the one place of pairs, then those of the other.
#define SWEEP_PITCH 34
#define SWEEP_PLANE (SWEEP_ROWS * SWEEP_PITCH)
#define SWEEP_SLICE (2 * SWEEP_PLANE)

// The voxels of a pair of a thread that are inside of the grid, and where they are in a slice.
struct Columns {
    u64 row, n;
    u32 x[2];
    bool inside[2];
};

// The pair of a slice; zeros where there is none. `is_even` says that pairs are aligned in memory.
DEVICE void load_pair(IN(float) src, const Columns& c, u32 z, bool is_there, bool is_even, float (&to)[2]) {
    to[0] = to[1] = 0.0f;
    if (!is_there) return;
    const u64 i = z * c.n + c.row;
#ifndef VOXALIGN_EMULATION
    if (is_even) {
        if (c.inside[0]) {
            const float2 q = *reinterpret_cast<const float2*>(src + i + c.x[0]);
            to[0] = q.x;
            to[1] = q.y;
        }
        return;
    }
#endif
    if (c.inside[0]) to[0] = src[i + c.x[0]];
    if (c.inside[1]) to[1] = src[i + c.x[1]];
}

// The value of place K of a pair after it is relaxed; its neighbours along x and y are in `cell` of a
// slice.
template <u32 K>
DEVICE float relaxed_in(SHARED_POINTER(float) cell, const float (&pair)[2], const float (&below)[2],
                        const float (&above)[2], const float (&force)[2], const Relaxing& r) {
    const float other = pair[1 - K], side = K ? cell[1] : cell[SWEEP_PLANE - 1];
    const float back = cell[(i32)(K * SWEEP_PLANE) - SWEEP_PITCH], front = cell[K * SWEEP_PLANE + SWEEP_PITCH];
    return relaxed(r, force[K], pair[K], K ? other : side, K ? side : other, back, front, below[K], above[K]);
}

// The slices around the one at hand, two values each, and their forces.
struct Stack {
    float below[2], here[2], above[2], next[2], f_here[2], f_above[2];
};

// One step of a warp whose row relaxes place K.
template <u32 K>
DEVICE void relax_row(SHARED_POINTER(float) here, SHARED_POINTER(float) above, Stack& s, bool relaxes_above,
                      bool is_inside, bool relaxes_here, const Relaxing& r) {
    if (relaxes_above) {
        const float value = relaxed_in<K>(above, s.above, s.here, s.next, s.f_above, r);
        if (is_inside) {
            s.above[K] = value;
            above[K * SWEEP_PLANE] = value;
        }
    }
    if (relaxes_here) s.here[K] = relaxed_in<K>(here, s.here, s.below, s.above, s.f_here, r);
}

KERNEL(sweep, AT_ONCE(512, 2), IN(float) force, IN(float) field, Tiles t, Constants s, OUT(float) result) {
    SHARED(float, slab, 3 * SWEEP_SLICE);
    const u32 own = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
    u32 tile = blockIdx.x;
    const u32 x0 = tile % t.along_x * (2 * WARP - 4);
    tile /= t.along_x;
    const u32 y0 = tile % t.along_y * (SWEEP_ROWS - 4);
    const u32 z0 = tile / t.along_y * t.slices;
    const u32 rest = t.nz - z0, slices = rest < t.slices ? rest : t.slices;

    Columns c;
    c.n = (u64)t.nx * t.ny;
    // Places from the border on, which is two before the tile.
    const u32 px = x0 + 2 * tx, py = y0 + ty;
    bool row_inside;
    u32 y, z;
    if (s.is_periodic) {
        // The grid often enough that nothing is below zero.
        c.x[0] = (px + 2 * t.nx - 2) % t.nx;
        c.x[1] = (px + 2 * t.nx - 1) % t.nx;
        c.inside[0] = c.inside[1] = row_inside = true;
        y = (py + 2 * t.ny - 2) % t.ny;
        z = (z0 + 2 * t.nz - 2) % t.nz;
    } else {
        c.x[0] = px - 2;
        c.x[1] = px - 1;
        c.inside[0] = px >= 2 && px - 2 < t.nx;
        c.inside[1] = px >= 1 && px - 1 < t.nx;
        row_inside = py >= 2 && py - 2 < t.ny;
        y = py - 2;
        z = z0 - 2;
    }
    c.row = (u64)y * t.nx;
    const bool is_even = (t.nx & 1) == 0;
    IN(float) v = field + own * (c.n * t.nz);
    IN(float) f = force + own * (c.n * t.nz);
    OUT(float) out = result + own * (c.n * t.nz) + ((u64)z0 * c.n + (u64)(py - 2) * t.nx + (px - 2));
    const bool relaxes_above = ty >= 1 && ty < SWEEP_ROWS - 1;
    const bool relaxes_here = ty >= 2 && ty < SWEEP_ROWS - 2;
    const bool writes = relaxes_here && tx >= 1 && tx < WARP - 1 && py - 2 < t.ny;
    const bool write_0 = writes && px - 2 < t.nx, write_1 = writes && px - 1 < t.nx;
    const Relaxing r = relaxing(s, own);
    // The slice after slice i; those beyond a border that is not periodic are from nz on, or below zero.
    const u32 end = s.is_periodic ? t.nz : 0;
#define NEXT_SLICE(i) ((i) + 1 == end ? 0 : (i) + 1)
#define SLICE_THERE(i) (row_inside && (i) < t.nz)

    Stack k = {};
    const u32 z1 = NEXT_SLICE(z), z2 = NEXT_SLICE(z1);
    load_pair(v, c, z, SLICE_THERE(z), is_even, k.here);
    load_pair(v, c, z1, SLICE_THERE(z1), is_even, k.above);
    load_pair(v, c, z2, SLICE_THERE(z2), is_even, k.next);
    load_pair(f, c, z1, SLICE_THERE(z1), is_even, k.f_above);
    // Three slices take turns: that at hand, the one above, and the next.
    const u32 own_cell = ty * SWEEP_PITCH + tx + 1;
    u32 here = own_cell, above = own_cell + SWEEP_SLICE, next = own_cell + 2 * SWEEP_SLICE;
    slab[above] = k.above[0];
    slab[above + SWEEP_PLANE] = k.above[1];
    __syncthreads();
    // The slices above that at hand and two above it.
    u32 z_above = z1, z_next = z2;
    bool place = (py + z0 + 1) & 1;

    for (u32 q = 0; q < slices + 2; ++q) {
        // What the next step needs is on its way meanwhile.
        float later[2] = {0.0f, 0.0f}, f_next[2] = {0.0f, 0.0f};
        const u32 z_later = NEXT_SLICE(z_next);
        if (q + 1 < slices + 2) {
            load_pair(v, c, z_later, SLICE_THERE(z_later), is_even, later);
            load_pair(f, c, z_next, SLICE_THERE(z_next), is_even, f_next);
        }
        slab[next] = k.next[0];
        slab[next + SWEEP_PLANE] = k.next[1];
        const bool is_there = SLICE_THERE(z_above);
        if (place) {
            relax_row<1>(slab + here, slab + above, k, relaxes_above, is_there && c.inside[1], q >= 2 && relaxes_here, r);
        } else {
            relax_row<0>(slab + here, slab + above, k, relaxes_above, is_there && c.inside[0], q >= 2 && relaxes_here, r);
        }
        if (q >= 2) {
#ifndef VOXALIGN_EMULATION
            if (is_even) {
                if (write_0) *reinterpret_cast<float2*>(out) = make_float2(k.here[0], k.here[1]);
            } else
#endif
            {
                if (write_0) out[0] = k.here[0];
                if (write_1) out[1] = k.here[1];
            }
            out += c.n;
        }
        __syncthreads();
        const u32 free_slice = here;
        here = above;
        above = next;
        next = free_slice;
        z_above = z_next;
        z_next = z_later;
        place = !place;
#pragma unroll
        for (u32 e = 0; e < 2; ++e) {
            k.below[e] = k.here[e];
            k.here[e] = k.above[e];
            k.above[e] = k.next[e];
            k.next[e] = later[e];
            k.f_here[e] = k.f_above[e];
            k.f_above[e] = f_next[e];
        }
    }
}

// What the symbol of the operator is made of at a frequency, along one axis: see the host.
struct Part {
    float second, own, across;
};
DEVICE Part part_of(IN(float) table, u32 k) {
    Part p;
    p.second = table[3 * k];
    p.own = table[3 * k + 1];
    p.across = table[3 * k + 2];
    return p;
}

struct Frequencies {
    u32 width, ny, nz;
    u32 is_coupled;
    float gamma;
};

DEVICE void solve_symbol(const Part (&p)[3], const Frequencies& s, float (&f)[3]) {
    const float common = s.gamma + p[1].second + p[2].second + p[0].second;
    if (!s.is_coupled) {
        const float inverse = 1.0f / common;
#pragma unroll
        for (u32 a = 0; a < 3; ++a) f[a] = f[a] * inverse;
        return;
    }
    float inverse[3], above = 0.0f, below = 1.0f;
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        inverse[a] = 1.0f / (common + p[a].own);
        f[a] = f[a] * inverse[a];
        above = above + p[a].across * f[a];
        below = below + p[a].across * p[a].across * inverse[a];
    }
    const float step = above / below;
#pragma unroll
    for (u32 a = 0; a < 3; ++a) f[a] = f[a] - p[a].across * inverse[a] * step;
}

// The spectra of the three components times the inverse of the symbol. A thread has two frequencies.
KERNEL(symbol, 256, INOUT(float) spectra, IN(float) along_x, IN(float) along_y, IN(float) along_z, Frequencies s) {
    const u64 n = (u64)s.width * s.ny * s.nz, first = 2 * global_thread();
    if (first >= n) return;
    const bool fours = (n & 1) == 0;   // then a component begins at a multiple of 16 bytes
    float value[3][4];
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        const u64 i = 2 * (a * n + first);
        if (fours) {
            const float4 q = load4(spectra, i / 4);
            value[a][0] = q.x;
            value[a][1] = q.y;
            value[a][2] = q.z;
            value[a][3] = q.w;
        } else {
            const bool both = first + 1 < n;
            value[a][0] = spectra[i];
            value[a][1] = spectra[i + 1];
            value[a][2] = both ? spectra[i + 2] : 0.0f;
            value[a][3] = both ? spectra[i + 3] : 0.0f;
        }
    }
    // The host sees to it that frequencies can be counted in 32 bits.
    u32 row = (u32)first / s.width, x = (u32)first - row * s.width;
    u32 z = row / s.ny, y = row - z * s.ny;
#pragma unroll
    for (u32 e = 0; e < 2; ++e) {
        if (first + e < n) {
            const Part p[3] = {part_of(along_x, x), part_of(along_y, y), part_of(along_z, z)};
#pragma unroll
            for (u32 c = 0; c < 2; ++c) {
                float f[3] = {value[0][2 * e + c], value[1][2 * e + c], value[2][2 * e + c]};
                solve_symbol(p, s, f);
                value[0][2 * e + c] = f[0];
                value[1][2 * e + c] = f[1];
                value[2][2 * e + c] = f[2];
            }
        }
        if (++x == s.width) {
            x = 0;
            if (++y == s.ny) {
                y = 0;
                ++z;
            }
        }
    }
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        const u64 i = 2 * (a * n + first);
        if (fours) {
            store4(spectra, i / 4, make_float4(value[a][0], value[a][1], value[a][2], value[a][3]));
        } else {
            spectra[i] = value[a][0];
            spectra[i + 1] = value[a][1];
            if (first + 1 < n) {
                spectra[i + 2] = value[a][2];
                spectra[i + 3] = value[a][3];
            }
        }
    }
}

// Sine coefficients over the eigenvalues gamma + x[i] + y[j] + z[k]; a row of blocks for a component.
KERNEL(eigenvalues, 256, INOUT(float) coefficients, IN(float) along_x, IN(float) along_y, IN(float) along_z, Frequencies s) {
    const u64 n = (u64)s.width * s.ny * s.nz, i = global_thread();
    if (i >= n) return;
    const u32 row = (u32)i / s.width, x = (u32)i - row * s.width;
    const u32 z = row / s.ny, y = row - z * s.ny;
    coefficients[blockIdx.y * n + i] /= along_x[x] + (s.gamma + along_y[y] + along_z[z]);
}
