// Meshes of linear tetrahedra: positions of samples, elements that they are in, and their weights there. In double precision and in the
// order of the CPU.
#pragma once
#include "vector.cuh"

#define OUTSIDE 0xffffffffu
// How far below zero coordinates in cells may be.
#define BORDER 1e-6

// From indices of voxels, or from points, to the space of the nodes, or to cells; the sizes of the grid, and the number of samples.
struct Sampling { double map[3][4]; u64 dims[3], count; };

// The cells of a box along each axis.
struct KuhnCells { u64 cells[3]; };

DEVICE Vector mapped(const Sampling& s, double x, double y, double z) {
    return {s.map[0][0] * x + s.map[0][1] * y + s.map[0][2] * z + s.map[0][3],
            s.map[1][0] * x + s.map[1][1] * y + s.map[1][2] * z + s.map[1][3],
            s.map[2][0] * x + s.map[2][1] * y + s.map[2][2] * z + s.map[2][3]};
}

// Where sample i is.
DEVICE Vector position(const Sampling& s, IN(float) points, u64 i) {
    if (points != nullptr) return mapped(s, (double)points[i], (double)points[s.count + i], (double)points[2 * s.count + i]);
    if (s.count <= 0xffffffffull) {
        // Divisions of 32 bits are much cheaper.
        const u32 nx = (u32)s.dims[0], ny = (u32)s.dims[1], row = (u32)i / nx, z = row / ny;
        return mapped(s, (double)((u32)i - row * nx), (double)(row - z * ny), (double)z);
    }
    const u64 nx = s.dims[0], ny = s.dims[1], row = i / nx, z = row / ny;
    return mapped(s, (double)(i - row * nx), (double)(row - z * ny), (double)z);
}

// The corners of an element.
struct Tetrahedron { u64 node[4]; };

DEVICE Tetrahedron tetrahedron(IN(u32) corners, u64 nodes, u64 element) {
    const uint4 of = load4(corners, element);
    return {{min((u64)of.x, nodes - 1), min((u64)of.y, nodes - 1), min((u64)of.z, nodes - 1), min((u64)of.w, nodes - 1)}};
}

// The edges from its first corner, of positions or of displacements.
struct Edges { Vector a, b, c; };

DEVICE Edges edges(IN(float) list, u64 nodes, const Tetrahedron& t) {
    const Vector o = vector_of(list, nodes, t.node[0]);
    return {minus(vector_of(list, nodes, t.node[1]), o), minus(vector_of(list, nodes, t.node[2]), o),
            minus(vector_of(list, nodes, t.node[3]), o)};
}

// The weights of a point in an element, whether it is in there or not; false in one without a positive volume.
DEVICE bool weights_in(IN(float) nodes, u64 count, const Tetrahedron& t, const Vector& p, double* w) {
    const Vector d = minus(p, vector_of(nodes, count, t.node[0]));
    const Edges e = edges(nodes, count, t);
    const Vector normal = cross(e.b, e.c);
    const double volume = dot(e.a, normal);
    if (!(volume > 0.0)) return false;
    w[1] = dot(d, normal) / volume;
    w[2] = dot(e.a, cross(d, e.c)) / volume;
    w[3] = dot(e.a, cross(e.b, d)) / volume;
    w[0] = 1.0 - (w[1] + w[2] + w[3]);
    return true;
}

// A cell, and the place within it.
struct InCell { u64 cell[3]; double s[3]; };

DEVICE bool along_axis(double f, u64 cells, u64& cell, double& s) {
    const double n = (double)cells;
    if (!(f >= -BORDER && f <= n + BORDER)) return false;
    const double low = fmin(fmax(floor(f), 0.0), n - 1.0);
    cell = (u64)low;
    // A sum with zero has no negative one.
    s = fmin(fmax(f - low, 0.0), 1.0) + 0.0;
    return true;
}
DEVICE bool cell_in(const KuhnCells& box, const Vector& f, InCell& found) {
    return along_axis(f.x, box.cells[0], found.cell[0], found.s[0]) &&
           along_axis(f.y, box.cells[1], found.cell[1], found.s[1]) &&
           along_axis(f.z, box.cells[2], found.cell[2], found.s[2]);
}

