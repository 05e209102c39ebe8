#!/usr/bin/env python3
"""Compares X-ray images of `voxalign drr` with those of plastimatch and DiffDRR: same attenuations, same geometry, no fitted factor.

    agreement_xray.py VOXALIGN CT.nii.gz ... [--diffdrr]

Needs SimpleITK, numpy and tifffile; plastimatch on the path; with --diffdrr, DiffDRR (torch on the CPU is enough). All programs get the
same attenuations (water 0.02/mm, what has at most -800 HU is air). Voxalign gets the projection matrix that plastimatch wrote, and the
source and the centres of pixels that DiffDRR's detector says. Plastimatch's lengths are cm: its values are multiplied by ten. DiffDRR
gets its density as it is, without its own conversion from HU; its trilinear rays (0.6.1) begin half a voxel late where a CT is not
air at the first voxels of an axis. Prints for two views and each pair of methods the correlation and the root mean square
difference, as a part of the root mean square of the other program's image.
"""
import argparse
import os
import subprocess
import tempfile

import numpy as np
import SimpleITK as sitk
import tifffile

AIR, WATER = -800.0, 0.02
RAYS = [["siddon"], ["joseph"], ["trilinear", "--step", "0.25"]]
PIXELS, WIDTH, NEAR, FAR = 256, 400.0, 1000.0, 1500.0
# Samples on each ray of DiffDRR's trilinear renderer: less than 0.25 mm apart in all CTs of less than 750 mm.
SAMPLES = 3000


def text(numbers):
    return " ".join("%.9g" % n for n in numbers)


def pfm(path):
    with open(path, "rb") as f:
        f.readline()
        width, height = map(int, f.readline().split())
        order = "<f4" if float(f.readline()) < 0 else ">f4"
        return np.frombuffer(f.read(), order).reshape(height, width).astype(np.float64)


def plastimatch(folder, attenuation, angle, method):
    """An image, and a file that says its geometry."""
    centre = attenuation.TransformContinuousIndexToPhysicalPoint([(n - 1) / 2 for n in attenuation.GetSize()])
    theta = np.deg2rad(angle)
    normal = [-np.cos(theta), -np.sin(theta), 0.0]
    command = ["plastimatch", "drr", "-t", "pfm", "-n", text(normal), "--vup", "0 0 1", "-r", f"{PIXELS} {PIXELS}"]
    command += ["-z", f"{WIDTH} {WIDTH}", "--sad", f"{NEAR}", "--sid", f"{FAR}", "-o", text(centre), "-P", "none", "-i", method]
    command += ["-I", f"{folder}/ct.mha", "-O", f"{folder}/p_"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return 10.0 * pfm(f"{folder}/p_0000.pfm"), f"{folder}/p_0000.txt"


def diffdrr(folder, attenuation, angle, method):
    """As `plastimatch`, with the same angles."""
    import torch
    from diffdrr.drr import DRR
    from diffdrr.pose import convert
    from torchio import ScalarImage, Subject

    # From indices to RAS, with the middle at the origin, as DiffDRR's reader puts it.
    ras = np.diag([-1.0, -1.0, 1.0])
    axes = ras @ np.array(attenuation.GetDirection()).reshape(3, 3) @ np.diag(attenuation.GetSpacing())
    middle = np.array([(n - 1) / 2 for n in attenuation.GetSize()])
    centre = ras @ attenuation.GetOrigin() + axes @ middle
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = axes, -axes @ middle
    values = torch.from_numpy(sitk.GetArrayFromImage(attenuation).transpose(2, 1, 0)[None].copy())
    # As its reader does for "AP": the C-arm, which looks along z, looks from the front to the back.
    front = torch.tensor([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
    image = ScalarImage(tensor=values, affine=affine)
    subject = Subject(volume=image, density=image, mask=None, fiducials=None, reorient=front, orientation="AP")
    drr = DRR(subject, sdd=FAR, height=PIXELS, delx=WIDTH / PIXELS, renderer=method, patch_size=64)
    turn, away = torch.tensor([[angle - 90.0, 0.0, 0.0]]), torch.tensor([[0.0, NEAR, 0.0]])
    pose = convert(turn, away, parameterization="euler_angles", convention="ZXY", degrees=True)
    with torch.no_grad():
        found = drr(pose, **({"n_points": SAMPLES} if method == "trilinear" else {}))[0, 0].double().numpy()
        source, target = (points[0].double().numpy() + centre for points in drr.detector(pose, None))
    target = target.reshape(PIXELS, PIXELS, 3)
    column = (target[:, -1] - target[:, 0]).mean(0) / (PIXELS - 1)
    row = (target[-1] - target[0]).mean(0) / (PIXELS - 1)
    origin = target.mean((0, 1)) - (PIXELS - 1) / 2 * (column + row)
    steps = np.arange(PIXELS)
    plane = origin + steps[:, None, None] * row + steps[None, :, None] * column
    assert np.abs(plane - target).max() < 1e-3, "pixels in a regular plane"
    view = {"source": source[0], "origin": origin, "column": column, "row": row}
    with open(f"{folder}/d.toml", "w") as f:
        f.write(f"[[view]]\nsize = [{PIXELS}, {PIXELS}]\n")
        f.writelines(f"{key} = {[float(x) for x in value]}\n" for key, value in view.items())
    return found, f"{folder}/d.toml"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("voxalign")
    parser.add_argument("cts", nargs="+", metavar="CT")
    parser.add_argument("--diffdrr", action="store_true", help="compare with DiffDRR as well")
    options = parser.parse_args()
    others = [("plastimatch", plastimatch, method) for method in ("exact", "uniform")]
    if options.diffdrr:
        others += [("diffdrr", diffdrr, method) for method in ("siddon", "trilinear")]
    print(f"{'CT':24} {'angle':>5} {'program':12} {'its rays':10} {'voxalign':10} {'correlation':>11} {'difference':>10}")
    for ct in options.cts:
        # Plastimatch wants axes without directions.
        image = sitk.DICOMOrient(sitk.ReadImage(ct), "LPS")
        hu = sitk.GetArrayFromImage(image).astype(np.float32)
        attenuation = sitk.GetImageFromArray(np.where(hu <= AIR, 0, np.maximum(0, WATER * (1 + hu / 1000))).astype(np.float32))
        attenuation.CopyInformation(image)
        with tempfile.TemporaryDirectory() as folder:
            sitk.WriteImage(attenuation, f"{folder}/ct.mha")
            for angle in (0, 90):
                for other, render, method in others:
                    theirs, geometry = render(folder, attenuation, angle, method)
                    for rays in RAYS:
                        command = [options.voxalign, "drr", f"{folder}/ct.mha", "-o", f"{folder}/v", "--geometry", geometry]
                        command += ["--size", f"{PIXELS},{PIXELS}", "--units", "attenuation", "--format", "tiff", "--no-report", "-q"]
                        subprocess.run(command + ["--rays"] + rays, check=True)
                        ours = tifffile.imread(f"{folder}/v/view1.tif").astype(np.float64)
                        correlation = np.corrcoef(ours.ravel(), theirs.ravel())[0, 1]
                        difference = np.sqrt(((ours - theirs) ** 2).mean() / (theirs**2).mean())
                        line = f"{os.path.basename(ct):24} {angle:5} {other:12} {method:10} {rays[0]:10}"
                        print(f"{line} {correlation:11.6f} {100 * difference:9.3f} %", flush=True)


if __name__ == "__main__":
    main()
