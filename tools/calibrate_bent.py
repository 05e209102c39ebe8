#!/usr/bin/env python3
"""What `voxalign deform` finds, and what its verdict says of it, where a body is bent so much that an affine map hardly aligns it.

    tools/calibrate_bent.py --jobs JOBS --make FOLDER [--seed N] [--amounts 0.03,0.05,0.08] [--every N] [--unrelated FIRST:LAST]
    tools/calibrate_bent.py --run FOLDER --keep RUNS.jsonl [--program voxalign] [--workers N] [--device cpu]
    tools/calibrate_bent.py --from RUNS.jsonl

JOBS is what `tools/calibrate_deform.py DATA --jobs JOBS` writes: pairs of images of all kinds, at some 80 samples. The fixed image of each is bent by
smooth random displacements (a Gaussian of a tenth of the middle extent) whose mean within the object is a part of that extent; then the pair is
registered with all defaults. Where its points belong is known from the same pair without bending, if that was called good. A mean distance below
a fiftieth of the extent is right, above a 22nd wrong, and images that do not belong together are wrong whatever comes out.

The verdict is that of the checks of the runs by the bounds in crates/register/src/limits.rs. Making needs numpy, scipy and nibabel, running numpy."""

import argparse
import collections
import gzip
import json
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from calibrate_deform import UNRELATED, dot, leads, source

RIGHT, WRONG = 1 / 50, 1 / 22
LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
MOST = {"slices": 5, "hippocampi": 8, "brains": 8, "unrelated": 40}


def pairs(jobs, every, unrelated):
    """Each pair once, of a kind only so many: those that belong together, `every` so manyth of them, and a range of those that do not."""
    seen, found, of_kind = set(), [], collections.Counter()
    counts = collections.Counter()
    for job in json.loads((jobs / "jobs.json").read_text()):
        if job["way"] not in ("plain", "unrelated") or (job["pair"], job["way"]) in seen:
            continue
        seen.add((job["pair"], job["way"]))
        counts[job["way"]] += 1
        n = counts[job["way"]] - 1
        taken = unrelated[0] <= n < unrelated[1] if job["way"] == "unrelated" else n % every == every - 1
        if taken and of_kind[job["kind"]] < MOST.get(job["kind"], 12):
            of_kind[job["kind"]] += 1
            found.append(job)
    return found


def packed(values, path, like):
    """Writes an image with 250 levels."""
    import nibabel as nib

    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    image = nib.Nifti1Image(np.round((values - low) / ((high - low) / 250 or 1)).astype(np.uint8), like.affine)
    image.header.set_xyzt_units(like.header.get_xyzt_units()[0])
    nib.save(image, path)


