// Rays through a volume: the pixels of a view, where their rays enter and leave, and values between voxels.
//
// The rules of Tornai 2014, section 2.3.2, can be switched off, to measure what they are worth today:
//   RULE_SELECT 0    the interval inside is found by branches instead of selections
//   RULE_TEXTURE 0   values are interpolated from plain memory
//   RULE_FAST 0      divisions are rounded to nearest
//   RULE_INVERSE 0   divides by every step twice instead of once for an inverse
#pragma once
#include "prelude.cuh"

#ifndef RULE_SELECT
#define RULE_SELECT 1
#endif
#ifndef RULE_TEXTURE
#define RULE_TEXTURE 1
#endif
#ifndef RULE_FAST
#define RULE_FAST 1
#endif
#ifndef RULE_INVERSE
#define RULE_INVERSE 1
#endif

// A volume with a border of zeros, a voxel wide: sizes without it, and those of the map of bricks.
struct RayVolume {
    u64 texture;
    u32 nx, ny, nz;
    u32 bx, by, bz;
};

// Which pixels: a region, or tiles drawn from it.
struct RayPixels {
    u64 seed;
    u32 first_x, first_y;
    u32 dims_x, dims_y;
    u32 tile_x, tile_y;
    u32 tiles, drawn;
};

// The numbers of a view.
#define FRAME 26u

// A ray: a place and a step in voxels, counted from a voxel before the first, and the whole numbers of steps inside.
struct Ray {
    float p[3], q[3];
    float first, last;
};

// What a look at the map of bricks is worth: samples until the next.
#define LOOK 8
#define BRICK_SHIFT 3u

