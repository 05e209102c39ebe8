#!/usr/bin/env python3
"""Makes an MR of a breast from a map of its tissues, and compresses it between two plates by finite elements.

    tools/make_breast.py DATA OUT [--steps 10] [--compression 18] [--spacing MM] [--mesh 5] [--tumour 12] [--noise 4]
        [--seed 1]

Needs numpy, scipy and SimpleITK. DATA is the folder that holds `breast_mr_labelmap` (Pelicano et al.); 8 GB and some
minutes serve at the resolution of the map (1 mm), `--spacing 2` makes the images coarser, not the mesh.

Image: one of the two breasts. Each tissue has the intensity of a T1 image without fat suppression (fat bright), with
a smooth random texture of two scales in it, a partial volume at its edges, a round lesion, and the noise of a
magnitude image (Rician, standard deviation `--noise`, fat is about 200). Each image has noise of its own. The
compressed images are the undeformed one without noise, read by cubic B-splines where the material came from.

Compression: a compressible neo-Hookean solid, W = mu/2 (tr C - 3 - 2 ln J) + lambda/2 (ln J)^2, on hexahedra of
`--mesh` mm, with 2 x 2 x 2 points of integration; Newton's method with as many steps of load as `--steps`. The
muscle of the chest wall and what lies behind it, and the borders of the box, stand still; two plates without
friction come from left and right, each by half of `--compression`, and push the nodes that they meet (penalty).
Young's modulus (kPa): fat 4.8, gland 17.5, lesion 47.1 (Wellman 1999, at 1 % strain), skin 56 (Hendriks et al. 2003,
six times the C10 of 9.4 kPa), muscle 20 (it stands still). Poisson's ratio is 0.45 for all. The modulus of a cell is
the mean over its voxels. Outside of the tissue the displacement is continued by Laplace's equation.

Written to OUT (NN is the step, 01 to the last, all on one grid):
  moving.nii.gz             the undeformed breast
  fixed_NN.nii.gz           the compressed one; fixed_remapped_NN: fat dark, gland bright, and noise anew
  *_labels, *_mask          1 fat, 2 gland, 3 lesion, 4 skin, 5 muscle; the tissue (all of them), of moving and fixed
  true_warp_NN.nii.gz       displacement from each fixed voxel to where its material was (the truth for a warp)
  true_motion_NN.nii.gz     displacement of the material of each moving voxel (its inverse)
  slice_1..3.nii.gz         three oblique slices of the last step with noise, each a 3D image of one voxel in depth
  recipe.json               parameters, moduli, and what the checks have found
Fields are LPS millimetres with intent 1007, as those of ITK. The same seed gives the same files. Stops where the
tissue folds (J of 0.2 or less), where a field and its inverse disagree, or where an image does not follow its field.
"""
import argparse
import glob
import json
import os
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import SimpleITK as sitk
from scipy import ndimage, sparse
from scipy.sparse.linalg import splu

# First and last voxel of the box around one breast, in the map's own axes.
BOX = np.array([[16, 178], [52, 276], [4, 180]])
SKIN, MUSCLE, NIPPLE, LESION = -2, -1, -4, 8
INTENSITY = {SKIN: 120, MUSCLE: 75, NIPPLE: 100, 1: 65, 2: 80, 3: 95, 4: 140, 5: 185, 6: 200, 7: 215, LESION: 50}
MATERIAL = {SKIN: 4, MUSCLE: 5, NIPPLE: 4, 1: 2, 2: 2, 3: 2, 4: 2, 5: 1, 6: 1, 7: 1, LESION: 3}
YOUNG = np.array([0.0, 4.8, 17.5, 47.1, 56.0, 20.0])
POISSON = 0.45
REMAP = [(0, 0), (50, 170), (65, 200), (95, 170), (140, 95), (185, 45), (240, 25), (400, 20)]
POOL = ThreadPoolExecutor(os.cpu_count())


def table(values, labels):
    """The value of each label, over an array of labels."""
    lookup = np.zeros(64)
    for label, value in values.items():
        lookup[label + 32] = value
    return lookup[labels + 32]


