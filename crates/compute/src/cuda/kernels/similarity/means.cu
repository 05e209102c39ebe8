// Local correlation: what does not depend on how windows are summed, and windows of any size by means
// over boxes.
#include "correlation.cuh"

#define THREADS 256u

// Parts of numbers near the means of two images: those of some voxels of each. CENTRES blocks of 1024
// threads, two parts for each block.
KERNEL(centres, 1024, IN(float) fixed, IN(float) moving, u64 n, OUT(double) out) {
    SHARED(double, f_scratch, 32);
    SHARED(double, m_scratch, 32);
    const u64 samples = n < CENTRES * 1024 ? n : CENTRES * 1024, step = n / samples;
    const u32 i = blockIdx.x * 1024 + threadIdx.x;
    double f = 0.0, m = 0.0;
    if (i < samples) {
        // Scattered: every so many voxels would be those of a face of the grid.
        const u64 at = i * step + (i * 2654435761u >> 8) % step;
        f = (double)fixed[at];
        m = (double)moving[at];
    }
    f = block_sum(f, f_scratch);
    m = block_sum(m, m_scratch);
    if (threadIdx.x > 0) return;
    out[2 * blockIdx.x] = f / (double)samples;
    out[2 * blockIdx.x + 1] = m / (double)samples;
}

// The energy, from what the blocks have found. One block.
KERNEL(energy, THREADS, IN(double) partials, u64 count, double factor, OUT(double) out) {
    SHARED(double, scratch, 32);
    double sum = 0.0;
    for (u64 i = threadIdx.x; i < count; i += THREADS) sum += partials[i];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) out[0] = factor * sum;
}

// The product of two images, a centre taken off each, or the first of them alone.
KERNEL(products, THREADS, IN(float) a, IN(float) b, IN(double) centres, u32 a_centre, u32 b_centre,
       u32 alone, u64 n, OUT(float) out) {
    float centre[2];
    centres_of(centres, centre[0], centre[1]);
    const float ca = centre[a_centre], cb = centre[b_centre];
    for (u64 i = global_thread(); i < n; i += global_threads()) {
        const float v = a[i] - ca;
        out[i] = alone ? v : v * (b[i] - cb);
    }
}

struct Windows { u32 dims[3], radius[3]; };

// The voxels of the window about voxel i.
DEVICE float count_of(const Windows& w, u64 i) {
    const u64 row = i / w.dims[0], slice = row / w.dims[1];
    return (float)window_size((u32)(i - row * w.dims[0]), w.radius[0], w.dims[0]) *
           (float)window_size((u32)(row - slice * w.dims[1]), w.radius[1], w.dims[1]) *
           (float)window_size((u32)slice, w.radius[2], w.dims[2]);
}

// From the means over windows of f, m, f f, m m and f m the coefficients p, q and r, in the place of
// the first three.
KERNEL(coefficients_of_means, THREADS, INOUT(float) f, INOUT(float) m, INOUT(float) ff, IN(float) mm,
       IN(float) fm, IN(float) weights, Windows of, float noise, u64 n, OUT(double) partials) {
    SHARED(double, scratch, 32);
    double sum = 0.0;
    for (u64 i = global_thread(); i < n; i += global_threads()) {
        const float f_mean = f[i], m_mean = m[i];
        // Not fused: of a single voxel nothing is left.
        const float a = fm[i] - f_mean * m_mean;
        const float b = fmaxf(ff[i] - f_mean * f_mean, 0.0f) + noise;
        const float c = fmaxf(mm[i] - m_mean * m_mean, 0.0f) + noise;
        const Coefficients k = coefficients(a, b, c, f_mean, m_mean, weights ? weights[i] : 1.0f);
        const float over = 1.0f / count_of(of, i);
        f[i] = k.p * over;
        m[i] = k.q * over;
        ff[i] = k.r * over;
        sum += (double)k.energy;
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// The derivative from the means over windows of the coefficients.
KERNEL(derivatives_of_means, THREADS, IN(float) fixed, IN(float) moving, IN(double) centres, IN(float) p,
       IN(float) q, IN(float) r, Windows of, float scale, u64 n, OUT(float) out) {
    float cf, cm;
    centres_of(centres, cf, cm);
    for (u64 i = global_thread(); i < n; i += global_threads()) {
        const float derivative = fmaf(fixed[i] - cf, p[i], fmaf(-(moving[i] - cm), q[i], -r[i]));
        out[i] = scale * (derivative * count_of(of, i));
    }
}
