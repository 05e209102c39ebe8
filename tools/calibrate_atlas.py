#!/usr/bin/env python3
"""Error rates of the verdict of `voxalign atlas` on whether its subjects belong together.

    tools/calibrate_atlas.py DATA [--program target/release/voxalign] [--jobs N] [--seeds N] [--held-out] [--only TEXT,...]
        [--keep RUNS.jsonl] [--from RUNS.jsonl]

Atlases of a few random subjects: brains of brains_oasis_miccai2012 (voxels of 2 mm, an atlas of 4 mm), crops of atlas3d_msd_hippocampus
(an atlas of 2 mm), slices of atlas2d_oasis_mermaid and of atlas2d_oasis_trt20_slices. Something is done to one or two of them, which is one
of `WAYS`. An atlas is right where all subjects are of one kind and what was done to one of them is what scanners and people do; wrong where
one of them is something else. Needs numpy; DATA has these folders, and heart_acdc and lung_mri, or some of them.

Odd seeds are those that bounds are chosen on, even ones (--held-out) are set aside: their subjects are others, too. Prints Markdown.
"""
import glob
import gzip
import os
import shutil
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import calibrate_poses as poses  # noqa: E402
import calibration  # noqa: E402

# Where the subjects of a set are, and how atlases are made of them.
SETS = {
    "brains": ("brains_oasis_miccai2012/*_SS.nii.gz", ["--spacing", "4"]),
    "hippocampi": ("atlas3d_msd_hippocampus/images/*.nii.gz", ["--spacing", "2"]),
    "slices": ("atlas2d_oasis_mermaid/*.nrrd.gz", []),
    "other slices": ("atlas2d_oasis_trt20_slices/*_slice118.nii.gz", []),
}
# Scans of people who are there already.
AGAIN = ["1023_SS", "1024_SS"]
OTHERS = {"heart": "heart_acdc/ed.nii.gz", "lungs": "lung_mri/0006H1.nii.gz", "brain": "brains_oasis_miccai2012/1006_SS.nii.gz"}
FLAT, SOLID = ["slices", "other slices"], ["brains", "hippocampi"]
RIGHT = ["nothing", "of three nothing", "of seven nothing", "other units", "an uneven field", "noise", "turned by 20 degrees", "moved by 30 mm", "an end cut off",
         "thicker slices"]
WRONG = ["noise alone", "smooth noise alone", "a box", "tissue in another order", "the outline alone", "values upside down", "a heart", "lungs", "another organ",
         "two of noise", "a half beside its mirror image"]
WAYS = RIGHT + WRONG


def smoothed(image, times):
    for _ in range(times):
        for axis in range(image.ndim):
            image = (np.roll(image, 1, axis) + 2 * image + np.roll(image, -1, axis)) / 4
    return image


