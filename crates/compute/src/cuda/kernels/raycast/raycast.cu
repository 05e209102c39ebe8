// Rays through volumes: their preparation, integrals and maxima, and derivatives in the view.
#include "rays.cuh"

// The volume with a border of zeros.
KERNEL(padded, 256, IN(float) values, RayVolume volume, OUT(float) out) {
    const u64 i = global_thread(), sx = volume.nx + 2, sy = volume.ny + 2;
    if (i >= sx * sy * (volume.nz + 2)) return;
    const u64 x = i % sx, y = i / sx % sy, z = i / sx / sy;
    const bool inside = x - 1 < volume.nx && y - 1 < volume.ny && z - 1 < volume.nz;
    out[i] = inside ? values[x - 1 + volume.nx * (y - 1 + volume.ny * (z - 1))] : 0.0f;
}

// The bricks with a cell of which a corner is not 0. `occupied` is 0 at first.
KERNEL(occupied, 256, IN(float) values, RayVolume volume, INOUT(u32) occupied) {
    const u64 i = global_thread();
    if (i >= (u64)volume.nx * volume.ny * volume.nz || values[i] == 0.0f) return;
    const u32 x = (u32)(i % volume.nx), y = (u32)(i / volume.nx % volume.ny);
    const u32 z = (u32)(i / volume.nx / volume.ny);
    // Its cells begin at it and at the voxel before it.
    for (u32 corner = 0; corner < 8; ++corner) {
        const u32 a = (x + (corner & 1)) >> BRICK_SHIFT, b = (y + (corner >> 1 & 1)) >> BRICK_SHIFT;
        const u32 c = (z + (corner >> 2)) >> BRICK_SHIFT;
        const u32 brick = a + volume.bx * (b + volume.by * c);
        if (occupied[brick] == 0) occupied[brick] = 1;
    }
}

template <bool QUICK, bool MAXIMUM>
DEVICE void march(IN(float) values, IN(float) leaps, const RayVolume& volume, IN(float) frames,
                  const RayPixels& pixels, u32 count, u32 share, u32 first_view, OUT(float) out) {
    const Task task = task_of(pixels, count, share, first_view);
    const IN(float) frame = frames + (u64)task.view * FRAME;
    const float u = (float)task.column, v = (float)task.row;
    const Ray ray = ray_of(frame, volume, u, v, 1.0f);
    const float threads = (float)(1u << share);
    const float rate = fmaxf(fmaxf(fabsf(ray.q[0]), fabsf(ray.q[1])), fmaxf(fabsf(ray.q[2]), 1e-6f));
    const float reach = divided(0.999f, rate * threads);
    float sum = 0.0f;
    float k = ceilf(ray.first) + (float)task.part;
    const float last = ray.last;
    while (task.is_one && k <= last) {
        const float x = fmaf(k, ray.q[0], ray.p[0]), y = fmaf(k, ray.q[1], ray.p[1]);
        const float z = fmaf(k, ray.q[2], ray.p[2]);
        const float leap = leap_at(leaps, volume, x, y, z);
        if (leap >= 0.0f) {
            k += threads * (floorf(leap * reach) + 1.0f);
            continue;
        }
#pragma unroll
        for (int i = 0; i < LOOK; ++i) {
            const float at = k + (float)i * threads;
            if (at <= last) {
                const float value =
                    value_at<QUICK>(values, volume, fmaf(at, ray.q[0], ray.p[0]),
                                    fmaf(at, ray.q[1], ray.p[1]), fmaf(at, ray.q[2], ray.p[2]));
                sum = MAXIMUM ? fmaxf(sum, value) : sum + value;
            }
        }
        k += (float)LOOK * threads;
    }
    if (MAXIMUM) {
        sum = most_over_ray(sum, share);
    } else {
        sum = over_ray(sum, share) * length_of(frame, u, v);
    }
    if (task.is_one && task.part == 0) out[(u64)task.view * count + task.number] = sum;
}

// Integrals of interpolated values.
KERNEL(integrals_exact, 512, IN(float) values, IN(float) leaps, RayVolume volume, IN(float) frames,
       RayPixels pixels, u32 count, u32 share, u32 first_view, OUT(float) out) {
    march<false, false>(values, leaps, volume, frames, pixels, count, share, first_view, out);
}

// The same by the texture unit.
KERNEL(integrals_quick, 512, IN(float) values, IN(float) leaps, RayVolume volume, IN(float) frames,
       RayPixels pixels, u32 count, u32 share, u32 first_view, OUT(float) out) {
    march<true, false>(values, leaps, volume, frames, pixels, count, share, first_view, out);
}

// The largest interpolated values.
KERNEL(maxima_exact, 512, IN(float) values, IN(float) leaps, RayVolume volume, IN(float) frames,
       RayPixels pixels, u32 count, u32 share, u32 first_view, OUT(float) out) {
    march<false, true>(values, leaps, volume, frames, pixels, count, share, first_view, out);
}

// The same by the texture unit.
KERNEL(maxima_quick, 512, IN(float) values, IN(float) leaps, RayVolume volume, IN(float) frames,
       RayPixels pixels, u32 count, u32 share, u32 first_view, OUT(float) out) {
    march<true, true>(values, leaps, volume, frames, pixels, count, share, first_view, out);
}

