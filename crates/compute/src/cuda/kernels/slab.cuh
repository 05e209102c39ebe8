// Slices of a tile in shared memory, with what its windows reach beyond it. Who includes this says how
// large tiles are (TX x TY voxels, TX a multiple of four), how far windows reach to each side (RX and
// RY), and how many threads a block has (THREADS). Voxels are brought four at a time; where rows are
// not a multiple of four, or begin or end within the four, each by itself.
#pragma once
#include "prelude.cuh"

// What is brought before the tile along x, so that fours begin at multiples of four.
#define BEFORE ((RX + 3u) / 4u * 4u)
#define WX (TX + 2u * BEFORE)
#define WY (TY + 2u * RY)
#define FOURS_OF_ROW (WX / 4u)
#define FOURS (FOURS_OF_ROW * WY)
#define EACH ((FOURS + THREADS - 1u) / THREADS)

// How the grid is cut; `Grid` of slabs.rs.
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

// Where the fours that a thread brings are in a slice, which has less than 2^31 voxels.
struct Places {
    i32 at[EACH];    // of the first of the four; may be before its row
    u32 there;       // a bit for each: whether any of it is read
    u32 whole;       // and whether all of it can be read at once
};

// CLAMPED: what is beyond the grid is as at its border; else it is not read.
template <bool CLAMPED> DEVICE Places places_of(const Grid& g, const Tile& t) {
    Places p;
    p.there = p.whole = 0;
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
        const u32 i = threadIdx.x + k * THREADS;
        const i32 x = (i32)(t.x + 4 * (i % FOURS_OF_ROW)) - (i32)BEFORE;
        i32 y = (i32)(t.y + i / FOURS_OF_ROW) - (i32)RY;
        if (CLAMPED) y = y < 0 ? 0 : y < (i32)g.dims[1] ? y : (i32)g.dims[1] - 1;
        // Beyond the grid, where it may wrap around, it is not used.
        p.at[k] = (i32)((u32)y * g.dims[0] + (u32)x);
        if (i >= FOURS || y < 0 || y >= (i32)g.dims[1]) continue;
        const bool inside = x >= 0 && x < (i32)g.dims[0];
        if (CLAMPED || (x > -4 && x < (i32)g.dims[0])) p.there |= 1u << k;
        if ((g.dims[0] & 3) == 0 && inside) p.whole |= 1u << k;
    }
    return p;
}

// One voxel, which is `x` in its row and `at` in its slice.
template <bool CLAMPED> DEVICE float voxel_at(IN(float) slice, i32 at, i32 x, i32 nx, float centre) {
    const i32 inside = x < 0 ? 0 : x < nx ? x : nx - 1;
    if (!CLAMPED && inside != x) return 0.0f;
    return slice[at + (inside - x)] - centre;
}

// The part of slice z that a thread brings, `centre` taken off; zeros for what is not read.
template <bool CLAMPED>
DEVICE void bring(IN(float) image, const Grid& g, const Tile& t, const Places& p, i64 z, float centre,
                  float4 (&value)[EACH]) {
    if (CLAMPED) z = z < 0 ? 0 : z < (i64)g.dims[2] ? z : (i64)g.dims[2] - 1;
    const bool is_there = z >= 0 && z < (i64)g.dims[2];
    IN(float) slice = image + z * ((i64)g.dims[0] * g.dims[1]);
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
        value[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (is_there && (p.whole >> k & 1)) {
            value[k] = load4(slice + p.at[k], 0);
            value[k].x -= centre;
            value[k].y -= centre;
            value[k].z -= centre;
            value[k].w -= centre;
        } else if (is_there && (p.there >> k & 1)) {
            const u32 i = threadIdx.x + k * THREADS;
            const i32 x = (i32)(t.x + 4 * (i % FOURS_OF_ROW)) - (i32)BEFORE, nx = (i32)g.dims[0];
            value[k].x = voxel_at<CLAMPED>(slice, p.at[k], x, nx, centre);
            value[k].y = voxel_at<CLAMPED>(slice, p.at[k] + 1, x + 1, nx, centre);
            value[k].z = voxel_at<CLAMPED>(slice, p.at[k] + 2, x + 2, nx, centre);
            value[k].w = voxel_at<CLAMPED>(slice, p.at[k] + 3, x + 3, nx, centre);
        }
    }
}

// Leaves it in the slice, which has WY rows of WX voxels.
DEVICE void leave(const float4 (&value)[EACH], SHARED_POINTER(float) slice) {
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
        const u32 i = threadIdx.x + k * THREADS;
        if (i < FOURS) store4(slice, i, value[k]);
    }
}

// What four neighbouring windows along x reach: those of voxels 4 i .. 4 i + 3 of row j of a tile.
DEVICE void reach(SHARED_POINTER(float) slice, u32 i, u32 j, float (&to)[4 + 2 * RX]) {
    float all[4 + 2 * BEFORE];
#pragma unroll
    for (u32 k = 0; k < 1 + BEFORE / 2; ++k) {
        const float4 v = load4(slice, j * FOURS_OF_ROW + i + k);
        all[4 * k] = v.x;
        all[4 * k + 1] = v.y;
        all[4 * k + 2] = v.z;
        all[4 * k + 3] = v.w;
    }
#pragma unroll
    for (u32 k = 0; k < 4 + 2 * RX; ++k) to[k] = all[BEFORE - RX + k];
}
