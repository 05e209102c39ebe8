#!/usr/bin/env python3
"""Error rates of the verdict of `voxalign anatomy`.

    tools/calibrate_anatomy.py DATA [--program target/release/voxalign] [--jobs N] [--seeds N] [--held-out] [--only TEXT,...]
        [--keep RUNS.jsonl] [--from RUNS.jsonl]

Pairs of different people of brains_oasis_miccai2012, with voxels of 2 mm: surfaces of four structures (both hippocampi, a thalamus, a
ventricle), which are made of labels, with the T1 images, with tissues as probabilities, or alone. What is done to the moving anatomy is one
of `WAYS`. Needs numpy; DATA has that folder.

A result is right where nothing was done to the anatomy but what may be (landmarks more, another place in the room, a structure fewer) and the
mean overlap (Dice) of the four structures afterwards is at least 0.6 (of shapes alone: where most are within 3 mm of each other); wrong where
it is below 0.45, or where a part of the anatomy is something else than its name says. In between it is not labelled. Odd seeds are those that bounds are chosen on, even ones (--held-out) are
set aside: other people. Prints Markdown.
"""
import glob
import os
import shutil
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import calibrate_poses as poses  # noqa: E402
import calibration  # noqa: E402

SURFACES = {"hippocampus left": 48, "hippocampus right": 47, "thalamus left": 60, "ventricle right": 51}
# Structures beside these: what a surface is not, and whose middles are landmarks.
PUTAMEN, CAUDATE = 58, 36
LANDMARKS = [31, 32, 36, 37, 47, 48, 57, 58, 59, 60]
KINDS = ["images", "tissues", "shapes alone"]
RIGHT = ["nothing", "landmarks", "turned and moved", "a structure fewer", "wider surfaces"]
WRONG = ["hippocampi exchanged", "a putamen for a hippocampus", "a caudate for a ventricle", "landmarks reversed", "landmarks of two exchanged", "surfaces mirrored",
         "surfaces 40 mm off", "surfaces upside down", "an image of noise", "a box for an image", "an image upside down", "tissues exchanged", "a tissue of noise"]
WAYS = RIGHT + WRONG
GOOD, BAD = 0.6, 0.45
AGAIN = ["1023", "1024"]


