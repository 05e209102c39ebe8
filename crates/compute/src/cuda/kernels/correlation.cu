// Local correlation and its slope, for windows of at most RX, RY and RZ voxels to each side, which are
// known when it is compiled: `windows` makes the coefficients p, q and r at the centres of windows
// (cpu/similarity/correlation.rs says what they are), `slopes` sums them over windows. A block goes from
// slice to slice of a tile of TX x TY voxels. It brings a slice to shared memory, sums along x there,
// and each thread sums along y for two voxels that follow each other along y. Along z it adds what a
// slice has to the sums of all windows that the slice is in, so that no sum depends on where the tile
// begins.
#include "correlation.cuh"

#define TX 32u
#define TY 16u
#define THREADS 256u
// The tile and what its windows reach.
#define WX (TX + 2u * RX)
#define WY (TY + 2u * RY)
#define VOXELS (WX * WY)
#define EACH ((VOXELS + THREADS - 1u) / THREADS)
#define DEPTH (2 * RZ + 1)

// How the grid is cut; `Grid` of correlation.rs.
struct Grid {
    u32 dims[3];
    u32 along[2]; // tiles along x and y
    u32 slices;   // of a tile
};

// The tile of a block.
struct Tile {
    u32 x, y;   // of the first voxel
    i64 z, end; // slices
};

DEVICE Tile tile_of(const Grid& g) {
    const u32 tile = blockIdx.x, row = tile / g.along[0], layer = row / g.along[1];
    Tile t;
    t.x = (tile - row * g.along[0]) * TX;
    t.y = (row - layer * g.along[1]) * TY;
    t.z = (i64)layer * g.slices;
    t.end = t.z + g.slices < (i64)g.dims[2] ? t.z + g.slices : (i64)g.dims[2];
    return t;
}

// Where the voxels that a thread brings are in a slice; below zero for those outside.
DEVICE void places(const Grid& g, const Tile& t, i64 (&at)[EACH]) {
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
        const u32 i = threadIdx.x + k * THREADS;
        const i64 x = (i64)t.x + i % WX - RX, y = (i64)t.y + i / WX - RY;
        const bool inside = i < VOXELS && x >= 0 && x < (i64)g.dims[0] && y >= 0 && y < (i64)g.dims[1];
        at[k] = inside ? y * g.dims[0] + x : -1;
    }
}

// The part of a slice that a thread brings, `centre` taken off; zeros outside of the grid.
DEVICE void bring(IN(float) image, const Grid& g, i64 z, const i64 (&at)[EACH], float centre,
                  float (&value)[EACH]) {
    const bool inside = z >= 0 && z < (i64)g.dims[2];
    const i64 slice = z * ((i64)g.dims[0] * g.dims[1]);
#pragma unroll
    for (u32 k = 0; k < EACH; ++k)
        value[k] = inside && at[k] >= 0 ? image[slice + at[k]] - centre : 0.0f;
}

