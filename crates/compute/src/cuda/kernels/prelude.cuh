// What every kernel file begins with: types, the way kernels and their parameters are declared, and
// helpers for warps and blocks. The same text is compiled for the GPU and, against emulation.h, for
// the host: kernels use these macros and nothing that the emulation does not know.
//
//   KERNEL(name, threads, parameters...) { body }   a kernel for blocks of at most `threads` threads
//   AT_ONCE(threads, blocks)                        in the place of the threads: they take so few
//                                                   registers that a multiprocessor has so many blocks
//   IN(T) OUT(T) INOUT(T)                           pointers to buffers: read, written, both
//   IN_OR_OUT(T)                                    the same: read; the output may be the same buffer
//   SHARED(T, name, count)                          an array in shared memory
//   SHARED_POINTER(T)                               the type to pass such an array on with
//   DYNAMIC_SHARED(T, name)                         the shared memory whose size the launch gives
//   load4(p, i), store4(p, i, v)                    elements 4 i .. 4 i + 3, aligned to 16 bytes
//   stream4(p, i, v)                                the same as store4, for what is not read soon
//
// Products and sums are not contracted (the compiler is told so); where a fused multiply-add is
// wanted, it is written as fmaf or fma.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
static_assert(sizeof(u32) == 4 && sizeof(u64) == 8, "sizes of integers");

#ifndef VOXALIGN_EMULATION

#define KERNEL(name, threads, ...) \
    extern "C" __global__ void __launch_bounds__(threads) name(__VA_ARGS__)
#define AT_ONCE(threads, blocks) threads, blocks
#define IN(T) const T* __restrict__
#define OUT(T) T* __restrict__
#define INOUT(T) T*
#define IN_OR_OUT(T) const T*
#define SHARED_POINTER(T) T*
#define SHARED(T, name, count) __shared__ __align__(16) T name[count]
#define DYNAMIC_SHARED(T, name) \
    extern __shared__ __align__(16) unsigned char voxalign_dynamic_shared[]; \
    T* name = reinterpret_cast<T*>(voxalign_dynamic_shared)
#define DEVICE __device__ __forceinline__

template <class T> struct Four;
template <> struct Four<float> { typedef float4 type; };
template <> struct Four<u32> { typedef uint4 type; };
template <> struct Four<i32> { typedef int4 type; };

template <class T> DEVICE typename Four<T>::type load4(const T* p, u64 i) {
    return reinterpret_cast<const typename Four<T>::type*>(p)[i];
}
template <class T> DEVICE void store4(T* p, u64 i, typename Four<T>::type v) {
    reinterpret_cast<typename Four<T>::type*>(p)[i] = v;
}
template <class T> DEVICE void stream4(T* p, u64 i, typename Four<T>::type v) {
    __stcs(reinterpret_cast<typename Four<T>::type*>(p) + i, v);
}
#define INFINITY_F __int_as_float(0x7f800000)
#define NAN_F __int_as_float(0x7fffffff)
#define INFINITY_D __longlong_as_double(0x7ff0000000000000ll)

#endif

#define WARP 32u
#define ALL_LANES 0xffffffffu

// The sum over the lanes of a warp, in a fixed order; every lane gets it.
template <class T> DEVICE T warp_sum(T v) {
#pragma unroll
    for (u32 step = 16; step; step >>= 1) v += __shfl_xor_sync(ALL_LANES, v, step);
    return v;
}

// The number of the thread in its block, and the number of threads.
DEVICE u32 thread_rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
DEVICE u32 block_threads() { return blockDim.x * blockDim.y * blockDim.z; }

// The number of this thread in a grid of one dimension, and the number of threads of the grid.
DEVICE u64 global_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE u64 global_threads() { return (u64)gridDim.x * blockDim.x; }

// The sum over a block of at most 1024 threads, in a fixed order; the first thread gets it.
// `scratch` has 32 elements of shared memory; calls need a barrier between them.
template <class T> struct Same { typedef T type; };
template <class T>
DEVICE T block_sum(T v, typename Same<SHARED_POINTER(T)>::type scratch) {
    v = warp_sum(v);
    u32 rank = thread_rank(), warps = (block_threads() + WARP - 1) / WARP;
    if ((rank & (WARP - 1)) == 0) scratch[rank / WARP] = v;
    __syncthreads();
    if (rank < WARP) v = warp_sum(rank < warps ? (T)scratch[rank] : T(0));
    return v;
}
