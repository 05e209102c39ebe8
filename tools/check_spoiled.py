#!/usr/bin/env python3
"""Deforms a brain through known displacements, spoils both images by bias, noise and thick slices, registers them, and measures the error.

    tools/check_spoiled.py VOXALIGN IMAGE [--bias 0,0.3,0.6] [--noise 0.04] [--slices 1,3] [--seeds 1,2] [--mm 8]
        [--similarities lncc,ssd,mi,nmi,mind] [-- OPTIONS OF deform]

IMAGE is a brain without its skull (zero outside) in voxels of 1 mm. The fixed image is IMAGE warped by a smooth random displacement (a
Gaussian of 22 mm, `--mm` on average within the brain), the moving one IMAGE itself. Each of them is multiplied by a smooth field of its own that differs from
one by `--bias` at most, gets Gaussian noise of `--noise` of its 99th percentile, and slices that are means of so many as `--slices` says. Printed
is a Markdown table of the mean error within the brain, mm, of all seeds, one row for each bias and thickness; `bad` counts verdicts. Needs numpy, scipy and nibabel."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import nibabel as nib
import numpy as np
from scipy import ndimage

LPS = np.diag([-1.0, -1.0, 1.0, 1.0])


def smooth(random, shape, sigma):
    return ndimage.gaussian_filter(random.standard_normal(shape), sigma)


def displaced(image, brain, seed, mm):
    """The image under a displacement, where the brain is then, and the displacement in voxels."""
    random = np.random.default_rng(seed)
    u = np.stack([smooth(random, image.shape, 22) for _ in range(3)])
    u *= mm / np.linalg.norm(u, axis=0)[brain].mean()
    at = np.indices(image.shape) + u
    there = lambda values, order: ndimage.map_coordinates(values, at, order=order)
    return there(image, 3), there(brain.astype(np.float32), 1) > 0.5, u


def spoiled(image, brain, seed, bias, noise):
    random = np.random.default_rng(seed)
    field = smooth(random, image.shape, 30)
    field = 1 + bias * field / np.abs(field).max()
    of = np.percentile(image[brain], 99)
    values = image * field + noise * of * random.standard_normal(image.shape)
    return np.where(ndimage.binary_dilation(brain, iterations=2), values, 0).astype(np.float32)


def thick(image, to_world, slices):
    """Slices that are means of so many, along the third axis."""
    nx, ny, nz = image.shape
    to_world = to_world.copy()
    to_world[:3, 3] += to_world[:3, 2] * (slices - 1) / 2
    to_world[:3, 2] *= slices
    return nib.Nifti1Image(image.reshape(nx, ny, nz // slices, slices).mean(3), to_world)


def error(folder, record, here, truth):
    """The mean distance of points (LPS) that a result carries from where they belong, mm."""
    image = nib.load(folder / "warp.nii.gz")
    warp, to_voxel = np.asarray(image.dataobj).squeeze(), np.linalg.inv(LPS @ image.affine)
    at = (here @ to_voxel[:3, :3].T + to_voxel[:3, 3]).T
    moved = here + np.stack([ndimage.map_coordinates(warp[..., a], at, order=1, mode="nearest") for a in range(3)], 1)
    affine = LPS @ np.array(record["transform"]["matrix"]) @ LPS
    return np.linalg.norm(moved @ affine[:3, :3].T + affine[:3, 3] - truth, axis=1).mean()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("voxalign")
    p.add_argument("image", type=Path)
    for name, default in (("bias", "0,0.3,0.6"), ("slices", "1,3"), ("seeds", "1,2"), ("similarities", "lncc,ssd,mi,nmi,mind")):
        p.add_argument(f"--{name}", default=default)
    p.add_argument("--noise", type=float, default=0.04)
    p.add_argument("--mm", type=float, default=8.0)
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, further = p.parse_args(sys.argv[1:cut]), sys.argv[cut + 1 :]
    similarities, several = args.similarities.split(","), lambda text, of: [of(t) for t in text.split(",")]

    source = nib.load(args.image)
    image, to_world = np.asarray(source.dataobj, dtype=np.float32).squeeze(), source.affine
    slices = several(args.slices, int)
    image = image[..., : image.shape[2] // (whole := int(np.lcm.reduce(slices))) * whole]
    brain = image > 0
    world = lambda voxels: voxels @ (LPS @ to_world)[:3, :3].T + (LPS @ to_world)[:3, 3]

    found = {}
    for seed in several(args.seeds, int):
        warped, there, u = displaced(image, brain, seed, args.mm)
        index = np.argwhere(ndimage.binary_erosion(there, iterations=2))[::37]
        here, truth = world(index), world(index + u[:, index[:, 0], index[:, 1], index[:, 2]].T)
        for bias in several(args.bias, float):
            both = [spoiled(*of, seed + 10 * k, bias, args.noise) for k, of in ((1, (warped, there)), (2, (image, brain)))]
            for thickness in slices:
                with tempfile.TemporaryDirectory() as folder:
                    folder = Path(folder)
                    for name, values in zip(("f", "m"), both):
                        nib.save(thick(values, to_world, thickness), folder / f"{name}.nii.gz")
                    for similarity in similarities:
                        command = [args.voxalign, "deform", folder / "f.nii.gz", folder / "m.nii.gz", "-o", folder / similarity, "--no-report", "--quiet"]
                        run = subprocess.run([*command, "--similarity", similarity, *further], capture_output=True, text=True)
                        if run.returncode > 1:
                            sys.exit(run.stderr)
                        record = json.loads((folder / similarity / "result.json").read_text())
                        ended = (error(folder / similarity, record, here, truth), record["verdict"]["good"])
                        found.setdefault((bias, thickness, similarity), []).append(ended)

    print("| bias, at most | slices, mm | " + " | ".join(f"`{s}`" for s in similarities) + " |")
    print("|---" * (2 + len(similarities)) + "|")
    for bias in several(args.bias, float):
        for thickness in slices:
            cells = []
            for similarity in similarities:
                runs = found[bias, thickness, similarity]
                bad = sum(not good for _, good in runs)
                cells.append(f"{np.mean([e for e, _ in runs]):.3f}" + (f" ({bad} bad)" if bad else ""))
            print(f"| {100 * bias:g} % | {thickness} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
