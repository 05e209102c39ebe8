#!/usr/bin/env python3
"""Exchanges displacement fields with ANTsPy and SimpleITK, in both directions, and prints how far
images and points differ.

    tools/check_warps.py FIXED MOVING LABELS [--program target/release/voxalign] [--keep FOLDER]

Needs numpy, scipy, nibabel, SimpleITK and antspyx. FIXED and MOVING are NIfTI images of two heads,
LABELS a label map of MOVING.
"""
import argparse
import os
import subprocess
import tempfile
import time

import ants
import nibabel as nib
import numpy as np
import pandas as pd
import SimpleITK as sitk
from scipy.ndimage import gaussian_filter

LPS = np.array([-1.0, -1.0, 1.0])


def values(path):
    return np.asarray(nib.load(path).dataobj, np.float64)


def by_sitk(fixed, moving, transforms, interpolator=sitk.sitkLinear):
    """The transforms in ANTs' order: a fixed point goes through the first, then the next."""
    composite = sitk.CompositeTransform(3)
    for t in reversed(transforms):
        composite.AddTransform(t)
    read = lambda p: sitk.ReadImage(p, sitk.sitkFloat32)
    out = sitk.Resample(read(moving), read(fixed), composite, interpolator, 0.0)
    return sitk.GetArrayFromImage(out).transpose(2, 1, 0)


def sitk_field(path):
    return sitk.DisplacementFieldTransform(sitk.ReadImage(path, sitk.sitkVectorFloat64))


def by_ants(fixed, moving, transforms, invert=None, interpolator="linear"):
    return ants.apply_transforms(ants.image_read(fixed), ants.image_read(moving), transforms,
                                 whichtoinvert=invert, interpolator=interpolator).numpy()


