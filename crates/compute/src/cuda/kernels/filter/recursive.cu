// The recursive Gaussian along one axis.
//
// A line is cut into segments of SAMPLES samples, one a thread, which stay in registers from the
// one read of the source to the one write of the result. The causal and the anticausal part are
// each a sum of two sections of second order, w[i] = x[i] + feedback[0] w[i-1] + feedback[1] w[i-2],
// whose outputs are weighted sums of w. A segment is first run from zero; what it leaves is carried
// over the segments of the line by powers of the section's matrix, and then it is run again from
// the state that this gives: exactly what one run along the line gives, to the rounding of f64.
// (Sections of second order carry two numbers whose errors grow little; those of a single section
// of fourth order would grow with the third power of the length.)
//
// A block has threadIdx.x for the line and threadIdx.y for the segment. Lines too long for a block
// are cut into chunks: `ends_...` give what each chunk leaves from zero, `chunk_starts` carries it
// over the chunks.
#include "prelude.cuh"

#define SAMPLES 32u
#define QUARTERS 8u
#define THREADS 512

// A section: the weights of w[i-1] and w[i-2] in w[i]; of w[i] and w[i-1] in the causal output; of
// w[i+1] and w[i+2] in the anticausal one; and w for an input that is one everywhere.
struct Section { double feedback[2], forward[2], backward[2], steady; };
struct Sections { Section of[2]; };

// The matrix that carries a section's state over a number of zero samples, by rows.
struct Powers { double of[2][4]; };

// The two newest values of each section.
struct State { double newest[2], older[2]; };

struct Lines {
    u64 lines, stride, n;        // lines of n samples that are `stride` apart
    u32 line_blocks;             // blocks that cover the lines
    u32 chunk, chunks, pitch;    // samples of a chunk; chunks of a line; of the tile in shared memory
};

DEVICE State zero_state() {
    State s;
#pragma unroll
    for (u32 k = 0; k < 2; ++k) s.newest[k] = s.older[k] = 0.0;
    return s;
}

DEVICE State steady_state(const Sections& r, double x) {
    State s;
#pragma unroll
    for (u32 k = 0; k < 2; ++k) s.newest[k] = s.older[k] = x * r.of[k].steady;
    return s;
}

DEVICE void advance(const Sections& r, State& s, double x) {
#pragma unroll
    for (u32 k = 0; k < 2; ++k) {
        // The newest value comes last: one operation lies between it and the next.
        double w = fma(r.of[k].feedback[0], s.newest[k], fma(r.of[k].feedback[1], s.older[k], x));
        s.older[k] = s.newest[k];
        s.newest[k] = w;
    }
}

DEVICE State carried(const Powers& p, const State& s, const State& added) {
    State c;
#pragma unroll
    for (u32 k = 0; k < 2; ++k) {
        c.newest[k] = fma(p.of[k][0], s.newest[k], fma(p.of[k][1], s.older[k], added.newest[k]));
        c.older[k] = fma(p.of[k][2], s.newest[k], fma(p.of[k][3], s.older[k], added.older[k]));
    }
    return c;
}

// States in arrays of their four numbers, each of `size` elements.
DEVICE void put_state(SHARED_POINTER(double) p, u32 size, u32 i, const State& s) {
#pragma unroll
    for (u32 k = 0; k < 2; ++k) {
        p[(2 * k) * size + i] = s.newest[k];
        p[(2 * k + 1) * size + i] = s.older[k];
    }
}
DEVICE State get_state(SHARED_POINTER(double) p, u32 size, u32 i) {
    State s;
#pragma unroll
    for (u32 k = 0; k < 2; ++k) {
        s.newest[k] = p[(2 * k) * size + i];
        s.older[k] = p[(2 * k + 1) * size + i];
    }
    return s;
}

// What a segment leaves to both sides. WHOLE says that it has all of its samples.
template <bool WHOLE>
DEVICE void run_ends(const float (&x)[SAMPLES], u32 count, const Sections& r, State& causal,
                     State& anticausal) {
#pragma unroll
    for (u32 i = 0; i < SAMPLES; ++i) {
        const u32 j = SAMPLES - 1 - i;
        if (WHOLE || i < count) advance(r, causal, x[i]);
        if (WHOLE || j < count) advance(r, anticausal, x[j]);
    }
}

