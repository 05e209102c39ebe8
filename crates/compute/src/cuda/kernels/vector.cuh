// Vectors of three numbers in double precision.
#pragma once
#include "prelude.cuh"

struct Vector { double x, y, z; };

// Of a list of all x, then all y, then all z.
DEVICE Vector vector_of(IN(float) list, u64 n, u64 i) {
    return {(double)list[i], (double)list[n + i], (double)list[2 * n + i]};
}
DEVICE Vector minus(const Vector& a, const Vector& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
DEVICE Vector cross(const Vector& a, const Vector& b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
DEVICE double dot(const Vector& a, const Vector& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