def smooth_field(shape, affine, size, seed, path, border=False):
    """A smooth field of up to `size` mm, zero at the border or not, as ANTs would store it."""
    noise = np.random.default_rng(seed)
    zooms = np.linalg.norm(affine[:3, :3], axis=0)
    parts = len(shape)
    u = [gaussian_filter(noise.standard_normal(shape), 12 / zooms[:parts]) for _ in shape]
    if not border:
        fade = 1.0
        for axis, n in enumerate(shape):
            t = np.minimum(np.arange(n), n - 1 - np.arange(n)) / (n / 6)
            fade = fade * np.clip(t, 0, 1).reshape([-1 if a == axis else 1 for a in range(parts)])
        u = [c * fade for c in u]
    u = np.stack(u, -1)
    u *= size / np.linalg.norm(u, axis=-1).max()
    flat = u.reshape(*shape, *([1] * (4 - parts)), parts).astype(np.float32)
    image = nib.Nifti1Image(flat, affine)
    image.header.set_intent(1007)
    image.set_qform(affine, 1)
    image.set_sform(affine, 1)
    nib.save(image, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fixed")
    parser.add_argument("moving")
    parser.add_argument("labels")
    parser.add_argument("--program", default="target/release/voxalign")
    parser.add_argument("--keep")
    args = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    place = args.keep or folder.name
    path = lambda name: os.path.join(place, name)
    f, m = args.fixed, args.moving

    def run(*words):
        start = time.time()
        done = subprocess.run([args.program, *words], check=True, capture_output=True, text=True)
        return time.time() - start, done.stdout + done.stderr

    def ours(moving, fixed, words, *more):
        run("apply", "-i", moving, "-r", fixed, *words, "-o", path("out.nii.gz"), "-q", *more)
        return values(path("out.nii.gz"))

    def say(what, a, b):
        d = np.abs(np.squeeze(a) - np.squeeze(b))
        print(f"{what}: largest difference {d.max():.5f}, mean {d.mean():.7f}, voxels over 0.1 "
              f"{np.count_nonzero(d > 0.1)}, range {np.ptp(b):.0f}", flush=True)

    # Fields on the grid of the fixed image and on an oblique, anisotropic one that covers a part
    # of it and does not end at zero.
    image = nib.load(f)
    smooth_field(image.shape, image.affine, 10.0, 1, path("warp.nii.gz"))
    turn = sitk.Euler3DTransform((0, 0, 0), 0.2, -0.3, 0.4).GetMatrix()
    turn = np.array(turn).reshape(3, 3) @ np.diag([-1.3, 1.7, 2.6])
    centre = (image.affine @ [*(np.array(image.shape) / 2), 1])[:3]
    shape = (90, 80, 45)
    oblique = np.eye(4)
    oblique[:3, :3] = turn
    oblique[:3, 3] = centre - turn @ (np.array(shape) / 2)
    smooth_field(shape, oblique, 6.0, 2, path("oblique.nii.gz"), border=True)
    affine = sitk.AffineTransform(3)
    affine.SetCenter(tuple(centre * LPS))
    affine.SetMatrix((1.05, 0.06, 0.0, -0.04, 0.97, 0.05, 0.02, -0.03, 1.02))
    affine.SetTranslation((4.0, -3.0, 6.0))
    sitk.WriteTransform(affine, path("affine.mat"))
    warp, skew, mat = path("warp.nii.gz"), path("oblique.nii.gz"), path("affine.mat")

    print("-- their fields applied here")
    field = {p: sitk_field(p) for p in (warp, skew)}
    for what, chain in [("warp", [warp]), ("oblique warp", [skew]),
                        ("warp, affine", [warp, mat]), ("affine, warp", [mat, warp]),
                        ("affine, oblique, warp", [mat, skew, warp]),
                        ("oblique, affine, oblique", [skew, mat, skew])]:
        out = ours(m, f, [w for t in chain for w in ("-t", t)])
        say(f"{what}, ANTsPy", by_ants(f, m, chain, [False] * len(chain)), out)
        say(f"{what}, SimpleITK", by_sitk(f, m, [field.get(t, affine) for t in chain]), out)
    chain = ["-t", f"inverse:{mat}", "-t", warp]
    say("inverse affine, warp, ANTsPy", by_ants(f, m, [mat, warp], [True, False]), ours(m, f, chain))
    labels = ours(args.labels, f, ["-t", warp, "-t", mat], "--interpolation", "nearest")
    theirs = by_ants(f, args.labels, [warp, mat], interpolator="nearestNeighbor")
    print(f"labels, ANTsPy: {np.count_nonzero(labels != theirs)} of {labels.size} voxels differ")

    print("-- files of SimpleITK")
    stored = sitk.ReadImage(skew, sitk.sitkVectorFloat64)
    for name, kind, packed in [("s.nii.gz", sitk.sitkVectorFloat32, True),
                               ("d.nii", sitk.sitkVectorFloat64, False),
                               ("s.mha", sitk.sitkVectorFloat32, False),
                               ("d.mha", sitk.sitkVectorFloat64, True),
                               ("s.mhd", sitk.sitkVectorFloat32, False),
                               ("s.nrrd", sitk.sitkVectorFloat32, True),
                               ("d.nrrd", sitk.sitkVectorFloat64, False)]:
        sitk.WriteImage(sitk.Cast(stored, kind), path(name), packed)
        _, said = run("compare", "--transforms", skew, path(name), "--fixed-geometry", f)
        print(f"{name}:", [s for s in said.splitlines() if s.startswith("largest  ")][0])

    print("-- our fields applied there")
    run("compose", "-t", mat, "-t", skew, "-t", warp, "-o", path("all.nii.gz"),
        "--fixed-geometry", f, "-q")
    run("convert", path("d.nrrd"), path("converted.nii.gz"))
    seconds, said = run("invert", "-t", warp, "-o", path("inverse.nii.gz"))
    print(f"inverted in {seconds:.2f} s\n{said.strip()}")
    run("invert", "-t", skew, "-o", path("inverse_oblique.nii.gz"), "-q")
    for name in ["all.nii.gz", "converted.nii.gz", "inverse.nii.gz", "inverse_oblique.nii.gz"]:
        out = ours(m, f, ["-t", path(name)])
        say(f"{name}, ANTsPy", by_ants(f, m, [path(name)]), out)
        say(f"{name}, SimpleITK", by_sitk(f, m, [sitk_field(path(name))]), out)
    one_by_one = ours(m, f, ["-t", mat, "-t", skew, "-t", warp])
    say("composed against one by one", ours(m, f, ["-t", path("all.nii.gz")]), one_by_one)
    theirs = sitk.InvertDisplacementField(sitk.ReadImage(warp, sitk.sitkVectorFloat64), 50, 1e-3, 1e-4)
    sitk.WriteImage(sitk.Cast(theirs, sitk.sitkVectorFloat32), path("their_inverse.nii.gz"))
    for name in ["inverse.nii.gz", "their_inverse.nii.gz"]:
        run("compose", "-t", warp, "-t", path(name), "-o", path("none.nii.gz"),
            "--fixed-geometry", f, "-q")
        d = np.linalg.norm(np.squeeze(values(path("none.nii.gz"))), axis=-1)
        print(f"warp, then {name}: mean {d.mean():.5f} mm, largest {d.max():.5f} mm")

    print("-- points, LPS mm")
    noise = np.random.default_rng(3)
    spread = noise.uniform(0.25, 0.75, (500, 3)) * np.array(image.shape)
    points = ((image.affine[:3, :3] @ spread.T).T + image.affine[:3, 3]) * LPS
    table = pd.DataFrame(points, columns=["x", "y", "z"])

    def carried(table, words):
        table.to_csv(path("p.csv"), index=False)
        run("apply", "-i", path("p.csv"), *words, "-o", path("q.csv"), "--point-convention", "lps",
            "-q")
        return pd.read_csv(path("q.csv"))[["x", "y", "z"]].to_numpy()

    def far(what, a, b):
        d = np.linalg.norm(np.asarray(a) - np.asarray(b), axis=1)
        print(f"{what}: largest distance {d.max():.6f} mm, mean {d.mean():.7f} mm", flush=True)

    theirs = lambda table, chain, invert=None: ants.apply_transforms_to_points(
        3, table, chain, whichtoinvert=invert)[["x", "y", "z"]].to_numpy()
    forward = ["-t", skew, "-t", warp, "-t", mat]
    there = carried(table, [*forward, "--points-from", "fixed"])
    far("fixed to moving, ANTsPy", theirs(table, [skew, warp, mat]), there)
    composite = sitk.CompositeTransform(3)
    for t in [affine, field[warp], field[skew]]:
        composite.AddTransform(t)
    far("fixed to moving, SimpleITK", [composite.TransformPoint(p) for p in points], there)
    moved = pd.DataFrame(there, columns=["x", "y", "z"])
    far("and back, here", carried(moved, forward), points)
    back = carried(moved, ["-t", warp, "-t", mat, "--inverse-warp", path("inverse.nii.gz")])
    far("moving to fixed with our inverse field, ANTsPy",
        theirs(moved, [mat, path("inverse.nii.gz")], [True, False]), back)

    print("-- ANTs' own registration, at 3 mm")
    small = {}
    for name, source in [("f", f), ("m", m)]:
        small[name] = path(f"small_{name}.nii.gz")
        ants.image_write(ants.resample_image(ants.image_read(source), (3, 3, 3)), small[name])
    found = ants.registration(ants.image_read(small["f"]), ants.image_read(small["m"]), "SyN",
                              random_seed=1, outprefix=path("syn_"))
    fwd, inv = found["fwdtransforms"], found["invtransforms"]
    print([os.path.basename(p) for p in fwd], [os.path.basename(p) for p in inv])
    warp3, mat3 = fwd
    inv3 = [p for p in inv if p.endswith(".nii.gz")][0]
    a, b = small["f"], small["m"]
    say("1Warp, 0GenericAffine", by_ants(a, b, fwd), ours(b, a, ["-t", warp3, "-t", mat3]))
    say("the inverse, with 1InverseWarp", by_ants(b, a, [mat3, inv3], [True, False]),
        ours(a, b, ["-t", f"inverse:{mat3}", "-t", inv3]))
    say("the inverse, 1Warp inverted here", by_ants(b, a, [mat3, inv3], [True, False]),
        ours(a, b, ["-t", f"inverse:{mat3}", "-t", f"inverse:{warp3}"]))
    _, said = run("invert", "-t", warp3, "-o", path("ours3.nii.gz"))
    print(said.strip())
    _, said = run("compare", "--transforms", path("ours3.nii.gz"), inv3, "--mask", small["f"])
    print("our inverse of 1Warp against 1InverseWarp:", " ".join(said.split()))
    there = theirs(table, fwd)
    far("points, fixed to moving", there,
        carried(table, ["-t", warp3, "-t", mat3, "--points-from", "fixed"]))
    moved = pd.DataFrame(there, columns=["x", "y", "z"])
    far("points, moving to fixed, with 1InverseWarp", theirs(moved, inv, [True, False]),
        carried(moved, ["-t", warp3, "-t", mat3, "--inverse-warp", inv3]))
    far("points, there and back: here", carried(moved, ["-t", warp3, "-t", mat3]), points)
    far("points, there and back: ANTsPy", theirs(moved, inv, [True, False]), points)

    print("-- two dimensions")
    flat = {}
    for name, source in [("f", f), ("m", m)]:
        whole = ants.image_read(source)
        flat[name] = path(f"flat_{name}.nii.gz")
        ants.image_write(ants.slice_image(whole, 2, whole.shape[2] // 2), flat[name])
    found = ants.registration(ants.image_read(flat["f"]), ants.image_read(flat["m"]), "SyN",
                              random_seed=1, outprefix=path("flat_"))
    warp2, mat2 = found["fwdtransforms"]
    a, b = flat["f"], flat["m"]
    out = ours(b, a, ["-t", warp2, "-t", mat2])
    say("1Warp, 0GenericAffine", by_ants(a, b, [warp2, mat2]), out)
    run("compose", "-t", warp2, "-t", mat2, "-o", path("all2.nii.gz"), "--fixed-geometry", a, "-q")
    run("invert", "-t", warp2, "-o", path("inverse2.nii.gz"), "-q")
    for name in ["all2.nii.gz", "inverse2.nii.gz"]:
        say(f"{name}, ANTsPy", by_ants(a, b, [path(name)]), ours(b, a, ["-t", path(name)]))


if __name__ == "__main__":
    main()
