// Whether kernels run at all.
#include "prelude.cuh"

KERNEL(count_up, 32, OUT(u32) out) { out[threadIdx.x] = threadIdx.x; }
