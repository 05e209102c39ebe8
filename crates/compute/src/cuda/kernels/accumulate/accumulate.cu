// Sums over many images in fixed point.
#include "prelude.cuh"

KERNEL(add_fixed, 256, IN(float) image, double factor, u64 n, INOUT(i64) sums) {
    const u64 i = global_thread();
    if (i >= n) return;
    const double most = 4611686018427387904.0;
    double value = (double)image[i] * factor;
    // Written so that what is not a number becomes zero.
    if (value >= most) value = most;
    else if (value <= -most) value = -most;
    else if (!(value == value)) value = 0.0;
    sums[i] = (i64)((u64)(i64)sums[i] + (u64)__double2ll_rn(value));
}

KERNEL(fixed_to_float, 256, IN(i64) sums, double factor, u64 n, OUT(float) out) {
    const u64 i = global_thread();
    if (i < n) out[i] = (float)((double)sums[i] * factor);
}
