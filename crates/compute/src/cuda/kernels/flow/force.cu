// Forces, which are gradients weighted at each voxel, and energies of the derivatives of a field.
#include "differences.cuh"

// out = derivative * gradient(image), or added to it.
template <u32 W, bool ADD>
DEVICE void force_of(IN(float) derivative, IN(float) image, const Tiles& t, const Scales& s, INOUT(float) out) {
    const Place p = place_of<W>(t, s);
    const u64 n = p.slice * t.nz;
    Column<W> c;
    begin(c, image, p);
    u64 i = p.index;
#pragma unroll 2
    for (u32 k = 0; k < p.slices; ++k, i += p.slice) {
        const u32 z = p.z + k;
        const float along_z = scale_z(s, z, t.nz);
        reach(c, image, i, p.slice, z + 1 == t.nz);
        const Beside<W> b = beside<W>(image, i, p);
        Values<W> front, back, weight, f[3];
        load(derivative, i, weight);
        load(image, i + p.front, front);
        load(image, i - p.back, back);
        if (ADD) {
#pragma unroll
            for (u32 a = 0; a < 3; ++a) load(out, i + a * n, f[a]);
        }
#pragma unroll
        for (u32 e = 0; e < W; ++e) {
            const float dx = (right_of(c.here, b, e) - left_of(c.here, b, e)) * scale_x<W>(s, p, e);
            const float dy = (front.v[e] - back.v[e]) * p.along_y;
            const float dz = (c.after.v[e] - c.before.v[e]) * along_z;
            f[0].v[e] = ADD ? f[0].v[e] + weight.v[e] * dx : weight.v[e] * dx;
            f[1].v[e] = ADD ? f[1].v[e] + weight.v[e] * dy : weight.v[e] * dy;
            f[2].v[e] = ADD ? f[2].v[e] + weight.v[e] * dz : weight.v[e] * dz;
        }
#pragma unroll
        for (u32 a = 0; a < 3; ++a) store(out, i + a * n, f[a]);
        advance(c);
    }
}

KERNEL(force, TILE_THREADS, IN(float) derivative, IN(float) image, Tiles t, Scales s, INOUT(float) out) {
    force_of<1, false>(derivative, image, t, s, out);
}
KERNEL(force_of_fours, TILE_THREADS, IN(float) derivative, IN(float) image, Tiles t, Scales s, INOUT(float) out) {
    force_of<4, false>(derivative, image, t, s, out);
}
KERNEL(force_added, TILE_THREADS, IN(float) derivative, IN(float) image, Tiles t, Scales s, INOUT(float) out) {
    force_of<1, true>(derivative, image, t, s, out);
}
KERNEL(force_added_of_fours, TILE_THREADS, IN(float) derivative, IN(float) image, Tiles t, Scales s, INOUT(float) out) {
    force_of<4, true>(derivative, image, t, s, out);
}

// The squares of the scales of the components, and the factors of second differences.
struct Energies {
    double square[3];
    float second[3];
    u32 reserved;
};

DEVICE double squared(float v) { return (double)v * (double)v; }

// The parts of each block: the harmonic energies of all blocks, then the bending energies.
KERNEL(energies, TILE_THREADS, IN(float) field, Tiles t, Scales s, Energies by, OUT(double) parts) {
    SHARED(double, scratch, 32);
    const Place p = place_of<1>(t, s);
    const u64 n = p.slice * t.nz;
    double harmonic = 0.0, bending = 0.0;
    const float scale_x1 = scale_x<1>(s, p, 0);
    u64 i = p.index;
    for (u32 k = 0; k < p.slices; ++k, i += p.slice) {
        const u32 z = p.z + k;
        const float along_z = scale_z(s, z, t.nz);
        const u64 down = z > 0 ? p.slice : 0, up = z + 1 < t.nz ? p.slice : 0;
#pragma unroll
        for (u32 a = 0; a < 3; ++a) {
            IN(float) v = field + a * n;
            const float here = v[i], left = v[i - p.left], right = v[i + p.right];
            const float back = v[i - p.back], front = v[i + p.front], below = v[i - down], above = v[i + up];
            double straight = squared(((right - here) - (here - left)) * by.second[0]);
            straight += squared(((front - here) - (here - back)) * by.second[1]);
            straight += squared(((above - here) - (here - below)) * by.second[2]);
            // Differences along y and z, of the neighbours along x, and along z of those along y.
            const float y_right = (v[i + p.right + p.front] - v[i + p.right - p.back]) * p.along_y;
            const float y_left = (v[i - p.left + p.front] - v[i - p.left - p.back]) * p.along_y;
            const float z_right = (v[i + p.right + up] - v[i + p.right - down]) * along_z;
            const float z_left = (v[i - p.left + up] - v[i - p.left - down]) * along_z;
            const float z_front = (v[i + p.front + up] - v[i + p.front - down]) * along_z;
            const float z_back = (v[i - p.back + up] - v[i - p.back - down]) * along_z;
            double mixed = squared((y_right - y_left) * scale_x1);
            mixed += squared((z_right - z_left) * scale_x1);
            mixed += squared((z_front - z_back) * p.along_y);
            double derivatives = squared((right - left) * scale_x1);
            derivatives += squared((front - back) * p.along_y);
            derivatives += squared((above - below) * along_z);
            harmonic += by.square[a] * derivatives;
            // Both orders of the mixed derivatives count.
            bending += by.square[a] * (straight + (mixed + mixed));
        }
    }
    harmonic = block_sum(harmonic, scratch);
    __syncthreads();
    bending = block_sum(bending, scratch);
    if (thread_rank() == 0) {
        parts[blockIdx.x] = harmonic;
        parts[gridDim.x + blockIdx.x] = bending;
    }
}

// The sums of the parts of `blocks` blocks, by one block.
KERNEL(sum_energies, 256, IN(double) parts, u32 blocks, OUT(double) out) {
    SHARED(double, scratch, 32);
    for (u32 k = 0; k < 2; ++k) {
        double sum = 0.0;
        for (u32 b = threadIdx.x; b < blocks; b += blockDim.x) sum += parts[(u64)k * blocks + b];
        sum = block_sum(sum, scratch);
        if (threadIdx.x == 0) out[k] = sum;
        __syncthreads();
    }
}