DEVICE void leave(const float (&value)[EACH], SHARED_POINTER(float) slice) {
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
        const u32 i = threadIdx.x + k * THREADS;
        if (i < VOXELS) slice[i] = value[k];
    }
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
       IN(float) centres, Grid grid, float noise, OUT(float) out, OUT(double) partials) {
    SHARED(float, f_slice, VOXELS);
    SHARED(float, m_slice, VOXELS);
    SHARED(float, rows, 5 * WY * TX);
    SHARED(double, scratch, 32);
    const Tile tile = tile_of(grid);
    const float f_centre = centres[0], m_centre = centres[1];
    const i64 plane = (i64)grid.dims[0] * grid.dims[1], n = plane * grid.dims[2];
    i64 at[EACH];
    places(grid, tile, at);
    const u32 x = tile.x + threadIdx.x % TX, y = tile.y + threadIdx.x / TX * 2;
    const u32 count_x = window_size(x, RX, grid.dims[0]);
    float sums[2][5][DEPTH];
#pragma unroll
    for (u32 v = 0; v < 2; ++v)
#pragma unroll
        for (u32 q = 0; q < 5; ++q)
#pragma unroll
            for (u32 k = 0; k < DEPTH; ++k) sums[v][q][k] = 0.0f;
    double energy = 0.0;
    float f_next[EACH], m_next[EACH];
    bring(fixed, grid, tile.z - RZ, at, f_centre, f_next);
    bring(moving, grid, tile.z - RZ, at, m_centre, m_next);
    for (i64 z = tile.z - RZ; z < tile.end + RZ; ++z) {
        leave(f_next, f_slice);
        leave(m_next, m_slice);
        __syncthreads();
        // The next slice is on its way while this one is summed.
        if (z + 1 < tile.end + RZ) {
            bring(fixed, grid, z + 1, at, f_centre, f_next);
            bring(moving, grid, z + 1, at, m_centre, m_next);
        }
        for (u32 i = threadIdx.x; i < WY * TX; i += THREADS) {
            const u32 from = i / TX * WX + i % TX;
            float s[5] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
            for (u32 d = 0; d <= 2 * RX; ++d) {
                const float f = f_slice[from + d], m = m_slice[from + d];
                s[0] += f;
                s[1] += m;
                s[2] = fmaf(f, f, s[2]);
                s[3] = fmaf(m, m, s[3]);
                s[4] = fmaf(f, m, s[4]);
            }
#pragma unroll
            for (u32 q = 0; q < 5; ++q) rows[q * (WY * TX) + i] = s[q];
        }
        __syncthreads();
#pragma unroll
        for (u32 q = 0; q < 5; ++q) {
            float s[2];
            along_y(rows + q * (WY * TX), s);
            along_z(s[0], sums[0][q]);
            along_z(s[1], sums[1][q]);
        }
        const i64 centre = z - RZ;
        if (centre < tile.z || x >= grid.dims[0]) continue;
        const u32 count_z = window_size((u32)centre, RZ, grid.dims[2]);
#pragma unroll
        for (u32 v = 0; v < 2; ++v) {
            if (y + v >= grid.dims[1]) continue;
            const i64 here = centre * plane + (i64)(y + v) * grid.dims[0] + x;
            const float count =
                (float)count_x * (float)window_size(y + v, RY, grid.dims[1]) * (float)count_z;
            const float over = 1.0f / count;
            const float f_mean = sums[v][0][0] * over, m_mean = sums[v][1][0] * over;
            // Not fused: of a single voxel nothing is left.
            const float a = sums[v][4][0] - f_mean * sums[v][1][0];
            const float b = fmaxf(sums[v][2][0] - f_mean * sums[v][0][0], 0.0f);
            const float c = fmaxf(sums[v][3][0] - m_mean * sums[v][1][0], 0.0f);
            const Coefficients k =
                coefficients(a, fmaf(count, noise, b), fmaf(count, noise, c), f_mean, m_mean,
                             weights ? weights[here] : 1.0f);
            energy += (double)k.energy;
            out[here] = k.p;
            out[n + here] = k.q;
            out[2 * n + here] = k.r;
        }
    }
    const double sum = block_sum(energy, scratch);
    if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

KERNEL(slopes, AT_ONCE(THREADS, 2), IN(float) fixed, IN(float) moving, IN(float) centres,
       IN(float) coefficients, Grid grid, float scale, OUT(float) out) {
    SHARED(float, slice, 3 * VOXELS);
    SHARED(float, rows, 3 * WY * TX);
    const Tile tile = tile_of(grid);
    const float f_centre = centres[0], m_centre = centres[1];
    const i64 plane = (i64)grid.dims[0] * grid.dims[1], n = plane * grid.dims[2];
    i64 at[EACH];
    places(grid, tile, at);
    const u32 x = tile.x + threadIdx.x % TX, y = tile.y + threadIdx.x / TX * 2;
    float sums[2][3][DEPTH];
#pragma unroll
    for (u32 v = 0; v < 2; ++v)
#pragma unroll
        for (u32 q = 0; q < 3; ++q)
#pragma unroll
            for (u32 k = 0; k < DEPTH; ++k) sums[v][q][k] = 0.0f;
    float next[3][EACH];
#pragma unroll
    for (u32 q = 0; q < 3; ++q) bring(coefficients + q * n, grid, tile.z - RZ, at, 0.0f, next[q]);
    for (i64 z = tile.z - RZ; z < tile.end + RZ; ++z) {
#pragma unroll
        for (u32 q = 0; q < 3; ++q) leave(next[q], slice + q * VOXELS);
        __syncthreads();
        if (z + 1 < tile.end + RZ) {
#pragma unroll
            for (u32 q = 0; q < 3; ++q) bring(coefficients + q * n, grid, z + 1, at, 0.0f, next[q]);
        }
        for (u32 i = threadIdx.x; i < WY * TX; i += THREADS) {
            const u32 from = i / TX * WX + i % TX;
#pragma unroll
            for (u32 q = 0; q < 3; ++q) {
                float s = 0.0f;
#pragma unroll
                for (u32 d = 0; d <= 2 * RX; ++d) s += slice[q * VOXELS + from + d];
                rows[q * (WY * TX) + i] = s;
            }
        }
        __syncthreads();
#pragma unroll
        for (u32 q = 0; q < 3; ++q) {
            float s[2];
            along_y(rows + q * (WY * TX), s);
            along_z(s[0], sums[0][q]);
            along_z(s[1], sums[1][q]);
        }
        const i64 centre = z - RZ;
        if (centre < tile.z || x >= grid.dims[0]) continue;
#pragma unroll
        for (u32 v = 0; v < 2; ++v) {
            if (y + v >= grid.dims[1]) continue;
            const i64 here = centre * plane + (i64)(y + v) * grid.dims[0] + x;
            const float f = fixed[here] - f_centre, m = moving[here] - m_centre;
            const float slope = fmaf(f, sums[v][0][0], fmaf(-m, sums[v][1][0], -sums[v][2][0]));
            out[here] = scale * slope;
        }
    }
}