def read_labels(data, radius):
    """Labels of the box, voxel sizes (mm), directions (columns) and LPS place of its first voxel."""
    archive = glob.glob(os.path.join(data, "breast_mr_labelmap", "*.zip"))
    if not archive:
        raise SystemExit(f"there is no breast_mr_labelmap/*.zip in {data}")
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(archive[0]) as packed:
        name = next(n for n in packed.namelist() if n.endswith(".mha"))
        image = sitk.ReadImage(packed.extract(name, folder))
    labels = sitk.GetArrayFromImage(image).T.astype(np.int8)
    labels = labels[tuple(slice(a, b + 1) for a, b in BOX)].copy()
    sizes, turn = np.array(image.GetSpacing()), np.array(image.GetDirection()).reshape(3, 3)
    origin = np.array(image.TransformIndexToPhysicalPoint([int(a) for a in BOX[:, 0]]))
    gland = np.argwhere((labels >= 1) & (labels <= 3))
    centre = gland.mean(0) + np.array([8.0, -14.0, -24.0])
    grid = np.indices(labels.shape, sparse=True)
    distance = sum(((g - c) * s) ** 2 for g, c, s in zip(grid, centre, sizes))
    labels[(distance <= radius**2) & (labels >= 1)] = LESION
    return labels, sizes, turn, origin


def make_image(labels, sizes, rng):
    """Intensities without noise, float32."""
    texture = sum(amount * field / field.std() for amount, field in (
        (amount, ndimage.gaussian_filter(rng.standard_normal(labels.shape).astype(np.float32), mm / sizes))
        for amount, mm in [(0.06, 1.6), (0.06, 5.0)]))
    image = table(INTENSITY, labels).astype(np.float32) * (1 + np.clip(texture, -0.3, 0.3))
    return ndimage.gaussian_filter(image.astype(np.float32), 0.6)


