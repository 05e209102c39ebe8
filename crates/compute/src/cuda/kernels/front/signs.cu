// Signs of forces, at fronts or everywhere. All in the order of the CPU.
#include "front.cuh"

// Two means: whether there are any, whether they are fixed, the object (0 as started, 1 brighter, 2 darker); all points; weights of both sides, means where they
// are fixed, and the units of the totals.
struct FrontMeans { u32 some, fixed, object, padding; u64 points; double weights[2], means[2]; FrontUnits units; };

// The weight of the curvature, what the curvature is of the mean side, the least length of a gradient, and the spacing; points that the Gaussian reaches;
// whether there are edges; tables along x, and where those of y and z begin.
struct FrontBend { double weight, factor, least, spacing[3]; u32 radius[3], flows, chunks, moments, of_y, of_z; };

DEVICE double mean_of(const FrontUnits& units, i64 sum, i64 count) {
    return count > 0 ? units.offset + (double)sum / units.scale / (double)count : units.offset;
}

// The means that a force goes by.
DEVICE void means_of(const FrontMeans& rule, IN(i64) totals, double* means) {
    if (rule.fixed || !rule.some) {
        means[0] = rule.means[0];
        means[1] = rule.means[1];
        return;
    }
    const double a = mean_of(rule.units, totals[1], totals[0]);
    const double b = mean_of(rule.units, (i64)((u64)totals[3] - (u64)totals[1]), (i64)rule.points - totals[0]);
    const bool is_wrong = (rule.object == 1 && a < b) || (rule.object == 2 && a > b);
    means[0] = is_wrong ? b : a;
    means[1] = is_wrong ? a : b;
}

// The speed that depends on neither the curvature nor the normal.
DEVICE double speed_of(const FrontMeans& rule, const double* means, IN(float) values, u64 point) {
    if (!values) return 0.0;
    const double value = values[point];
    if (!rule.some) return value;
    const double inside = means[0] - value, outside = means[1] - value;
    return rule.weights[1] * (outside * outside) - rule.weights[0] * (inside * inside);
}

// All points, a warp 32 of a row at a time.
KERNEL(front_signs_all, 256, FrontShape shape, IN(float) values, FrontMeans rule, IN(i64) totals, OUT(u32) signs) {
    double means[2];
    means_of(rule, totals, means);
    const u32 row = 2 * shape.row, lane = threadIdx.x % WARP;
    const u64 all = (u64)row * shape.ny * shape.nz;
    for (u64 i = global_thread() / WARP; i < all; i += global_threads() / WARP) {
        const u64 x = 32ull * (i % row) + lane;
        const double value = x < shape.nx ? speed_of(rule, means, values, i / row * shape.nx + x) : 0.0;
        const u32 p = __ballot_sync(ALL_LANES, value > 0.0), n = __ballot_sync(ALL_LANES, value < 0.0);
        if (lane == 0) {
            signs[i] = p;
            signs[all + i] = n;
        }
    }
}

// A tile, and where its first row is.
struct Tile { u32 x, y, z; };
DEVICE Tile tile_of(const FrontShape& s, u32 tile) {
    Tile t = {tile % s.tx, tile / s.tx % s.ty * TILE_Y, tile / (s.tx * s.ty) * TILE_Z};
    return t;
}

// Rows of a tile that a warp has at a time.
#define AT_A_TIME (WARP / TILE_X)

