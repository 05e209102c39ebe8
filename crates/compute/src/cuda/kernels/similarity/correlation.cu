// Local correlation and its derivative, for windows of at most RX, RY and RZ voxels to each side, which are
// known when it is compiled: `windows` makes the coefficients p, q and r at the centres of windows
// (cpu/similarity/correlation.rs says what they are), `derivatives` sums them over windows. Where BOTH is 1
// there are derivatives in both images: p is that of both, and the fixed image has a q and an r of its own.
// Exchanging the images then exchanges what is found, to the last bit. A block goes from
// slice to slice of a tile. It brings a slice to shared memory, sums along x there, for four voxels at
// a time, and each thread sums along y for two voxels that follow each other along y. Along z it adds
// what a slice has to the sums of all windows that the slice is in. Fours begin at multiples of four of
// the grid, so that no sum depends on where the tile begins.
#define TX 32u
#define TY 16u
#define THREADS 256u
#include "correlation.cuh"
#include "slab.cuh"

#ifndef BOTH
#define BOTH 0
#endif
#define PLANES (3 + 2 * BOTH)
#define DEPTH (2 * RZ + 1)
// Blocks of a multiprocessor for whose derivatives the sums along z leave registers.
#define DERIVATIVES_AT_ONCE (RZ > 2 || BOTH ? 2 : 3)

// Sums over the four windows along x that begin at the first four of the values.
DEVICE float4 along_x(const float (&v)[4 + 2 * RX]) {
    if (RX == 0) return make_float4(v[0], v[1], v[2], v[3]);
    // What all four have, and what two of them share besides.
    float core = 0.0f;
#pragma unroll
    for (u32 d = 3; d <= 2 * RX; ++d) core += v[d];
    const u32 last = 2 * RX;
    const float left = core + (v[1] + v[2]), right = core + (v[last + 1] + v[last + 2]);
    return make_float4(left + v[0], left + v[last + 1], right + v[2], right + v[last + 3]);
}

// Sums along y of the rows that have been summed along x, for the two voxels of a thread.
DEVICE void along_y(SHARED_POINTER(float) rows, float (&sum)[2]) {
    const u32 at = threadIdx.x / TX * 2 * TX + threadIdx.x % TX;
    const float first = rows[at];
    float both = 0.0f;
#pragma unroll
    for (u32 j = 1; j <= 2 * RY; ++j) both += rows[at + j * TX];
    sum[0] = first + both;
    sum[1] = both + rows[at + (2 * RY + 1) * TX];
}

// Adds what a slice has to the windows that it is in. The first of them is then complete.
DEVICE void along_z(float value, float (&sum)[DEPTH]) {
#pragma unroll
    for (u32 k = 0; k + 1 < DEPTH; ++k) sum[k] = sum[k + 1] + value;
    sum[DEPTH - 1] = value;
}

