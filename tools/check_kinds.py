#!/usr/bin/env python3
"""Deforms images of two kinds through known displacements, registers them, and measures the error.

    tools/check_kinds.py VOXALIGN DATA [--pairs t1t2,t1pd,ctmr] [--seeds 1,2,3] [--mm 5] [-- OPTIONS OF deform]

DATA has the folders multimodal_brainweb_known_transform and templates_mni2mm. The fixed image is one of a pair that lies in one space,
warped by a smooth random displacement (a Gaussian of 18 mm, `--mm` on average within the head), the moving image the other one; both
have 2 % of noise. Printed are the mean, the median and the 95th percentile of the error within the brain where both images show
structure, mm, that of the affine part, the similarity that was taken, and the verdict. Needs numpy, scipy, nibabel and SimpleITK."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import nibabel as nib
import numpy as np
import SimpleITK as sitk
from scipy import ndimage

VOXEL = 2.0  # mm


def halved(image):
    """A SimpleITK image of 1 mm as an array of 2 mm."""
    a = sitk.GetArrayFromImage(image).transpose(2, 1, 0)
    a = a[tuple(slice(0, n // 2 * 2) for n in a.shape)]
    nx, ny, nz = (n // 2 for n in a.shape)
    return a.reshape(nx, 2, ny, 2, nz, 2).mean((1, 3, 5)).astype(np.float32)


def brainweb(data):
    """T1 and T2 of a head, and what is more than 20 mm below its surface."""
    folder = data / "multimodal_brainweb_known_transform"
    t1, t2 = (sitk.ReadImage(str(p), sitk.sitkFloat32) for p in sorted(folder.glob("*.mha")))
    map_ = sitk.Euler3DTransform()
    map_.SetRotation(0, 0, np.deg2rad(-10))
    map_.SetTranslation((-15, 0, 0))
    t1, t2 = halved(t1), halved(sitk.Resample(t2, t1, map_, sitk.sitkLinear, 0.0))
    head = ndimage.gaussian_filter(t1, 1) > 0.12 * np.percentile(t1, 99)
    head = ndimage.binary_fill_holes(ndimage.binary_opening(head))
    return t1, t2, ndimage.distance_transform_edt(head) * VOXEL > 20, np.diag([-VOXEL, -VOXEL, VOXEL, 1.0])


def templates(data, fixed, moving):
    """Two averages of heads, and the brain."""
    load = lambda name: nib.load(data / "templates_mni2mm" / f"{name}.nii.gz")
    values = lambda name: np.asarray(load(name).dataobj, dtype=np.float32).squeeze()
    brain = sum(values(f"tpm_{tissue}") for tissue in ("grey", "white", "csf")) > 0.5
    return values(fixed), values(moving), ndimage.binary_erosion(brain), load(fixed).affine


PAIRS = {
    "t1t2": brainweb,
    "t1pd": lambda data: templates(data, "avg152T1", "avg152PD"),
    "ctmr": lambda data: templates(data, "scct_CT", "avg152T1"),
}


def warped(fixed, moving, brain, seed, mm):
    """The images to register, the displacement in voxels, and where it is measured."""
    random = np.random.default_rng(seed)
    head = fixed > 0.1 * np.percentile(fixed, 99)
    u = np.stack([ndimage.gaussian_filter(random.standard_normal(fixed.shape), 9) for _ in range(3)])
    u *= mm / VOXEL / np.linalg.norm(u, axis=0)[head].mean()
    at = np.indices(fixed.shape) + u
    there = lambda image, order=1: ndimage.map_coordinates(image, at, order=order)
    inside = np.all([(at[a] >= 1) & (at[a] <= fixed.shape[a] - 2) for a in range(3)], axis=0)
    steep = lambda image: ndimage.gaussian_gradient_magnitude(there(image), 1.0) > 0.04 * np.percentile(image, 99)
    counts = steep(fixed) & steep(moving) & inside & (there(brain.astype(np.float32)) > 0.5)
    random = np.random.default_rng(seed + 100)
    noisy = lambda image, of: image + 0.02 * abs(np.percentile(of, 99)) * random.standard_normal(of.shape)
    return noisy(there(fixed, 3), fixed), noisy(moving, moving), u, counts


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("voxalign")
    p.add_argument("data", type=Path)
    p.add_argument("--pairs", default=",".join(PAIRS))
    p.add_argument("--seeds", default="1,2,3")
    p.add_argument("--mm", type=float, default=5.0)
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, further = p.parse_args(sys.argv[1:cut]), sys.argv[cut + 1 :]
    lps = np.diag([-1.0, -1.0, 1.0, 1.0])
    for name in args.pairs.split(","):
        fixed, moving, brain, to_world = PAIRS[name](args.data)
        for seed in map(int, args.seeds.split(",")):
            f, m, u, counts = warped(fixed, moving, brain, seed, args.mm)
            with tempfile.TemporaryDirectory() as folder:
                folder = Path(folder)
                for file, image in (("f.nii.gz", f), ("m.nii.gz", m)):
                    nib.save(nib.Nifti1Image(image.astype(np.float32), to_world), folder / file)
                command = [args.voxalign, "deform", folder / "f.nii.gz", folder / "m.nii.gz", "-o", folder / "out"]
                run = subprocess.run([*command, "--no-report", "--quiet", *further], capture_output=True, text=True)
                if run.returncode > 1:
                    sys.exit(f"{name}, seed {seed}: {run.stderr}")
                record = json.loads((folder / "out/result.json").read_text())
                affine = sitk.ReadTransform(str(folder / "out/affine.tfm"))
                warp = np.asarray(nib.load(folder / "out/warp.nii.gz").dataobj).squeeze()
            index = np.argwhere(counts)[::7]
            at = lambda i: i @ (lps @ to_world)[:3, :3].T + (lps @ to_world)[:3, 3]
            carried = lambda points: np.array([affine.TransformPoint(q) for q in points.tolist()])
            here, truth = at(index), at(index + u[:, index[:, 0], index[:, 1], index[:, 2]].T)
            error = lambda points: np.linalg.norm(points - truth, axis=1)
            e = error(carried(here + warp[tuple(index.T)]))
            print(
                f"{name}, seed {seed}: {error(here).mean():.2f} mm before, {error(carried(here)).mean():.3f} after the "
                f"affine part, {e.mean():.3f} after all (median {np.median(e):.3f}, 95 % {np.percentile(e, 95):.2f}), "
                f"{record['parameters']['channels'][0]['similarity']}, {record['parameters']['model']}, "
                f"{'good' if record['verdict']['good'] else 'bad'}",
                flush=True,
            )


if __name__ == "__main__":
    main()
