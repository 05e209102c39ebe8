#!/usr/bin/env python3
"""How far X-ray images of `voxalign drr` are from those of plastimatch: same attenuations, same geometry, no fitted factor.

    agreement_xray.py VOXALIGN CT.nii.gz ...

Needs plastimatch on the path, and SimpleITK, numpy and tifffile. Both programs get the same file of attenuations (water 0.02/mm,
what has at most -800 HU is air), and voxalign the projection matrix that plastimatch wrote. Plastimatch's lengths are cm: its
values are multiplied by ten. Prints for two views and each pair of methods the correlation and the root mean square difference, as a
part of the root mean square of plastimatch's image.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import SimpleITK as sitk
import tifffile

AIR, WATER = -800.0, 0.02
RAYS = [["siddon"], ["joseph"], ["trilinear", "--step", "0.25"]]


def pfm(path):
    with open(path, "rb") as f:
        f.readline()
        width, height = map(int, f.readline().split())
        order = "<f4" if float(f.readline()) < 0 else ">f4"
        return np.frombuffer(f.read(), order).reshape(height, width).astype(np.float64)


def plastimatch(folder, centre, angle, method):
    theta = np.deg2rad(angle)
    normal = [-np.cos(theta), -np.sin(theta), 0.0]
    text = lambda numbers: " ".join("%.9g" % n for n in numbers)
    command = ["plastimatch", "drr", "-t", "pfm", "-n", text(normal), "--vup", "0 0 1", "-r", "256 256", "-z", "400 400"]
    command += ["--sad", "1000", "--sid", "1500", "-o", text(centre), "-P", "none", "-i", method]
    command += ["-I", f"{folder}/ct.mha", "-O", f"{folder}/p_"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return 10.0 * pfm(f"{folder}/p_0000.pfm")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, cts = sys.argv[1], sys.argv[2:]
    print(f"{'CT':24} {'angle':>5} {'plastimatch':12} {'voxalign':10} {'correlation':>11} {'difference':>10}")
    for ct in cts:
        # Plastimatch wants axes without directions.
        image = sitk.DICOMOrient(sitk.ReadImage(ct), "LPS")
        hu = sitk.GetArrayFromImage(image).astype(np.float32)
        attenuation = sitk.GetImageFromArray(np.where(hu <= AIR, 0, np.maximum(0, WATER * (1 + hu / 1000))).astype(np.float32))
        attenuation.CopyInformation(image)
        centre = image.TransformContinuousIndexToPhysicalPoint([(n - 1) / 2 for n in image.GetSize()])
        with tempfile.TemporaryDirectory() as folder:
            sitk.WriteImage(attenuation, f"{folder}/ct.mha")
            for angle in (0, 90):
                for method in ("exact", "uniform"):
                    theirs = plastimatch(folder, centre, angle, method)
                    for rays in RAYS:
                        command = [program, "drr", f"{folder}/ct.mha", "-o", f"{folder}/v", "--geometry", f"{folder}/p_0000.txt"]
                        command += ["--size", "256,256", "--units", "attenuation", "--format", "tiff", "--no-report", "-q", "--rays"]
                        subprocess.run(command + rays, check=True)
                        ours = tifffile.imread(f"{folder}/v/view1.tif").astype(np.float64)
                        correlation = np.corrcoef(ours.ravel(), theirs.ravel())[0, 1]
                        difference = np.sqrt(((ours - theirs) ** 2).mean() / (theirs**2).mean())
                        name = os.path.basename(ct)
                        print(f"{name:24} {angle:5} {method:12} {rays[0]:10} {correlation:11.6f} {100 * difference:9.3f} %", flush=True)


if __name__ == "__main__":
    main()