// The same as on the host.
DEVICE u32 random_of(u64 seed, u64 number) {
    u64 z = seed + (number + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (u32)((z ^ (z >> 31)) >> 32);
}

// The column and row of a pixel, by its number.
DEVICE void pixel_of(const RayPixels& pixels, u32 number, u32& column, u32& row) {
    if (!pixels.drawn) {
        column = pixels.first_x + number % pixels.tile_x;
        row = pixels.first_y + number / pixels.tile_x;
        return;
    }
    const u32 size = pixels.tile_x * pixels.tile_y;
    const u32 tile = number / size, within = number % size;
    const u32 along = pixels.dims_x + 1 - pixels.tile_x;
    const u64 places = (u64)along * (pixels.dims_y + 1 - pixels.tile_y);
    const u64 begin = tile * places / pixels.tiles, end = (tile + 1ull) * places / pixels.tiles;
    const u32 place = (u32)(begin + (random_of(pixels.seed, tile) * (end - begin) >> 32));
    column = pixels.first_x + place % along + within % pixels.tile_x;
    row = pixels.first_y + place / along + within / pixels.tile_x;
}

DEVICE float divided(float a, float b) {
#if RULE_FAST
    return __fdividef(a, b);
#else
    return a / b;
#endif
}

// The part of [first, last] at which the place along an axis is from `low` to `high`. A ray along which it stays is inside from `low`
// on and before `high`.
DEVICE void within(float low, float high, float p, float q, float& first, float& last) {
    const bool stays = q == 0.0f, inside = p >= low && p < high;
#if RULE_INVERSE
    const float inverse = divided(1.0f, q);
    const float a = (low - p) * inverse, b = (high - p) * inverse;
#else
    const float a = divided(low - p, q), b = divided(high - p, q);
#endif
#if RULE_SELECT
    const float enter = stays ? (inside ? first : INFINITY_F) : a < b ? a : b;
    const float leave = stays ? last : a < b ? b : a;
    first = enter > first ? enter : first;
    last = leave < last ? leave : last;
#else
    if (stays) {
        if (!inside) first = INFINITY_F;
    } else if (q > 0.0f) {
        if (a > first) first = a;
        if (b < last) last = b;
    } else {
        if (b > first) first = b;
        if (a < last) last = a;
    }
#endif
}

// The ray of a pixel of a view; places are counted from `border` voxels before the first, and end as many after the last.
DEVICE Ray ray_of(IN(float) frame, const RayVolume& volume, float u, float v, float border) {
    Ray ray;
    for (int a = 0; a < 3; ++a) {
        ray.p[a] = fmaf(v, frame[6 + a], fmaf(u, frame[3 + a], frame[a])) + border;
        ray.q[a] = fmaf(v, frame[15 + a], fmaf(u, frame[12 + a], frame[9 + a]));
    }
    ray.first = frame[24];
    ray.last = frame[25];
    const u32 sizes[3] = {volume.nx, volume.ny, volume.nz};
    for (int a = 0; a < 3; ++a)
        within(0.0f, (float)(sizes[a] - 1) + 2.0f * border, ray.p[a], ray.q[a], ray.first, ray.last);
    return ray;
}

// The length of a step on the ray of a pixel, mm.
DEVICE float length_of(IN(float) frame, float u, float v) {
    const float along_u = fmaf(u, frame[21], fmaf(v, frame[22], frame[19]));
    const float along_v = fmaf(v, frame[23], frame[20]);
    return sqrtf(fmaxf(fmaf(u, along_u, fmaf(v, along_v, frame[18])), 0.0f));
}

// A cell between voxels, what is left to a place in it, and whether that is inside: from the first border on and before the last.
struct RayCell {
    u64 base;
    float part[3];
    bool inside;
};

DEVICE RayCell cell_of(const RayVolume& volume, float x, float y, float z) {
    const u32 sizes[3] = {volume.nx, volume.ny, volume.nz};
    const float at[3] = {x, y, z};
    u32 base[3];
    RayCell cell;
    cell.inside = true;
    for (int a = 0; a < 3; ++a) {
        const float end = (float)(sizes[a] + 1);
        const float limited = fminf(fmaxf(at[a], 0.0f), end);
        cell.inside = cell.inside && at[a] >= 0.0f && at[a] < end;
        const u32 below = (u32)limited;
        base[a] = below < sizes[a] ? below : sizes[a];
        cell.part[a] = limited - (float)base[a];
    }
    cell.base = base[0] + (u64)(volume.nx + 2) * (base[1] + (u64)(volume.ny + 2) * base[2]);
    return cell;
}

DEVICE float mix(float part, float a, float b) { return fmaf(part, b - a, a); }

// The value at a place, interpolated in single precision.
DEVICE float exact_value(IN(float) values, const RayVolume& volume, float x, float y, float z) {
    const RayCell cell = cell_of(volume, x, y, z);
    const u64 row = volume.nx + 2, slice = row * (volume.ny + 2), i = cell.base;
    const float a = mix(cell.part[0], values[i], values[i + 1]);
    const float b = mix(cell.part[0], values[i + row], values[i + row + 1]);
    const float c = mix(cell.part[0], values[i + slice], values[i + slice + 1]);
    const float d = mix(cell.part[0], values[i + slice + row], values[i + slice + row + 1]);
    return mix(cell.part[2], mix(cell.part[1], a, b), mix(cell.part[1], c, d));
}

// The value at a place, interpolated by a texture unit: with weights of 8 bits.
DEVICE float quick_value(IN(float) values, const RayVolume& volume, float x, float y, float z) {
#if !RULE_TEXTURE
    return exact_value(values, volume, x, y, z);
#elif defined(VOXALIGN_EMULATION)
    const float steps = 256.0f;
    return exact_value(values, volume, floorf(x * steps + 0.5f) / steps, floorf(y * steps + 0.5f) / steps,
                       floorf(z * steps + 0.5f) / steps);
#else
    return tex3D<float>(volume.texture, x + 0.5f, y + 0.5f, z + 0.5f);
#endif
}

template <bool QUICK>
DEVICE float value_at(IN(float) values, const RayVolume& volume, float x, float y, float z) {
    return QUICK ? quick_value(values, volume, x, y, z) : exact_value(values, volume, x, y, z);
}

// How far a ray may leap at a place, voxels; below 0 where something may be.
DEVICE float leap_at(IN(float) leaps, const RayVolume& volume, float x, float y, float z) {
    const float end[3] = {(float)(volume.nx + 1), (float)(volume.ny + 1), (float)(volume.nz + 1)};
    const u32 i = (u32)fminf(fmaxf(x, 0.0f), end[0]) >> BRICK_SHIFT;
    const u32 j = (u32)fminf(fmaxf(y, 0.0f), end[1]) >> BRICK_SHIFT;
    const u32 k = (u32)fminf(fmaxf(z, 0.0f), end[2]) >> BRICK_SHIFT;
    return leaps[i + volume.bx * (j + volume.by * k)];
}

// The pixel, the view and the share of a ray of a thread: a ray is shared by `1 << share` threads next to each other. Pixels of a
// region are in blocks of two dimensions, others in a row.
struct Task {
    u32 number;   // of the pixel; none beyond the last
    u32 part;     // of the ray
    u32 column, row;
    u32 view;
    bool is_one;
};

DEVICE Task task_of(const RayPixels& pixels, u32 count, u32 share, u32 first_view) {
    Task task;
    const u32 x = (u32)(global_thread() >> share), y = blockIdx.y * blockDim.y + threadIdx.y;
    task.part = threadIdx.x & ((1u << share) - 1);
    task.view = first_view + blockIdx.z;
    task.is_one = pixels.drawn ? x < count : x < pixels.tile_x && y < pixels.tile_y;
    task.number = pixels.drawn ? x : y * pixels.tile_x + x;
    if (!task.is_one) task.number = 0;
    pixel_of(pixels, task.number, task.column, task.row);
    return task;
}

// The sum over the threads of a ray; all of them get it.
DEVICE float over_ray(float v, u32 share) {
    for (u32 step = (1u << share) >> 1; step; step >>= 1) v += __shfl_xor_sync(ALL_LANES, v, step);
    return v;
}

DEVICE float most_over_ray(float v, u32 share) {
    for (u32 step = (1u << share) >> 1; step; step >>= 1)
        v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, step));
    return v;
}
