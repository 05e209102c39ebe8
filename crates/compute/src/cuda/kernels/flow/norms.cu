// How long the vectors of a field are, in one pass and one launch. The order of all additions depends
// on the number of voxels only: each block leaves its parts in memory, and the block that comes last
// puts them together, in the order of the blocks.
#include "prelude.cuh"

#define THREADS 256u

// The square root to some 1e-14: a step of Newton's method from that of single precision, whose range
// is left where squares are very large or small.
DEVICE double root(double v) {
    if (!(v > 1e-30 && v < 1e30)) return sqrt(v);
    const double y = (double)rsqrtf((float)v), r = v * y;
    return r + 0.5 * y * (v - r * r);
}

struct Norms {
    double square, sum, squares;
};

struct Scale { double of[3]; };

DEVICE void add(Norms& m, const Scale& s, float vx, float vy, float vz) {
    const double x = s.of[0] * (double)vx, y = s.of[1] * (double)vy, z = s.of[2] * (double)vz;
    const double square = x * x + y * y + z * z;
    m.square = fmax(m.square, square);
    m.sum += root(square);
    m.squares += square;
}

// The parts of the threads of a block, for its first thread.
DEVICE Norms of_block(Norms m, SHARED_POINTER(double) scratch) {
    double v = m.square;
#pragma unroll
    for (u32 step = 16; step; step >>= 1) v = fmax(v, __shfl_xor_sync(ALL_LANES, v, step));
    if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = v;
    __syncthreads();
    for (u32 w = 0; w < THREADS / WARP; ++w) v = fmax(v, scratch[w]);
    m.square = v;
    __syncthreads();
    m.sum = block_sum(m.sum, scratch);
    __syncthreads();
    m.squares = block_sum(m.squares, scratch);
    __syncthreads();
    return m;
}

// As the scratch of reductions: 3 BLOCKS parts, and the count of blocks that have left theirs, which
// the last leaves at zero.
DEVICE void finish(Norms m, OUT(double) out, INOUT(double) partials, INOUT(u32) finished,
                   SHARED_POINTER(double) scratch, SHARED_POINTER(u32) is_last) {
    m = of_block(m, scratch);
    if (gridDim.x > 1) {
        if (threadIdx.x == 0) {
            partials[blockIdx.x] = m.square;
            partials[BLOCKS + blockIdx.x] = m.sum;
            partials[2 * BLOCKS + blockIdx.x] = m.squares;
            __threadfence();
            is_last[0] = atomicAdd(&finished[0], 1u) == gridDim.x - 1 ? 1u : 0u;
        }
        __syncthreads();
        if (is_last[0] == 0u) return;
        __threadfence();
        m.square = m.sum = m.squares = 0.0;
        for (u32 b = threadIdx.x; b < gridDim.x; b += THREADS) {
            m.square = fmax(m.square, __ldcg(&partials[b]));
            m.sum += __ldcg(&partials[BLOCKS + b]);
            m.squares += __ldcg(&partials[2 * BLOCKS + b]);
        }
        m = of_block(m, scratch);
        if (threadIdx.x == 0) finished[0] = 0;
    }
    if (threadIdx.x == 0) {
        out[0] = sqrt(m.square);
        out[1] = m.sum;
        out[2] = m.squares;
    }
}

KERNEL(norms, AT_ONCE(THREADS, 4), IN(float) field, u64 n, Scale s, OUT(double) out, INOUT(double) partials,
       INOUT(u32) finished) {
    SHARED(double, scratch, 32);
    SHARED(u32, is_last, 1);
    Norms m = {0.0, 0.0, 0.0};
    for (u64 i = global_thread(); i < n; i += global_threads())
        add(m, s, field[i], field[i + n], field[i + 2 * n]);
    finish(m, out, partials, finished, scratch, is_last);
}

// The same for a multiple of four voxels, of which a thread loads eight at once.
KERNEL(norms_of_fours, AT_ONCE(THREADS, 4), IN(float) field, u64 n, Scale s, OUT(double) out, INOUT(double) partials,
       INOUT(u32) finished) {
    SHARED(double, scratch, 32);
    SHARED(u32, is_last, 1);
    Norms m = {0.0, 0.0, 0.0};
    const u64 fours = n / 4, step = global_threads();
    for (u64 i = global_thread(); i < fours; i += 2 * step) {
        float4 x[2], y[2], z[2];
        const u32 count = i + step < fours ? 2 : 1;
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            if (k < count) {
                x[k] = load4(field, i + k * step);
                y[k] = load4(field, fours + i + k * step);
                z[k] = load4(field, 2 * fours + i + k * step);
            }
        }
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            if (k < count) {
                add(m, s, x[k].x, y[k].x, z[k].x);
                add(m, s, x[k].y, y[k].y, z[k].y);
                add(m, s, x[k].z, y[k].z, z[k].z);
                add(m, s, x[k].w, y[k].w, z[k].w);
            }
        }
    }
    finish(m, out, partials, finished, scratch, is_last);
}

// The length of each vector, in single precision.
KERNEL(lengths, 256, IN(float) field, u64 n, float sx, float sy, float sz, OUT(float) out) {
    const u64 i = global_thread();
    if (i >= n) return;
    const float x = field[i] * sx, y = field[i + n] * sy, z = field[i + 2 * n] * sz;
    out[i] = sqrtf(x * x + y * y + z * z);
}

// Each vector a part of the way to that of another field, or to zero.
KERNEL(blend, 256, IN(float) other, u32 to_zero, IN(float) weight, u64 n, INOUT(float) field) {
    const u64 i = global_thread();
    if (i >= n) return;
    const float part = weight[i];
#pragma unroll
    for (u32 a = 0; a < 3; ++a) {
        const float value = field[i + a * n];
        field[i + a * n] = value + part * ((to_zero ? 0.0f : other[i + a * n]) - value);
    }
}
