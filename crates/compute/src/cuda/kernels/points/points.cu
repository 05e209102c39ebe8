// Affine maps of points. In double precision and in the order of the CPU.
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
