#!/usr/bin/env python3
"""Chan and Vese's force on a made volume of blobs, by voxalign and by SimpleITK with as many threads.

    tools/compare_fronts.py VOXALIGN [SIZE] [THREADS]

The image has SIZE voxels along each axis (256), is that of `voxalign bench segment` but for its noise, and has to be divided at a known set. Both begin with balls of 16 voxels, 32 apart. Printed
are the seconds of the evolution (of SimpleITK of 20 iterations, which do not come to rest), and Dice with the known set. Needs numpy, SimpleITK.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import SimpleITK as sitk

WAVES = [((2, 1, 1), 0.3), ((1, -3, 2), 1.9), ((4, 2, -1), 4.4), ((-3, 4, 3), 2.7), ((5, 1, -4), 0.8), ((1, 6, 5), 5.1)]


def main():
    program = os.path.abspath(sys.argv[1])
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    threads = sys.argv[3] if len(sys.argv) > 3 else "2"
    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(int(threads))
    axis = np.arange(size, dtype=np.float32) / size
    z, y, x = np.meshgrid(axis, axis, axis, indexing="ij", sparse=True)
    sums = np.zeros((size,) * 3, np.float32)
    for (a, b, c), phase in WAVES:
        sums += np.cos(2 * np.pi * (a * x + b * y + c * z) + phase, dtype=np.float32)
    truth = sums > 0
    rng = np.random.default_rng(0)
    image = (100 / (1 + np.exp(-8 * sums)) + 12 * rng.standard_normal(sums.shape, dtype=np.float32)).astype(np.float32)
    del sums

    def report(name, seconds, found):
        dice = 2 * (found & truth).sum() / (found.sum() + truth.sum())
        print(f"{name:60s} {seconds:8.3f} s, Dice {dice:.4f}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "blobs.nii.gz")
        sitk.WriteImage(sitk.GetImageFromArray(image), path)
        for options in (["--curvature", "0"], []):
            out = os.path.join(folder, "out")
            start = ["--init-shape", "ball", "--init-size", "16", "--init-spacing", "32"]
            subprocess.run([program, "segment", path, "-o", out, "--no-report", "--no-surface", "--threads", threads, *start, *options],
                           capture_output=True, check=False)
            with open(os.path.join(out, "result.json")) as f:
                record = json.load(f)
            found = sitk.GetArrayFromImage(sitk.ReadImage(os.path.join(out, "labels.nii.gz"))) > 0
            report(f"voxalign {' '.join(options) or 'curvature 1'}, {record['iterations']} iterations, {record['ending']}", record["timings"]["evolve"], found)
    place = (np.arange(size) % 32 - 16) ** 2
    balls = (place[:, None, None] + place[None, :, None] + place[None, None, :]) <= 64
    phi = sitk.SignedMaurerDistanceMap(sitk.GetImageFromArray(balls.astype(np.uint8)), insideIsPositive=False, squaredDistance=False, useImageSpacing=True)
    phi, feature = sitk.Cast(phi, sitk.sitkFloat32), sitk.GetImageFromArray(image)
    begin = time.time()
    found = sitk.GetArrayFromImage(sitk.ScalarChanAndVeseDenseLevelSet(phi, feature, numberOfIterations=20, lambda1=1.0, lambda2=1.0, curvatureWeight=0.3)) < 0
    report("SimpleITK Chan-Vese, 20 iterations", time.time() - begin, found)


if __name__ == "__main__":
    main()