class Study:
    def __init__(self, args):
        self.program, self.folder = args.program, args.folder
        os.makedirs(self.folder, exist_ok=True)
        files = sorted(glob.glob(os.path.join(args.data, "brains_oasis_miccai2012", "*_SS.nii.gz"))) if args.data else []
        files = [f for f in files if not any(a in f for a in AGAIN)]
        self.people = files[int(args.held_out)::2]

    def person(self, path):
        """T1, labels and tissues of a person, with voxels of 2 mm, and their affine map."""
        image, rows = poses.read(path)
        labels, tissues = (poses.read(path.replace("_SS", name))[0] for name in ("_glm", "_tissues"))
        # Every second voxel, where they are fine.
        step = 2 if np.linalg.norm(rows[:, 0]) < 1.5 else 1
        rows[:, :3] *= step
        return *(data[::step, ::step, ::step] for data in (image, labels, tissues)), rows

    def anatomy(self, name, files, run, way, kind, fixed):
        """Writes the file of an anatomy."""
        image, labels, tissues, rows = files
        other = lambda label: dict(zip([48, 47], [47, 48])).get(label, label) if way == "hippocampi exchanged" and not fixed else label
        shown = labels
        if way == "surfaces mirrored" and not fixed:
            shown = labels[:, :, ::-1]
        if way == "surfaces upside down" and not fixed:
            shown = labels[::-1]
        places = rows.copy()
        if way == "surfaces 40 mm off" and not fixed:
            places[:, 3] += [0, 40, 0]
        poses.write(f"{run}/{name}.nii", image, rows)
        poses.write(f"{run}/{name}_all.nii", labels, rows)
        poses.write(f"{run}/{name}_labels.nii", shown, places)
        poses.write(f"{run}/{name}_tissues.nii", tissues, rows)
        lines = []
        if kind == "images":
            lines += ["[[image]]", "name = 't1'", f"image = '{name}.nii'"]
        for tissue in (1, 2, 3) if kind == "tissues" else ():
            label = {1: 3, 3: 1}.get(tissue, tissue) if way == "tissues exchanged" and not fixed else tissue
            if way == "a tissue of noise" and not fixed and tissue == 3:
                lines += ["[[probability]]", "name = 'tissue3'", f"image = '{name}_noise.nii'"]
                noise = np.random.default_rng(1).uniform(0, 1, tissues.shape)
                poses.write(f"{run}/{name}_noise.nii", noise, rows)
            else:
                lines += ["[[probability]]", f"name = 'tissue{tissue}'", f"labels = '{name}_tissues.nii'", f"label = {label}", "sigma = 2"]
        for surface, label in SURFACES.items():
            label = other(label)
            if not fixed and way == "a putamen for a hippocampus" and label == 48:
                label = PUTAMEN
            if not fixed and way == "a caudate for a ventricle" and label == 51:
                label = CAUDATE
            if way == "a structure fewer" and surface == "ventricle right":
                continue
            lines += ["[[surface]]", f"name = '{surface}'", f"labels = '{name}_labels.nii'", f"label = {label}"]
            lines += ["weight = 0.01", f"width = {10.0 if way == 'wider surfaces' else 5.0}"] if fixed else []
        if way.startswith("landmarks"):
            order = LANDMARKS[::-1] if way == "landmarks reversed" and not fixed else list(LANDMARKS)
            if way == "landmarks of two exchanged" and not fixed:
                order[2], order[7] = order[7], order[2]
            with open(f"{run}/{name}.csv", "w") as file:
                print("x,y,z", file=file)
                for label in order:
                    at = rows[:, :3] @ np.mean(np.nonzero(labels == label), axis=1)[::-1] + rows[:, 3]
                    print(f"{at[0]:.3f},{at[1]:.3f},{at[2]:.3f}", file=file)
            lines += ["[[landmarks]]", "name = 'middles'", f"points = '{name}.csv'"]
        with open(f"{run}/{name}.toml", "w") as file:
            print("\n".join(lines), file=file)

    def run(self, job):
        kind, way = job["set"], job["way"]
        random = np.random.default_rng([job["seed"], WAYS.index(way), KINDS.index(kind)])
        # Of shapes alone nothing tells where they should be.
        if ("image" in way and kind != "images") or ("tissue" in way and kind != "tissues") or ("off" in way and kind == "shapes alone"):
            return None
        run = f"{self.folder}/{calibration.name_of(job)}"
        shutil.rmtree(run, ignore_errors=True)
        os.makedirs(run)
        both = [self.person(str(path)) for path in random.permutation(self.people)[:2]]
        image, labels, tissues, rows = both[1]
        if way == "turned and moved":
            by = poses.turn(random.choice([-1, 1], 3) * 12)
            rows = np.hstack([by @ rows[:, :3], (by @ rows[:, 3] + [15, -10, 20])[:, None]])
        if way == "an image of noise":
            image = random.uniform(0, image.max(), image.shape)
        if way == "an image upside down":
            image = image[::-1]
        if way == "a box for an image":
            image = np.zeros_like(image)
            image[tuple(slice(n // 4, 3 * n // 4) for n in image.shape)] = 1000
        self.anatomy("fixed", both[0], run, way, kind, True)
        self.anatomy("moving", (image, labels, tissues, rows), run, way, kind, False)
        line = [self.program, "anatomy", "fixed.toml", "moving.toml", "-o", "found", "--outputs", "affine"]
        if kind != "shapes alone":
            line += ["--fixed-labels", "fixed_all.nii", "--moving-labels", "moving_all.nii"]
        result, error = calibration.call(line, cwd=run)
        shutil.rmtree(run)
        record = dict(job, good=result and result["verdict"]["good"], error=error)
        if result:
            record["checks"] = result["verdict"]["checks"]
            record["remarks"] = result["verdict"]["remarks"]
            record["dice"] = [row["dice_after"] for row in result.get("labels") or [] if row["label"] in SURFACES.values()]
            record["apart"] = [shape["after"]["mean"] for shape in result["anatomy"]["shapes"] if shape["kind"] == "surface"]
        return record


def main():
    args = calibration.study(__doc__, "/tmp/calibrate-anatomy")
    study = Study(args)
    jobs = [dict(set=kind, way=way, seed=seed) for way in WAYS for kind in KINDS for seed in calibration.seeds(args)]
    runs = [run for run in calibration.run_all(args, jobs, study.run) if run]
    for run in runs:
        run["order"] = WAYS.index(run["way"])
        # Shapes alone have no labels: how far apart they are.
        known = run.get("dice") or [0.0 if mm > 3 else 1.0 for mm in run.get("apart", [])]
        overlap = float(np.mean(known)) if known else float("nan")
        if run["way"] in WRONG:
            run["label"] = "wrong"
        else:
            run["label"] = "right" if overlap >= GOOD or run["error"] else "wrong" if overlap < BAD else None
        unmet = "; ".join(f"{c['name']} {c['value']}" for c in run.get("checks", []) if not c["passed"])
        run["said"] = f"Dice {overlap:.2f}, {unmet} {run['error'] or ''}"
    calibration.table("what was done", runs, lambda r: r["way"])
    calibration.table("anatomies of", runs, lambda r: r["set"])
    calibration.errors(runs, "anatomies")


if __name__ == "__main__":
    main()
