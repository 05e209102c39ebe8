#!/usr/bin/env python3
"""Judges an elastic registration from files alone: against a known displacement, or by distances of edges.

    tools/check_elastic.py truth FIXED MOVING MASK TRUE [--warp WARP]
    tools/check_elastic.py edges FIXED MOVING MASK [--warp WARP]

Needs numpy, scipy and SimpleITK. FIXED, MASK (the tissue, or the brain), TRUE and WARP have one grid. TRUE and WARP
are displacements from fixed to moving points as `voxalign deform --outputs composite` and tools/make_breast.py write
them; without WARP only what holds before a registration is printed. Prints JSON:

truth: the distance between WARP and TRUE over the mask (mean, median, 95 %), in mm and in voxels (mm over the cube
  root of a voxel of the fixed image); SSD, the mean squared difference of the images over the mask, before, after, and
  by the true displacement: that is the floor of noise and of the resampling, and `fall` is the part of the SSD above
  it that is gone (above 1 it has followed the noise). Where the images have different contrasts only the errors mean
  something.
edges: the distance between the edges of FIXED and those of MOVING on the fixed grid, each edge voxel to the nearest of
  the other image (mean and 95 %, mm), both ways and their mean. Both images are clipped to the 1st and 99th
  percentile in the mask, less their mean and divided by their standard deviation in a Gaussian window of 10 mm, so that
  contrasts and shading count little. Edges are Canny's: a Gaussian of --sigma mm, voxels at which the gradient is largest
  along its own direction, those of the --part of all voxels in the mask with the largest gradients, and what hangs
  together with them down to half of that threshold. Only edges more than 2 sigma within the mask count. The random
  distance is that to the edges of the fixed image mirrored left to right: what edges that have nothing in common leave.
Both: the smallest Jacobian determinant of WARP over the mask, and how many voxels have one of 0 or less.
"""
import argparse
import json

import numpy as np
import SimpleITK as sitk
from scipy import ndimage


def same_grid(a, b, what):
    fits = a.GetSize() == b.GetSize() and all(
        np.allclose(f(a), f(b), atol=1e-3) for f in (sitk.Image.GetOrigin, sitk.Image.GetSpacing, sitk.Image.GetDirection))
    if not fits:
        raise SystemExit(f"{what} is not on the grid of the fixed image")


def read_warp(path, fixed):
    warp = sitk.ReadImage(path, sitk.sitkVectorFloat64)
    same_grid(warp, fixed, path)
    return warp


def resampled(moving, fixed, warp):
    transform = sitk.DisplacementFieldTransform(sitk.Image(warp)) if warp else sitk.Transform(3, sitk.sitkIdentity)
    return sitk.Resample(moving, fixed, transform, sitk.sitkLinear, 0.0, sitk.sitkFloat64)


def array(image):
    return sitk.GetArrayFromImage(image)


def jacobian(warp, mask):
    J = array(sitk.DisplacementFieldJacobianDeterminant(warp))[mask]
    return {"smallest": float(J.min()), "folded voxels": int((J <= 0).sum())}


def spread(values):
    return {"mean": float(values.mean()), "median": float(np.median(values)), "95 %": float(np.quantile(values, 0.95))}


def truth(args, fixed, moving, mask):
    true = read_warp(args.true, fixed)
    voxel = float(np.prod(fixed.GetSpacing())) ** (1 / 3)

    def errors(warp):
        by = array(true) - (array(warp) if warp else 0)
        error = np.linalg.norm(by, axis=-1)[mask]
        return {"mm": spread(error), "voxels": spread(error / voxel)}

    def ssd(warp):
        return float(((array(resampled(moving, fixed, warp)) - array(fixed))[mask] ** 2).mean())

    before, floor = ssd(None), ssd(true)
    result = {"error before": errors(None), "ssd before": before, "ssd floor": floor,
              "true jacobian": jacobian(true, mask)}
    if args.warp:
        warp = read_warp(args.warp, fixed)
        after = ssd(warp)
        result |= {"error after": errors(warp), "ssd after": after, "fall": (before - after) / (before - floor),
                   "jacobian": jacobian(warp, mask)}
    return result


