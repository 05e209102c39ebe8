#!/usr/bin/env python3
"""How `voxalign deform` does where tissue slides: lungs along the wall of the chest.

    tools/check_sliding.py VOXALIGN DATA [--mm 12,20] [-- OPTIONS OF deform]

DATA has the folder lung_4dct_plastimatch: a chest in CT at both ends of a breath, t0 and t5, which are halved within their slices. Lungs are the two
largest regions of air that do not touch the border.

Made: the lungs of t0 move along their wall (a smooth random field of 4 mm and a shift upwards, without what goes through the wall, followed in small
steps), everything else stays; noise of 15 HU is added. Printed are the mean and the 95th percentile of the error in mm, within the lungs, within
10 mm of their wall, and outside within 15 mm of it. Real: t0 <- t5 and back, the root mean square difference within the lungs and within 10 mm of their
wall, HU. Each with all defaults, with the lungs as the mask of both images, and with all else as the mask. Needs numpy, scipy, nibabel and SimpleITK."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import nibabel as nib
import numpy as np
import SimpleITK as sitk
from compare_deform import at_points, grid_points, nifti
from scipy import ndimage

LPS = np.diag([-1.0, -1.0, 1.0, 1.0])


def lungs(hu):
    """The two largest regions of air that do not touch the border."""
    regions, _ = ndimage.label(hu < -400)
    sizes = np.bincount(regions.ravel())
    sizes[0] = 0
    for face in (regions[0], regions[-1], regions[:, 0], regions[:, -1]):
        sizes[np.unique(face)] = 0
    return ndimage.binary_closing(np.isin(regions, np.argsort(sizes)[-2:]), iterations=3)


def halved(path):
    """A CT with half of the columns and rows, and its matrix."""
    image = nib.load(path)
    a = np.asarray(image.dataobj, dtype=np.float32)
    a = a[: a.shape[0] // 2 * 2, : a.shape[1] // 2 * 2]
    a = a.reshape(a.shape[0] // 2, 2, a.shape[1] // 2, 2, -1).mean((1, 3))
    to_half = np.diag([2.0, 2.0, 1.0, 1.0])
    to_half[:2, 3] = 0.5
    return np.minimum(a, 1500), image.affine @ to_half


def distance(mask, spacing):
    """From the border of a mask, mm, above 0 inside."""
    away = lambda m: ndimage.distance_transform_edt(m, sampling=spacing)
    return away(mask) - away(~mask)


def slid(hu, inside, spacing, mm, seed):
    """An image whose lungs have slid, and the displacement to the original, voxels."""
    random = np.random.default_rng(seed)
    smooth = lambda a, wide: ndimage.gaussian_filter(a, wide / spacing)
    depth = smooth(distance(inside, spacing), 4.0)
    normal = np.stack(np.gradient(depth, *spacing))
    normal /= np.linalg.norm(normal, axis=0) + 1e-6
    v = np.stack([smooth(random.standard_normal(hu.shape), 25.0) for _ in range(3)])
    v *= 4.0 / np.linalg.norm(v, axis=0)[inside].mean()
    v[2] += mm
    v -= (v * normal).sum(0) * np.clip(1 - depth / 30, 0, 1) * normal
    start = np.indices(hu.shape).astype(float)
    at, steps = start.copy(), 40
    for _ in range(steps):
        move = np.stack([ndimage.map_coordinates(c, at, order=1, mode="nearest") for c in v]) / steps / spacing[:, None, None, None]
        move[:, ndimage.map_coordinates(depth, at + move, order=1, mode="nearest") < 0] = 0
        at += move
    moved = np.where(inside, ndimage.map_coordinates(hu, at, order=1, mode="nearest"), hu)
    return moved + random.normal(0, 15, hu.shape), np.where(inside, at - start, 0)


def deformed(program, folder, fixed, moving, options):
    """The displacement that was found, LPS mm, and the verdict."""
    with tempfile.TemporaryDirectory() as out:
        out = Path(out) / "out"
        command = [program, "deform", folder / fixed, folder / moving, "-o", out, "--no-report", "--quiet", *options]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode > 1:
            sys.exit(run.stderr)
        verdict = json.loads((out / "result.json").read_text())["verdict"]
        affine = sitk.ReadTransform(str(out / "affine.tfm"))
        here = grid_points(folder / fixed)
        u = at_points(nifti(out / "warp.nii.gz"), here)
    origin = np.array(affine.TransformPoint((0.0, 0.0, 0.0)))
    matrix = np.stack([np.array(affine.TransformPoint(tuple(e))) - origin for e in np.eye(3)], axis=1)
    found = (here + u) @ matrix.T + origin - here
    failed = [c["name"] for c in verdict["checks"] if not c["passed"]]
    return found, "good" if verdict["good"] else f"bad ({'; '.join(failed)})"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("voxalign")
    p.add_argument("data", type=Path)
    p.add_argument("--mm", default="12,20")
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, further = p.parse_args(sys.argv[1:cut]), sys.argv[cut + 1 :]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write = lambda name, a: nib.save(nib.Nifti1Image(a, to_world), folder / f"{name}.nii.gz")
        images = {}
        for name in ("t0", "t5"):
            hu, to_world = halved(args.data / "lung_4dct_plastimatch" / f"{name}.nii.gz")
            images[name] = (hu, lungs(hu))
            write(name, hu)
            write(f"{name}_lungs", images[name][1].astype(np.uint8))
            write(f"{name}_rest", (~images[name][1]).astype(np.uint8))
        spacing = np.abs(np.linalg.norm(to_world[:3, :3], axis=0))
        ways = lambda fixed, moving: [
            ("all defaults", []),
            ("masks of the lungs", ["--fixed-mask", folder / f"{fixed}_lungs.nii.gz", "--moving-mask", folder / f"{moving}_lungs.nii.gz"]),
            ("masks of the rest", ["--fixed-mask", folder / f"{fixed}_rest.nii.gz", "--moving-mask", folder / f"{moving}_rest.nii.gz"]),
        ]
        hu, inside = images["t0"]
        depth = distance(inside, spacing)
        for seed, mm in enumerate(map(float, args.mm.split(",")), 1):
            made, u = slid(hu, inside, spacing, mm, seed)
            write("made", made.astype(np.float32))
            truth = np.einsum("ij,jxyz->xyzi", (LPS @ to_world)[:3, :3], u)
            length = np.linalg.norm(truth, axis=-1)
            print(f"slid by {length[inside].mean():.1f} mm, {length[inside & (depth < 10)].mean():.1f} near the wall", flush=True)
            for name, options in ways("t0", "t0"):
                found, verdict = deformed(args.voxalign, folder, "made.nii.gz", "t0.nii.gz", [*options, *further])
                e = np.linalg.norm(found - truth, axis=-1)
                of = lambda where: f"{e[where].mean():.2f} ({np.percentile(e[where], 95):.2f})"
                near, beside = inside & (depth < 10), ~inside & (depth > -15)
                print(f"  {name}: lungs {of(inside)}, near the wall {of(near)}, outside {of(beside)}; {verdict}", flush=True)
        for fixed, moving in (("t0", "t5"), ("t5", "t0")):
            (hu, inside), (other, _) = images[fixed], images[moving]
            depth = distance(inside, spacing)
            for name, options in ways(fixed, moving):
                found, verdict = deformed(args.voxalign, folder, f"{fixed}.nii.gz", f"{moving}.nii.gz", [*options, *further])
                voxels = np.einsum("ij,xyzj->ixyz", np.linalg.inv((LPS @ to_world)[:3, :3]), found)
                e = ndimage.map_coordinates(other, np.indices(hu.shape) + voxels, order=1, mode="nearest") - hu
                of = lambda where: f"{np.sqrt((e[where] ** 2).mean()):.1f}"
                near = inside & (depth < 10)
                print(f"{fixed} <- {moving}, {name}: {of(inside)} HU within the lungs, {of(near)} near the wall; {verdict}", flush=True)


if __name__ == "__main__":
    main()
