#!/usr/bin/env python3
"""Registers stained sections and measures the result at landmarks.

    python3 tools/check_sections.py VOXALIGN DATA [--pairs HE-CC10,CC10-HE] [--ways as-is,turned,...] [-- OPTIONS OF affine]

DATA has the folders histology_birl and histology_cc10_16Mpx. Each pair is registered both ways by
`voxalign affine --distributed auto`, starting from the images alone. Printed are the median distance of the
fixed landmarks, carried by what was found, to the moving ones; the same of the affine map that fits the
landmarks best by least squares; the ratio of both; and the verdict. Ways: `as-is`; `turned` by a quarter and
`half` a turn, `inverted` brightness, a `part` of the moving section (the middle, three quarters of each side), all of
which belong together; `mirrored`, which does not, nor do sections of `other` tissue, of which each is
called wrong. Needs numpy and Pillow."""

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

# Name: image, landmarks, micrometres a pixel (relative size is what counts), first index of the landmarks.
LESION, SECTION = "histology_birl/Izd2-29-041-w35_", "histology_cc10_16Mpx/01-"
SCALE = 5.005
IMAGES = {
    "HE": (LESION + "HE.jpg", LESION + "HE.csv", 2.5 * SCALE, 1),
    "SPC": (LESION + "proSPC.jpg", LESION + "proSPC.csv", 2.5 * SCALE, 1),
    "CC10": (SECTION + "CC10.jpg", SECTION + "CC10.csv", 2.5, 0),
    "KHE": ("histology_birl/Rat-Kidney_HE.jpg", "histology_birl/Rat-Kidney_HE.csv", 12.5, 1),
    "KPC": (
        "histology_birl/Rat-Kidney_PanCytokeratin.jpg",
        "histology_birl/Rat-Kidney_PanCytokeratin.csv",
        12.5,
        1,
    ),
}
OTHERS = ["HE-KHE", "KHE-HE", "SPC-KPC", "KPC-SPC", "CC10-KHE", "KHE-CC10", "CC10-KPC", "KPC-CC10", "HE-KPC", "SPC-KHE"]
PAIRS = ["HE-SPC", "SPC-HE", "KHE-KPC", "KPC-KHE", "CC10-SPC", "SPC-CC10", "CC10-HE", "HE-CC10"]


def landmarks(data, name):
    """By number from 0, mm."""
    _, file, micrometres, first = IMAGES[name]
    with open(data / file, newline="") as rows:
        rows = list(csv.reader(rows))[1:]
    return {int(r[0]) - first: np.array([float(r[1]), float(r[2])]) * micrometres * 1e-3 for r in rows}


def tiff(data, name, folder):
    file, _, micrometres, _ = IMAGES[name]
    path = folder / f"{name}.tif"
    if not path.exists():
        Image.MAX_IMAGE_PIXELS = None
        per_inch = 25400.0 / micrometres
        Image.open(data / file).convert("RGB").save(path, dpi=(per_inch, per_inch))
    return path


def changed(path, way, micrometres):
    """A file with a changed image, and where its points went, mm."""
    image = np.asarray(Image.open(path))
    h, w = image.shape[:2]
    mm = micrometres * 1e-3
    if way == "turned":
        image, points = np.rot90(image, 1), lambda p: np.stack([p[:, 1], (w - 1) * mm - p[:, 0]], 1)
    elif way == "half":
        image, points = image[::-1, ::-1], lambda p: np.array([w - 1, h - 1]) * mm - p
    elif way == "inverted":
        image, points = 255 - image, lambda p: p
    elif way == "part":
        y, x = h // 8, w // 8
        image, points = image[y : h - y, x : w - x], lambda p: p - np.array([x, y]) * mm
    elif way == "mirrored":
        image, points = image[:, ::-1], lambda p: p
    else:
        return path, lambda p: p
    new = path.with_name(f"{path.stem}-{way}.tif")
    per_inch = 25400.0 / micrometres
    Image.fromarray(np.ascontiguousarray(image)).save(new, dpi=(per_inch, per_inch))
    return new, points


def transform(path):
    """Of fixed to moving points in the plane, from an ITK file of three or two dimensions."""
    text = path.read_text()
    numbers = lambda key: np.array([float(v) for v in re.search(rf"^{key}: (.*)$", text, re.M)[1].split()])
    p, centre = numbers("Parameters"), numbers("FixedParameters")
    n = len(centre)
    a, t = p[: n * n].reshape(n, n), p[n * n :]
    offset = t + centre - a @ centre
    return a[:2, :2], offset[:2]


def best(fixed, moving):
    rows = np.hstack([fixed, np.ones((len(fixed), 1))])
    found = np.linalg.lstsq(rows, moving, rcond=None)[0]
    return np.median(np.linalg.norm(rows @ found - moving, axis=1))


def checks(folder):
    """The first two, and those that failed."""
    all_ = json.loads((folder / "result.json").read_text())["verdict"]["checks"]
    of = [c for c in all_ if not c["passed"] or c in all_[:2]]
    return "; ".join(f"{c['name']} {c['value']:.3g} ({c['asked']})" for c in of)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("voxalign")
    p.add_argument("data", type=Path)
    p.add_argument("--pairs", default=",".join(PAIRS))
    p.add_argument("--ways", default="as-is")
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, further = p.parse_args(sys.argv[1:cut]), sys.argv[cut + 1 :]
    worst, counts = 0.0, {}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        cases = [(p, way) for way in args.ways.split(",") for p in (OTHERS if way == "other" else args.pairs.split(","))]
        for pair, way in cases:
            one, two = pair.split("-")
            out = folder / f"{pair}-{way}"
            moving, points = changed(tiff(args.data, two, folder), way, IMAGES[two][2])
            began = time.time()
            command = [args.voxalign, "affine", tiff(args.data, one, folder), moving]
            command += ["-o", out, "--distributed", "auto", "--outputs", "affine", "--quiet", *further]
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode > 1:
                sys.exit(f"{pair}: {run.stderr}")
            said, seconds = ["good", "bad"][run.returncode], time.time() - began
            if way in ("mirrored", "other"):
                counts[("wrong", said)] = counts.get(("wrong", said), 0) + 1
                print(f"{pair:9} {way:9} wrong, verdict {said}, {seconds:.1f} s: {checks(out)}", flush=True)
                continue
            a, t = transform(out / "affine.tfm")
            f, m = landmarks(args.data, one), landmarks(args.data, two)
            both = sorted(f.keys() & m.keys())
            f, m = (np.array([x[k] for k in both]) for x in (f, m))
            before = np.median(np.linalg.norm(f - m, axis=1))
            m = points(m)
            error, least = np.median(np.linalg.norm(f @ a.T + t - m, axis=1)), best(f, m)
            worst = max(worst, error / least)
            kind = "right" if error < 3 * least else "wrong"
            counts[(kind, said)] = counts.get((kind, said), 0) + 1
            print(
                f"{pair:9} {way:9} before {before:.4f} mm, found {error:.4f}, best affine {least:.4f}, ratio {error / least:.3f},"
                f" verdict {said}, {seconds:.1f} s: {checks(out)}",
                flush=True,
            )
    print(f"worst ratio {worst:.3f}; " + ", ".join(f"{k} and called {v}: {n}" for (k, v), n in sorted(counts.items())))


if __name__ == "__main__":
    main()
