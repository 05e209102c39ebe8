// Points that a displacement and a map carry, and the forces of covectors there. Interpolation is in single precision, the rest in
// double precision and in the order of the CPU. NODES is 2 for linear weights, 4 for cubic ones.
#include "cells.cuh"

// The factors of the displacement, and the rows of the map after it with what is added.
struct Carriage { double scale[3], map[3][4]; };

// For each of two fields: three factors of forces, the units of velocity that make a voxel, the factors of forces and of the stiffness,
// the largest step, and the unit of what is left.
struct PushBounds { double of[2][8]; };

// Keeps quotients finite.
#define NOTHING 1e-30

KERNEL(carry_points, 256, IN(float) field, SplatSpace space, Carriage by, IN(float) points, OUT(float) out) {
    const u64 i = global_thread(), n = space.count;
    if (i >= n) return;
    const u64 voxels = (u64)space.dims[0] * space.dims[1] * space.dims[2];
    Cell cell;
    const bool is_one = cell_of(space, points, i, cell);
    double at[3];
    for (int a = 0; a < 3; ++a) {
        const float moved = is_one ? value_of(field + a * voxels, space, cell) : 0.0f;
        at[a] = (double)points[a * n + i] + by.scale[a] * (double)moved;
    }
    for (int r = 0; r < 3; ++r)
        out[r * n + i] = (float)(by.map[r][0] * at[0] + by.map[r][1] * at[1] + by.map[r][2] * at[2] + by.map[r][3]);
}

// The derivative in a point, given that in where it is carried to.
DEVICE void pulled(IN(float) field, const SplatSpace& space, const Carriage& by, IN(float) points, IN(float) covectors,
                   u64 i, double* out) {
    const u64 n = space.count, voxels = (u64)space.dims[0] * space.dims[1] * space.dims[2];
    const double x = covectors[i], y = covectors[n + i], z = covectors[2 * n + i];
    for (int a = 0; a < 3; ++a) out[a] = by.map[0][a] * x + by.map[1][a] * y + by.map[2][a] * z;
    float sum[3] = {0.0f, 0.0f, 0.0f};
    Cell cell;
    if (cell_of(space, points, i, cell)) {
        for (int c = 0; c < 3; ++c) {
            const float moment = (float)(by.scale[c] * out[c]);
            float derivatives[3];
            value_and_derivatives(field + c * voxels, space, cell, derivatives);
            for (int a = 0; a < 3; ++a) sum[a] += moment * derivatives[a];
        }
    }
    for (int a = 0; a < 3; ++a) out[a] = out[a] + (double)sum[a];
}

KERNEL(pull_back, 256, IN(float) field, SplatSpace space, Carriage by, IN(float) points, IN(float) covectors, OUT(float) out) {
    const u64 i = global_thread();
    if (i >= space.count) return;
    double force[3];
    pulled(field, space, by, points, covectors, i, force);
    for (int a = 0; a < 3; ++a) out[a * space.count + i] = (float)force[a];
}

// What is left of a force.
DEVICE void hold(double* force, const double* bounds, IN(float) reach, IN(float) stiffness, u64 n, u64 i) {
    for (int a = 0; a < 3; ++a) force[a] *= bounds[a];
    const double length = sqrt(force[0] * force[0] + force[1] * force[1] + force[2] * force[2]);
    for (int a = 0; a < 3; ++a) {
        const double wanted = bounds[4] / (bounds[3] + (double)stiffness[a * n + i] * bounds[5] + NOTHING);
        const double allowed = bounds[6] / ((double)reach[a * n + i] * length + NOTHING);
        force[a] = force[a] * fmin(wanted, allowed) * bounds[7];
    }
}

// Forces for one field, or for two of which the second comes behind the first.
KERNEL(held_forces, 256, IN(float) field, SplatSpace space, Carriage by, IN(float) points, IN(float) covectors,
       IN(float) reach, IN(float) stiffness, PushBounds bounds, OUT(float) first, OUT(float) second) {
    const u64 i = global_thread(), n = space.count;
    if (i >= n) return;
    double pull[3];
    pulled(field, space, by, points, covectors, i, pull);
    for (int k = 0; k < (second == nullptr ? 1 : 2); ++k) {
        double force[3] = {pull[0], pull[1], pull[2]};
        hold(force, bounds.of[k], reach, stiffness, n, i);
        for (int a = 0; a < 3; ++a) {
            if (k == 0) first[a * n + i] = (float)force[a];
            else second[a * n + i] = (float)force[a];
        }
    }
}

// Of few points they are added to the fields at once: a block each.
KERNEL(push_few, 256, IN(float) field, SplatSpace space, Carriage by, IN(float) points, IN(float) covectors,
       IN(float) reach, IN(float) stiffness, PushBounds bounds, i32 bits, u32 slots, INOUT(float) first, INOUT(float) second) {
    SHARED(u32, keys, SLOTS);
    SHARED(u32, low_half, SLOTS);
    SHARED(u32, high_half, SLOTS);
    SHARED(u32, most, 1);
    SHARED(float, forces, 3 * FEW / AROUND);
    const u32 i = threadIdx.x, n = (u32)space.count;
    if (i < n) {
        double force[3];
        pulled(field, space, by, points, covectors, i, force);
        hold(force, bounds.of[blockIdx.x], reach, stiffness, n, i);
        for (int a = 0; a < 3; ++a) forces[a * n + i] = (float)force[a];
    }
    __syncthreads();
    const Table table = {keys, low_half, high_half, most};
    SHARED_POINTER(float) values = forces;
    add_few(space, points, values, bits, slots, table, blockIdx.x == 0 ? first : second);
}
