// The difference of self-similarity contexts, and its derivative: `contexts` makes the derivative in each distance at the centres of
// windows (cpu/similarity/contexts.rs says what that is), `sums` adds it up over windows, and `act` is what these do to a voxel.
// A thread has a voxel, and finds what is around it in the cache.
#include "prelude.cuh"

#define THREADS 128u
// The most entries of a context.
#define MOST 12u

// Sizes and settings; `Settings` of contexts.rs. A radius and a distance are 0 along an axis of one voxel.
struct Settings {
    u32 dims[3], radius[3], distance[3];
    // How many entries there are.
    u32 count;
    float noise, none, scale;
};

// The neighbours that an entry compares: 0 and 1 after and before a voxel along x, 2 and 3 along y, 4 and 5 along z.
DEVICE u32 first_of(u32 k) { return k < 4 ? 0 : k < 8 ? 1 : k < 10 ? 2 : 3; }
DEVICE u32 second_of(u32 k) { return k < 8 ? 2 + (k & 3) : 4 + (k & 1); }

struct Voxel { i32 at[3]; };

DEVICE Voxel voxel_of(const Settings& s, u64 i) {
    const u64 row = i / s.dims[0], slice = row / s.dims[1];
    Voxel v;
    v.at[0] = (i32)(i - row * s.dims[0]);
    v.at[1] = (i32)(row - slice * s.dims[1]);
    v.at[2] = (i32)slice;
    return v;
}

// What to add to the number of a voxel to come to its neighbour; and whether that is in the image.
DEVICE i64 step_to(const Settings& s, u32 neighbour) {
    const u32 axis = neighbour / 2;
    const i64 stride = axis == 0 ? 1 : axis == 1 ? (i64)s.dims[0] : (i64)s.dims[0] * s.dims[1];
    return (neighbour & 1 ? -1 : 1) * stride * s.distance[axis];
}

DEVICE bool has(const Settings& s, const Voxel& v, u32 neighbour) {
    const u32 axis = neighbour / 2;
    const i64 d = s.distance[axis], at = v.at[axis];
    return d > 0 && (neighbour & 1 ? at >= d : at + d < (i64)s.dims[axis]);
}

// The window about a voxel along an axis, within the image.
DEVICE void window_of(const Settings& s, const Voxel& v, u32 axis, i32& low, i32& high) {
    const i64 r = s.radius[axis], at = v.at[axis], last = (i64)s.dims[axis] - 1;
    low = (i32)(at < r ? 0 : at - r);
    high = (i32)(at + r > last ? last : at + r);
}

// Adds the squares of the differences around a voxel.
DEVICE void add_squares(IN(float) image, const Settings& s, const Voxel& p, i64 i, float (&sums)[MOST]) {
    float value[6];
    bool is_there[6];
#pragma unroll
    for (u32 n = 0; n < 6; ++n) {
        is_there[n] = has(s, p, n);
        value[n] = is_there[n] ? image[i + step_to(s, n)] : 0.0f;
    }
#pragma unroll
    for (u32 k = 0; k < MOST; ++k) {
        const u32 a = first_of(k), b = second_of(k);
        const float difference = is_there[a] && is_there[b] ? value[a] - value[b] : 0.0f;
        sums[k] += difference * difference;
    }
}

// The entries of a context, given the distances, of which those along axes of one voxel are not looked at.
struct Context { float t[MOST], entries[MOST], over; u32 least; };

DEVICE bool is_compared(const Settings& s, u32 k) {
    return s.distance[first_of(k) / 2] > 0 && s.distance[second_of(k) / 2] > 0;
}

// exp(-t) of at most 12, as the CPU computes it.
DEVICE float exp_of_minus(float t) {
    const float s = t * (1.0f / 16.0f);
    float power = -1.0f / 362880.0f;
    power = power * s + 1.0f / 40320.0f;
    power = power * s - 1.0f / 5040.0f;
    power = power * s + 1.0f / 720.0f;
    power = power * s - 1.0f / 120.0f;
    power = power * s + 1.0f / 24.0f;
    power = power * s - 1.0f / 6.0f;
    power = power * s + 0.5f;
    power = power * s - 1.0f;
    power = power * s + 1.0f;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) power *= power;
    return power;
}

DEVICE Context context_of(const Settings& s, const float (&distances)[MOST]) {
    Context c;
    float least = INFINITY_F, sum = 0.0f;
    c.least = 0;
#pragma unroll
    for (u32 k = 0; k < MOST; ++k) {
        if (!is_compared(s, k)) continue;
        if (distances[k] < least) {
            least = distances[k];
            c.least = k;
        }
        sum += distances[k];
    }
    c.over = 1.0f / (sum * (1.0f / (float)s.count) + s.noise);
#pragma unroll
    for (u32 k = 0; k < MOST; ++k) {
        c.t[k] = is_compared(s, k) ? (distances[k] - least) * c.over : 0.0f;
        c.entries[k] = exp_of_minus(c.t[k]);
    }
    return c;
}

