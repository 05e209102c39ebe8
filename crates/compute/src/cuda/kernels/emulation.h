// Runs kernels on the host, for tests on machines without a GPU: blocks one after the other, the
// threads of a block as fibres that take turns. Barriers, shuffles, votes and atomics are honoured;
// an access outside of a buffer or of shared memory, and threads that wait for each other for ever,
// end the launch with a message that names the kernel, the thread and the place.
#pragma once
#define VOXALIGN_EMULATION 1
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#include <sys/mman.h>

namespace emulation {

typedef unsigned int uint;
struct uint3_ { uint x, y, z; };

// What the host says of a launch. A pointer parameter has the bytes of its buffer, others zero, and whether
// the host knows that the kernel changes it: other streams have to wait then.
struct Parameter { const void* value; uint64_t bytes, may_change; };
struct Launch {
    uint grid[3], block[3];
    uint shared_bytes, parameters;
    const Parameter* parameter;
    char* message;
    uint64_t message_bytes;
};

enum State : unsigned char { READY, AT_BARRIER, AT_WARP, DONE };

struct Fibre {
    void* stack_pointer;
#if !defined(__x86_64__)
    ucontext_t context;
#endif
    uint3_ index;
    uint mask;   // of the warp operation that is waited for
    State state;
};

const uint MOST = 1024;
const size_t STACK = 256 << 10;

struct Block {
    Fibre fibre[MOST];
    uint64_t in[MOST], out[MOST];
    int votes;   // of a barrier that counts
    int vote_result;
    uint threads, current, alive;
    char* stacks;
    void* scheduler;
#if !defined(__x86_64__)
    ucontext_t scheduler_context;
#endif
    void (*call)(void*);
    void* argument;
    const char* kernel;
    const Launch* launch;
    bool failed;
    unsigned char* shared;
    uint64_t started;   // counts the blocks of all launches: shared arrays are spoilt at each
};

static thread_local Block* block_;
static thread_local uint3_ thread_index_, block_index_, block_size_, grid_size_;

#if defined(__x86_64__)
extern "C" void voxalign_switch(void** from, void* to);
__asm__(
    ".text\n.local voxalign_switch\n.type voxalign_switch,@function\nvoxalign_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
#endif

static inline void to_scheduler() {
    Block* b = block_;
#if defined(__x86_64__)
    voxalign_switch(&b->fibre[b->current].stack_pointer, b->scheduler);
#else
    swapcontext(&b->fibre[b->current].context, &b->scheduler_context);
#endif
}

[[noreturn]] static void fail(const char* what, long long index, unsigned long long length) {
    Block* b = block_;
    const uint3_ t = thread_index_, k = block_index_;
    snprintf(b->launch->message, b->launch->message_bytes,
             "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s (index %lld, length %llu)",
             b->kernel, k.x, k.y, k.z, t.x, t.y, t.z, what, index, length);
    b->failed = true;
    to_scheduler();
    abort();
}

static void enter() {
    Block* b = block_;
    b->call(b->argument);
    b->fibre[b->current].state = DONE;
    b->alive -= 1;
    to_scheduler();
    abort();
}

static inline void prepare(uint i) {
    Block* b = block_;
    Fibre& f = b->fibre[i];
    char* top = b->stacks + (size_t)(i + 1) * STACK;
#if defined(__x86_64__)
    void** sp = (void**)((uintptr_t)top & ~(uintptr_t)63);
    *--sp = nullptr;           // where `enter` would return to: keeps the stack aligned
    *--sp = (void*)enter;
    for (int k = 0; k < 6; ++k) *--sp = nullptr;
    f.stack_pointer = sp;
#else
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = top - STACK;
    f.context.uc_stack.ss_size = STACK;
    f.context.uc_link = nullptr;
    makecontext(&f.context, enter, 0);
#endif
    f.state = READY;
}

static inline void resume(uint i) {
    Block* b = block_;
    b->current = i;
    thread_index_ = b->fibre[i].index;
#if defined(__x86_64__)
    voxalign_switch(&b->scheduler, b->fibre[i].stack_pointer);
#else
    swapcontext(&b->scheduler_context, &b->fibre[i].context);
#endif
}

// Whether all lanes that a waiting lane waits for are there; if so they go on.
static inline bool release_warp(uint first) {
    Block* b = block_;
    uint last = first + 32 < b->threads ? first + 32 : b->threads;
    bool any = false;
    for (uint i = first; i < last; ++i) {
        if (b->fibre[i].state != AT_WARP) continue;
        uint mask = b->fibre[i].mask;
        bool all = true;
        for (uint j = first; j < last; ++j)
            if (mask >> (j - first) & 1) {
                const Fibre& g = b->fibre[j];
                all = all && (g.state == DONE || (g.state == AT_WARP && g.mask == mask));
            }
        if (!all) continue;
        for (uint j = first; j < last; ++j)
            if ((mask >> (j - first) & 1) && b->fibre[j].state == AT_WARP) {
                b->out[j] = b->in[j];
                b->fibre[j].state = READY;
            }
        any = true;
    }
    return any;
}

static inline bool run_block() {
    Block* b = block_;
    b->alive = b->threads;
    b->votes = 0;
    b->started += 1;
    if (b->launch->shared_bytes) memset(b->shared, 0xcd, b->launch->shared_bytes);
    for (uint i = 0; i < b->threads; ++i) prepare(i);
    bool backwards = b->started & 1;   // another order of threads at every other block
    while (b->alive) {
        bool moved = false;
        for (uint k = 0; k < b->threads; ++k) {
            uint i = backwards ? b->threads - 1 - k : k;
            if (b->fibre[i].state != READY) continue;
            resume(i);
            if (b->failed) return false;
            moved = true;
        }
        for (uint first = 0; first < b->threads; first += 32) moved |= release_warp(first);
        if (moved) continue;
        uint waiting = 0;
        for (uint i = 0; i < b->threads; ++i) waiting += b->fibre[i].state == AT_BARRIER;
        if (waiting != b->alive) {
            snprintf(b->launch->message, b->launch->message_bytes,
                     "kernel %s, block (%u, %u, %u): threads wait for each other for ever: "
                     "%u of %u are at a barrier, the others at a warp operation",
                     b->kernel, block_index_.x, block_index_.y, block_index_.z, waiting, b->alive);
            return false;
        }
        b->vote_result = b->votes;
        b->votes = 0;
        for (uint i = 0; i < b->threads; ++i)
            if (b->fibre[i].state == AT_BARRIER) b->fibre[i].state = READY;
    }
    return true;
}

static inline void barrier() {
    block_->fibre[block_->current].state = AT_BARRIER;
    to_scheduler();
}

// Brings a value to the other lanes of the mask and waits for theirs.
template <class T> static inline void exchange(uint mask, T value) {
    static_assert(sizeof(T) <= 8, "values of warp operations have at most eight bytes");
    Block* b = block_;
    uint i = b->current;
    if (!(mask >> (i & 31) & 1)) fail("a warp operation whose mask lacks the calling lane", i & 31, mask);
    b->in[i] = 0;
    memcpy(&b->in[i], &value, sizeof(T));
    b->fibre[i].mask = mask;
    b->fibre[i].state = AT_WARP;
    to_scheduler();
}
template <class T> static inline T of_lane(uint lane) {
    Block* b = block_;
    T value;
    memcpy(&value, &b->out[(b->current & ~31u) + lane], sizeof(T));
    return value;
}
static inline uint lane() { return block_->current & 31; }

// A pointer that knows where its buffer begins and ends.
template <class T> struct Pointer {
    T* at;
    T* first;
    T* last;
    Pointer() : at(nullptr), first(nullptr), last(nullptr) {}
    Pointer(decltype(nullptr)) : Pointer() {}
    Pointer(T* p, T* a, T* b) : at(p), first(a), last(b) {}
    template <class U, class = typename std::enable_if<std::is_same<T, const U>::value>::type>
    Pointer(const Pointer<U>& p) : at(p.at), first(p.first), last(p.last) {}
    template <class I> T& operator[](I i) const {
        T* p = at + (long)i;
        if (p < first || p >= last)
            fail("access outside of a buffer", (long long)(p - first), (unsigned long long)(last - first));
        return *p;
    }
    T& operator*() const { return (*this)[0]; }
    T* operator->() const { return &(*this)[0]; }
    template <class I> Pointer operator+(I i) const { return Pointer(at + (long)i, first, last); }
    template <class I> Pointer operator-(I i) const { return Pointer(at - (long)i, first, last); }
    template <class I> Pointer& operator+=(I i) { at += (long)i; return *this; }
    explicit operator bool() const { return at != nullptr; }
    bool operator==(decltype(nullptr)) const { return at == nullptr; }
    bool operator!=(decltype(nullptr)) const { return at != nullptr; }
};

// An array in shared memory: checked, and spoilt at the start of every block.
template <class T, size_t N> struct SharedArray {
    alignas(16) T data[N];
    uint64_t block;
    SharedArray() = default;
    SharedArray(const SharedArray&) = delete;
    T& operator[](long long i) {
        if (block != block_->started) {
            memset((void*)data, 0xcd, sizeof(data));
            block = block_->started;
        }
        if (i < 0 || (size_t)i >= N) fail("access outside of shared memory", i, N);
        return data[i];
    }
    operator Pointer<T>() { (*this)[0]; return Pointer<T>(data, data, data + N); }
    template <class I> Pointer<T> operator+(I i) { return Pointer<T>(*this) + i; }
};

template <class T> struct Unpack {
    static T get(const Parameter& p) { T v; memcpy(&v, p.value, sizeof(T)); return v; }
};
template <class T> struct Unpack<Pointer<T>> {
    static Pointer<T> get(const Parameter& p) {
        T* first;
        memcpy(&first, p.value, sizeof(first));
        return Pointer<T>(first, first, first ? first + p.bytes / sizeof(T) : first);
    }
};

template <class T> struct Changes { static const bool value = false; };
template <class T> struct Changes<Pointer<T>> { static const bool value = !std::is_const<T>::value; };

template <class F, class... A> struct Bound {
    F* body;
    const Launch* launch;
    template <size_t... I> void go(std::index_sequence<I...>) {
        body(Unpack<typename std::remove_cv<A>::type>::get(launch->parameter[I])...);
    }
    static void call(void* self) { ((Bound*)self)->go(std::index_sequence_for<A...>()); }
};

template <class... A> static int run(const Launch* launch, const char* name, uint most, void (*body)(A...)) {
    const uint* size = launch->block;
    uint threads = size[0] * size[1] * size[2];
    if (threads == 0 || threads > most || threads > MOST) {
        snprintf(launch->message, launch->message_bytes,
                 "kernel %s: launched with %u threads a block, made for at most %u", name, threads, most);
        return 1;
    }
    if (launch->parameters != sizeof...(A)) {
        snprintf(launch->message, launch->message_bytes,
                 "kernel %s: launched with %u parameters, has %u", name, launch->parameters,
                 (uint)sizeof...(A));
        return 1;
    }
    const bool changes[] = {Changes<typename std::remove_cv<A>::type>::value..., false};
    for (uint i = 0; i < sizeof...(A); ++i)
        if (changes[i] && launch->parameter[i].bytes && !launch->parameter[i].may_change) {
            snprintf(launch->message, launch->message_bytes,
                     "kernel %s: changes parameter %u, which was passed to be read", name, i);
            return 1;
        }
    static thread_local Block* block = nullptr;
    if (!block) {
        block = (Block*)calloc(1, sizeof(Block));
        block->stacks = (char*)mmap(nullptr, MOST * STACK, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    Bound<void(A...), A...> bound{body, launch};
    Block* outer = block_;
    block_ = block;
    block->launch = launch;
    block->kernel = name;
    block->threads = threads;
    block->call = bound.call;
    block->argument = &bound;
    block->failed = false;
    block->shared = (unsigned char*)aligned_alloc(256, (launch->shared_bytes + 255) / 256 * 256 + 256);
    block_size_ = {size[0], size[1], size[2]};
    grid_size_ = {launch->grid[0], launch->grid[1], launch->grid[2]};
    for (uint i = 0; i < threads; ++i)
        block->fibre[i].index = {i % size[0], i / size[0] % size[1], i / (size[0] * size[1])};
    bool good = true;
    for (uint z = 0; good && z < grid_size_.z; ++z)
        for (uint y = 0; good && y < grid_size_.y; ++y)
            for (uint x = 0; good && x < grid_size_.x; ++x) {
                block_index_ = {x, y, z};
                good = run_block();
            }
    free(block->shared);
    block_ = outer;
    return good ? 0 : 1;
}

}  // namespace emulation

#define threadIdx emulation::thread_index_
#define blockIdx emulation::block_index_
#define blockDim emulation::block_size_
#define gridDim emulation::grid_size_
#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __restrict__
#define DEVICE static inline
#define warpSize 32

#define KERNEL(name, threads, ...) \
    static void name##_kernel(__VA_ARGS__); \
    extern "C" __attribute__((visibility("default"))) int name(const emulation::Launch* launch) { \
        return emulation::run(launch, #name, threads, name##_kernel); \
    } \
    static void name##_kernel(__VA_ARGS__)
#define AT_ONCE(threads, blocks) threads
#define IN(T) emulation::Pointer<const T>
#define OUT(T) emulation::Pointer<T>
#define INOUT(T) emulation::Pointer<T>
#define IN_OR_OUT(T) emulation::Pointer<const T>
#define SHARED_POINTER(T) emulation::Pointer<T>
#define SHARED(T, name, count) static thread_local emulation::SharedArray<T, count> name
#define DYNAMIC_SHARED(T, name) \
    emulation::Pointer<T> name((T*)emulation::block_->shared, (T*)emulation::block_->shared, \
        (T*)emulation::block_->shared + emulation::block_->launch->shared_bytes / sizeof(T))

struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct float3 { float x, y, z; };
struct double2 { double x, y; };
struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline double2 make_double2(double x, double y) { return {x, y}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }

template <class T> struct Four;
template <> struct Four<float> { typedef float4 type; };
template <> struct Four<unsigned> { typedef uint4 type; };
template <> struct Four<int> { typedef int4 type; };
template <class T> struct Bare { typedef typename std::remove_const<T>::type type; };
template <class T> static inline typename Four<typename Bare<T>::type>::type
load4(emulation::Pointer<T> p, unsigned long long i) {
    if (((uintptr_t)p.at & 15) != 0) emulation::fail("load of four that is not aligned", (long long)i, 16);
    return {p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3]};
}
template <class T> static inline void
store4(emulation::Pointer<T> p, unsigned long long i, typename Four<T>::type v) {
    if (((uintptr_t)p.at & 15) != 0) emulation::fail("store of four that is not aligned", (long long)i, 16);
    p[4 * i] = v.x; p[4 * i + 1] = v.y; p[4 * i + 2] = v.z; p[4 * i + 3] = v.w;
}
template <class T> static inline void
stream4(emulation::Pointer<T> p, unsigned long long i, typename Four<T>::type v) { store4(p, i, v); }
template <class T, size_t N> static inline typename Four<T>::type
load4(emulation::SharedArray<T, N>& p, unsigned long long i) { return load4(emulation::Pointer<T>(p), i); }
template <class T, size_t N> static inline void
store4(emulation::SharedArray<T, N>& p, unsigned long long i, typename Four<T>::type v) {
    store4(emulation::Pointer<T>(p), i, v);
}

#define INFINITY_F __builtin_inff()
#define NAN_F __builtin_nanf("")
#define INFINITY_D __builtin_inf()

// Barriers and fences.
static inline void __syncthreads() { emulation::barrier(); }
static inline int __syncthreads_count(int v) {
    emulation::block_->votes += v != 0;
    emulation::barrier();
    return emulation::block_->vote_result;
}
static inline int __syncthreads_or(int v) { return __syncthreads_count(v) != 0; }
static inline int __syncthreads_and(int v) { return __syncthreads_count(!v) == 0; }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __nanosleep(unsigned) {}

// Warps.
static inline void __syncwarp(unsigned mask = 0xffffffffu) { emulation::exchange(mask, 0u); }
template <class T> static inline T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
    emulation::exchange(mask, v);
    unsigned l = emulation::lane(), base = l & ~(unsigned)(width - 1);
    return emulation::of_lane<T>(base + ((unsigned)from & (width - 1)));
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int x, int width = 32) {
    emulation::exchange(mask, v);
    unsigned l = emulation::lane(), j = l ^ (unsigned)x;
    return emulation::of_lane<T>((j & ~(unsigned)(width - 1)) > (l & ~(unsigned)(width - 1)) ? l : j);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T v, unsigned d, int width = 32) {
    emulation::exchange(mask, v);
    unsigned l = emulation::lane(), j = l + d;
    return emulation::of_lane<T>((j & ~(unsigned)(width - 1)) != (l & ~(unsigned)(width - 1)) ? l : j);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned d, int width = 32) {
    emulation::exchange(mask, v);
    unsigned l = emulation::lane(), j = l - d;
    return emulation::of_lane<T>(d > (l & (unsigned)(width - 1)) ? l : j);
}
static inline unsigned __ballot_sync(unsigned mask, int v) {
    emulation::exchange(mask, (unsigned)(v != 0));
    unsigned r = 0;
    for (unsigned k = 0; k < 32; ++k)
        if (mask >> k & 1 && (emulation::block_->current & ~31u) + k < emulation::block_->threads)
            r |= emulation::of_lane<unsigned>(k) << k;
    return r;
}
static inline int __any_sync(unsigned mask, int v) { return __ballot_sync(mask, v) != 0; }
static inline int __all_sync(unsigned mask, int v) { return __ballot_sync(mask, !v) == 0; }
template <class T> static inline unsigned __match_any_sync(unsigned mask, T v) {
    emulation::exchange(mask, v);
    unsigned r = 0;
    for (unsigned k = 0; k < 32; ++k)
        if (mask >> k & 1 && (emulation::block_->current & ~31u) + k < emulation::block_->threads)
            r |= (unsigned)(emulation::of_lane<T>(k) == v) << k;
    return r;
}
template <class T> static inline T reduce_lanes_(unsigned mask, T v, T (*f)(T, T)) {
    emulation::exchange(mask, v);
    bool any = false;
    T r = v;
    for (unsigned k = 0; k < 32; ++k)
        if (mask >> k & 1) {
            T x = emulation::of_lane<T>(k);
            r = any ? f(r, x) : x;
            any = true;
        }
    return r;
}
template <class T> static inline T add_(T a, T b) { return a + b; }
template <class T> static inline T least_(T a, T b) { return b < a ? b : a; }
template <class T> static inline T most_(T a, T b) { return a < b ? b : a; }
template <class T> static inline T either_(T a, T b) { return a | b; }
static inline unsigned __reduce_add_sync(unsigned m, unsigned v) { return reduce_lanes_(m, v, add_<unsigned>); }
static inline int __reduce_add_sync(unsigned m, int v) { return reduce_lanes_(m, v, add_<int>); }
static inline unsigned __reduce_min_sync(unsigned m, unsigned v) { return reduce_lanes_(m, v, least_<unsigned>); }
static inline unsigned __reduce_max_sync(unsigned m, unsigned v) { return reduce_lanes_(m, v, most_<unsigned>); }
static inline unsigned __reduce_or_sync(unsigned m, unsigned v) { return reduce_lanes_(m, v, either_<unsigned>); }

// Atomics: nothing else runs in between.
template <class T, class U> static inline T atomicAdd(T* p, U v) { T o = *p; *p = o + (T)v; return o; }
template <class T, class U> static inline T atomicSub(T* p, U v) { T o = *p; *p = o - (T)v; return o; }
template <class T, class U> static inline T atomicMin(T* p, U v) { T o = *p; if ((T)v < o) *p = (T)v; return o; }
template <class T, class U> static inline T atomicMax(T* p, U v) { T o = *p; if (o < (T)v) *p = (T)v; return o; }
template <class T, class U> static inline T atomicOr(T* p, U v) { T o = *p; *p = o | (T)v; return o; }
template <class T, class U> static inline T atomicAnd(T* p, U v) { T o = *p; *p = o & (T)v; return o; }
template <class T, class U> static inline T atomicExch(T* p, U v) { T o = *p; *p = (T)v; return o; }
template <class T, class U, class V> static inline T atomicCAS(T* p, U c, V v) {
    T o = *p;
    if (o == (T)c) *p = (T)v;
    return o;
}

// Loads with hints, bits and numbers.
template <class T> static inline T __ldg(const T* p) { return *p; }
template <class T> static inline T __ldcs(const T* p) { return *p; }
template <class T> static inline T __ldcg(const T* p) { return *p; }
template <class T> static inline void __stcs(T* p, T v) { *p = v; }
template <class T> static inline void __stcg(T* p, T v) { *p = v; }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
static inline unsigned __brev(unsigned v) {
    unsigned r = 0;
    for (int k = 0; k < 32; ++k) r |= (v >> k & 1u) << (31 - k);
    return r;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline float __int_as_float(int v) { float f; memcpy(&f, &v, 4); return f; }
// The sum rounded downwards: where the sum to nearest is above, its error is negative.
static inline float __fadd_rd(float a, float b) {
    const float sum = a + b, part = sum - a;
    return (a - (sum - part)) + (b - part) < 0.0f ? std::nextafter(sum, -INFINITY) : sum;
}
static inline int __float_as_int(float v) { int i; memcpy(&i, &v, 4); return i; }
static inline float __uint_as_float(unsigned v) { float f; memcpy(&f, &v, 4); return f; }
static inline unsigned __float_as_uint(float v) { unsigned i; memcpy(&i, &v, 4); return i; }
static inline double __longlong_as_double(long long v) { double f; memcpy(&f, &v, 8); return f; }
static inline long long __double_as_longlong(double v) { long long i; memcpy(&i, &v, 8); return i; }
static inline int __float2int_rn(float v) { return (int)nearbyintf(v); }
static inline int __float2int_rd(float v) { return (int)floorf(v); }
static inline int __float2int_rz(float v) { return (int)v; }
static inline long long __float2ll_rn(float v) { return llrintf(v); }
static inline long long __double2ll_rn(double v) { return llrint(v); }
static inline float rsqrtf(float v) { return 1.0f / sqrtf(v); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }
template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }
