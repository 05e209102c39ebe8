#!/usr/bin/env python3
"""Runs the presets of `voxalign segment` on images that they are for and on others, and counts verdicts.

    tools/check_presets.py VOXALIGN DATA [--only white-matter|head|bone] [--wrong] [--peers NAME,...]

VOXALIGN is the program, DATA the folder of real images. White matter of all brains is compared with their tissue maps (class 3); bone of a head CT with noise
with that of the image without, above 300 HU, which is a check of noise alone; whole heads with tissue maps that are brought onto them by a rigid registration. --wrong gives presets
images that they are not for. --peers gives these people also to scikit-image and SimpleITK, on every second voxel. Needs numpy, scipy, SimpleITK; peers need
scikit-image. A line an image, with CPU seconds of the whole program.
"""
import argparse
import glob
import json
import os
import resource
import subprocess
import tempfile
import time

import numpy as np
import SimpleITK as sitk
from scipy import ndimage

BRAINS = "brains_oasis_miccai2012"


def dice(a, b):
    both = a.sum() + b.sum()
    return 2.0 * (a & b).sum() / both if both else float("nan")


class Program:
    def __init__(self, path):
        self.path = path

    def run(self, image, *options):
        """Segments; gives the labels, the record and the CPU seconds."""
        with tempfile.TemporaryDirectory() as folder:
            path = image
            if not isinstance(image, str):
                path = os.path.join(folder, "image.nii.gz")
                sitk.WriteImage(image, path)
            out = os.path.join(folder, "out")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run([self.path, "segment", path, "-o", out, "--no-surface", "--no-report", "--device", "cpu", *options],
                                  capture_output=True, text=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if done.returncode not in (0, 1):
                return None, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "?", seconds
            with open(os.path.join(out, "result.json")) as f:
                record = json.load(f)
            labels = sitk.GetArrayFromImage(sitk.ReadImage(os.path.join(out, "labels.nii.gz"))) > 0
            return labels, record, seconds


def line(name, right, labels, record, seconds, of=None):
    """Prints a result; gives whether its verdict is the right one."""
    if labels is None:
        print(f"{name:28s} refused: {record[:140]}", flush=True)
        return not right
    verdict = record["verdict"]
    preset = record.get("preset", {})
    own = " ".join(f"{k} {v:.3g}" for k, v in preset.items() if isinstance(v, float))
    held = next((r["evidence"]["held_out"] for r in record["regions"] if r.get("evidence") and r["evidence"].get("held_out")), {})
    own += "".join(f" {k} {v:.2f}" for k, v in held.items() if v is not None)
    failed = "; ".join(f"{c['name']} {c['value']}" for c in verdict["checks"] if not c["passed"])
    agreement = record.get("agreement") or float("nan")
    text = "good" if verdict["good"] else "BAD"
    print(f"{name:28s} {text:4s} {'' if of is None else f'Dice {of:.4f} '}{record['iterations']:3d} its {record['ending']:9s} start {agreement:.3f} "
          f"{own} CPU {seconds:.1f} s{' | ' + failed if failed else ''}", flush=True)
    return verdict["good"] == right


def white_matter(program, data, counts):
    all_dice, worst = [], 1.0
    for path in sorted(glob.glob(os.path.join(data, BRAINS, "*_SS.nii.gz"))):
        name = os.path.basename(path)[:4]
        truth = sitk.GetArrayFromImage(sitk.ReadImage(path.replace("_SS", "_tissues"))) == 3
        labels, record, seconds = program.run(path, "--preset", "white-matter")
        of = dice(labels, truth) if labels is not None else 0.0
        all_dice.append(of)
        counts[line(name, True, labels, record, seconds, of)] += 1
    print(f"white matter of {len(all_dice)} people: mean Dice {np.mean(all_dice):.4f}, least {min(all_dice):.4f}")


def head(program, data, counts):
    for name in ("1000", "1001"):
        path = os.path.join(data, BRAINS, f"{name}_fullhead_2mm.nii.gz")
        fixed = sitk.ReadImage(path, sitk.sitkFloat32)
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out")
            brain = os.path.join(data, BRAINS, f"{name}_SS.nii.gz")
            subprocess.run([program.path, "affine", path, brain, "-o", out, "--dof", "6", "--no-report"], capture_output=True)
            moved = os.path.join(folder, "moved.nii.gz")
            subprocess.run([program.path, "apply", "-i", brain.replace("_SS", "_tissues"), "-r", path, "-t", os.path.join(out, "affine.tfm"),
                            "--interpolation", "nearest", "-o", moved], capture_output=True)
            tissues = sitk.GetArrayFromImage(sitk.ReadImage(moved))
        labels, record, seconds = program.run(path, "--preset", "white-matter-head")
        of = dice(labels, tissues == 3) if labels is not None else 0.0
        counts[line(f"head {name}", True, labels, record, seconds, of)] += 1
        if labels is not None:
            outside = labels & ~ndimage.binary_dilation(tissues > 0)
            volume = np.prod(fixed.GetSpacing()) / 1000
            print(f"    {labels.sum() * volume:.0f} ml, of it {outside.sum() * volume:.1f} ml more than a voxel away from the brain")


def bone(program, data, counts):
    whole = sitk.ReadImage(os.path.join(data, "ct_head_invesalius", "cranium_ct.nii.gz"), sitk.sitkFloat32)
    array = sitk.GetArrayFromImage(whole)
    truth = array > 300
    rng = np.random.default_rng(0)
    for noise in (0, 50, 100):
        image = sitk.GetImageFromArray((array + noise * rng.normal(size=array.shape)).astype(np.float32))
        image.CopyInformation(whole)
        labels, record, seconds = program.run(image, "--preset", "bone")
        counts[line(f"head CT, noise {noise}", True, labels, record, seconds, dice(labels, truth))] += 1
        if noise:
            print(f"    plain threshold: Dice {dice(sitk.GetArrayFromImage(image) > 300, truth):.4f}")
    for name in sorted(glob.glob(os.path.join(data, "lung_4dct_plastimatch", "t0*"))) + sorted(glob.glob(os.path.join(data, "lung_ct_elastix", "*CT*")))[:1]:
        labels, record, seconds = program.run(name, "--preset", "bone")
        counts[line(os.path.basename(name), True, labels, record, seconds)] += 1
    # Bones of a wrist that have been cut out: stacks of 12 bits, of which 1024 is water.
    for name in sorted(glob.glob(os.path.join(data, "ct_xray_wrist_autoscoper", "Models", "*.tif"))):
        image = sitk.ReadImage(name, sitk.sitkFloat32) - 1024
        image.SetSpacing([0.39625, 0.39625, 0.625])
        labels, record, seconds = program.run(image, "--preset", "bone")
        counts[line(os.path.basename(name), True, labels, record, seconds)] += 1


def masked(reference, array):
    image = sitk.GetImageFromArray(array.astype(np.float32))
    image.CopyInformation(reference)
    return image


def wrong(program, data, counts):
    rng = np.random.default_rng(1)
    for name in ("1001", "1107"):
        whole = sitk.ReadImage(os.path.join(data, BRAINS, f"{name}_SS.nii.gz"), sitk.sitkFloat32)
        whole = sitk.Shrink(whole, [2, 2, 2])
        x = sitk.GetArrayFromImage(whole)
        m = x > 0
        blurred = ndimage.gaussian_filter(rng.normal(size=x.shape), 2)
        ramp = np.linspace(0, 1, x.shape[0])[:, None, None]
        made = {
            "inverted": x[m].max() * 1.05 - x,
            "noise": np.maximum(1, 1000 + 200 * rng.normal(size=x.shape)),
            "smooth noise": 1000 + 200 * blurred / blurred.std(),
            "ramp": 500 + 1000 * ramp + 20 * rng.normal(size=x.shape),
            "flat": 1000 + 0.5 * rng.normal(size=x.shape),
            "like T2": np.interp(x, [0, 500, 1000, 1400, 3000], [2000, 1900, 1000, 700, 600]) + 30 * rng.normal(size=x.shape),
            "like FLAIR": np.interp(x, [0, 500, 1000, 1400, 3000], [100, 200, 1100, 900, 850]) + 30 * rng.normal(size=x.shape),
        }
        for kind, array in made.items():
            for preset in ("white-matter", "white-matter-head", "bone"):
                labels, record, seconds = program.run(masked(whole, np.where(m, array, 0)), "--preset", preset)
                counts[line(f"{name} {kind}, {preset[:17]}", False, labels, record, seconds)] += 1
        for preset in ("white-matter-head", "bone"):
            labels, record, seconds = program.run(whole, "--preset", preset)
            counts[line(f"{name} brain, {preset}", preset == "white-matter-head", labels, record, seconds)] += 1
    # What is around the image says nothing about its units.
    head = sitk.ReadImage(os.path.join(data, BRAINS, "1000_fullhead_2mm.nii.gz"), sitk.sitkFloat32)
    x = sitk.GetArrayFromImage(head)
    ct = sitk.ReadImage(os.path.join(data, "ct_head_invesalius", "cranium_ct.nii.gz"), sitk.sitkFloat32)
    y = sitk.GetArrayFromImage(ct)
    brain = sitk.ReadImage(os.path.join(data, BRAINS, "1001_SS.nii.gz"), sitk.sitkFloat32)
    b = sitk.GetArrayFromImage(brain)
    yy, xx = np.mgrid[:y.shape[1], :y.shape[2]]
    field = (2 * xx / y.shape[2] - 1) ** 2 + (2 * yy / y.shape[1] - 1) ** 2 < 1
    for name, image in (
        ("MR, background -1024", masked(head, np.where(x > 50, x, -1024))),
        ("MR of a brain, background -1024", masked(brain, np.where(b > 0, b, -1024))),
        ("MR of a brain, twice as bright", masked(brain, np.where(b > 0, 2 * b, -1024))),
        ("MR less 1024", masked(head, x - 1024)),
        ("CT without intercept", masked(ct, np.where(field, y + 1024, -2000))),
        ("CT, 0 to 4095", masked(ct, np.clip(y + 1024, 0, 4095))),
    ):
        labels, record, seconds = program.run(image, "--preset", "bone")
        counts[line(f"{name}, bone", False, labels, record, seconds)] += 1
    others = {
        "white-matter": ["heart_acdc/*ed*.nii*", "lung_mri/*.nii*", "ct_head_invesalius/*.nii*", "contrasts_ms/*T2W*", "contrasts_ms/*FLAIR*", f"{BRAINS}/1000_fullhead*",
                         "templates_mni2mm/avg152T2*", "phantom_rigid/*.nii*"],
        "white-matter-head": ["heart_acdc/*ed*.nii*", "lung_mri/*.nii*", "ct_head_invesalius/*.nii*", "contrasts_ms/*T2W*", "contrasts_ms/*FLAIR*", "lung_4dct_plastimatch/t0*",
                              "templates_mni2mm/avg152T2*", "templates_mni2mm/avg152PD*", "phantom_rigid/*.nii*"],
        "bone": ["heart_acdc/*ed*.nii*", "lung_mri/*.nii*", f"{BRAINS}/1000_fullhead*", "contrasts_ms/*T1W*", "phantom_rigid/*.nii*"],
    }
    for preset, patterns in others.items():
        for pattern in patterns:
            for path in sorted(p for p in glob.glob(os.path.join(data, pattern)) if "mask" not in p and "label" not in p)[:1]:
                labels, record, seconds = program.run(path, "--preset", preset)
                counts[line(f"{os.path.basename(path)[:18]}, {preset}", False, labels, record, seconds)] += 1


def peers(program, data, names):
    """The preset, and scikit-image and SimpleITK from Otsu's threshold in the brain, on every second voxel; means at the end."""
    from skimage.filters import threshold_otsu
    from skimage.segmentation import morphological_chan_vese

    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
    all_of = {}
    for name in names:
        path = os.path.join(data, BRAINS, f"{name}_SS.nii.gz")
        x = np.ascontiguousarray(sitk.GetArrayFromImage(sitk.ReadImage(path, sitk.sitkFloat32))[::2, ::2, ::2])
        truth = sitk.GetArrayFromImage(sitk.ReadImage(path.replace("_SS", "_tissues")))[::2, ::2, ::2] == 3
        m = x > 0
        start = x > threshold_otsu(x[m])
        scaled = np.where(m, x, x[m].mean() * 0.6) / x.max()

        def run(what, of):
            begin = time.process_time()
            found = of().astype(bool) & m
            keep(what, dice(found, truth), time.process_time() - begin)

        def keep(what, of, seconds):
            all_of.setdefault(what, []).append((of, seconds))
            print(f"{name} {what:36s} Dice {of:.4f} CPU {seconds:.2f} s", flush=True)

        labels, _, seconds = program.run(sitk.GetImageFromArray(x), "--preset", "white-matter")
        keep("voxalign, the whole program", dice(labels, truth), seconds)

        run("Otsu", lambda: start)
        run("scikit-image morphological Chan-Vese", lambda: morphological_chan_vese(scaled.astype(np.float32), 20, init_level_set=start.astype(np.int8), smoothing=1))
        image = sitk.GetImageFromArray(x / np.float32(x.max()) * 1000)
        binary = sitk.GetImageFromArray(start.astype(np.uint8))
        phi = sitk.Cast(sitk.SignedMaurerDistanceMap(binary, insideIsPositive=False, squaredDistance=False, useImageSpacing=True), sitk.sitkFloat32)
        smooth = sitk.CurvatureAnisotropicDiffusion(image, timeStep=0.03, conductanceParameter=2.0, numberOfIterations=5)
        low, high = (float(v) for v in np.percentile(sitk.GetArrayFromImage(smooth)[start], [2, 99.5]))
        run("SimpleITK threshold level set", lambda: sitk.GetArrayFromImage(sitk.ThresholdSegmentationLevelSet(
            phi, smooth, lowerThreshold=low, upperThreshold=high, curvatureScaling=0.5, propagationScaling=1.0, maximumRMSError=0.005, numberOfIterations=100)) < 0)
        run("SimpleITK Chan-Vese", lambda: sitk.GetArrayFromImage(sitk.ScalarChanAndVeseDenseLevelSet(
            phi, smooth, numberOfIterations=30, lambda1=1.0, lambda2=1.0, curvatureWeight=0.3)) > 0)
        edges = sitk.Cast(sitk.BoundedReciprocal(sitk.GradientMagnitudeRecursiveGaussian(smooth, sigma=1.0) / 30.0), sitk.sitkFloat32)
        run("SimpleITK geodesic active contour", lambda: sitk.GetArrayFromImage(sitk.GeodesicActiveContourLevelSet(
            phi, edges, propagationScaling=0.5, curvatureScaling=1.0, advectionScaling=3.0, maximumRMSError=0.005, numberOfIterations=80)) < 0)
    for what, values in all_of.items():
        dices, seconds = zip(*values)
        print(f"mean of {len(dices)}: {what:36s} Dice {np.mean(dices):.4f}, least {min(dices):.4f}, CPU {np.mean(seconds):.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--only", choices=["white-matter", "head", "bone", "none"])
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--peers", default="")
    asked = parser.parse_args()
    program = Program(os.path.abspath(asked.program))
    counts = {True: 0, False: 0}
    for name, of in (("white-matter", white_matter), ("head", head), ("bone", bone)):
        if asked.only in (None, name):
            of(program, asked.data, counts)
    if asked.wrong:
        wrong(program, asked.data, counts)
    if asked.peers:
        peers(program, asked.data, asked.peers.split(","))
    print(f"verdicts: {counts[True]} right, {counts[False]} wrong")


if __name__ == "__main__":
    main()
