// What goes with Fourier transforms: factors, and images of one voxel along x.
#include "prelude.cuh"

// spectrum[k] *= factors[k], for n complex numbers in spectra of `each`; a thread has two of them.
KERNEL(scale_spectrum, 256, INOUT(float) spectrum, IN(float) factors, u64 n, u64 each) {
    u64 i = global_thread();
    if (2 * i + 1 < n) {
        float4 v = load4(spectrum, i);
        const u64 first = n == each ? 2 * i : 2 * i % each, second = first + 1 == each ? 0 : first + 1;
        float a = factors[first], b = factors[second];
        v.x *= a;
        v.y *= a;
        v.z *= b;
        v.w *= b;
        store4(spectrum, i, v);
    } else if (2 * i < n) {
        float a = factors[2 * i % each];
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

// Sine transforms of lines of n voxels, `inner` voxels apart. Two lines, 2 p and 2 p + 1, make the real
// and the imaginary parts of complex numbers z[0 .. 2 n + 2), continued as odd functions. A missing
// last line counts as zeros. Numbers of columns are `pairs` apart, those of rows are neighbours.
struct Pair {
    u64 a, b, step;
    bool has_b;
};

DEVICE u64 start_of_line(u32 line, u32 n, u32 inner) {
    return (u64)(line / inner) * n * inner + line % inner;
}
DEVICE Pair pair_of(u32 p, u32 n, u32 inner, u32 lines) {
    Pair pair;
    pair.has_b = 2 * p + 1 < lines;
    pair.a = start_of_line(2 * p, n, inner);
    pair.b = pair.has_b ? start_of_line(2 * p + 1, n, inner) : pair.a;
    pair.step = inner;
    return pair;
}
DEVICE void put(OUT(float) work, u64 k, float re, float im) {
    work[2 * k] = re;
    work[2 * k + 1] = im;
}
DEVICE void extend(IN(float) image, const Pair& pair, OUT(float) work, u64 at, u64 step, u32 n, u32 i) {
    const float a = image[pair.a + i * pair.step];
    const float b = pair.has_b ? image[pair.b + i * pair.step] : 0.0f;
    put(work, at + (i + 1) * step, a, b);
    put(work, at + (2 * n + 1 - i) * step, -a, -b);
    if (i == 0) {
        put(work, at, 0.0f, 0.0f);
        put(work, at + (n + 1) * step, 0.0f, 0.0f);
    }
}
DEVICE void sine(IN(float) work, u64 at, u64 step, INOUT(float) image, const Pair& pair, u32 i, float scale) {
    const u64 k = at + (i + 1) * step;
    const float re = work[2 * k], im = work[2 * k + 1];
    image[pair.a + i * pair.step] = -im * scale;
    if (pair.has_b) image[pair.b + i * pair.step] = re * scale;
}

KERNEL(extend_rows, 256, IN(float) image, OUT(float) work, u32 n, u32 inner, u32 lines) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x, pairs = (lines + 1) / 2;
    if (i >= n) return;
    for (u32 p = blockIdx.y; p < pairs; p += gridDim.y)
        extend(image, pair_of(p, n, inner, lines), work, (u64)p * (2 * n + 2), 1, n, i);
}
KERNEL(sine_of_rows, 256, IN(float) work, INOUT(float) image, u32 n, u32 inner, u32 lines, float scale) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x, pairs = (lines + 1) / 2;
    if (i >= n) return;
    for (u32 p = blockIdx.y; p < pairs; p += gridDim.y)
        sine(work, (u64)p * (2 * n + 2), 1, image, pair_of(p, n, inner, lines), i, scale);
}
KERNEL(extend_columns, 256, IN(float) image, OUT(float) work, u32 n, u32 inner, u32 lines) {
    const u32 p = blockIdx.x * blockDim.x + threadIdx.x, pairs = (lines + 1) / 2;
    if (p >= pairs) return;
    const Pair pair = pair_of(p, n, inner, lines);
    for (u32 i = blockIdx.y; i < n; i += gridDim.y) extend(image, pair, work, p, pairs, n, i);
}
KERNEL(sine_of_columns, 256, IN(float) work, INOUT(float) image, u32 n, u32 inner, u32 lines, float scale) {
    const u32 p = blockIdx.x * blockDim.x + threadIdx.x, pairs = (lines + 1) / 2;
    if (p >= pairs) return;
    const Pair pair = pair_of(p, n, inner, lines);
    for (u32 i = blockIdx.y; i < n; i += gridDim.y) sine(work, p, pairs, image, pair, i, scale);
}