def make(args):
    """Writes images and jobs."""
    import nibabel as nib
    from scipy import ndimage

    args.make.mkdir(parents=True, exist_ok=True)
    jobs = []
    first, last = (int(n) for n in args.unrelated.split(":"))
    for pair in pairs(args.jobs, args.every, (first, last)):
        image = nib.load(args.jobs / pair["fixed"])
        a = np.asarray(image.dataobj, dtype=np.float32)
        if a.ndim > 3:
            continue
        a = a.reshape(a.shape + (1,) * (3 - a.ndim))
        spacing = np.linalg.norm(image.affine[:3, :3], axis=0)
        extents = sorted(n * h for n, h in zip(a.shape, spacing) if n > 1)
        middle = extents[len(extents) // 2]
        for name in (pair["fixed"], pair["moving"]):
            if not (args.make / name).exists():
                like = nib.load(args.jobs / name)
                packed(np.asarray(like.dataobj, dtype=np.float32), args.make / name, like)
        for amount in (0.0, *map(float, args.amounts.split(","))):
            job = {k: pair[k] for k in ("kind", "pair", "way", "moving")}
            job |= {"amount": amount, "middle": middle, "fixed": pair["fixed"]}
            jobs.append(job)
            if amount == 0:
                continue
            number = zlib.crc32(f"{args.seed} {pair['pair']} {amount}".encode())
            random = np.random.default_rng(number)
            wide = [0.1 * middle / h if n > 1 else 0 for n, h in zip(a.shape, spacing)]
            smooth = lambda: ndimage.gaussian_filter(random.standard_normal(a.shape), wide, mode="nearest")
            u = np.stack([smooth() if n > 1 else np.zeros(a.shape) for n in a.shape])
            object_ = a > a.min() + 0.1 * (np.percentile(a, 99) - a.min())
            u *= amount * middle / np.linalg.norm(u, axis=0)[object_].mean()
            at = np.indices(a.shape) + u / spacing[:, None, None, None]
            packed(ndimage.map_coordinates(a, at, order=1, mode="nearest"), args.make / f"{number:08x}.nii.gz", image)
            i = np.argwhere(ndimage.map_coordinates(object_.astype(np.float32), at, order=1) > 0.5)
            i = i[random.permutation(len(i))[:400]]
            world = LPS @ image.affine
            there = lambda q: (q @ world[:3, :3].T + world[:3, 3]).round(3).tolist()
            job |= {"fixed": f"{number:08x}.nii.gz", "here": there(i), "there": there(at[:, i[:, 0], i[:, 1], i[:, 2]].T)}
    (args.make / "jobs.json").write_text(json.dumps(jobs))
    print(len(jobs), "registrations")


def transform(folder):
    """From points of the fixed world to the moving one (LPS mm), by the files of a run."""
    text = (folder / "affine.tfm").read_text()
    numbers = lambda name: np.array(re.search(rf"^{name}: (.*)$", text, re.M)[1].split(), float)
    p, centre = numbers("Parameters"), numbers("FixedParameters")
    matrix, offset = np.eye(3), np.zeros(3)
    d = len(centre)
    matrix[:d, :d], offset[:d] = p[: d * d].reshape(d, d), p[d * d :]
    centre = np.concatenate([centre, np.zeros(3 - d)])
    raw = gzip.open(folder / "warp.nii.gz").read()
    dims = struct.unpack_from("<8h", raw, 40)
    shape, start = dims[1 : 1 + dims[0]], int(struct.unpack_from("<f", raw, 108)[0])
    w = np.frombuffer(raw, "<f4", offset=start, count=int(np.prod(shape))).reshape(shape, order="F")
    w = w.reshape(w.shape[:3] + (w.shape[-1],))
    to_world = np.eye(4)
    to_world[:3] = np.frombuffer(raw, "<f4", offset=280, count=12).reshape(3, 4)
    to_index = np.linalg.inv(LPS @ to_world)

    def apply(points, whole=True):
        q = points.copy()
        if whole:
            most = np.array(w.shape[:3]) - 1
            i = np.clip(points @ to_index[:3, :3].T + to_index[:3, 3], 0, most)
            low = np.minimum(np.floor(i).astype(int), np.maximum(most - 1, 0))
            for corner in np.indices((2, 2, 2)).reshape(3, -1).T:
                weight = np.prod(np.where(corner, i - low, 1 - i + low), axis=1)
                j = np.minimum(low + corner, most)
                q[:, : w.shape[-1]] += weight[:, None] * w[j[:, 0], j[:, 1], j[:, 2]]
        return (q - centre) @ matrix.T + centre + offset

    return apply


def run_one(job, args):
    """What a run found: its record, and its transform."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        images = [args.run / job["fixed"], args.run / job["moving"]]
        how = ["--no-report", "--quiet", "--threads", "2", "--device", args.device, "--outputs", "affine,warp"]
        done = subprocess.run([args.program, "deform", *images, "-o", out, *how], capture_output=True, text=True)
        if done.returncode > 1 or not (out / "warp.nii.gz").exists():
            return {"error": done.stderr[-300:]}, None
        record = json.loads((out / "result.json").read_text())
        deformation = record["deformation"]
        found = {"good": record["verdict"]["good"], "checks": record["verdict"]["checks"], "evidence": deformation.get("evidence")}
        found["similarity"] = record["parameters"]["channels"][0]["similarity"]
        return found, transform(out)


def run(args):
    """Runs all, and writes a line for each as soon as those before it are done."""
    jobs = json.loads((args.run / "jobs.json").read_text())
    plain = {}
    with ThreadPoolExecutor(args.workers) as pool, open(args.keep, "w") as file:
        for job, (of, map_) in zip(jobs, pool.map(lambda job: run_one(job, args), jobs)):
            line = {k: job[k] for k in ("kind", "pair", "way", "amount", "middle")} | of
            # That without bending is the first of a pair.
            if map_ and not job["amount"]:
                plain[job["pair"]] = of, map_
            elif map_ and job["pair"] in plain:
                record, straight = plain[job["pair"]]
                here, truth = np.array(job["here"]), straight(np.array(job["there"]))
                distance = lambda points: float(np.linalg.norm(points - truth, axis=1).mean())
                line |= {"score": distance(map_(here)), "affine": distance(map_(here, False)), "plain_good": record["good"]}
            print(json.dumps(line), file=file, flush=True)


def label(r):
    """Right, wrong, between, or none where that is not known; without bending as the pair is, of what belongs together."""
    if r["kind"] == "crop and brain":
        return None  # it may lie where it belongs after a search
    if r["kind"] in UNRELATED:
        return "wrong"
    if not r["amount"]:
        return "as it is"
    if "score" not in r or not r["plain_good"]:
        return None
    part = r["score"] / r["middle"]
    return "right" if part < RIGHT else "wrong" if part > WRONG else "between"


def is_good(r, weights, deformation):
    """The verdict by the bounds of the sources."""
    if not r["evidence"]:
        return r["good"]
    start, straight, deformed = (dot(weights, leads(r["evidence"][k])) for k in ("start", "straight", "deformed"))
    for c in r["checks"]:
        met, value = c["passed"], c["value"]
        if c["name"].startswith("affine part: agreement"):
            met = straight >= deformation["straight"] and deformed >= deformation["confirms"]
        elif value is None:
            met = False
        elif c["name"].startswith("harmonic energy"):
            met = value <= deformation["energy_where_aligned" if start >= 0 else "energy_per_information"]
        elif c["name"].startswith("information within the tissue under"):
            met = value >= deformation["tissue"]
        if not met:
            return False
    return True


def table(path):
    """Prints how many of each kind and label are called good and bad."""
    weights, deformation = source("AGREEMENT"), source("DEFORMATION")
    counts = collections.Counter()
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path)
    for r in map(json.loads, opened):
        r.setdefault("amount", r.get("amp")), r.setdefault("middle", r.get("mid"))
        if "checks" in r and (side := label(r)):
            kind = "do not belong together" if r["kind"] in UNRELATED else r["kind"]
            good = is_good(r, weights, deformation)
            counts[kind, side, good] += 1
            counts["all that belong together" if r["kind"] not in UNRELATED else None, side, good] += 1
    sides = ("as it is", "right", "between", "wrong")
    print("| kind |", " | ".join(f"{side}: good, bad" for side in sides), "|")
    print("|---|" + "---|" * len(sides))
    kinds = sorted({k for k, *_ in counts if k}, key=lambda k: (k.startswith("all"), k.startswith("do not"), k))
    for kind in kinds:
        cell = lambda side: f"{counts[kind, side, True]}, {counts[kind, side, False]}"
        print(f"| {kind} |", " | ".join(cell(s) if counts[kind, s, True] + counts[kind, s, False] else "" for s in sides), "|")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--jobs", type=Path)
    p.add_argument("--make", type=Path)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--amounts", default="0.03,0.05,0.08")
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--unrelated", default="0:56")
    p.add_argument("--run", type=Path)
    p.add_argument("--keep", type=Path)
    p.add_argument("--program", default="target/release/voxalign")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--device", default="cpu")
    p.add_argument("--from", dest="runs", type=Path)
    args = p.parse_args()
    if args.make and args.jobs:
        make(args)
    elif args.run and args.keep:
        run(args)
    elif args.runs:
        table(args.runs)
    else:
        p.print_usage()
        sys.exit(2)


if __name__ == "__main__":
    main()