// The sums of both outputs. The two runs meet in the middle: four chains of operations that do not
// wait for each other.
template <bool WHOLE>
DEVICE void run_outputs(const float (&x)[SAMPLES], float (&y)[SAMPLES], u32 count,
                        const Sections& r, State causal, State anticausal) {
#pragma unroll
    for (u32 i = 0; i < SAMPLES; ++i) {
        const u32 j = SAMPLES - 1 - i;
        const bool first = i < SAMPLES / 2;   // to reach the sample
        if (WHOLE || i < count) {
            double sum = fma(r.of[0].forward[1], causal.newest[0],
                             r.of[1].forward[1] * causal.newest[1]);
            advance(r, causal, x[i]);
            sum = fma(r.of[0].forward[0], causal.newest[0],
                      fma(r.of[1].forward[0], causal.newest[1], sum));
            y[i] = first ? (float)sum : y[i] + (float)sum;
        }
        if (WHOLE || j < count) {
            double sum = fma(r.of[0].backward[1], anticausal.older[0],
                             r.of[1].backward[1] * anticausal.older[1]);
            sum = fma(r.of[0].backward[0], anticausal.newest[0],
                      fma(r.of[1].backward[0], anticausal.newest[1], sum));
            advance(r, anticausal, x[j]);
            y[j] = first ? (float)sum : y[j] + (float)sum;
        }
    }
}

// What this thread has of its line.
struct Place {
    u64 line, at;             // the line; its first sample in the line
    u32 chunk, count;         // the chunk; the samples it has
    u32 segment, segments;    // its segment; the segments of the chunk that have samples
};

DEVICE Place place_of(const Lines& g) {
    Place p;
    p.chunk = blockIdx.x / g.line_blocks;
    p.line = (u64)(blockIdx.x - p.chunk * g.line_blocks) * blockDim.x + threadIdx.x;
    u64 start = (u64)p.chunk * g.chunk;
    u64 left = g.n - start;
    u32 length = left < g.chunk ? (u32)left : g.chunk;
    p.segment = threadIdx.y;
    p.segments = (length + SAMPLES - 1) / SAMPLES;
    u32 before = p.segment * SAMPLES;
    p.at = start + before;
    p.count = p.line < g.lines && before < length ? min(SAMPLES, length - before) : 0;
    return p;
}

// The states from which the runs of the thread's segment start: exact ones at the ends of the line,
// zero elsewhere.
DEVICE void start_at_ends(const float (&x)[SAMPLES], const Place& p, const Lines& g,
                          const Sections& r, State& causal, State& anticausal) {
    causal = zero_state();
    anticausal = zero_state();
    if (p.segment == 0 && p.chunk == 0) causal = steady_state(r, x[0]);
    if (p.segment + 1 == p.segments && p.chunk + 1 == g.chunks) {
        float last = 0.0f;
#pragma unroll
        for (u32 i = 0; i < SAMPLES; ++i)
            if (i + 1 == p.count) last = x[i];
        anticausal = steady_state(r, last);
    }
}

DEVICE void run_ends_of(const float (&x)[SAMPLES], u32 count, const Sections& r, State& causal,
                        State& anticausal) {
    if (count == SAMPLES) run_ends<true>(x, count, r, causal, anticausal);
    else run_ends<false>(x, count, r, causal, anticausal);
}

