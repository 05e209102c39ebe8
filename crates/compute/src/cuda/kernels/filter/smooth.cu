// A Gaussian along all axes in one pass over memory, for windows of RX, RY and RZ voxels to each side,
// which are known when it is compiled. A block goes from slice to slice of a tile: it sums along x from
// shared memory, each thread then along y for two voxels that follow each other along y, and along z
// by adding what a slice has to all the results whose windows it is in. Beyond the border is what is
// at it.
#define TX 64u
#define TY 16u
#define THREADS 512u
#include "slab.cuh"

#define DEPTH (2 * RZ + 1)
// Room for the weights of an axis; as in smooth.rs.
#define WEIGHTS 9

// The weights of each axis, from the centre on.
struct Weights {
    float of[3][WEIGHTS];
};

DEVICE void along_x(SHARED_POINTER(float) slice, const Weights& w, SHARED_POINTER(float) rows) {
    for (u32 i = threadIdx.x; i < WY * (TX / 4); i += THREADS) {
        float v[4 + 2 * RX], s[4];
        reach(slice, i % (TX / 4), i / (TX / 4), v);
#pragma unroll
        for (u32 e = 0; e < 4; ++e) {
            s[e] = w.of[0][0] * v[RX + e];
#pragma unroll
            for (u32 d = 1; d <= RX; ++d) s[e] = fmaf(w.of[0][d], v[RX + e - d] + v[RX + e + d], s[e]);
        }
        store4(rows, i, make_float4(s[0], s[1], s[2], s[3]));
    }
}

KERNEL(smooth, AT_ONCE(THREADS, 2), IN(float) src, Grid g, Weights w, OUT(float) result) {
    // While one slice is summed along y and z, the next one is summed along x, and the one after it
    // comes to where the first was.
    SHARED(float, slices, 2 * WX * WY);
    SHARED(float, rows, 2 * TX * WY);
    const Tile tile = tile_of(g);
    const Places places = places_of<true>(g, tile);
    const u64 plane = (u64)g.dims[0] * g.dims[1], n = g.dims[2] * plane;
    IN(float) image = src + blockIdx.y * n;
    const u32 x = threadIdx.x % TX, y = threadIdx.x / TX * 2;
    const bool writes[2] = {tile.x + x < g.dims[0] && tile.y + y < g.dims[1],
                            tile.x + x < g.dims[0] && tile.y + y + 1 < g.dims[1]};
    OUT(float) out = result + (blockIdx.y * n + (u64)tile.z * plane + (u64)(tile.y + y) * g.dims[0] + tile.x + x);
    float sum[2][DEPTH];
#pragma unroll
    for (u32 v = 0; v < 2; ++v)
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) sum[v][k] = 0.0f;
    float4 next[EACH];
    bring<true>(image, g, tile, places, tile.z - RZ, 0.0f, next);
    leave(next, slices + 0);
    bring<true>(image, g, tile, places, tile.z - RZ + 1, 0.0f, next);
    __syncthreads();
    along_x(slices + 0, w, rows + 0);
    leave(next, slices + WX * WY);
    bring<true>(image, g, tile, places, tile.z - RZ + 2, 0.0f, next);
    __syncthreads();
    u32 here = 0;   // whether the slice is the second
    for (i64 z = tile.z - RZ; z < tile.end + RZ; ++z) {
        leave(next, slices + here * (WX * WY));
        bring<true>(image, g, tile, places, z + 3, 0.0f, next);
        along_x(slices + (1 - here) * (WX * WY), w, rows + (1 - here) * (TX * WY));
        const u32 at = here * (TX * WY) + y * TX + x;
        float v[2 + 2 * RY];
#pragma unroll
        for (u32 d = 0; d < 2 + 2 * RY; ++d) v[d] = rows[at + d * TX];
#pragma unroll
        for (u32 e = 0; e < 2; ++e) {
            float s = w.of[1][0] * v[RY + e];
#pragma unroll
            for (u32 d = 1; d <= RY; ++d) s = fmaf(w.of[1][d], v[RY + e - d] + v[RY + e + d], s);
#pragma unroll
            for (u32 k = 0; k + 1 < DEPTH; ++k)
                sum[e][k] = fmaf(w.of[2][k < RZ ? RZ - k : k - RZ], s, sum[e][k + 1]);
            sum[e][DEPTH - 1] = w.of[2][RZ] * s;
        }
        if (z - RZ >= tile.z) {
            if (writes[0]) out[0] = sum[0][0];
            if (writes[1]) out[g.dims[0]] = sum[1][0];
            out += plane;
        }
        here = 1 - here;
        __syncthreads();
    }
}