// Integrals with the sums of gradients: six numbers for each ray, in planes of `count`.
KERNEL(integrals_with_derivatives, 256, IN(float) values, IN(float) leaps, RayVolume volume, IN(float) frames,
       RayPixels pixels, u32 count, u32 share, u32 first_view, OUT(float) out, OUT(float) derivatives) {
    const Task task = task_of(pixels, count, share, first_view);
    const IN(float) frame = frames + (u64)task.view * FRAME;
    const float u = (float)task.column, v = (float)task.row;
    const Ray ray = ray_of(frame, volume, u, v, 1.0f);
    const float threads = (float)(1u << share);
    const float rate = fmaxf(fmaxf(fabsf(ray.q[0]), fabsf(ray.q[1])), fmaxf(fabsf(ray.q[2]), 1e-6f));
    const float reach = divided(0.999f, rate * threads);
    const u64 row = volume.nx + 2, slice = row * (volume.ny + 2);
    float sum = 0.0f, at[3] = {0.0f, 0.0f, 0.0f}, along[3] = {0.0f, 0.0f, 0.0f};
    // A hair more than inside, as these are rounded, too: places tell by themselves, and outside nothing is added.
    const float last = fminf(ray.last + 0.01f, frame[25]);
    float k = ceilf(fmaxf(ray.first - 0.01f, frame[24])) + (float)task.part;
    while (task.is_one && k <= last) {
        const float leap = leap_at(leaps, volume, fmaf(k, ray.q[0], ray.p[0]), fmaf(k, ray.q[1], ray.p[1]),
                                   fmaf(k, ray.q[2], ray.p[2]));
        if (leap >= 0.0f) {
            k += threads * (floorf(leap * reach) + 1.0f);
            continue;
        }
        for (int i = 0; i < LOOK && k <= last; ++i, k += threads) {
            const RayCell cell = cell_of(volume, fmaf(k, ray.q[0], ray.p[0]), fmaf(k, ray.q[1], ray.p[1]),
                                         fmaf(k, ray.q[2], ray.p[2]));
            const float fx = cell.part[0], fy = cell.part[1], fz = cell.part[2];
            const IN(float) c = values + cell.base;
            const float a0 = c[0], b0 = c[row], c0 = c[slice], d0 = c[slice + row];
            const float da = c[1] - a0, db = c[row + 1] - b0;
            const float dc = c[slice + 1] - c0, dd = c[slice + row + 1] - d0;
            const float a = fmaf(fx, da, a0), b = fmaf(fx, db, b0);
            const float e = fmaf(fx, dc, c0), f = fmaf(fx, dd, d0);
            const float low = mix(fy, a, b), high = mix(fy, e, f);
            sum += mix(fz, low, high);
            // Nothing changes outside, nor on the last border.
            const float inside = cell.inside ? 1.0f : 0.0f;
            const float g[3] = {inside * mix(fz, mix(fy, da, db), mix(fy, dc, dd)),
                                inside * mix(fz, b - a, f - e), inside * (high - low)};
#pragma unroll
            for (int axis = 0; axis < 3; ++axis) {
                at[axis] += g[axis];
                along[axis] = fmaf(k, g[axis], along[axis]);
            }
        }
    }
    const float length = length_of(frame, u, v);
    sum = over_ray(sum, share) * length;
    const bool writes = task.is_one && task.part == 0;
    const u64 first = (u64)task.view * count;
    if (writes) out[first + task.number] = sum;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        const float a = over_ray(at[axis], share) * length, b = over_ray(along[axis], share) * length;
        if (writes) {
            derivatives[6 * first + (u64)axis * count + task.number] = a;
            derivatives[6 * first + (u64)(axis + 3) * count + task.number] = b;
        }
    }
}

// Sums of products of weights and derivatives: alone, times the columns, times the rows. A block sums `each` rays of a view; blocks of a view
// are next to each other.
KERNEL(derivative_sums, 256, IN(float) weights, IN(float) derivatives, RayPixels pixels, u32 count, u32 each,
       OUT(double) sums) {
    SHARED(double, scratch, 32);
    double found[18];
#pragma unroll
    for (int i = 0; i < 18; ++i) found[i] = 0.0;
    const u64 first = (u64)blockIdx.y * count;
    const u32 begin = blockIdx.x * each, end = begin + each < count ? begin + each : count;
    for (u32 i = begin + threadIdx.x; i < end; i += blockDim.x) {
        u32 column, row;
        pixel_of(pixels, i, column, row);
        const double w = weights[first + i], u = column, v = row;
#pragma unroll
        for (int plane = 0; plane < 6; ++plane) {
            const double product = w * (double)derivatives[6 * first + (u64)plane * count + i];
            found[3 * plane] += product;
            found[3 * plane + 1] += product * u;
            found[3 * plane + 2] += product * v;
        }
    }
    const u64 block = (u64)blockIdx.y * gridDim.x + blockIdx.x;
    for (int i = 0; i < 18; ++i) {
        __syncthreads();
        const double sum = block_sum(found[i], scratch);
        if (threadIdx.x == 0) sums[block * 18 + i] = sum;
    }
}

// The values of an image at pixels.
KERNEL(picked, 256, IN(float) image, u64 columns, RayPixels pixels, u32 count, OUT(float) out) {
    const u64 i = global_thread();
    if (i >= count) return;
    u32 column, row;
    pixel_of(pixels, (u32)i, column, row);
    out[i] = image[row * columns + column];
}