KERNEL(windows, AT_ONCE(THREADS, 2), IN(float) fixed, IN(float) moving, IN(float) weights,
       IN(double) centres, Grid grid, float noise, OUT(float) out, OUT(double) partials) {
    SHARED(float, f_slice, WX * WY);
    SHARED(float, m_slice, WX * WY);
    SHARED(float, rows, 5 * WY * TX);
    SHARED(double, scratch, 32);
    const Tile tile = tile_of(grid);
    float f_centre, m_centre;
    centres_of(centres, f_centre, m_centre);
    const i64 plane = (i64)grid.dims[0] * grid.dims[1], n = plane * grid.dims[2];
    const Places places = places_of<false>(grid, tile);
    const u32 x = tile.x + threadIdx.x % TX, y = tile.y + threadIdx.x / TX * 2;
    // Voxels of a window that are in one slice, and one over those of a window with all its slices.
    const u32 count_x = window_size(x, RX, grid.dims[0]);
    float in_slice[2], over_all[2];
#pragma unroll
    for (u32 v = 0; v < 2; ++v) {
        in_slice[v] = (float)count_x * (float)window_size(y + v, RY, grid.dims[1]);
        over_all[v] = 1.0f / (in_slice[v] * DEPTH);
    }
    float sums[2][5][DEPTH];
#pragma unroll
    for (u32 v = 0; v < 2; ++v)
#pragma unroll
        for (u32 q = 0; q < 5; ++q)
#pragma unroll
            for (u32 k = 0; k < DEPTH; ++k) sums[v][q][k] = 0.0f;
    double energy = 0.0;
    float4 f_next[EACH], m_next[EACH];
    bring<false>(fixed, grid, tile, places, tile.z - RZ, f_centre, f_next);
    bring<false>(moving, grid, tile, places, tile.z - RZ, m_centre, m_next);
    for (i64 z = tile.z - RZ; z < tile.end + RZ; ++z) {
        leave(f_next, f_slice);
        leave(m_next, m_slice);
        __syncthreads();
        // The next slice is on its way while this one is summed.
        if (z + 1 < tile.end + RZ) {
            bring<false>(fixed, grid, tile, places, z + 1, f_centre, f_next);
            bring<false>(moving, grid, tile, places, z + 1, m_centre, m_next);
        }
        for (u32 i = threadIdx.x; i < WY * (TX / 4); i += THREADS) {
            float f[4 + 2 * RX], m[4 + 2 * RX], products[4 + 2 * RX];
            reach(f_slice, i % (TX / 4), i / (TX / 4), f);
            reach(m_slice, i % (TX / 4), i / (TX / 4), m);
            store4(rows, i, along_x(f));
            store4(rows, WY * (TX / 4) + i, along_x(m));
#pragma unroll
            for (u32 d = 0; d < 4 + 2 * RX; ++d) products[d] = f[d] * f[d];
            store4(rows, 2 * WY * (TX / 4) + i, along_x(products));
#pragma unroll
            for (u32 d = 0; d < 4 + 2 * RX; ++d) products[d] = m[d] * m[d];
            store4(rows, 3 * WY * (TX / 4) + i, along_x(products));
#pragma unroll
            for (u32 d = 0; d < 4 + 2 * RX; ++d) products[d] = f[d] * m[d];
            store4(rows, 4 * WY * (TX / 4) + i, along_x(products));
        }
        __syncthreads();
#pragma unroll
        for (u32 q = 0; q < 5; ++q) {
            float s[2];
            along_y(rows + q * (WY * TX), s);
#pragma unroll
            for (u32 v = 0; v < 2; ++v) along_z(s[v], sums[v][q]);
        }
        const i64 centre = z - RZ;
        if (centre < tile.z || x >= grid.dims[0]) continue;
        const u32 count_z = window_size((u32)centre, RZ, grid.dims[2]);
#pragma unroll
        for (u32 v = 0; v < 2; ++v) {
            if (y + v >= grid.dims[1]) continue;
            const i64 here = centre * plane + (i64)(y + v) * grid.dims[0] + x;
            const float count = in_slice[v] * (float)count_z;
            const float over = count_z == DEPTH ? over_all[v] : 1.0f / count;
            const float f_mean = sums[v][0][0] * over, m_mean = sums[v][1][0] * over;
            // Not fused: of a single voxel nothing is left.
#if BOTH
            const float a = sums[v][4][0] - (sums[v][0][0] * sums[v][1][0]) * over;
#else
            const float a = sums[v][4][0] - f_mean * sums[v][1][0];
#endif
            const float b = fmaf(count, noise, fmaxf(sums[v][2][0] - f_mean * sums[v][0][0], 0.0f));
            const float c = fmaf(count, noise, fmaxf(sums[v][3][0] - m_mean * sums[v][1][0], 0.0f));
            const float w = weights ? weights[here] : 1.0f;
#if BOTH
            const BothCoefficients k = both_coefficients(a, b, c, f_mean, m_mean, w);
            out[3 * n + here] = k.q_fixed;
            out[4 * n + here] = k.r_fixed;
#else
            const Coefficients k = coefficients(a, b, c, f_mean, m_mean, w);
#endif
            energy += (double)k.energy;
            out[here] = k.p;
            out[n + here] = k.q;
            out[2 * n + here] = k.r;
        }
    }
    const double sum = block_sum(energy, scratch);
    if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

KERNEL(derivatives, AT_ONCE(THREADS, DERIVATIVES_AT_ONCE), IN(float) fixed, IN(float) moving, IN(double) centres,
       IN(float) coefficients, Grid grid, float scale, OUT(float) out, OUT(float) out_fixed) {
    SHARED(float, slice, PLANES * WX * WY);
    SHARED(float, rows, PLANES * WY * TX);
    const Tile tile = tile_of(grid);
    float f_centre, m_centre;
    centres_of(centres, f_centre, m_centre);
    const i64 plane = (i64)grid.dims[0] * grid.dims[1], n = plane * grid.dims[2];
    const Places places = places_of<false>(grid, tile);
    const u32 x = tile.x + threadIdx.x % TX, y = tile.y + threadIdx.x / TX * 2;
    float sums[2][PLANES][DEPTH];
#pragma unroll
    for (u32 v = 0; v < 2; ++v)
#pragma unroll
        for (u32 q = 0; q < PLANES; ++q)
#pragma unroll
            for (u32 k = 0; k < DEPTH; ++k) sums[v][q][k] = 0.0f;
    float4 next[PLANES][EACH];
#pragma unroll
    for (u32 q = 0; q < PLANES; ++q) bring<false>(coefficients + q * n, grid, tile, places, tile.z - RZ, 0.0f, next[q]);
    for (i64 z = tile.z - RZ; z < tile.end + RZ; ++z) {
#pragma unroll
        for (u32 q = 0; q < PLANES; ++q) leave(next[q], slice + q * (WX * WY));
        const i64 centre = z - RZ;
        const bool is_whole = centre >= tile.z && x < grid.dims[0];
        const i64 here = centre * plane + (i64)y * grid.dims[0] + x;
        float f[2], m[2];
#pragma unroll
        for (u32 v = 0; v < 2; ++v) {
            const bool reads = is_whole && y + v < grid.dims[1];
            f[v] = reads ? fixed[here + v * grid.dims[0]] - f_centre : 0.0f;
            m[v] = reads ? moving[here + v * grid.dims[0]] - m_centre : 0.0f;
        }
        __syncthreads();
        if (z + 1 < tile.end + RZ) {
#pragma unroll
            for (u32 q = 0; q < PLANES; ++q) bring<false>(coefficients + q * n, grid, tile, places, z + 1, 0.0f, next[q]);
        }
        for (u32 i = threadIdx.x; i < WY * (TX / 4); i += THREADS) {
#pragma unroll
            for (u32 q = 0; q < PLANES; ++q) {
                float v[4 + 2 * RX];
                reach(slice + q * (WX * WY), i % (TX / 4), i / (TX / 4), v);
                store4(rows, q * WY * (TX / 4) + i, along_x(v));
            }
        }
        __syncthreads();
#pragma unroll
        for (u32 q = 0; q < PLANES; ++q) {
            float s[2];
            along_y(rows + q * (WY * TX), s);
#pragma unroll
            for (u32 v = 0; v < 2; ++v) along_z(s[v], sums[v][q]);
        }
        if (!is_whole) continue;
#pragma unroll
        for (u32 v = 0; v < 2; ++v) {
            if (y + v >= grid.dims[1]) continue;
            const float derivative = fmaf(f[v], sums[v][0][0], fmaf(-m[v], sums[v][1][0], -sums[v][2][0]));
            out[here + v * grid.dims[0]] = scale * derivative;
#if BOTH
            const float other = fmaf(m[v], sums[v][0][0], fmaf(-f[v], sums[v][3][0], -sums[v][4][0]));
            out_fixed[here + v * grid.dims[0]] = scale * other;
#endif
        }
    }
}
