// Samples in a mesh: in a box, if BOX is 1, where nothing but their positions is needed; otherwise in the elements that are listed for them.
#pragma once
#include "tetrahedra.cuh"

#define PLACED                                                                                                                   \
    Sampling sampling, KuhnCells box, IN(float) points, IN(float) nodes, u64 count, IN(u32) corners, u64 elements, IN(u32) located
#define SPOT(i, spot) spot_of(sampling, box, points, nodes, count, corners, elements, located, i, spot)

DEVICE bool spot_of(const Sampling& sampling, const KuhnCells& box, IN(float) points, IN(float) nodes, u64 count, IN(u32) corners,
                    u64 elements, IN(u32) located, u64 i, Spot& spot) {
    const Vector p = position(sampling, points, i);
#if BOX
    return spot_in_box(box, p, spot);
#else
    return spot_in_element(nodes, count, corners, elements, located[i], p, spot);
#endif
}
