#!/usr/bin/env python3
"""Overlap of anatomical labels after `voxalign affine`, for pairs of labelled brains.

    tools/accuracy.py --data FOLDER [--program target/release/voxalign] [--costs cr,nmi,...]

FOLDER holds ID_SS.nii.gz (brain) and ID_glm.nii.gz (labels) of every person. Labels of 4 and above
with more than 50 voxels in both maps count; they are resampled by nearest neighbour with the
transform that was found from the images alone. Prints a Markdown table.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

PAIRS = ["1000<-1001", "1003<-1006", "1007<-1128", "1008<-1113", "1116<-1122", "1003<-1023",
         "1004<-1024"]


def cpu_seconds():
    usage = __import__("resource").getrusage(__import__("resource").RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--program", default="target/release/voxalign")
    parser.add_argument("--costs", default="cr,nmi,mi,ncc,ssd")
    parser.add_argument("--pairs", default=",".join(PAIRS))
    args = parser.parse_args()
    costs = args.costs.split(",")
    print("| fixed <- moving | " + " | ".join(f"{c} Dice | {c} CPU s" for c in costs) + " |")
    print("|---|" + "---|" * (2 * len(costs)))
    for pair in args.pairs.split(","):
        fixed, moving = pair.split("<-")
        path = lambda who, what: os.path.join(args.data, f"{who}_{what}.nii.gz")
        row = [pair]
        for cost in costs:
            with tempfile.TemporaryDirectory() as folder:
                out = os.path.join(folder, "out")
                before = cpu_seconds()
                subprocess.run([args.program, "affine", path(fixed, "SS"), path(moving, "SS"), "-o",
                                out, "--cost", cost, "--quiet"], check=True)
                cpu = cpu_seconds() - before
                labels = os.path.join(folder, "labels.nii.gz")
                subprocess.run([args.program, "apply", "-i", path(moving, "glm"), "-r",
                                path(fixed, "glm"), "-t", os.path.join(out, "affine.tfm"), "-o",
                                labels, "--interpolation", "nearest", "--quiet"], check=True)
                found = subprocess.run([args.program, "compare", path(fixed, "glm"), labels,
                                        "--labels", "--smallest-label", "4", "--min-voxels", "51",
                                        "--json"], check=True, capture_output=True)
                row += [f"{mean_dice(json.loads(found.stdout)):.4f}", f"{cpu:.2f}"]
        print("| " + " | ".join(row) + " |", flush=True)


def mean_dice(found):
    """The mean, wherever in the answer it stands."""
    if isinstance(found, dict):
        if "mean_dice" in found:
            return found["mean_dice"]
        for value in found.values():
            mean = mean_dice(value)
            if mean is not None:
                return mean
    return None


if __name__ == "__main__":
    main()
