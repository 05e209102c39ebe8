// Affine maps of points, pairs of them, and their bounds. Maps are in double precision and in the order of the CPU.
#include "prelude.cuh"

// The rows of a matrix with what is added.
struct PointMap { double m[3][4]; };

KERNEL(map_points, 256, PointMap map, IN(float) points, u64 n, OUT(float) out) {
    const u64 i = global_thread();
    if (i >= n) return;
    const double x = points[i], y = points[n + i], z = points[2 * n + i];
    for (int r = 0; r < 3; ++r)
        out[r * n + i] = (float)(map.m[r][0] * x + map.m[r][1] * y + map.m[r][2] * z + map.m[r][3]);
}

// Pairs that pull at each other, a number each thread at a time, and the energies of blocks; of one block that of all.
KERNEL(pull_pairs, 256, IN(float) points, IN(float) to, IN(float) stiffness, u64 n, OUT(float) covectors, u32 add,
       INOUT(double) energies) {
    SHARED(double, scratch, 32);
    double sum = 0.0;
    for (u64 i = global_thread(); i < n; i += global_threads()) {
        const float apart = points[i] - to[i], pull = stiffness[i] * apart;
        covectors[i] = pull;
        sum += (double)pull * (double)apart;
    }
    sum = 0.5 * block_sum(sum, scratch);
    if (threadIdx.x == 0) energies[blockIdx.x] = sum + (add ? (double)energies[blockIdx.x] : 0.0);
}

KERNEL(energy_of_parts, 256, IN(double) parts, u32 count, u32 add, INOUT(double) energy) {
    SHARED(double, scratch, 32);
    double sum = 0.0;
    for (u32 p = threadIdx.x; p < count; p += 256) sum += parts[p];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) energy[0] = sum + (add ? (double)energy[0] : 0.0);
}

// The number of points that are not finite, the smallest coordinates, and the largest.
#define ENDS 7

DEVICE double joined(int k, double a, double b) { return k == 0 ? a + b : k < 4 ? (b < a ? b : a) : (b > a ? b : a); }

DEVICE void nowhere(double* found) {
    for (int k = 0; k < ENDS; ++k) found[k] = k == 0 ? 0.0 : k < 4 ? INFINITY_D : -INFINITY_D;
}

// Those of a block of 256 threads, of what each has found.
DEVICE void of_block(double* found, SHARED_POINTER(double) ends, OUT(double) out) {
    const u32 rank = threadIdx.x;
    for (int k = 0; k < ENDS; ++k)
        for (u32 step = 16; step; step >>= 1) found[k] = joined(k, found[k], __shfl_xor_sync(ALL_LANES, found[k], step));
    if ((rank & (WARP - 1)) == 0)
        for (int k = 0; k < ENDS; ++k) ends[rank / WARP * ENDS + k] = found[k];
    __syncthreads();
    if (rank >= ENDS) return;
    double all = ends[rank];
    for (u32 w = 1; w < 8; ++w) all = joined((int)rank, all, ends[w * ENDS + rank]);
    out[rank] = all;
}

KERNEL(point_bounds, 256, IN(float) points, u64 n, OUT(double) parts) {
    SHARED(double, ends, ENDS * 8);
    double found[ENDS];
    nowhere(found);
    for (u64 i = global_thread(); i < n; i += global_threads()) {
        const float at[3] = {points[i], points[n + i], points[2 * n + i]};
        const float most = fmaxf(fabsf(at[0]), fmaxf(fabsf(at[1]), fabsf(at[2])));
        if (at[0] == at[0] && at[1] == at[1] && at[2] == at[2] && most < INFINITY_F) {
            for (int a = 0; a < 3; ++a) {
                found[1 + a] = joined(1, found[1 + a], at[a]);
                found[4 + a] = joined(4, found[4 + a], at[a]);
            }
        } else {
            found[0] += 1.0;
        }
    }
    of_block(found, ends, parts + blockIdx.x * ENDS);
}

KERNEL(bounds_of_parts, 256, IN(double) parts, u32 count, OUT(double) out) {
    SHARED(double, ends, ENDS * 8);
    double found[ENDS];
    nowhere(found);
    for (u32 p = threadIdx.x; p < count; p += 256)
        for (int k = 0; k < ENDS; ++k) found[k] = joined(k, found[k], parts[p * ENDS + k]);
    of_block(found, ends, out);
}