KERNEL(contexts, THREADS, IN(float) fixed, IN(float) moving, IN(float) weights, Settings s, u64 n, OUT(float) out,
       OUT(double) partials) {
    SHARED(double, scratch, 32);
    double energy = 0.0;
    const i64 row = s.dims[0], plane = row * s.dims[1];
    for (u64 i = global_thread(); i < n; i += global_threads()) {
        const Voxel v = voxel_of(s, i);
        float of_fixed[MOST], of_moving[MOST];
#pragma unroll
        for (u32 k = 0; k < MOST; ++k) of_fixed[k] = of_moving[k] = 0.0f;
        i32 low[3], high[3];
#pragma unroll
        for (u32 a = 0; a < 3; ++a) window_of(s, v, a, low[a], high[a]);
        Voxel p;
        for (p.at[2] = low[2]; p.at[2] <= high[2]; ++p.at[2])
            for (p.at[1] = low[1]; p.at[1] <= high[1]; ++p.at[1])
                for (p.at[0] = low[0]; p.at[0] <= high[0]; ++p.at[0]) {
                    const i64 j = p.at[2] * plane + p.at[1] * row + p.at[0];
                    add_squares(fixed, s, p, j, of_fixed);
                    add_squares(moving, s, p, j, of_moving);
                }
        const Context f = context_of(s, of_fixed), m = context_of(s, of_moving);
        const float w = weights ? weights[i] : 1.0f;
        float size = 0.0f, sum = 0.0f, sum_t = 0.0f, h[MOST];
#pragma unroll
        for (u32 k = 0; k < MOST; ++k) {
            const float difference = f.entries[k] - m.entries[k];
            const float length = sqrtf(difference * difference + s.none * s.none);
            size += length - s.none;
            h[k] = difference / length * m.entries[k];
            sum += h[k];
            sum_t += h[k] * m.t[k];
        }
        energy += (double)(w * size);
        const float factor = w * s.scale * m.over, mean_t = sum_t * (1.0f / (float)s.count);
#pragma unroll
        for (u32 k = 0; k < MOST; ++k) {
            const float of_least = k == m.least ? sum : 0.0f;
            out[k * n + i] = is_compared(s, k) ? factor * (h[k] - of_least - mean_t) : 0.0f;
        }
    }
    const double sum = block_sum(energy, scratch);
    if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// Sums over windows, of each of the images that follow each other.
KERNEL(sums, THREADS, IN(float) of, Settings s, u64 n, OUT(float) out) {
    const i64 row = s.dims[0], plane = row * s.dims[1];
    for (u64 i = global_thread(); i < n; i += global_threads()) {
        const Voxel v = voxel_of(s, i);
        i32 low[3], high[3];
#pragma unroll
        for (u32 a = 0; a < 3; ++a) window_of(s, v, a, low[a], high[a]);
        for (u32 k = 0; k < MOST; ++k) {
            if (!is_compared(s, k)) continue;
            float sum = 0.0f;
            for (i64 z = low[2]; z <= high[2]; ++z)
                for (i64 y = low[1]; y <= high[1]; ++y)
                    for (i64 x = low[0]; x <= high[0]; ++x) sum += of[(i64)(k * n) + z * plane + y * row + x];
            out[k * n + i] = sum;
        }
    }
}

// What the windows around a voxel do to it.
KERNEL(act, THREADS, IN(float) moving, IN(float) sums, Settings s, u64 n, OUT(float) out) {
    for (u64 i = global_thread(); i < n; i += global_threads()) {
        const Voxel v = voxel_of(s, i);
        const float here = moving[i];
        float sum = 0.0f;
#pragma unroll
        for (u32 neighbour = 0; neighbour < 6; ++neighbour) {
            // The voxel whose neighbour this one is: the neighbour on the other side.
            if (!has(s, v, neighbour ^ 1)) continue;
            const i64 at = (i64)i - step_to(s, neighbour);
            Voxel p = v;
            const u32 axis = neighbour / 2;
            p.at[axis] += (i32)((neighbour & 1 ? 1 : -1) * (i64)s.distance[axis]);
#pragma unroll
            for (u32 k = 0; k < MOST; ++k) {
                const u32 a = first_of(k), b = second_of(k);
                if (a != neighbour && b != neighbour) continue;
                const u32 other = a == neighbour ? b : a;
                if (has(s, p, other)) sum += sums[k * n + at] * (here - moving[at + step_to(s, other)]);
            }
        }
        out[i] = sum + sum;
    }
}