// The front in the tiles of a plan, for rules without curvature: a warp a tile.
KERNEL(front_signs, 256, FrontShape shape, IN(Cell) set, IN(float) values, FrontMeans rule, IN(i64) totals, u64 slot, IN(u32) plan,
       IN(u64) log, INOUT(Cell) signs) {
    double means[2];
    means_of(rule, totals, means);
    const u32 lane = threadIdx.x % WARP, column = lane % TILE_X;
    const u64 count = min((u64)log[slot], (u64)shape.tiles), a_set = (u64)shape.row * CELLS * shape.ny * shape.nz;
    for (u64 k = global_thread() / WARP; k < count; k += global_threads() / WARP) {
        const u32 number = plan[k];
        if (number >= shape.tiles) continue;
        const Tile tile = tile_of(shape, number);
        // Rows `lane` and `lane + 32`.
        u32 front[2][2] = {};
#pragma unroll
        for (u32 each = 0; each < 2; ++each) {
            const u32 row = lane + each * WARP;
            const u32 y = tile.y + row % TILE_Y, z = tile.z + row / TILE_Y;
            if (row < TILE_ROWS && y < shape.ny && z < shape.nz) front_of<Cell>(set, shape, tile.x, y, z, front[each]);
        }
        for (u32 first = 0; first < TILE_ROWS; first += AT_A_TIME) {
            const u32 row = first + lane / TILE_X, from = row % WARP, each = first / WARP;
            const u32 outer = __shfl_sync(ALL_LANES, each ? front[1][0] : front[0][0], from);
            const u32 inner = __shfl_sync(ALL_LANES, each ? front[1][1] : front[0][1], from);
            const u32 y = tile.y + row % TILE_Y, z = tile.z + row / TILE_Y;
            const bool is_row = y < shape.ny && z < shape.nz;
            const u64 r = (u64)z * shape.ny + y;
            double value = 0.0;
            if (is_row && ((outer | inner) >> column & 1u))
                value = speed_of(rule, means, values, r * shape.nx + (u64)tile.x * TILE_X + column);
            const u32 p = __ballot_sync(ALL_LANES, value > 0.0 && (outer >> column & 1u));
            const u32 n = __ballot_sync(ALL_LANES, value < 0.0 && (inner >> column & 1u));
            if (column == 0 && is_row) {
                const u64 at = r * (shape.row * CELLS) + tile.x;
                signs[at] = (Cell)(p >> lane);
                signs[a_set + at] = (Cell)(n >> lane);
            }
        }
    }
}

// Points of a row from a place on, at most 63; beyond its ends they continue.
DEVICE u64 clamped(IN(u64) set, u64 row, u32 nx, i64 start, u32 len) {
    const i64 from = max(start, (i64)0), to = min(start + (i64)len, (i64)nx);
    const u32 count = (u32)(to - from), before = (u32)(from - start), bit = (u32)(from % 64);
    const u64 word = row + (u64)from / 64;
    u64 points = set[word] >> bit;
    if (bit + count > 64) points |= set[word + 1] << (64 - bit);
    points &= (1ull << count) - 1;
    u64 all = points << before;
    if (points & 1ull) all |= (1ull << before) - 1;
    if (points >> (count - 1) & 1ull) all |= ((1ull << len) - 1) & ~((1ull << (before + count)) - 1);
    return all;
}

DEVICE float along_x(IN(float) tables, u32 chunks, u64 bits) {
    float sum = 0.0f;
    for (u32 k = 0; k < chunks; ++k) sum += tables[256 * k + (u32)(bits >> (8 * k) & 255u)];
    return sum;
}

DEVICE u32 place(u32 at, u32 by, u32 radius, u32 n) {
    const u32 to = at + by > radius ? at + by - radius : 0u;
    return min(to, n - 1);
}

