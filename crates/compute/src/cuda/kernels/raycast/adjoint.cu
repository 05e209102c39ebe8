// Rays one voxel after the other: exact lengths and planes of voxels, and the adjoint of all kinds in fixed point.
#include "rays.cuh"

#define TRILINEAR 0u
#define SIDDON 1u
#define JOSEPH 2u

// The value of a voxel of a volume with a border.
DEVICE u64 bordered(const RayVolume& volume, u32 x, u32 y, u32 z) {
    return x + 1 + (u64)(volume.nx + 2) * (y + 1 + (u64)(volume.ny + 2) * (z + 1));
}

// What is done with samples: the values of a ray are gathered.
struct Gather {
    IN(float) values;
    float sum, most;
};

DEVICE void gathered(Gather& to, float value, float length) {
    to.sum = fmaf(value, length, to.sum);
    to.most = fmaxf(to.most, value);
}

DEVICE void linear(Gather& to, const RayVolume& volume, float x, float y, float z, float length) {
    gathered(to, exact_value(to.values, volume, x + 1.0f, y + 1.0f, z + 1.0f), length);
}

DEVICE void box(Gather& to, const RayVolume& volume, u32 x, u32 y, u32 z, float length) {
    gathered(to, to.values[bordered(volume, x, y, z)], length);
}

// Or the weight of a ray is spread over voxels, in units.
struct Spread {
    INOUT(i64) sums;
    double weight;
};

DEVICE void added(Spread& to, u64 voxel, float part, float length) {
    const i64 units = __double2ll_rn(to.weight * (double)part * (double)length);
    if (units != 0) atomicAdd((u64*)&to.sums[voxel], (u64)units);
}

DEVICE void linear(Spread& to, const RayVolume& volume, float x, float y, float z, float length) {
    const i32 sizes[3] = {(i32)volume.nx, (i32)volume.ny, (i32)volume.nz};
    const float at[3] = {x, y, z};
    i32 base[3];
    float part[3];
    for (int a = 0; a < 3; ++a) {
        const float below = floorf(at[a]);
        base[a] = (i32)below;
        part[a] = at[a] - below;
    }
    for (int corner = 0; corner < 8; ++corner) {
        const i32 up[3] = {corner & 1, corner >> 1 & 1, corner >> 2};
        float weight = 1.0f;
        bool inside = true;
        i32 place[3];
        for (int a = 0; a < 3; ++a) {
            place[a] = base[a] + up[a];
            inside = inside && place[a] >= 0 && place[a] < sizes[a];
            weight *= up[a] ? part[a] : 1.0f - part[a];
        }
        if (inside)
            added(to, place[0] + (u64)volume.nx * (place[1] + (u64)volume.ny * place[2]), weight, length);
    }
}

DEVICE void box(Spread& to, const RayVolume& volume, u32 x, u32 y, u32 z, float length) {
    added(to, x + (u64)volume.nx * (y + (u64)volume.ny * z), 1.0f, length);
}

template <class Visitor>
DEVICE void boxes(const RayVolume& volume, const Ray& ray, float length, Visitor& visitor) {
    const float first = ray.first, last = ray.last;
    if (!(first < last)) return;
    const i32 sizes[3] = {(i32)volume.nx, (i32)volume.ny, (i32)volume.nz};
    i32 voxel[3];
    float next[3], inverse[3];
    // Places count from the first face: a voxel is from its number on and before the next.
    for (int a = 0; a < 3; ++a) {
        inverse[a] = 1.0f / ray.q[a];
        const float at = floorf(fmaf(first, ray.q[a], ray.p[a]));
        voxel[a] = (i32)fminf(fmaxf(at, 0.0f), (float)(sizes[a] - 1));
        const float face = (float)(voxel[a] + (ray.q[a] > 0.0f ? 1 : 0));
        next[a] = ray.q[a] == 0.0f ? INFINITY_F : (face - ray.p[a]) * inverse[a];
    }
    float k = first;
    for (;;) {
        const int axis = next[0] <= next[1] && next[0] <= next[2] ? 0 : next[1] <= next[2] ? 1 : 2;
        const float reached = next[axis];
        const float end = fminf(reached, last);
        if (end > k) {
            box(visitor, volume, (u32)voxel[0], (u32)voxel[1], (u32)voxel[2], (end - k) * length);
            k = end;
        }
        if (!(reached < last)) return;
        voxel[axis] += ray.q[axis] > 0.0f ? 1 : -1;
        if (voxel[axis] < 0 || voxel[axis] >= sizes[axis]) return;
        const float face = (float)(voxel[axis] + (ray.q[axis] > 0.0f ? 1 : 0));
        next[axis] = (face - ray.p[axis]) * inverse[axis];
    }
}

