#!/usr/bin/env python3
"""Error rates of the verdict of `voxalign affine` with masks that keep part of the fixed image.

    tools/calibrate_masks.py DATA [--program target/release/voxalign] [--workers N] [--seed N] [--every N]
        [--offset N] [--rescue on|off] [--keep RUNS.jsonl] [--from RUNS.jsonl]

Needs what calibrate_affine.py needs, and uses its pairs: every N-th one, from the offset, whose images belong
together. Each is registered without a mask (the reference, which has to be right by what is known of the pair) and
with every mask. A masked run is right where it is within the first bound of its kind (mm) of the reference, on the
mean over the part of the object that the mask keeps, and over the whole object within the second; it is wrong where
it is beyond the second on either. Prints Markdown. Exits 1 where a wrong run is called good.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor

import nibabel
import numpy as np

import calibrate_affine as affine

MASKS = ["object", "outermost slices", "thin slab", "slab", "half", "small box", "large box", "all but the object"]


def mask(kind, files, image, rng):
    """Voxels that count."""
    values, matrix = files.load(image)
    index = np.rint((np.linalg.inv(matrix) @ np.append(files.object(image), np.ones((len(files.object(image)), 1)), 1).T)[:3]).astype(int)
    dims = np.array(values.shape)
    index = np.clip(index, 0, (dims - 1)[:, None])
    spacing = np.linalg.norm(matrix[:3, :3], axis=0)
    centre = index.mean(1)
    radius = np.linalg.norm((index - centre[:, None]) * spacing[:, None], axis=0).mean()
    kept = np.zeros(values.shape, np.uint8)
    axis = rng.integers(3 if dims[2] > 1 else 2)
    grid = np.indices(values.shape, sparse=True)
    low, high = index.min(1), index.max(1)
    def slab(part, at):
        width = part * (high[axis] - low[axis])
        return np.broadcast_to(abs(grid[axis] - at) <= max(width / 2, 1), values.shape)
    def box(side):
        at = index[:, rng.integers(index.shape[1])]
        inside = [abs(grid[a] - at[a]) * spacing[a] <= side * radius / 2 for a in range(3)]
        return inside[0] & inside[1] & inside[2]
    if kind in ("object", "all but the object"):
        threshold = np.quantile(values[tuple(index)], 0.02)
        kept[:] = (values >= threshold) == (kind == "object")
    elif kind == "outermost slices":
        kept[:] = np.broadcast_to(grid[axis] < max(dims[axis] // 8, 2), values.shape)
    elif kind == "half":
        kept[:] = np.broadcast_to(grid[axis] <= centre[axis], values.shape)
    elif kind.endswith("slab"):
        kept[:] = slab(0.1 if kind == "thin slab" else 0.3, rng.uniform(*np.quantile(index[axis], [0.2, 0.8])))
    else:
        kept[:] = box(0.6 if kind == "small box" else 1.5)
    return kept


def run(args, files, pair, kind):
    rng = np.random.default_rng([args.seed, zlib.crc32(f"{pair['name']} {kind}".encode())])
    record = dict(pair=pair["name"], kind=pair["kind"], way=kind or affine.COSTS[0], fixed=pair["fixed"], moving=pair["moving"])
    with tempfile.TemporaryDirectory(prefix="calibrate-") as out:
        line = [args.program, "affine", files.path(pair["fixed"]), files.path(pair["moving"]), "-o", out, "--no-report",
                "--outputs", "affine", "--threads", "1", "--quiet", "--device", "cpu", "--rescue", args.rescue]
        line += ["--dof", str(pair["dof"])] if pair["dof"] else []
        if kind:
            path = os.path.join(out, "mask.nii.gz")
            kept = mask(kind, files, pair["fixed"], rng)
            nibabel.save(nibabel.Nifti1Image(kept, files.load(pair["fixed"])[1]), path)
            line += ["--fixed-mask", path]
        done = subprocess.run(line, capture_output=True, text=True)
        record["code"] = done.returncode
        try:
            with open(os.path.join(out, "result.json")) as file:
                result = json.load(file)
            record.update(matrix=result["transform"]["matrix"], evidence=result["evidence"], **result["verdict"],
                          unmasked=result.get("unmasked"), attempts=result.get("attempts", []))
        except (OSError, KeyError) as error:
            record["error"] = done.stderr.strip()[-300:] or str(error)
        if kind and "matrix" in record:
            points = files.object(pair["fixed"])
            index = np.rint((np.linalg.inv(files.load(pair["fixed"])[1]) @ np.c_[points, np.ones(len(points))].T)[:3]).astype(int)
            index = np.clip(index, 0, np.array(kept.shape)[:, None] - 1)
            record["points"] = [points[kept[tuple(index)] > 0][:: max(1, len(points) // 500)].tolist(), float(kept[tuple(index)].mean())]
    return record


def judge(files, runs):
    """Gives every masked run its `label` and distances, over what is kept and over the whole object."""
    right = {r["pair"]: np.array(r["matrix"]) for r in runs if r["way"] == affine.COSTS[0] and r.get("label") == "right"}
    found = []
    for one in (r for r in runs if r["way"] in MASKS and "matrix" in r and r["pair"] in right):
        by = np.array(one["matrix"]) - right[one["pair"]]
        of = lambda p: float(np.linalg.norm(np.reshape(p, (-1, 3)) @ by[:3, :3].T + by[:3, 3], axis=1).mean()) if len(p) else 0.0
        here, whole = of(one["points"][0]), of(files.object(one["fixed"]))
        low, high, _ = affine.KINDS[one["kind"]]
        label = "right" if here < low and whole < high else "wrong" if max(here, whole) > high else None
        found.append(dict(one, label=label, here=here, whole=whole))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--program", default="target/release/voxalign")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--rescue", choices=["on", "off"], default="on")
    parser.add_argument("--keep")
    parser.add_argument("--from", dest="runs")
    args = parser.parse_args()
    files = affine.Files(args.data, args.seed)
    all_ = [p for p in affine.pairs(args.data) if p["kind"] in affine.KINDS and p["kind"] not in affine.FLAT]
    all_ = [p for p in all_ if files.there(p["fixed"]) and files.there(p["moving"])][args.offset :: args.every]
    if args.runs:
        with open(args.runs) as file:
            runs = [json.loads(line) for line in file]
    else:
        for pair in all_:
            files.path(pair["fixed"]), files.path(pair["moving"])
        jobs = [(pair, kind) for pair in all_ for kind in [None, *MASKS]]
        with ThreadPoolExecutor(args.workers) as pool:
            runs = list(pool.map(lambda job: run(args, files, *job), jobs))
    affine.label(files, [r for r in runs if r["way"] == affine.COSTS[0]], {p["name"]: p for p in all_})
    if args.keep:
        with open(args.keep, "w") as file:
            file.writelines(json.dumps(r) + "\n" for r in runs)
    found = judge(files, runs)
    print("| mask | right, good | right, bad | wrong, good | wrong, bad | between |\n|---|---|---|---|---|---|")
    for kind in [*MASKS, "all"]:
        count = lambda label, good: sum(r["label"] == label and r["good"] == good for r in found if kind in (r["way"], "all"))
        between = sum(r["label"] is None for r in found if kind in (r["way"], "all"))
        print(f"| {kind} | {count('right', True)} | {count('right', False)} | {count('wrong', True)} | {count('wrong', False)} | {between} |")
    refused = [r for r in runs if "matrix" not in r]
    print(f"\nRefused: {len(refused)}")
    for r in sorted(found, key=lambda r: (r["label"] or "", r["pair"])):
        if (r["label"], r["good"]) in (("right", False), ("wrong", True)):
            whole = r.get("unmasked") or {}
            agreement = affine.leads(whole["evidence"]) @ affine.weights()[0][:6] + affine.weights()[0][6] if whole else None
            print(r["label"], "good" if r["good"] else "bad", r["pair"], r["way"], f"kept {whole.get('kept')} agreement of the whole {agreement}",
                  f"mm {r['here']:.1f} {r['whole']:.1f}", [c["name"] for c in r["checks"] if not c["passed"]])
    sys.exit(any(r["label"] == "wrong" and r["good"] for r in found))


if __name__ == "__main__":
    main()