def levelled(values, spacing, mask):
    """Without shading, and with about the same contrast everywhere in the mask."""
    values = np.clip(values, *np.quantile(values[mask], [0.01, 0.99]))
    blur = lambda v: ndimage.gaussian_filter(v * mask, 10 / spacing)
    weight = np.maximum(blur(np.ones_like(values)), 1e-6)
    mean = blur(values) / weight
    variance = np.maximum(blur(values**2) / weight - mean**2, 0)
    return (values - mean) / np.sqrt(variance + (0.05 * values[mask].std()) ** 2 + 1e-12)


def edges(values, spacing, mask, sigma, part):
    """Voxels of the edges of an image, and only those in the mask."""
    smooth = ndimage.gaussian_filter(values, sigma / spacing)
    slope = np.stack(np.gradient(smooth, *spacing))
    size = np.linalg.norm(slope, axis=0)
    step = slope / np.maximum(size, 1e-12) * (spacing.min() / spacing)[:, None, None, None]
    at = np.indices(values.shape)
    ahead, behind = (ndimage.map_coordinates(size, at + sign * step, order=1, mode="nearest") for sign in (1, -1))
    crest = (size >= ahead) & (size > behind) & mask
    strong = np.quantile(size[mask], 1 - part)
    groups, _ = ndimage.label(crest & (size >= strong / 2), np.ones((3, 3, 3)))
    kept = np.unique(groups[crest & (size >= strong)])
    return np.isin(groups, kept[kept > 0])


def distances(a, b, spacing):
    """From the edges of each image to those of the other."""
    result = {}
    for name, one, other in (("fixed to moving", a, b), ("moving to fixed", b, a)):
        d = ndimage.distance_transform_edt(~other, sampling=spacing)[one]
        result[name] = {"mean": float(d.mean()), "95 %": float(np.quantile(d, 0.95))}
    result["mean of both"] = float(np.mean([result[n]["mean"] for n in ("fixed to moving", "moving to fixed")]))
    return result


def brain(args, fixed, moving, mask):
    spacing = np.array(fixed.GetSpacing())[::-1]
    inner = ndimage.distance_transform_edt(mask, sampling=spacing) > 2 * args.sigma
    find = lambda values: edges(levelled(values, spacing, mask), spacing, inner, args.sigma, args.part)
    reference = find(array(fixed))
    compare = lambda warp: distances(reference, find(array(resampled(moving, fixed, warp))), spacing)
    mirrored = reference[:, :, ::-1] & inner
    result = {"edge voxels": int(reference.sum()), "before": compare(None),
              "random": distances(reference, mirrored, spacing)["mean of both"]}
    if args.warp:
        warp = read_warp(args.warp, fixed)
        result |= {"after": compare(warp), "jacobian": jacobian(warp, mask)}
    return result


def rounded(value):
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["truth", "edges"])
    parser.add_argument("fixed")
    parser.add_argument("moving")
    parser.add_argument("mask")
    parser.add_argument("true", nargs="?", help="the true displacement, for truth")
    parser.add_argument("--warp", help="the displacement to judge")
    parser.add_argument("--sigma", type=float, default=2.0, help="mm, for edges")
    parser.add_argument("--part", type=float, default=0.1, help="for edges")
    args = parser.parse_args()
    if (args.what == "truth") != (args.true is not None):
        parser.error("truth needs the true displacement, edges does without")
    fixed, moving = (sitk.ReadImage(p, sitk.sitkFloat64) for p in (args.fixed, args.moving))
    mask = sitk.ReadImage(args.mask)
    same_grid(mask, fixed, args.mask)
    judge = truth if args.what == "truth" else brain
    print(json.dumps(rounded(judge(args, fixed, moving, array(mask) > 0)), indent=1))


if __name__ == "__main__":
    main()