class Study:
    def __init__(self, args):
        self.program, self.folder, self.data = args.program, args.folder, args.data
        os.makedirs(self.folder, exist_ok=True)
        self.sets = {}
        for name, (pattern, _) in SETS.items() if self.data else []:
            files = [f for f in sorted(glob.glob(os.path.join(self.data, pattern))) if not any(a in f for a in AGAIN) and "labels" not in f]
            if files:
                # Every other one is set aside.
                self.sets[name] = [self.unpacked(f) for f in files[int(args.held_out)::2]]

    def unpacked(self, path):
        """The file as NIfTI."""
        if not path.endswith(".nrrd.gz"):
            return path
        name = f"{self.folder}/{os.path.basename(path)[:-8]}"
        if not os.path.exists(f"{name}.nii"):
            with gzip.open(path) as packed, open(f"{name}.nrrd", "wb") as file:
                shutil.copyfileobj(packed, file)
            subprocess.run([self.program, "convert", f"{name}.nrrd", f"{name}.nii"], check=True, capture_output=True)
        return f"{name}.nii"

    def read(self, path):
        data, rows = poses.read(path)
        if data.ndim == 4:
            data = data[0]
        fine = data.ndim == 3 and min(data.shape) > 100 and np.linalg.norm(rows[:, :3], axis=0).max() < 1.5
        return poses.binned(data, rows, (2, 2, 2)) if fine else (data, rows)

    def changed(self, way, image, rows, random):
        """The image as it is handed in, and its affine map."""
        most, inside = float(image.max()), image > 0.1 * np.percentile(image, 99)
        rows = rows.copy()
        middle = rows[:, :3] @ ((np.array(image.shape[::-1] + (1,) * (3 - image.ndim)) - 1) / 2) + rows[:, 3]
        if "noise alone" in way or way == "two of noise":
            image = random.uniform(0, most, image.shape)
            return (smoothed(image, 8) if "smooth" in way else image), rows
        if way == "a box":
            out = np.zeros_like(image)
            out[tuple(slice(n // 4, 3 * n // 4) for n in image.shape)] = most
            return out, rows
        if way == "tissue in another order":
            out = image.copy()
            out[inside] = random.permutation(image[inside])
            return out, rows
        if way == "the outline alone":
            return np.where(inside, most, 0), rows
        if way == "values upside down":
            return np.where(inside, 1.1 * most - image, 0), rows
        if way == "a half beside its mirror image":
            # Left of it is what is right, but upside down and the other way round.
            half, out = image.shape[-1] // 2, image.copy()
            out[..., :half] = np.flip(image, tuple(range(image.ndim - 1)))[..., -half:]
            return out, rows
        if way == "other units":
            image = image * 0.013
        if way == "an uneven field":
            along = np.linspace(-1, 1, image.shape[int(random.integers(image.ndim))])
            axis = [i for i, n in enumerate(image.shape) if n == len(along)][0]
            image = image * (1 + 0.3 * along.reshape([-1 if i == axis else 1 for i in range(image.ndim)]))
        if way == "noise":
            image = np.abs(image + 0.05 * most * random.standard_normal(image.shape))
        if way == "turned by 20 degrees":
            by = poses.turn(np.array([0, 0, 20]) if image.ndim == 2 else random.choice([-1, 1], 3) * 12)
            rows = np.hstack([by @ rows[:, :3], (by @ (rows[:, 3] - middle) + middle)[:, None]])
        if way == "moved by 30 mm":
            rows[:, 3] += [18, 24, 0] if image.ndim == 2 else [17, -17, 17]
        if way == "an end cut off":
            cut = image.shape[0] // 8
            image = image[cut:]
            rows[:, 3] += cut * rows[:, image.ndim - 1]
        if way == "thicker slices" and image.ndim == 3:
            image, rows = poses.binned(image, rows, (1, 1, 2))
        return image, rows

    def run(self, job):
        kind, way = job["set"], job["way"]
        random = np.random.default_rng([job["seed"], WAYS.index(way), list(SETS).index(kind)])
        count = 3 if "three" in way else 7 if "seven" in way else int(random.integers(4, 7))
        files = [str(f) for f in random.permutation(self.sets[kind])[:count]]
        other = {"a heart": "heart", "lungs": "lungs", "another organ": "brain"}.get(way)
        if len(files) < count or (other and kind in FLAT) or (other == "brain" and kind == "brains") or (way == "thicker slices" and kind in FLAT):
            return None
        run = f"{self.folder}/{calibration.name_of(job)}"
        shutil.rmtree(run, ignore_errors=True)
        os.makedirs(run)
        done = int(way == "two of noise") + 1 if "nothing" not in way else 0
        names = []
        for number, path in enumerate(files):
            image, rows = self.read(os.path.join(self.data, OTHERS[other]) if other and number < done else path)
            if number < done:
                image, rows = self.changed(way, image, rows, random)
            names.append(f"{'changed' if number < done else 'subject'}{number}.nii")
            poses.write(f"{run}/{names[-1]}", np.asarray(image, np.float32), rows)
        # The changed ones are anywhere among the others.
        names = [str(n) for n in random.permutation(names)]
        result, error = calibration.call([self.program, "atlas", *names, "-o", "found", *SETS[kind][1]], cwd=run)
        shutil.rmtree(run)
        record = dict(job, good=result and result["verdict"]["good"], error=error, subjects=count, done=done)
        if result:
            record["checks"] = result["verdict"]["checks"]
            record["remarks"] = result["verdict"]["remarks"]
            record["told"] = {s["name"]: [*s["correlation"], *s["information"]] for s in result["subjects"]}
        return record


def main():
    args = calibration.study(__doc__, "/tmp/calibrate-atlas")
    study = Study(args)
    jobs = [dict(set=name, way=way, seed=seed) for way in WAYS for name in study.sets for seed in calibration.seeds(args)]
    runs = [run for run in calibration.run_all(args, jobs, study.run) if run]
    for run in runs:
        run["order"] = WAYS.index(run["way"])
        run["label"] = "right" if run["way"] in RIGHT else "wrong"
        unmet = "; ".join(f"{c['name']} {c['value']} {c.get('of', '')}" for c in run.get("checks", []) if not c["passed"])
        run["said"] = f"{run['subjects']} subjects, {unmet} {run['error'] or ''}"
    calibration.table("what was done", runs, lambda r: r["way"])
    calibration.table("subjects", runs, lambda r: r["set"])
    calibration.errors(runs, "atlases")
    wrong = [r for r in runs if r["label"] == "wrong" and r.get("checks")]
    named = sum(all(f"changed{i}" in str(r["checks"]) + str(r["remarks"]) for i in range(r["done"])) for r in wrong)
    print(f"\nOf {len(wrong)} wrong atlases that were made, {named} name all of the subjects that do not belong there.")


if __name__ == "__main__":
    main()
