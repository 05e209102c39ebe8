#!/usr/bin/env python3
"""One start and many: grey matter on slices of brains, from a circle and from 3-voxel circles everywhere, with and without prior knowledge.

    tools/check_starts.py VOXALIGN DATA [PERSON,...]

Section 3.10 of Tornai's thesis (figure 3.11) has one such picture and no numbers. Here the force is the log odds of grey matter by the tissues that `segment --preset white-matter` finds in
the whole brain; prior knowledge is the grey matter of a slice 6 voxels above, blurred by 3 voxels, either as prior odds in the force or as a mask of the start. Needs numpy, scipy, SimpleITK.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import SimpleITK as sitk
from scipy import ndimage


def main():
    program, data = os.path.abspath(sys.argv[1]), sys.argv[2]
    people = sys.argv[3].split(",") if len(sys.argv) > 3 else ["1000", "1003", "1107"]
    dense = ["--init-shape", "ball", "--init-size", "3", "--init-spacing", "6"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)

        def segment(image, *options):
            done = subprocess.run([program, "segment", image, "-o", "out", "--no-report", "--no-surface", *options], capture_output=True, text=True)
            if done.returncode not in (0, 1):
                raise SystemExit(done.stderr)
            with open("out/result.json") as f:
                return sitk.GetArrayFromImage(sitk.ReadImage("out/labels.nii.gz")).squeeze() > 0, json.load(f)

        def write(name, array):
            sitk.WriteImage(sitk.GetImageFromArray(array.astype(np.float32)), name)

        for person in people:
            path = os.path.join(data, "brains_oasis_miccai2012", f"{person}_SS.nii.gz")
            image = sitk.ReadImage(path, sitk.sitkFloat32)
            up = np.abs(np.array(image.GetDirection()).reshape(3, 3)[2])
            axis = 2 - int(np.argmax(up))
            whole, tissues = sitk.GetArrayFromImage(image), sitk.GetArrayFromImage(sitk.ReadImage(path.replace("_SS", "_tissues")))
            at = whole.shape[axis] * 55 // 100
            s, grey = np.take(whole, at, axis), np.take(tissues, at, axis) == 2
            _, record = segment(path, "--preset", "white-matter")
            logs = [np.log(c["weight"]) - 0.5 * ((s - c["mean"]) / c["deviation"]) ** 2 for c in record["classes"]]
            force = np.logaddexp(logs[1], logs[2]) - np.logaddexp(logs[0], logs[3])
            prior = np.clip(ndimage.gaussian_filter((np.take(tissues, at + 6, axis) == 2).astype(float), 3), 0.02, 0.98)
            forces = {"force": force, "prior": force + np.log(prior / (1 - prior))}
            for name, values in forces.items():
                write(f"{name}.nii.gz", np.where(s > 0, values, -30))
            write("slice.nii.gz", s)
            write("mask.nii.gz", prior > 0.1)
            ys, xs = np.where(grey & (force > 0))
            first = np.argmin((ys - s.shape[0] * 0.5) ** 2 + (xs - s.shape[1] * 0.25) ** 2)
            circle = ["--init", "circle", "--init-size", "20", "--init-centre", f"{-xs[first]},{-ys[first]}"]
            for name, force, options in (
                ("a circle of 20 voxels", "force", circle), ("the same, prior in the force", "prior", circle), ("circles of 3 voxels everywhere", "force", dense),
                ("the same, prior in the force", "prior", dense), ("the same, within a prior mask", "force", [*dense, "--prior-mask", "mask.nii.gz"]), ("checkerboard", "force", []),
            ):
                found, record = segment("slice.nii.gz", "--force", "speed", "--speed", f"{force}.nii.gz", *options)
                both = (found & grey).sum()
                print(f"{person} {name:32s} Dice {2 * both / (found.sum() + grey.sum()):.3f} recall {both / grey.sum():.3f} precision {both / max(1, found.sum()):.3f} "
                      f"iterations {record['iterations']} of at most {record['start']['bound']}, {record['ending']}", flush=True)


if __name__ == "__main__":
    main()
