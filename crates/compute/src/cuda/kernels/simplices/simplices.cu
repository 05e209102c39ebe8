// Centres and moments of segments and triangles, and their derivative. In double precision and in the order of the CPU.
#include "vector.cuh"

// Corners and components of an element.
struct SimplexKind { u32 corners, components; };

#define ROOT 1.4142135623730951

struct Corners { Vector x[3]; };

DEVICE Corners corners_of(const SimplexKind& kind, IN(float) vertices, u64 points, IN(u32) corners, u64 elements, u64 i) {
    Corners found;
    for (u32 k = 0; k < 3; ++k) {
        if (k < kind.corners) found.x[k] = vector_of(vertices, points, min((u64)corners[k * elements + i], points - 1));
        else found.x[k] = {0.0, 0.0, 0.0};
    }
    return found;
}

DEVICE Vector direction(const SimplexKind& kind, const Corners& c) {
    if (kind.corners == 2) return minus(c.x[1], c.x[0]);
    const Vector v = cross(minus(c.x[1], c.x[0]), minus(c.x[2], c.x[0]));
    return {0.5 * v.x, 0.5 * v.y, 0.5 * v.z};
}

KERNEL(measures, 256, SimplexKind kind, IN(float) vertices, u64 points, IN(u32) corners, u64 elements,
       OUT(float) centres, OUT(float) moments) {
    const u64 i = global_thread();
    if (i >= elements) return;
    const Corners c = corners_of(kind, vertices, points, corners, elements, i);
    double sum[3] = {0.0, 0.0, 0.0};
    for (u32 k = 0; k < kind.corners; ++k) {
        sum[0] += c.x[k].x;
        sum[1] += c.x[k].y;
        sum[2] += c.x[k].z;
    }
    for (int a = 0; a < 3; ++a) centres[a * elements + i] = (float)(sum[a] / (double)kind.corners);
    const Vector d = direction(kind, c);
    if (kind.components == 3) {
        moments[i] = (float)d.x;
        moments[elements + i] = (float)d.y;
        moments[2 * elements + i] = (float)d.z;
        return;
    }
    const double size = sqrt(dot(d, d)), r = size > 0.0 ? 1.0 / size : 0.0;
    moments[i] = (float)(d.x * d.x * r);
    moments[elements + i] = (float)(d.y * d.y * r);
    moments[2 * elements + i] = (float)(d.z * d.z * r);
    moments[3 * elements + i] = (float)(ROOT * d.x * d.y * r);
    moments[4 * elements + i] = (float)(ROOT * d.x * d.z * r);
    moments[5 * elements + i] = (float)(ROOT * d.y * d.z * r);
}

// The derivative in the direction, given that in the moment.
DEVICE Vector by_direction(const SimplexKind& kind, const Vector& d, IN(float) by_moment, u64 elements, u64 i) {
    if (kind.components == 3) return vector_of(by_moment, elements, i);
    const double size = sqrt(dot(d, d));
    if (!(size > 0.0)) return {0.0, 0.0, 0.0};
    double m[6];
    for (int c = 0; c < 6; ++c) m[c] = (double)by_moment[c * elements + i];
    const double xy = m[3] / ROOT, xz = m[4] / ROOT, yz = m[5] / ROOT;
    const Vector along = {m[0] * d.x + xy * d.y + xz * d.z, xy * d.x + m[1] * d.y + yz * d.z,
                          xz * d.x + yz * d.y + m[2] * d.z};
    const double quadratic = dot(d, along) / (size * size);
    return {(2.0 * along.x - quadratic * d.x) / size, (2.0 * along.y - quadratic * d.y) / size,
            (2.0 * along.z - quadratic * d.z) / size};
}

DEVICE Vector by_corner(const SimplexKind& kind, const Corners& c, u32 corner, const Vector& g) {
    if (kind.corners == 2) {
        if (corner == 0) return {-g.x, -g.y, -g.z};
        return g;
    }
    const Vector s = cross(minus(c.x[2], c.x[0]), g), t = cross(g, minus(c.x[1], c.x[0]));
    if (corner == 1) return {0.5 * s.x, 0.5 * s.y, 0.5 * s.z};
    if (corner == 2) return {0.5 * t.x, 0.5 * t.y, 0.5 * t.z};
    return {-0.5 * (s.x + t.x), -0.5 * (s.y + t.y), -0.5 * (s.z + t.z)};
}

// Each vertex gathers from its elements.
KERNEL(measure_covectors, 256, SimplexKind kind, IN(float) vertices, u64 points, IN(u32) corners, u64 elements,
       IN(u32) starts, IN(u32) lists, IN(float) by_centre, IN(float) by_moment, OUT(float) out) {
    const u64 v = global_thread();
    if (v >= points) return;
    double x = 0.0, y = 0.0, z = 0.0;
    const u64 all = kind.corners * elements, end = min((u64)starts[v + 1], all);
    for (u64 k = starts[v]; k < end; ++k) {
        const u64 place = lists[k], i = place % elements;
        const Corners c = corners_of(kind, vertices, points, corners, elements, i);
        const Vector g = by_corner(kind, c, (u32)(place / elements),
                                   by_direction(kind, direction(kind, c), by_moment, elements, i));
        const Vector centre = vector_of(by_centre, elements, i);
        x += g.x + centre.x / (double)kind.corners;
        y += g.y + centre.y / (double)kind.corners;
        z += g.z + centre.z / (double)kind.corners;
    }
    out[v] = (float)x;
    out[points + v] = (float)y;
    out[2 * points + v] = (float)z;
}
