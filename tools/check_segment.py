#!/usr/bin/env python3
"""Segments images that show something and images that show nothing, and counts verdicts.

    tools/check_segment.py VOXALIGN DATA [--options "--force chan-vese"] [--only right|wrong] [--match TEXT]

VOXALIGN is the program, DATA the folder of real images. Right ones are images of DATA as they are, thinned to about two million voxels,
and some with noise; wrong ones are made: white noise of several kinds, constants with noise, ramps, vignettes, smooth noise, real images whose phases are
random (same spectrum), and real images drowned in noise. Needs numpy, scipy, SimpleITK. A line an image: the verdict, and the evidence; at the end the counts of both errors.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import SimpleITK as sitk
from scipy import ndimage

MOST = 2_000_000


def thinned(image):
    array = sitk.GetArrayFromImage(image).astype(np.float32)
    array = np.squeeze(array)
    if array.ndim == 3 and array.shape[-1] in (3, 4) and array.shape[0] > 16:
        array = array[..., :3].mean(-1)
    if array.ndim == 4:
        array = array[0]
    while array.size > MOST:
        array = array[tuple(slice(None, None, 2) if n > 32 else slice(None) for n in array.shape)]
    return np.nan_to_num(np.ascontiguousarray(array))


def real(data):
    """Names and arrays of one or two images of each kind."""
    wanted = [
        "brains_oasis_miccai2012/1000_SS.nii.gz", "brains_oasis_miccai2012/1107_SS.nii.gz",
        "brains_oasis_miccai2012/1000_fullhead_2mm.nii.gz", "templates_mni2mm", "templates_mni1mm_nilearn",
        "contrasts_ms", "heart_acdc", "lung_ct_elastix", "lung_4dct_plastimatch", "lung_mri", "phantom_rigid",
        "atlas3d_msd_hippocampus", "histology_cc10_16Mpx", "histology_birl", "multimodal_brainweb_known_transform", "multimodal_rniftyreg",
        "multimodal_tcga_lgg", "atlas2d_oasis_trt20_slices", "atlas2d_oasis_mermaid", "ct_head_invesalius", "ct_xray_wrist_autoscoper", "multimodal_chris",
    ]
    skip = ("mask", "label", "seg", "_glm", "_tissues", "_gt", "atlas_", "landmark")
    endings = (".nii.gz", ".nii", ".nrrd", ".mha", ".mhd", ".png", ".tif", ".jpg", ".inv3")
    for name in wanted:
        path = os.path.join(data, name)
        files = [path]
        if os.path.isdir(path):
            files = sorted(os.path.join(r, f) for r, _, fs in os.walk(path) for f in fs
                           if f.endswith(endings) and not any(s in f.lower() for s in skip))
            files = [files[0], files[len(files) // 2]] if len(files) > 1 else files
        for file in files:
            try:
                array = thinned(sitk.ReadImage(file))
            except RuntimeError:
                continue
            if array.ndim in (2, 3) and array.std() > 0:
                yield os.path.relpath(file, data), array


def nothing(data):
    random = np.random.default_rng(1)
    for shape in [(256, 240), (72, 80, 64)]:
        dims = f"{len(shape)}D"
        grid = np.meshgrid(*[np.linspace(-1, 1, n) for n in shape], indexing="ij")
        radius = sum(g * g for g in grid)
        normal = random.standard_normal(shape)
        yield f"{dims} normal noise", 100 + 10 * normal
        yield f"{dims} uniform noise", random.uniform(0, 100, shape)
        yield f"{dims} exponential noise", random.exponential(50, shape)
        yield f"{dims} Rician noise", np.hypot(10 * normal, 10 * random.standard_normal(shape))
        yield f"{dims} whole Poisson noise", random.poisson(3, shape)
        yield f"{dims} ramp", 100 * grid[0] + 30 * grid[1] + 0.5 * normal
        yield f"{dims} ramp and noise", 100 * grid[0] + 20 * normal
        yield f"{dims} vignette", 100 * np.exp(-radius) + normal
        yield f"{dims} wave and noise", 10 * np.sin(3 * grid[0]) + 30 * normal
        for sigma in (1, 2, 4):
            smooth = ndimage.gaussian_filter(random.standard_normal(shape), sigma)
            yield f"{dims} noise blurred by {sigma}", 100 * smooth / smooth.std()
            yield f"{dims} noise blurred by {sigma}, and noise", smooth / smooth.std() + 0.5 * normal
    for name, array in real(data):
        phase = np.angle(np.fft.rfftn(np.random.default_rng(2).standard_normal(array.shape)))
        made = np.fft.irfftn(np.abs(np.fft.rfftn(array - array.mean())) * np.exp(1j * phase), s=array.shape)
        yield f"random phases of {name}", made
        yield f"drowned {name}", array + 8 * array.std() * random.standard_normal(array.shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--options", default="")
    parser.add_argument("--only", choices=["right", "wrong"])
    parser.add_argument("--match", default="")
    a = parser.parse_args()
    program = os.path.realpath(a.program)
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, images in [("right", real(a.data)), ("wrong", nothing(a.data))]:
            if a.only not in (None, kind):
                continue
            for name, array in images:
                if a.match not in name:
                    continue
                path, out = os.path.join(folder, "image.nii.gz"), os.path.join(folder, "out")
                sitk.WriteImage(sitk.GetImageFromArray(array.astype(np.float32)), path)
                command = [program, "segment", path, "-o", out, "--no-surface", "--no-report", "-q", *a.options.split()]
                run = subprocess.run(command, capture_output=True, text=True)
                if run.returncode not in (0, 1):
                    print(f"{kind} {name}: {run.stderr.strip()}", flush=True)
                    counts[kind, "refused"] = counts.get((kind, "refused"), 0) + 1
                    continue
                with open(os.path.join(out, "result.json"), encoding="utf-8") as file:
                    record = json.load(file)
                good = record["verdict"]["good"]
                counts[kind, "good" if good else "bad"] = counts.get((kind, "good" if good else "bad"), 0) + 1
                failed = [c["name"] for c in record["verdict"]["checks"] if not c["passed"]]
                held = (record["regions"][1].get("evidence") or {}).get("held_out") or {}
                number = lambda v: "-" if v is None else f"{v:.3f}"
                print(f"{'good' if good else 'BAD '} {kind} {name}: held out {number(held.get('contrast'))} share {number(held.get('share'))} "
                      f"eta {number(held.get('separation'))} other start {number(record.get('agreement'))} iterations {record['iterations']} "
                      f"{record['ending']} {'; '.join(failed)}", flush=True)
    for (kind, what), count in sorted(counts.items()):
        print(f"{kind} called {what}: {count}")
    sys.exit(0)


if __name__ == "__main__":
    main()
