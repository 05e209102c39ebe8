// Values of an image that are mapped to those of another one.
#include "columns.cuh"

#define THREADS 512u

template <class T>
DEVICE float2 spline_of(const Columns& columns, T table, float value) {
    u32 column;
    float t, b[4], d[4], mapped = 0.0f, derivative = 0.0f;
    const bool within = place_of(columns, value, column, t);
    window(t, b);
    window_derivative(t, d);
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
        mapped = fmaf(table[column + k], b[k], mapped);
        derivative = fmaf(table[column + k], d[k], derivative);
    }
    return make_float2(mapped, within ? derivative * columns.per_value : 0.0f);
}

template <class T>
DEVICE void splines_of(IN(float) values, u64 n, const Columns& columns, T table, OUT(float) mapped,
                       OUT(float) derivative) {
    for (u64 i = global_thread(); i < n / 4; i += global_threads()) {
        const float4 v = load4(values, i);
        const float2 x = spline_of(columns, table, v.x), y = spline_of(columns, table, v.y),
                     z = spline_of(columns, table, v.z), w = spline_of(columns, table, v.w);
        store4(mapped, i, make_float4(x.x, y.x, z.x, w.x));
        store4(derivative, i, make_float4(x.y, y.y, z.y, w.y));
    }
    const u64 i = n / 4 * 4 + global_thread();
    if (i < n) {
        const float2 last = spline_of(columns, table, values[i]);
        mapped[i] = last.x;
        derivative[i] = last.y;
    }
}

// A spline of values, whose coefficients are in the table, and its derivative.
KERNEL(map_values, AT_ONCE(THREADS, 2), IN(float) values, u64 n, Columns columns, u32 here_entries,
       IN(float) table, OUT(float) mapped, OUT(float) derivative) {
    DYNAMIC_SHARED(float, here);
    for (u32 i = threadIdx.x; i < here_entries; i += THREADS) here[i] = table[i];
    __syncthreads();
    if (here_entries > 0) splines_of(values, n, columns, here, mapped, derivative);
    else splines_of(values, n, columns, table, mapped, derivative);
}