// The number of a path through a cell, and its axes: two bits each, the first in the lowest.
DEVICE u32 path_of(const double* s, u32& axes) {
    if (s[0] >= s[1]) {
        if (s[1] >= s[2]) { axes = 0u | 1u << 2 | 2u << 4; return 0; }
        if (s[0] >= s[2]) { axes = 0u | 2u << 2 | 1u << 4; return 1; }
        axes = 2u | 0u << 2 | 1u << 4;
        return 4;
    }
    if (s[0] >= s[2]) { axes = 1u | 0u << 2 | 2u << 4; return 2; }
    if (s[1] >= s[2]) { axes = 1u | 2u << 2 | 0u << 4; return 3; }
    axes = 2u | 1u << 2 | 0u << 4;
    return 5;
}

// The nodes of the element of a sample, and its weights there.
struct Spot { u64 node[4]; double w[4]; };

// One of three, without memory.
template <class T> DEVICE T pick(u32 axis, T x, T y, T z) { return axis == 0 ? x : axis == 1 ? y : z; }

// The path through a cell that a position is in: its number, its axes, its nodes from the lowest corner to the highest, and the place
// within the cell.
struct Path { u32 number, axis[3]; u64 node[4]; double s[3]; };

DEVICE bool path_in_box(const KuhnCells& box, const Vector& f, Path& path) {
    InCell in;
    if (!cell_in(box, f, in)) return false;
    const u64 ny = box.cells[0] + 1, nz = ny * (box.cells[1] + 1);
    u32 axes;
    path.number = path_of(in.s, axes);
    path.node[0] = in.cell[0] + in.cell[1] * ny + in.cell[2] * nz;
#pragma unroll
    for (u32 k = 0; k < 3; ++k) {
        path.axis[k] = axes >> 2 * k & 3u;
        path.node[k + 1] = path.node[k] + pick<u64>(path.axis[k], 1, ny, nz);
        path.s[k] = in.s[k];
    }
    return true;
}

DEVICE bool spot_in_box(const KuhnCells& box, const Vector& f, Spot& spot) {
    Path p;
    if (!path_in_box(box, f, p)) return false;
    const double sa = pick(p.axis[0], p.s[0], p.s[1], p.s[2]), sb = pick(p.axis[1], p.s[0], p.s[1], p.s[2]),
                 sc = pick(p.axis[2], p.s[0], p.s[1], p.s[2]);
    const bool odd = p.number == 1 || p.number == 2 || p.number == 5;
    spot.node[0] = p.node[0];
    spot.node[1] = odd ? p.node[2] : p.node[1];
    spot.node[2] = odd ? p.node[1] : p.node[2];
    spot.node[3] = p.node[3];
    spot.w[0] = 1.0 - sa;
    spot.w[1] = odd ? sb - sc : sa - sb;
    spot.w[2] = odd ? sa - sb : sb - sc;
    spot.w[3] = sc;
    return true;
}

// In an element of a mesh: weights are none below zero, and their sum is 1.
DEVICE bool spot_in_element(IN(float) nodes, u64 count, IN(u32) corners, u64 elements, u32 element, const Vector& p, Spot& spot) {
    if (element == OUTSIDE || elements == 0) return false;
    const Tetrahedron t = tetrahedron(corners, count, min((u64)element, elements - 1));
    double w[4];
    if (!weights_in(nodes, count, t, p, w)) return false;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) w[k] = w[k] > 0.0 ? w[k] : 0.0;
    const double sum = w[0] + w[1] + w[2] + w[3];
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
        spot.node[k] = t.node[k];
        spot.w[k] = w[k] / sum;
    }
    return true;
}