// The front in the tiles of a plan, for rules with curvature: a block a tile. Shared memory has means of the rows of a slice and those times the distance, then
// means of all slices and those times the distances along x and y.
KERNEL(front_signs_bent, 256, FrontShape shape, IN(Cell) set, IN(u64) words, IN(float) values, FrontMeans rule, IN(float) edges,
       FrontBend bend, IN(float) tables, IN(i64) totals, u64 slot, IN(u32) plan, IN(u64) log, INOUT(Cell) signs) {
    DYNAMIC_SHARED(float, memory);
    SHARED(u32, outer, TILE_ROWS);
    SHARED(u32, inner, TILE_ROWS);
    const u32 rx = bend.radius[0], ry = bend.radius[1], rz = bend.radius[2];
    const u32 tall = TILE_Y + 2 * ry, deep = TILE_Z + 2 * rz, a_slice = TILE_X * TILE_Y;
    SHARED_POINTER(float) rows = memory;
    SHARED_POINTER(float) rows_x = memory + TILE_X * tall;
    SHARED_POINTER(float) slices = memory + 2 * TILE_X * tall;
    SHARED_POINTER(float) slices_x = slices + a_slice * deep;
    SHARED_POINTER(float) slices_y = slices_x + a_slice * deep;
    double means[2];
    means_of(rule, totals, means);
    const u64 count = min((u64)log[slot], (u64)shape.tiles), a_set = (u64)shape.row * CELLS * shape.ny * shape.nz;
    for (u64 k = blockIdx.x; k < count; k += gridDim.x) {
        const u32 number = plan[k];
        if (number >= shape.tiles) continue;
        const Tile tile = tile_of(shape, number);
        bool some = false;
        if (threadIdx.x < TILE_ROWS) {
            const u32 y = tile.y + threadIdx.x % TILE_Y, z = tile.z + threadIdx.x / TILE_Y;
            u32 front[2] = {};
            if (y < shape.ny && z < shape.nz) front_of<Cell>(set, shape, tile.x, y, z, front);
            outer[threadIdx.x] = front[0];
            inner[threadIdx.x] = front[1];
            some = (front[0] | front[1]) != 0;
        }
        const bool is_front = __syncthreads_or(some);
        for (u32 s = 0; is_front && s < deep; ++s) {
            const u32 z = place(tile.z, s, rz, shape.nz);
            for (u32 at = threadIdx.x; at < TILE_X * tall; at += blockDim.x) {
                const u32 x = tile.x * TILE_X + at % TILE_X;
                float mean = 0.0f, moment = 0.0f;
                if (x < shape.nx) {
                    const u64 row = ((u64)z * shape.ny + place(tile.y, at / TILE_X, ry, shape.ny)) * shape.row;
                    const u64 bits = clamped(words, row, shape.nx, (i64)x - rx, 2 * rx + 1);
                    mean = along_x(tables, bend.chunks, bits);
                    if (bend.flows) moment = along_x(tables + bend.moments, bend.chunks, bits);
                }
                rows[at] = mean;
                rows_x[at] = moment;
            }
            __syncthreads();
            if (threadIdx.x < a_slice) {
                float sum = 0.0f, sum_x = 0.0f, sum_y = 0.0f;
                for (u32 m = 0; m < 2 * ry + 1; ++m) {
                    const u32 at = threadIdx.x + TILE_X * m;
                    sum += tables[bend.of_y + m] * rows[at];
                    if (bend.flows) {
                        sum_x += tables[bend.of_y + m] * rows_x[at];
                        sum_y += tables[bend.of_y + 2 * ry + 1 + m] * rows[at];
                    }
                }
                slices[a_slice * s + threadIdx.x] = sum;
                slices_x[a_slice * s + threadIdx.x] = sum_x;
                slices_y[a_slice * s + threadIdx.x] = sum_y;
            }
            __syncthreads();
        }
        for (u32 point = threadIdx.x; point < TILE_POINTS; point += blockDim.x) {
            const u32 row = point / TILE_X, column = point % TILE_X;
            const u32 x = tile.x * TILE_X + column, y = tile.y + row % TILE_Y, z = tile.z + row / TILE_Y;
            const u32 side = outer[row] >> column & 1u ? 1u : inner[row] >> column & 1u ? 2u : 0u;
            double value = 0.0;
            if (side) {
                const u64 at = x + (u64)shape.nx * (y + (u64)shape.ny * z);
                value = speed_of(rule, means, values, at);
                float sum = 0.0f, g[3] = {};
                for (u32 m = 0; m < 2 * rz + 1; ++m) {
                    const u32 from = point + a_slice * m;
                    sum += tables[bend.of_z + m] * slices[from];
                    if (bend.flows) {
                        g[0] += tables[bend.of_z + m] * slices_x[from];
                        g[1] += tables[bend.of_z + m] * slices_y[from];
                        g[2] += tables[bend.of_z + 2 * rz + 1 + m] * slices[from];
                    }
                }
                const double weight = bend.flows ? bend.weight * (double)edges[at] : bend.weight;
                value = value - weight * ((double)sum * bend.factor);
                const double a = g[0], b = g[1], c = g[2], length = sqrt(a * a + b * b + c * c);
                if (bend.flows && length > bend.least) {
                    const u64 stride[3] = {1, shape.nx, (u64)shape.nx * shape.ny};
                    const u32 to[3] = {x, y, z}, size[3] = {shape.nx, shape.ny, shape.nz};
                    double flow = 0.0;
#pragma unroll
                    for (u32 axis = 0; axis < 3; ++axis) {
                        const u64 after = to[axis] + 1 < size[axis] ? at + stride[axis] : at;
                        const u64 before = to[axis] > 0 ? at - stride[axis] : at;
                        const double slope =
                            ((double)edges[after] - (double)edges[before]) / (2.0 * bend.spacing[axis]);
                        flow += -bend.weight * slope * ((double)g[axis] / length);
                    }
                    value += flow;
                }
            }
            const u32 p = __ballot_sync(ALL_LANES, side == 1u && value > 0.0);
            const u32 n = __ballot_sync(ALL_LANES, side == 2u && value < 0.0);
            if (column == 0 && y < shape.ny && z < shape.nz) {
                const u64 at = ((u64)z * shape.ny + y) * (shape.row * CELLS) + tile.x;
                signs[at] = (Cell)(p >> threadIdx.x % WARP);
                signs[a_set + at] = (Cell)(n >> threadIdx.x % WARP);
            }
        }
        __syncthreads();
    }
}