// Carries what the segments leave (`left`, `right`: of this thread) over the segments of the chunk:
// the states before and after the thread's segment, where it is not the first or the last.
// `carries` has eight numbers a thread.
DEVICE void carry(const Place& p, const Powers& power, const State& left, const State& right,
                  State& causal, State& anticausal, SHARED_POINTER(double) carries) {
    u32 size = block_threads(), column = threadIdx.x, width = blockDim.x;
    SHARED_POINTER(double) others = carries + 4 * size;
    put_state(carries, size, thread_rank(), left);
    put_state(others, size, thread_rank(), right);
    __syncthreads();
    // The threads of the first segments carry the one way, those of the last the other way; in the
    // place of what a segment leaves comes the state behind it.
    if (threadIdx.y == 0) {
        State state = left;
        for (u32 q = 1; q + 1 < p.segments; ++q) {
            state = carried(power, state, get_state(carries, size, q * width + column));
            put_state(carries, size, q * width + column, state);
        }
    }
    if (threadIdx.y + 1 == blockDim.y && p.segments > 1) {
        State state = get_state(others, size, (p.segments - 1) * width + column);
        for (u32 q = p.segments - 2; q > 0; --q) {
            state = carried(power, state, get_state(others, size, q * width + column));
            put_state(others, size, q * width + column, state);
        }
    }
    __syncthreads();
    if (p.segment > 0 && p.segment < p.segments)
        causal = get_state(carries, size, (p.segment - 1) * width + column);
    if (p.segment + 1 < p.segments)
        anticausal = get_state(others, size, (p.segment + 1) * width + column);
}

// Where a number of the state of a chunk is kept: first the four causal ones, then the anticausal.
DEVICE u64 kept_at(const Lines& g, u32 number, u32 chunk, u64 line) {
    return ((u64)number * g.chunks + chunk) * g.lines + line;
}

// Filters the thread's segment.
DEVICE void filter_segment(const float (&x)[SAMPLES], float (&y)[SAMPLES], const Place& p,
                           const Lines& g, const Sections& r, const Powers& power,
                           IN(double) starts, SHARED_POINTER(double) carries) {
    State causal, anticausal;
    start_at_ends(x, p, g, r, causal, anticausal);
    if (p.count > 0 && p.segment == 0 && p.chunk > 0) {
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            causal.newest[k] = starts[kept_at(g, 2 * k, p.chunk, p.line)];
            causal.older[k] = starts[kept_at(g, 2 * k + 1, p.chunk, p.line)];
        }
    }
    if (p.count > 0 && p.segment + 1 == p.segments && p.chunk + 1 < g.chunks) {
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            anticausal.newest[k] = starts[kept_at(g, 4 + 2 * k, p.chunk, p.line)];
            anticausal.older[k] = starts[kept_at(g, 5 + 2 * k, p.chunk, p.line)];
        }
    }
    if (p.segments > 1) {
        State left = causal, right = anticausal;
        run_ends_of(x, p.count, r, left, right);
        carry(p, power, left, right, causal, anticausal, carries);
    }
    if (p.count == SAMPLES) run_outputs<true>(x, y, p.count, r, causal, anticausal);
    else run_outputs<false>(x, y, p.count, r, causal, anticausal);
}

// Keeps what the thread's chunk leaves from zero, or from the end of the line.
DEVICE void keep_ends(const float (&x)[SAMPLES], const Place& p, const Lines& g, const Sections& r,
                      const Powers& power, OUT(double) ends, SHARED_POINTER(double) carries) {
    State left, right, causal, anticausal;
    start_at_ends(x, p, g, r, left, right);
    run_ends_of(x, p.count, r, left, right);
    carry(p, power, left, right, causal, anticausal, carries);
    if (p.count == 0) return;
    if (p.segment + 1 == p.segments) {
        if (p.segment > 0) left = carried(power, causal, left);
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            ends[kept_at(g, 2 * k, p.chunk, p.line)] = left.newest[k];
            ends[kept_at(g, 2 * k + 1, p.chunk, p.line)] = left.older[k];
        }
    }
    if (p.segment == 0) {
        if (p.segments > 1) right = carried(power, anticausal, right);
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            ends[kept_at(g, 4 + 2 * k, p.chunk, p.line)] = right.newest[k];
            ends[kept_at(g, 5 + 2 * k, p.chunk, p.line)] = right.older[k];
        }
    }
}