template <class Visitor>
DEVICE void planes(IN(float) frame, const RayVolume& volume, const Ray& ray, float length, Visitor& visitor) {
    const float size[3] = {fabsf(ray.q[0]), fabsf(ray.q[1]), fabsf(ray.q[2])};
    const int other = size[1] > size[0] ? 1 : 0, axis = size[2] > size[other] ? 2 : other;
    if (!(ray.first <= ray.last)) return;
    const i32 sizes[3] = {(i32)volume.nx, (i32)volume.ny, (i32)volume.nz};
    const float inverse = 1.0f / ray.q[axis], weight = length * fabsf(inverse);
    const float a = fmaf(ray.first, ray.q[axis], ray.p[axis]), b = fmaf(ray.last, ray.q[axis], ray.p[axis]);
    // A hair wider, as what is at the ends counts by its own place.
    const i32 low = (i32)fmaxf(floorf(fminf(a, b) - 0.5f), 0.0f);
    const i32 high = (i32)fminf(ceilf(fmaxf(a, b) + 0.5f), (float)(sizes[axis] - 1));
    for (i32 plane = low; plane <= high; ++plane) {
        const float k = ((float)plane - ray.p[axis]) * inverse;
        if (k > frame[24] && k <= frame[25]) {
            float at[3];
            for (int i = 0; i < 3; ++i)
                at[i] = i == axis ? (float)plane : fmaf(k, ray.q[i], ray.p[i]);
            linear(visitor, volume, at[0], at[1], at[2], weight);
        }
    }
}

template <class Visitor>
DEVICE void walk(IN(float) frame, const RayVolume& volume, u32 kind, float u, float v, Visitor& visitor) {
    const float length = length_of(frame, u, v);
    if (kind == SIDDON) {
        boxes(volume, ray_of(frame, volume, u, v, 0.5f), length, visitor);
        return;
    }
    Ray ray = ray_of(frame, volume, u, v, 1.0f);
    for (int a = 0; a < 3; ++a) ray.p[a] -= 1.0f;
    if (kind == JOSEPH) {
        planes(frame, volume, ray, length, visitor);
        return;
    }
    for (float k = ceilf(ray.first); k <= ray.last; k += 1.0f)
        linear(visitor, volume, fmaf(k, ray.q[0], ray.p[0]), fmaf(k, ray.q[1], ray.p[1]),
                       fmaf(k, ray.q[2], ray.p[2]), length);
}

// Integrals, or maxima, by exact lengths or by planes.
KERNEL(walked, 256, IN(float) values, RayVolume volume, IN(float) frames, RayPixels pixels, u32 count,
       u32 kind, u32 maximum, u32 first_view, OUT(float) out) {
    const Task task = task_of(pixels, count, 0, first_view);
    if (!task.is_one) return;
    Gather gather = {values, 0.0f, 0.0f};
    walk(frames + (u64)task.view * FRAME, volume, kind, (float)task.column, (float)task.row, gather);
    out[(u64)task.view * count + task.number] = maximum ? gather.most : gather.sum;
}

// The adjoint: a ray adds its weight to the voxels that it is made of.
KERNEL(spread, 256, IN(float) weights, RayVolume volume, IN(float) frames, RayPixels pixels, u32 count,
       u32 kind, double units, u32 first_view, INOUT(i64) sums) {
    const Task task = task_of(pixels, count, 0, first_view);
    if (!task.is_one) return;
    Spread spread = {sums, units * (double)weights[(u64)task.view * count + task.number]};
    walk(frames + (u64)task.view * FRAME, volume, kind, (float)task.column, (float)task.row, spread);
}