class Mesh:
    """Hexahedra of equal size, those with tissue in at least half of their voxels, in a box of nodes."""

    def __init__(self, labels, sizes, edge):
        extent = np.array(labels.shape) * sizes
        self.cells = np.maximum(np.rint(extent / edge).astype(int), 1)
        self.h, self.shape = extent / self.cells, tuple(self.cells + 1)
        material = table(MATERIAL, labels).astype(np.int8)
        where = [np.minimum(((np.arange(n) + 0.5) * s / h).astype(int), c - 1)
                 for n, s, h, c in zip(labels.shape, sizes, self.h, self.cells)]
        cell = np.ravel_multi_index(np.ix_(*where), self.cells).ravel()
        count = np.prod(self.cells)
        voxels, tissue = np.bincount(cell, minlength=count), np.bincount(cell, material.ravel() > 0, count)
        young = np.bincount(cell, YOUNG[material].ravel(), count) / np.maximum(tissue, 1)
        parts, _ = ndimage.label((tissue >= 0.5 * voxels).reshape(self.cells))
        kept = parts == 1 + np.argmax(np.bincount(parts[parts > 0])[1:])
        base = np.argwhere(kept)
        self.corners = np.stack([np.ravel_multi_index((base + c).T, self.shape) for c in np.ndindex(2, 2, 2)], 1)
        young = young[kept.ravel()]
        self.young = young
        self.mu, self.lam = young / (2 * (1 + POISSON)), young * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
        self.used = np.zeros(np.prod(self.shape), bool)
        self.used[self.corners] = True
        self.places = np.indices(self.shape).reshape(3, -1).T * self.h
        self.fixed = ~self.used | self._still(labels, sizes)
        self._prepare()

    def _still(self, labels, sizes):
        """Nodes on the border of the box, and at or behind the front of the muscle."""
        front = np.where((labels == MUSCLE).any(2), (labels == MUSCLE).argmax(2), -1)
        nearest = ndimage.distance_transform_edt(front < 0, return_indices=True, return_distances=False)
        front = ndimage.median_filter(front[tuple(nearest)], 9)
        self.chest = front.min() * sizes[2]
        at = np.minimum((self.places[:, :2] / sizes[:2]).astype(int), np.array(labels.shape[:2]) - 1)
        node = np.indices(self.shape).reshape(3, -1).T
        border = ((node == 0) | (node == self.cells))
        border[:, 2] = node[:, 2] == self.cells[2]
        return border.any(1) | (self.places[:, 2] >= front[tuple(at.T)] * sizes[2])

    def _prepare(self):
        """Shape functions' gradients, the structure of the matrix, and the coarse space of the solver."""
        signs = np.array(list(np.ndindex(2, 2, 2))) * 2 - 1
        gauss = signs / np.sqrt(3)
        self.gradients = []
        for g in gauss:
            one = 1 + signs * g
            self.gradients.append(np.stack([signs[:, a] * one[:, b] * one[:, c] / 4 / self.h[a]
                                            for a, b, c in [(0, 1, 2), (1, 2, 0), (2, 0, 1)]], 1))
        self.weight = np.prod(self.h) / 8
        dofs = (3 * self.corners[:, :, None] + np.arange(3)).reshape(len(self.corners), 24)
        self.dofs, self.count = dofs, 3 * len(self.places)
        self.rows, self.columns = np.repeat(dofs, 24, 1).ravel(), np.tile(dofs, (1, 24)).ravel()
        self.free = np.repeat(~self.fixed, 3).astype(float)
        one = []
        for cells in self.cells:
            coarse = max(-(-cells // 4), 1)
            t = np.arange(cells + 1) * coarse / cells
            low = np.minimum(t.astype(int), coarse - 1)
            rows = np.tile(np.arange(cells + 1), 2)
            weights = np.concatenate([1 - (t - low), t - low])
            one.append(sparse.csr_matrix((weights, (rows, np.concatenate([low, low + 1]))), (cells + 1, coarse + 1)))
        coarse = sparse.kron(sparse.kron(sparse.kron(one[0], one[1]), one[2]), sparse.identity(3))
        coarse = (sparse.diags(self.free) @ coarse).tocsr()
        self.coarse = coarse[:, np.flatnonzero(np.asarray(abs(coarse).sum(0)).ravel() > 0)]

    def energy(self, u, plates, tangent=True):
        """Energy (infinite where a cell is inverted), gradient and tangent at displacements u (nodes, 3)."""
        local, total, forces, matrix = u[self.corners], 0.0, 0.0, 0.0
        for g in self.gradients:
            F = np.eye(3) + np.einsum("eni,nj->eij", local, g)
            J = np.linalg.det(F)
            if J.min() <= 0.05:
                return np.inf, None, None
            log, inverse = np.log(J), np.linalg.inv(F)
            turned = inverse.transpose(0, 2, 1)
            density = self.mu / 2 * ((F**2).sum((1, 2)) - 3 - 2 * log) + self.lam / 2 * log**2
            total += self.weight * density.sum()
            if not tangent:
                continue
            mu, pressure = self.mu[:, None, None], (self.lam * log - self.mu)[:, None, None]
            stress = mu * F + pressure * turned
            forces += self.weight * np.einsum("eij,nj->eni", stress, g)
            A = -pressure[..., None, None] * np.einsum("eJk,eLi->eiJkL", inverse, inverse)
            A += self.lam[:, None, None, None, None] * np.einsum("eiJ,ekL->eiJkL", turned, turned)
            A = A.reshape(-1, 9, 9) + mu * np.eye(9)
            B = np.einsum("nj,ik->ijnk", g, np.eye(3)).reshape(9, 24)
            matrix += self.weight * (B.T @ (A @ B))
        x, stiff = self.places[:, 0] + u[:, 0], 50 * self.young.mean() * self.h.mean()
        gap = np.where(self.reach, np.minimum(x - plates[0], 0) + np.maximum(x - plates[1], 0), 0)
        total += stiff / 2 * (gap**2).sum()
        if not tangent:
            return total, None, None
        gradient = np.bincount(self.dofs.ravel(), forces.reshape(-1), self.count)
        gradient[::3] += stiff * gap
        K = sparse.csr_matrix((matrix.ravel(), (self.rows, self.columns)), (self.count, self.count))
        contact = np.zeros(self.count)
        contact[::3] = stiff * (gap != 0)
        keep = sparse.diags(self.free)
        K = keep @ (K + sparse.diags(contact)) @ keep + sparse.diags(1 - self.free)
        return total, gradient * self.free, K.tocsr()

    def solve(self, K, b, tolerance):
        """Conjugate gradients with Jacobi and a coarse grid as preconditioner."""
        diagonal, coarse = 1 / K.diagonal(), splu((self.coarse.T @ K @ self.coarse).tocsc())
        precondition = lambda r: diagonal * r + self.coarse @ coarse.solve(self.coarse.T @ r)
        x, r = np.zeros_like(b), b.copy()
        z = precondition(r)
        p, rho, stop = z, r @ z, tolerance * np.linalg.norm(b)
        for _ in range(2000):
            q = K @ p
            curvature = p @ q
            if curvature <= 0:
                return x if x.any() else p
            x += rho / curvature * p
            r -= rho / curvature * q
            if np.linalg.norm(r) <= stop:
                break
            z = precondition(r)
            rho, before = r @ z, rho
            p = z + rho / before * p
        return x

    def compress(self, compression, steps):
        """Yields the displacements of the nodes after each step of load."""
        self.reach = self.used & ~self.fixed & (self.places[:, 2] < self.chest - 15)
        x = self.places[self.reach, 0]
        start = np.array([x.min(), x.max()])
        u, before, force = np.zeros_like(self.places), np.zeros_like(self.places), None
        for step in range(1, steps + 1):
            plates = start + np.array([0.5, -0.5]) * compression * step / steps
            guess = 2 * u - before
            before = u
            if np.isfinite(self.energy(guess, plates, False)[0]):
                u = guess
            value, gradient, K = self.energy(u, plates)
            force = force or np.linalg.norm(self.energy(before, plates)[1])
            for rounds in range(60):
                if np.linalg.norm(gradient) <= 1e-5 * force:
                    break
                by = self.solve(K, -gradient, 1e-3).reshape(-1, 3)
                length, slope, slack = 1.0, gradient @ by.ravel(), 1e-12 * abs(value)
                while not self.energy(u + length * by, plates, False)[0] <= value + 1e-4 * length * slope + slack:
                    length /= 2
                    if length < 1e-6:
                        raise SystemExit(f"Newton's method makes no progress in step {step}")
                u = u + length * by
                value, gradient, K = self.energy(u, plates)
            else:
                raise SystemExit(f"Newton's method does not converge in step {step}")
            largest = np.linalg.norm(u, axis=1).max()
            print(f"step {step}: {rounds} rounds, largest displacement {largest:.1f} mm", flush=True)
            yield self.continued(u)

    def continued(self, u):
        """The same at all nodes of the box, by Laplace's equation where there is no tissue; 0 at its border."""
        second = [sparse.diags([1.0, -2.0, 1.0], [-1, 0, 1], (n, n)) / h**2 for n, h in zip(self.shape, self.h)]
        one = [sparse.identity(n) for n in self.shape]
        L = sum(sparse.kron(sparse.kron(*[second[b] if a == b else one[b] for b in (0, 1)]),
                            second[2] if a == 2 else one[2]) for a in range(3))
        inside = np.zeros(self.shape, bool)
        inside[1:-1, 1:-1, 1:-1] = True
        open_ = np.flatnonzero(inside.ravel() & ~self.used)
        L, result = L.tocsr()[open_], np.where(self.used[:, None], u, 0.0)
        right = -(L @ result)
        A = L[:, open_]
        for c in range(3):
            value, code = sparse.linalg.cg(-A, -right[:, c], rtol=1e-8, maxiter=5000)
            if code:
                raise SystemExit("the displacement outside of the tissue does not converge")
            result[open_, c] = value
        return result.reshape(*self.shape, 3)


def lattice(u, h, points, slopes=True):
    """Trilinear values of u (nodes of a box, 3) at points (n, 3; mm), and their derivatives (n, 3, 3)."""
    t = points / h
    cell = np.clip(t.astype(int), 0, np.array(u.shape[:3]) - 2)
    t = t - cell
    flat, steps = u.reshape(-1, 3), np.array([u.shape[1] * u.shape[2], u.shape[2], 1])
    first = cell @ steps
    value, slope = np.zeros_like(points), np.zeros((len(points), 3, 3)) if slopes else None
    for c in np.ndindex(2, 2, 2):
        w = np.where(c, t, 1 - t)
        at = flat[first + np.dot(c, steps)]
        value += (w[:, 0] * w[:, 1] * w[:, 2])[:, None] * at
        for a in range(3) if slopes else ():
            d = w[:, a - 1] * w[:, a - 2] * ((2 * c[a] - 1) / h[a])
            slope[:, :, a] += d[:, None] * at
    return value, slope


def chunked(work, points, *more):
    """work(points, *more) over pieces of the points, by all processors."""
    pieces = [slice(i, i + 200_000) for i in range(0, len(points), 200_000)]
    return np.concatenate(list(POOL.map(lambda s: work(points[s], *[m[s] for m in more]), pieces)))


def origins(u, h, extent):
    """A function that gives the displacement of points back to where their material was, from a start."""
    def search(points, start):
        w, limit = start.copy(), extent * (1 - 1e-12)
        todo = np.arange(len(points))
        for _ in range(60):
            here = np.clip(points[todo] + w[todo], 0, limit)
            value, slope = lattice(u, h, here)
            miss = points[todo] - (here + value)
            far = (miss**2).sum(1) > 1e-10
            w[todo] = here - points[todo]
            todo, miss, slope = todo[far], miss[far], slope[far]
            if not len(todo):
                break
            by = np.linalg.solve(np.eye(3) + slope, miss[..., None])[..., 0]
            w[todo] += by * np.minimum(1, 4 / np.maximum(np.linalg.norm(by, axis=1), 1e-9))[:, None]
        return w
    return search


class Writer:
    """Images on the grid of all of them: shape, voxel sizes, directions, LPS place of the first voxel."""

    def __init__(self, folder, sizes, turn, origin):
        self.folder, self.sizes, self.turn, self.origin = folder, sizes, turn, origin

    def save(self, name, values):
        vector = values.ndim == 4
        image = sitk.GetImageFromArray(values.transpose(2, 1, 0, 3) if vector else values.T, isVector=vector)
        image.SetSpacing([float(s) for s in self.sizes])
        image.SetDirection(self.turn.ravel())
        image.SetOrigin(self.origin)
        sitk.WriteImage(image, os.path.join(self.folder, name + ".nii.gz"))

    def field(self, name, values):
        """A displacement along the grid's axes, as LPS vectors."""
        self.save(name, (values @ self.turn.T).astype(np.float32))


def noisy(image, sigma, rng):
    noise = rng.standard_normal((2, *image.shape)) * sigma
    return np.hypot(image + noise[0], noise[1]).astype(np.float32)


def remapped(image):
    return np.interp(image, *zip(*REMAP))


def jacobian(w, sizes):
    """Determinant of x + w(x) by central differences."""
    slope = np.stack([np.stack(np.gradient(w[..., c], *sizes), -1) for c in range(3)], -2)
    return np.linalg.det(slope + np.eye(3))


class Breast:
    """The undeformed breast: its image without noise and labels at the map's resolution."""

    def __init__(self, args, rng):
        self.labels, self.sizes, self.turn, self.origin = read_labels(args.data, args.tumour)
        image = make_image(self.labels, self.sizes, rng)
        self.extent = np.array(self.labels.shape) * self.sizes
        self.spacing = np.maximum(self.sizes, args.spacing)
        self.dims = np.floor(self.extent / self.spacing + 1e-9).astype(int)
        blur = 0.4 * np.sqrt(np.maximum((self.spacing / self.sizes) ** 2 - 1, 0))
        self.splines = ndimage.spline_filter(ndimage.gaussian_filter(image, blur), 3, np.float32)
        self.material = table(MATERIAL, self.labels).astype(np.uint8)
        self.points = (np.indices(self.dims).reshape(3, -1).T + 0.5) * self.spacing

    def at(self, points):
        """Intensities and materials at points (n, 3; mm from the corner of the box)."""
        index = (points / self.sizes - 0.5).T
        value = ndimage.map_coordinates(self.splines, index, order=3, prefilter=False, mode="nearest")
        label = self.material[tuple(np.clip(np.rint(index).astype(int), 0, np.array(self.labels.shape)[:, None] - 1))]
        return np.stack([np.maximum(value, 0), label], 1)

    def image(self, w=0.0):
        both = chunked(self.at, self.points + w)
        return both[:, 0].reshape(self.dims), both[:, 1].astype(np.uint8).reshape(self.dims)


def check(breast, image, warp, moving, labels, motion):
    """What the field of a step is like; stops where it cannot serve as the truth."""
    tissue, sizes = labels > 0, breast.spacing
    J = jacobian(warp, sizes)[tissue]
    index = (breast.points + warp.reshape(-1, 3)) / sizes - 0.5
    again = ndimage.map_coordinates(moving, index.T, order=1, mode="nearest").reshape(image.shape)
    rest = image[tissue] - again[tissue]
    back = np.stack([ndimage.map_coordinates(motion[..., c], index.T, order=1, mode="nearest") for c in range(3)], -1)
    loop = np.linalg.norm(back.reshape(warp.shape) + warp, axis=-1)[tissue]
    found = {"smallest J of the warp": J.min(), "largest J of the warp": J.max(),
             "mean displacement, mm": np.linalg.norm(warp[tissue], axis=1).mean(),
             "largest displacement, mm": np.linalg.norm(warp[tissue], axis=1).max(),
             "there and back, mm, 99 %": np.quantile(loop, 0.99),
             "variance of the image that a linear resampling leaves": rest.var() / image[tissue].var()}
    assert 0.2 < J.min() and J.max() < 5, found
    assert found["there and back, mm, 99 %"] < 0.2 * sizes.max(), found
    assert found["variance of the image that a linear resampling leaves"] < 0.05, found
    return {k: round(float(v), 5) for k, v in found.items()}


def write_slices(breast, back, args, rng):
    """Three oblique planes of the compressed breast, through the middle of what is in front of the chest wall."""
    front = np.argwhere(breast.material > 0) * breast.sizes
    front = front[front[:, 2] < front[:, 2].min() + 90]
    for number, (normal, tilt) in enumerate([(0, 0.12), (1, -0.1), (2, 0.08)], 1):
        a, b = [i for i in range(3) if i != normal]
        axes = np.eye(3)[:, [a, b, normal]]
        if np.linalg.det(axes) < 0:
            axes[:, 2] *= -1
        c, s = np.cos(tilt), np.sin(tilt)
        axes = axes @ np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
        size = np.ceil(breast.extent[[a, b]] / breast.spacing[[a, b]]).astype(int)
        grid = (np.indices(size).reshape(2, -1).T - (size - 1) / 2) * breast.spacing[[a, b]]
        middle = breast.extent / 2
        middle[normal] = np.median(front[:, normal])
        points = middle + grid @ axes[:, :2].T
        inside = ((points > 0) & (points < breast.extent)).all(1)
        value = np.zeros(len(points))
        kept = points[inside]
        value[inside] = chunked(breast.at, kept + chunked(back, kept, np.zeros_like(kept)))[:, 0]
        first = points[0] - breast.sizes / 2
        thick = [*breast.spacing[[a, b]], breast.spacing[normal]]
        writer = Writer(args.out, thick, breast.turn @ axes, breast.origin + breast.turn @ first)
        writer.save(f"slice_{number}", noisy(value.reshape(*size, 1), args.noise, rng))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--compression", type=float, default=18.0, help="mm, of both plates together")
    parser.add_argument("--spacing", type=float, default=0.0, help="mm; at least that of the map")
    parser.add_argument("--mesh", type=float, default=5.0, help="edge of the hexahedra, mm")
    parser.add_argument("--tumour", type=float, default=12.0, help="radius of the lesion, mm; 0 for none")
    parser.add_argument("--noise", type=float, default=4.0, help="standard deviation")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    rng = np.random.default_rng(args.seed)
    breast = Breast(args, rng)
    mesh = Mesh(breast.labels, breast.sizes, args.mesh)
    print(f"{len(mesh.corners)} hexahedra, {int(mesh.free.sum())} unknowns, images {breast.dims}", flush=True)
    corner = breast.origin + breast.turn @ ((breast.spacing - breast.sizes) / 2)
    writer = Writer(args.out, breast.spacing, breast.turn, corner)
    moving, labels = breast.image()
    writer.save("moving", noisy(moving, args.noise, rng))
    writer.save("moving_labels", labels)
    writer.save("moving_mask", (labels > 0).astype(np.uint8))
    record = {"parameters": {k: v for k, v in vars(args).items() if k not in ("data", "out")},
              "young_kPa": dict(zip(["fat", "gland", "lesion", "skin", "muscle"], YOUNG[1:].tolist())),
              "poisson": POISSON, "hexahedra": len(mesh.corners), "steps": []}
    w = np.zeros_like(breast.points)
    for step, u in enumerate(mesh.compress(args.compression, args.steps), 1):
        motion = chunked(lambda p: lattice(u, mesh.h, p, False)[0], breast.points).reshape(*breast.dims, 3)
        back = origins(u, mesh.h, breast.extent)
        w = chunked(back, breast.points, w)
        warp = w.reshape(*breast.dims, 3)
        fixed, labels = breast.image(w)
        record["steps"].append(check(breast, fixed, warp, moving, labels, motion))
        print(record["steps"][-1], flush=True)
        writer.save(f"fixed_{step:02}", noisy(fixed, args.noise, rng))
        writer.save(f"fixed_remapped_{step:02}", noisy(remapped(fixed), args.noise, rng))
        writer.save(f"fixed_labels_{step:02}", labels)
        writer.save(f"fixed_mask_{step:02}", (labels > 0).astype(np.uint8))
        writer.field(f"true_warp_{step:02}", warp)
        writer.field(f"true_motion_{step:02}", motion)
    write_slices(breast, back, args, rng)
    with open(os.path.join(args.out, "recipe.json"), "w") as file:
        json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
