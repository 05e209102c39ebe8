#!/usr/bin/env python3
"""Exchanges results with SimpleITK and ANTsPy, in both directions, and prints how far the images differ.

    tools/check_round_trips.py FIXED MOVING [--program target/release/voxalign]

Needs numpy, nibabel, SimpleITK and antspyx. FIXED and MOVING are NIfTI files. Runs with the images as
they are and with the x axis of either stored backwards, so that every case of handedness of an FSL
matrix occurs; that matrix is checked by its published definition.
"""
import argparse
import os
import subprocess
import tempfile

import ants
import nibabel as nib
import numpy as np
import SimpleITK as sitk


def values(path):
    return np.asarray(nib.load(path).dataobj, np.float64)


def backwards(source, target):
    image = nib.load(source)
    affine = image.affine.copy()
    affine[:3, 3] += affine[:3, 0] * (image.shape[0] - 1)
    affine[:3, 0] *= -1
    out = nib.Nifti1Image(np.ascontiguousarray(np.asarray(image.dataobj)[::-1]), affine)
    out.set_qform(affine, 1)
    out.set_sform(affine, 1)
    nib.save(out, target)


def by_itk(fixed, moving, transform):
    read = lambda p: sitk.ReadImage(p, sitk.sitkFloat32)
    out = sitk.Resample(read(moving), read(fixed), transform, sitk.sitkLinear, 0.0)
    return sitk.GetArrayFromImage(out).transpose(2, 1, 0)


def by_ants(fixed, moving, transforms, interpolator="linear"):
    return ants.apply_transforms(ants.image_read(fixed), ants.image_read(moving), transforms,
                                 interpolator=interpolator).numpy()


def fsl_to_world(matrix, fixed, moving):
    """Fixed world to moving world of a FLIRT matrix: voxel times size, x flipped where the
    determinant is positive."""
    def geometry(path):
        image = nib.load(path)
        size = image.header.get_zooms()[:3]
        scale = np.diag([*size, 1.0])
        if np.linalg.det(image.affine) > 0:
            flip = np.eye(4)
            flip[0, 0], flip[0, 3] = -1, (image.shape[0] - 1) * size[0]
            scale = flip @ scale
        return image.affine, scale
    fa, fs = geometry(fixed)
    ma, ms = geometry(moving)
    return np.linalg.inv(fa @ np.linalg.inv(fs) @ matrix @ ms @ np.linalg.inv(ma))


def field(rng, dims):
    """A field on an oblique grid about the origin, every other one left-handed."""
    size = [int(v) for v in rng.integers(3, 9, dims)]
    axes = np.linalg.qr(rng.normal(size=(dims, dims)))[0]
    image = sitk.GetImageFromArray(rng.normal(size=[*size[::-1], dims]) * 2, isVector=True)
    image.SetDirection(axes.ravel())
    image.SetSpacing(rng.uniform(4, 12, dims))
    middle = (np.array(size) - 1) / 2
    image.SetOrigin(-(axes @ np.diag(image.GetSpacing()) @ middle) + rng.normal(size=dims) * 3)
    return sitk.DisplacementFieldTransform(image)


def linear(rng, dims):
    centre, shift = rng.normal(size=dims) * 20, rng.normal(size=dims) * 5
    kind = rng.integers(4)
    if kind == 0:
        return sitk.TranslationTransform(dims, shift)
    if kind == 1:
        affine = sitk.AffineTransform(dims)
        affine.SetMatrix((np.eye(dims) + rng.normal(size=(dims, dims)) * 0.2).ravel())
        affine.SetCenter(centre)
        affine.SetTranslation(shift)
        return affine
    if dims == 2:
        if kind == 2:
            return sitk.Euler2DTransform(centre, rng.normal(), shift)
        return sitk.Similarity2DTransform(rng.uniform(0.5, 2), rng.normal(), shift, centre)
    if kind == 2:
        return sitk.Euler3DTransform(centre, *rng.normal(size=3) * 0.7, shift)
    axis = rng.normal(size=3)
    return sitk.Similarity3DTransform(rng.uniform(0.5, 2), axis / np.linalg.norm(axis), rng.normal(),
                                      shift, centre)