// The offset of the first sample of line `c` of lines that lie side by side.
DEVICE u64 column_base(u64 c, u64 stride, u64 n) {
    if (c < stride) return c;
    u64 q = ((c | stride) >> 32) == 0 ? (u64)((u32)c / (u32)stride) : c / stride;
    return c + q * stride * (n - 1);
}

// Lines across rows: neighbouring threads have neighbouring lines.
DEVICE void load_column(IN_OR_OUT(float) src, const Place& p, const Lines& g, float (&x)[SAMPLES]) {
    u64 from = p.count > 0 ? column_base(p.line, g.stride, g.n) + p.at * g.stride : 0;
    if (p.count == SAMPLES) {
#pragma unroll
        for (u32 i = 0; i < SAMPLES; ++i) x[i] = src[from + i * g.stride];
    } else {
#pragma unroll
        for (u32 i = 0; i < SAMPLES; ++i) x[i] = i < p.count ? (float)src[from + i * g.stride] : 0.0f;
    }
}

// Rows: through a tile in shared memory, so that memory is read in long pieces. The tile has a row
// for each line of the block; its pitch is an odd multiple of four, so that neither neighbours along
// rows nor along columns meet in a bank.
DEVICE void load_rows(IN_OR_OUT(float) src, const Place& p, const Lines& g, float (&x)[SAMPLES],
                      SHARED_POINTER(float) tile) {
    const u32 vectors = QUARTERS * blockDim.y, step = blockDim.x / QUARTERS;
    const u32 row = thread_rank() / vectors, v = thread_rank() % vectors;
    const u64 start = (u64)p.chunk * g.chunk, first = p.line - threadIdx.x;
    const u64 left = g.n - start;
    const u32 length = left < g.chunk ? (u32)left : g.chunk;
    const bool aligned = (g.n & 3) == 0;
    float4 quarter[QUARTERS];
#pragma unroll
    for (u32 k = 0; k < QUARTERS; ++k) {
        u64 line = first + row + k * step, from = line * g.n + start + 4 * v;
        quarter[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (line >= g.lines || 4 * v >= length) continue;
        if (aligned) {
            quarter[k] = load4(src, from / 4);
        } else {
            quarter[k].x = src[from];
            if (4 * v + 1 < length) quarter[k].y = src[from + 1];
            if (4 * v + 2 < length) quarter[k].z = src[from + 2];
            if (4 * v + 3 < length) quarter[k].w = src[from + 3];
        }
    }
    if (4 * v < length) {
#pragma unroll
        for (u32 k = 0; k < QUARTERS; ++k)
            store4(tile, ((row + k * step) * g.pitch) / 4 + v, quarter[k]);
    }
    __syncthreads();
    const u32 at = (threadIdx.x * g.pitch) / 4 + QUARTERS * threadIdx.y;
#pragma unroll
    for (u32 k = 0; k < QUARTERS; ++k) {
        float4 q = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (4 * k < p.count) q = load4(tile, at + k);
        x[4 * k] = q.x;
        x[4 * k + 1] = q.y;
        x[4 * k + 2] = q.z;
        x[4 * k + 3] = q.w;
    }
    // The tile is used for other things next.
    __syncthreads();
}

DEVICE void store_rows(OUT(float) out, const Place& p, const Lines& g, const float (&y)[SAMPLES],
                       SHARED_POINTER(float) tile) {
    __syncthreads();
    const u32 at = (threadIdx.x * g.pitch) / 4 + QUARTERS * threadIdx.y;
#pragma unroll
    for (u32 k = 0; k < QUARTERS; ++k)
        if (4 * k < p.count)
            store4(tile, at + k, make_float4(y[4 * k], y[4 * k + 1], y[4 * k + 2], y[4 * k + 3]));
    __syncthreads();
    const u32 vectors = QUARTERS * blockDim.y, step = blockDim.x / QUARTERS;
    const u32 row = thread_rank() / vectors, v = thread_rank() % vectors;
    const u64 start = (u64)p.chunk * g.chunk, first = p.line - threadIdx.x;
    const u64 left = g.n - start;
    const u32 length = left < g.chunk ? (u32)left : g.chunk;
    const bool aligned = (g.n & 3) == 0;
#pragma unroll
    for (u32 k = 0; k < QUARTERS; ++k) {
        u64 line = first + row + k * step, to = line * g.n + start + 4 * v;
        if (line >= g.lines || 4 * v >= length) continue;
        float4 q = load4(tile, ((row + k * step) * g.pitch) / 4 + v);
        if (aligned) {
            store4(out, to / 4, q);
        } else {
            out[to] = q.x;
            if (4 * v + 1 < length) out[to + 1] = q.y;
            if (4 * v + 2 < length) out[to + 2] = q.z;
            if (4 * v + 3 < length) out[to + 3] = q.w;
        }
    }
}

// `src` and `out` may be the same: a block reads all of its samples before it writes the first.
KERNEL(recursive_columns, THREADS, IN_OR_OUT(float) src, INOUT(float) out, IN(double) starts, Lines g,
       Sections r, Powers power) {
    DYNAMIC_SHARED(double, carries);
    const Place p = place_of(g);
    float x[SAMPLES], y[SAMPLES];
    load_column(src, p, g, x);
    filter_segment(x, y, p, g, r, power, starts, carries);
    if (p.count == 0) return;
    u64 to = column_base(p.line, g.stride, g.n) + p.at * g.stride;
    if (p.count == SAMPLES) {
#pragma unroll
        for (u32 i = 0; i < SAMPLES; ++i) out[to + i * g.stride] = y[i];
    } else {
#pragma unroll
        for (u32 i = 0; i < SAMPLES; ++i)
            if (i < p.count) out[to + i * g.stride] = y[i];
    }
}

// The same for lines that are rows.
KERNEL(recursive_rows, THREADS, IN_OR_OUT(float) src, INOUT(float) out, IN(double) starts, Lines g,
       Sections r, Powers power) {
    DYNAMIC_SHARED(float, tile);
    DYNAMIC_SHARED(double, carries);
    const Place p = place_of(g);
    float x[SAMPLES], y[SAMPLES];
    load_rows(src, p, g, x, tile);
    filter_segment(x, y, p, g, r, power, starts, carries);
    store_rows(out, p, g, y, tile);
}

KERNEL(ends_of_columns, THREADS, IN_OR_OUT(float) src, OUT(double) ends, Lines g, Sections r,
       Powers power) {
    DYNAMIC_SHARED(double, carries);
    const Place p = place_of(g);
    float x[SAMPLES];
    load_column(src, p, g, x);
    keep_ends(x, p, g, r, power, ends, carries);
}

KERNEL(ends_of_rows, THREADS, IN_OR_OUT(float) src, OUT(double) ends, Lines g, Sections r,
       Powers power) {
    DYNAMIC_SHARED(float, tile);
    DYNAMIC_SHARED(double, carries);
    const Place p = place_of(g);
    float x[SAMPLES];
    load_rows(src, p, g, x, tile);
    keep_ends(x, p, g, r, power, ends, carries);
}

// Turns what the chunks leave into the states before (causal) and after them (anticausal), in
// place. A thread for each line, `power` over a chunk.
KERNEL(chunk_starts, 256, INOUT(double) kept, Lines g, Powers power) {
    u64 line = global_thread();
    if (line >= g.lines) return;
    for (u32 way = 0; way < 2; ++way) {
        State state = zero_state();
        for (u32 q = 0; q < g.chunks; ++q) {
            u32 chunk = way == 0 ? q : g.chunks - 1 - q;
            State end;
#pragma unroll
            for (u32 k = 0; k < 2; ++k) {
                u64 newest = kept_at(g, 4 * way + 2 * k, chunk, line);
                u64 older = kept_at(g, 4 * way + 2 * k + 1, chunk, line);
                end.newest[k] = kept[newest];
                end.older[k] = kept[older];
                kept[newest] = state.newest[k];
                kept[older] = state.older[k];
            }
            // The first one began at the end of the line: nothing is carried over it.
            state = q == 0 ? end : carried(power, state, end);
        }
    }
}
