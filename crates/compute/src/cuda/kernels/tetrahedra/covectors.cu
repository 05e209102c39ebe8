// Covectors at samples, from other positions of the nodes to those of the mesh.
#include "spots.cuh"

// The linear map from the space of the nodes to cells of a box.
struct ToCells { double m[3][3]; };

// In a box, by the other positions of the nodes of the path of a sample.
DEVICE bool covector_in_box(const KuhnCells& box, const ToCells& to_cells, const Vector& p, IN(float) others, u64 count,
                            const Vector& covector, Vector& out) {
    Path path;
    if (!path_in_box(box, p, path)) return false;
    double along[3];
#pragma unroll
    for (u32 k = 0; k < 3; ++k)
        along[k] = dot(minus(vector_of(others, count, path.node[k + 1]), vector_of(others, count, path.node[k])), covector);
    double by[3];
#pragma unroll
    for (u32 axis = 0; axis < 3; ++axis) by[axis] = path.axis[0] == axis ? along[0] : path.axis[1] == axis ? along[1] : along[2];
    out = {to_cells.m[0][0] * by[0] + to_cells.m[1][0] * by[1] + to_cells.m[2][0] * by[2],
           to_cells.m[0][1] * by[0] + to_cells.m[1][1] * by[1] + to_cells.m[2][1] * by[2],
           to_cells.m[0][2] * by[0] + to_cells.m[1][2] * by[1] + to_cells.m[2][2] * by[2]};
    return true;
}

// In an element of a mesh; false in one without a positive volume.
DEVICE bool covector_in_element(IN(float) nodes, u64 count, IN(u32) corners, u64 elements, u32 element, IN(float) others,
                                const Vector& covector, Vector& out) {
    if (element == OUTSIDE || elements == 0) return false;
    const Tetrahedron t = tetrahedron(corners, count, min((u64)element, elements - 1));
    const Edges y = edges(nodes, count, t);
    const Vector a = cross(y.b, y.c), b = cross(y.c, y.a), c = cross(y.a, y.b);
    const double volume = dot(y.a, a);
    if (!(volume > 0.0)) return false;
    const Edges x = edges(others, count, t);
    const double u = dot(x.a, covector), v = dot(x.b, covector), w = dot(x.c, covector);
    out = {(u * a.x + v * b.x + w * c.x) / volume, (u * a.y + v * b.y + w * c.y) / volume,
           (u * a.z + v * b.z + w * c.z) / volume};
    return true;
}

KERNEL(sample_covectors, 256, PLACED, ToCells to_cells, IN(float) others, IN(float) covectors, OUT(float) out) {
    const u64 i = global_thread(), n = sampling.count;
    if (i >= n) return;
    const Vector covector = vector_of(covectors, n, i);
    Vector found;
#if BOX
    const bool inside = covector_in_box(box, to_cells, position(sampling, points, i), others, count, covector, found);
#else
    const bool inside = covector_in_element(nodes, count, corners, elements, located[i], others, covector, found);
#endif
    out[i] = inside ? (float)found.x : 0.0f;
    out[n + i] = inside ? (float)found.y : 0.0f;
    out[2 * n + i] = inside ? (float)found.z : 0.0f;
}
