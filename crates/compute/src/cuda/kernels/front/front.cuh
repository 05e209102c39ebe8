// Fronts of sets of points. DEEP: 0 in the plane, 1 in a volume; AXES: along how many axes neighbours may differ.
#pragma once
#include "whole.cuh"

#ifndef DEEP
#define DEEP 0
#endif
#ifndef AXES
#define AXES 1
#endif

// The points of a tile along each axis, and the type of those of one of its rows.
#if DEEP
#define TILE_X 8
#define TILE_Y 8
#define TILE_Z 8
typedef u8 Cell;
#else
#define TILE_X 16
#define TILE_Y 16
#define TILE_Z 1
typedef u16 Cell;
#endif
#define TILE_ROWS (TILE_Y * TILE_Z)
#define TILE_POINTS (TILE_X * TILE_ROWS)

// Cells of a word of 64 bits.
#define CELLS (64 / TILE_X)

// Points beside a window, on each side.
#define HALO 2

// Sizes along the axes; words of a row; tiles along the axes, and all of them.
struct FrontShape { u32 nx, ny, nz, row, tx, ty, tz, tiles; };

// What values are summed in.
struct FrontUnits { double offset, scale, squares; };

// A value in units, and its square.
DEVICE void in_units(const FrontUnits& units, float v, i64* sums) {
    const double value = (double)v - units.offset;
    sums[0] = whole(value * units.scale);
    sums[1] = whole(value * value * units.squares);
}

// The elements of a row, each of so many points.
template <class Element> struct Width;
template <> struct Width<u8> { static const u32 points = 8; typedef u32 Window; };
template <> struct Width<u16> { static const u32 points = 16; typedef u32 Window; };
template <> struct Width<u32> { static const u32 points = 32; typedef u64 Window; };

// The points of an element of a row, with two on each side; bit 2 is the first of the element.
template <class Element, class Set>
DEVICE typename Width<Element>::Window window(const Set& set, const FrontShape& s, u32 k, u32 y, u32 z) {
    typedef typename Width<Element>::Window Window;
    const u32 points = Width<Element>::points, count = s.row * (64u / points);
    // What is before the first row is beyond the last one as well.
    if (y >= s.ny || z >= s.nz) return 0;
    const u64 at = ((u64)z * s.ny + y) * count + k;
    Window found = (Window)set[at] << HALO;
    if (k > 0) found |= (Window)set[at - 1] >> (points - HALO);
    if (k + 1 < count) found |= (Window)(set[at + 1] & 3u) << (points + HALO);
    return found;
}

// The bits of a window that are points of a row.
template <class Element> DEVICE typename Width<Element>::Window points_of(const FrontShape& s, u32 k) {
    typedef typename Width<Element>::Window Window;
    const u32 points = Width<Element>::points;
    const u64 first = (u64)k * points;
    Window found = ((Window)1 << (points + 2 * HALO)) - 1;
    if (k == 0) found &= ~(Window)3;
    if (first + points + HALO > s.nx) found &= first < s.nx ? ((Window)1 << (s.nx - first + HALO)) - 1 : 0;
    return found;
}

// The points that have a neighbour in a set, or are of it: `rows` has those about the row `at`, `stride` of them a slice.
template <class Window> DEVICE Window around(const Window* rows, i32 at, i32 stride) {
    Window wide = 0, narrow = 0;
#pragma unroll
    for (i32 z = -DEEP; z <= DEEP; ++z)
#pragma unroll
        for (i32 y = -1; y <= 1; ++y) {
            const i32 taken = (y != 0) + (z != 0);
            if (taken < AXES) wide |= rows[at + z * stride + y];
            else if (taken == AXES) narrow |= rows[at + z * stride + y];
        }
    return wide | wide << 1 | wide >> 1 | narrow;
}

// The front about an element of a row: points outside, and points inside.
template <class Element, class Set>
DEVICE void front_of(const Set& set, const FrontShape& s, u32 k, u32 y, u32 z, u32* found) {
    typedef typename Width<Element>::Window Window;
    const Window points = points_of<Element>(s, k);
    Window inside[3 * (1 + 2 * DEEP)], outside[3 * (1 + 2 * DEEP)];
#pragma unroll
    for (i32 dz = -DEEP; dz <= DEEP; ++dz)
#pragma unroll
        for (i32 dy = -1; dy <= 1; ++dy) {
            const i32 at = (dz + DEEP) * 3 + dy + 1;
            const bool is_row = y + dy < s.ny && z + dz < s.nz;
            inside[at] = window<Element>(set, s, k, y + dy, z + dz) & points;
            outside[at] = is_row ? points & ~inside[at] : 0;
        }
    const i32 here = 3 * DEEP + 1;
    const Window mask = ((Window)1 << Width<Element>::points) - 1;
    found[0] = (u32)((outside[here] & around(inside, here, 3)) >> HALO & mask);
    found[1] = (u32)((inside[here] & around(outside, here, 3)) >> HALO & mask);
}
