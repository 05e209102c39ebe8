// What goes with Fourier transforms: factors, and images of one voxel along x.
#include "prelude.cuh"

// spectrum[k] *= factors[k], for n complex numbers; a thread has two of them.
KERNEL(scale_spectrum, 256, INOUT(float) spectrum, IN(float) factors, u64 n) {
    u64 i = global_thread();
    if (2 * i + 1 < n) {
        float4 v = load4(spectrum, i);
        float a = factors[2 * i], b = factors[2 * i + 1];
        v.x *= a;
        v.y *= a;
        v.z *= b;
        v.w *= b;
        store4(spectrum, i, v);
    } else if (2 * i < n) {
        float a = factors[2 * i];
        spectrum[4 * i] *= a;
        spectrum[4 * i + 1] *= a;
    }
}

// image[i] *= factor, for n voxels; a thread has four of them.
KERNEL(scale_image, 256, INOUT(float) image, u64 n, float factor) {
    u64 i = global_thread();
    if (4 * i + 3 < n) {
        float4 v = load4(image, i);
        v.x *= factor;
        v.y *= factor;
        v.z *= factor;
        v.w *= factor;
        store4(image, i, v);
    } else {
        for (u64 k = 4 * i; k < n; ++k) image[k] *= factor;
    }
}

// Real numbers as complex ones.
KERNEL(real_to_complex, 256, IN(float) src, OUT(float) numbers, u64 n) {
    u64 i = global_thread();
    if (i >= n) return;
    numbers[2 * i] = src[i];
    numbers[2 * i + 1] = 0.0f;
}

// The real parts of complex numbers, times a factor.
KERNEL(complex_to_real, 256, IN(float) numbers, OUT(float) out, u64 n, float factor) {
    u64 i = global_thread();
    if (i < n) out[i] = numbers[2 * i] * factor;
}