def hdf5(run, path):
    """Writes composites of all kinds with SimpleITK, converts them, and has SimpleITK read both."""
    rng = np.random.default_rng(1)
    for dims in (3, 2):
        for name, fields, count in [("matrices", 0.0, 40), ("fields", 1.0, 20), ("both", 0.5, 40)]:
            largest = 0.0
            for parts in rng.integers(1, 13, count):
                one = lambda: (field if rng.random() < fields else linear)(rng, dims)
                sitk.WriteTransform(sitk.CompositeTransform([one() for _ in range(parts)]), path("a.h5"))
                run("convert", path("a.h5"), path("b.h5"))
                theirs, ours = sitk.ReadTransform(path("a.h5")), sitk.ReadTransform(path("b.h5"))
                for point in rng.normal(size=(50, dims)) * 20:
                    a = np.array(theirs.TransformPoint(point))
                    # A map of the plane without a field comes back as one of space.
                    b = np.array(ours.TransformPoint(np.resize([*point, 0.0], ours.GetDimension())))
                    largest = max(largest, np.abs(a - b[:dims]).max())
            print(f".h5 of {dims}D {name}, {count} composites: largest difference {largest:.1e} mm")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fixed")
    parser.add_argument("moving")
    parser.add_argument("--program", default="target/release/voxalign")
    args = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    path = lambda name: os.path.join(folder.name, name)
    run = lambda *words: subprocess.run([args.program, *words], check=True)
    say = lambda what, a, b: print(f"{what}: largest difference {np.abs(a - b).max():.5f}, mean "
                                   f"{np.abs(a - b).mean():.6f}, range {np.ptp(b):.0f}")
    backwards(args.fixed, path("f.nii.gz"))
    backwards(args.moving, path("m.nii.gz"))
    lps = np.diag([-1.0, -1.0, 1.0, 1.0])
    for name, f, m in [("as stored", args.fixed, args.moving),
                       ("moving backwards", args.fixed, path("m.nii.gz")),
                       ("fixed backwards", path("f.nii.gz"), args.moving)]:
        run("affine", f, m, "-o", path("out"), "--quiet", "--no-report")
        tfm = path("out/affine.tfm")
        warped = values(path("out/warped.nii.gz"))
        transform = sitk.ReadTransform(tfm)
        say(f"{name}, SimpleITK", by_itk(f, m, transform), warped)
        say(f"{name}, ANTsPy", by_ants(f, m, [tfm]), warped)
        p = np.array(transform.GetParameters())
        itk = np.vstack([np.column_stack([p[:9].reshape(3, 3), p[9:]]), [0, 0, 0, 1]])
        world = fsl_to_world(np.loadtxt(path("out/affine.fsl.mat")), f, m)
        print(f"{name}, FSL matrix: largest difference {np.abs(world - lps @ itk @ lps).max():.1e}")
    hdf5(run, path)
    f, m = args.fixed, args.moving
    both = ants.registration(ants.image_read(f), ants.image_read(m), "SyN", reg_iterations=(5, 0),
                             aff_iterations=(20, 0), aff_shrink_factors=(4, 2), random_seed=1,
                             aff_smoothing_sigmas=(2, 1), outprefix=path("both_"),
                             write_composite_transform=True)["fwdtransforms"]
    both = both if isinstance(both, str) else both[0]
    run("convert", both, path("again.h5"))
    say("ANTs composite .h5 converted, ANTsPy", by_ants(f, m, [path("again.h5")]), by_ants(f, m, [both]))
    found = ants.registration(ants.image_read(f), ants.image_read(m), "AffineFast", random_seed=1,
                              outprefix=path("ants_"))["fwdtransforms"][0]
    centre = nib.load(f).affine @ [*(np.array(nib.load(f).shape[:3]) / 2), 1]
    euler = sitk.Euler3DTransform(tuple(lps[:3, :3] @ centre[:3]), 0.1, -0.2, 0.3, (5, 6, 7))
    same = sitk.AffineTransform(3)
    same.SetMatrix(euler.GetMatrix())
    same.SetCenter(euler.GetCenter())
    same.SetTranslation(euler.GetTranslation())
    sitk.WriteTransform(euler, path("euler.tfm"))
    sitk.WriteTransform(same, path("same.mat"))
    for what, words, theirs in [
            ("ANTs .mat applied here", ["-t", found], lambda: by_ants(f, m, [found])),
            ("SimpleITK Euler applied here", ["-t", path("euler.tfm")],
             lambda: by_itk(f, m, euler)),
            ("ANTs composite .h5 applied here", ["-t", both], lambda: by_ants(f, m, [both])),
            ("two, in ANTs' order", ["-t", found, "-t", path("same.mat")],
             lambda: by_ants(f, m, [found, path("same.mat")]))]:
        run("apply", "-i", m, "-r", f, *words, "-o", path("out.nii.gz"), "--quiet")
        say(what, theirs(), values(path("out.nii.gz")))


if __name__ == "__main__":
    main()
