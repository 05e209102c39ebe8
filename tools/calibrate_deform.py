#!/usr/bin/env python3
"""Error rates of the verdict of `voxalign deform`, and the bounds on its agreement.

    tools/calibrate_deform.py DATA [--program target/release/voxalign] [--workers N] [--seed N] [--only NAME,...]
        [--set-aside] [--jobs FOLDER] [--keep RUNS.jsonl] [--fit]
    tools/calibrate_deform.py --run FOLDER --keep RUNS.jsonl [--program ...] [--workers N]
    tools/calibrate_deform.py --from RUNS.jsonl [--fit]

The pairs are those of tools/calibrate_affine.py, which lies beside and says what DATA is and what is needed to read it.
Their images are resampled to some 80 samples along the middle extent (slices 160), so that a run takes a second or two.
`--jobs` writes images, points and what is to be run into a folder and ends; `--run` runs that, on any machine with
Python alone. All that a run found is in its line of RUNS, from which `--from` prints the tables again.

What is done with a pair:

- plain: after its own affine registration, by the models and similarities;
- start ...: from the affine map of the plain run, moved on purpose;
- mirrored, metres, ten times: the header of the moving image says so; half: half of its slices are cut off;
- little smoothing: far too little of it; mask ...: the fixed mask keeps a half, or all but the object;
- landmarks ...: the middles of labels or known points pull, in their order or a wrong one.

A run is right or wrong by what is known of its pair, never by what it optimised or by its evidence:

- labels: with `base` the mean Dice of the plain affine part and `top` the best of the pair, at least
  max(base, 0.75 top) - 0.02 is right, below 0.6 max(base, 0.75 top) is wrong;
- transforms, points: the mean distance of mapped points from where they belong, by the bounds of the kind;
- nothing known: the same from where the plain run maps them, which is then right by definition;
- images that do not belong together, also an outline with another inside, and wrong units: wrong. So are landmarks in
  a wrong order that end more than 10 mm apart, whatever the images do;
- what lies between, what is mirrored, a crop on a brain after a search, and a right result in spite of a wrong mask or of
  two exchanged landmarks is not labelled.

The verdict is that of the checks in the runs, with weights and bounds in crates/register/src/limits.rs in place of those
of the program that ran. Prints Markdown. `--fit` prints the bounds on the agreement that the others would give with each
kind left out. Exits 1 where a wrong run is called good or more than 2 in 100 right ones bad.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEDULE = {True: "2x40,1x20", False: "2x40,1x15"}
ONE = ("symmetric", "lncc")
ALL = [ONE, ("greedy", "lncc"), ("symmetric", "auto"), ("lddmm", "lncc"), ("greedy", "mi"), ("symmetric", "nmi"), ("greedy", "nmi")]
SAME = [("greedy", "ssd"), ("lddmm", "ssd")]
OTHER = [("lddmm", "mi")]
MIXED = ("kinds of MR", "templates", "modalities", "tumours", "histology")
UNRELATED, UNITS = ("unrelated", "crop and brain", "outline alone"), ("metres", "ten times")
DISORDER = ("landmarks exchanged", "landmarks reversed", "landmarks shuffled", "landmarks reversed, strong",
            "landmarks reversed, start", "landmarks shuffled, start", "landmarks of another")
MOST = {"brains": 8, "hippocampi": 10, "slices": 6}
FLAT = ("slices", "histology")
PER_KIND = {
    "brains": (3, 10), "heads": (3, 10), "kinds of MR": (2.2, 6), "templates": (5, 12), "modalities": (2, 8),
    "tumours": (3, 10), "lungs in MR": (3, 10), "lungs in CT": (8, 20), "hearts": (3, 10), "hippocampi": (3, 10),
    "phantoms": (2, 8), "slices": (3, 10), "histology": (12, 60),
}
UNKNOWN = (4, 15)


# What is to be run.

class Maker:
    """Writes images, labels and points at the coarse spacing, each once, and the jobs."""

    def __init__(self, affine, files, folder, seed):
        self.a, self.files, self.folder, self.seed = affine, files, folder, seed
        self.jobs, self.written = [], set()

    def coarse(self, name, labels=False, like=None):
        """Values and matrix; labels by the nearest voxel, onto the grid that their image has."""
        np, ndimage = self.a.np, __import__("scipy.ndimage").ndimage
        values, matrix = self.files.load(name)
        if like is not None:
            other, to = self.coarse(like)
            shape = other.shape
        else:
            spacing = np.linalg.norm(matrix[:3, :3], axis=0)
            extents = sorted(n * s for n, s in zip(values.shape, spacing) if n > 1)
            flat = values.shape[2] == 1
            wanted = extents[len(extents) // 2] / (160 if flat else 80)
            factor = np.array([max(1.0, wanted / s) if n > 1 and wanted > 1.2 * s else 1.0
                               for n, s in zip(values.shape, spacing)])
            shape = tuple(max(1, int(n / f)) for n, f in zip(values.shape, factor))
            to = matrix @ np.diag([*factor, 1.0])
            to[:3, 3] += matrix[:3, :3] @ ((factor - 1) / 2)
            if (factor > 1).any():
                values = ndimage.gaussian_filter(values, np.where(factor > 1, 0.425 * factor, 0))
        back = np.linalg.inv(matrix) @ to
        if np.allclose(back, np.eye(4)) and shape == values.shape:
            return values, matrix
        return ndimage.affine_transform(values, back[:3, :3], back[:3, 3], shape, order=0 if labels else 1,
                                        mode="nearest"), to

    def write(self, stem, values, matrix, labels=False):
        np, nibabel = self.a.np, self.a.nibabel
        path = stem + ".nii.gz"
        if path not in self.written:
            self.written.add(path)
            if not labels:
                low, high = float(values.min()), float(values.max())
                values = np.rint((values - min(low, 0)) / max(high - min(low, 0), 1e-9) * 8000)
            nibabel.save(nibabel.Nifti1Image(values.astype(np.int16), matrix), os.path.join(self.folder, path))
        return path

    def stem(self, name):
        return re.sub(r"[^A-Za-z0-9_-]+", "_", os.path.splitext(name.replace(".nii.gz", ""))[0])[-60:]

    def image(self, name):
        return self.write(self.stem(name), *self.coarse(name))

    def labels(self, name, like):
        return self.write("labels_" + self.stem(name), *self.coarse(name, True, like), labels=True)

    def points(self, stem, values, weights=None):
        path = stem + ".csv"
        with open(os.path.join(self.folder, path), "w") as file:
            print("x,y,z" + (",weight" if weights is not None else ""), file=file)
            for i, p in enumerate(values):
                print(",".join(f"{v:.6g}" for v in [*p, *([weights[i]] if weights is not None else [])]), file=file)
        return path

    def add(self, pair, way, how, fixed, moving, extra=(), **more):
        model, similarity = how
        args = ["--model", model, "--similarity", similarity, "--schedule", SCHEDULE[pair["kind"] in FLAT], *extra]
        free = pair["dof"] and "after" not in more
        args += ["--dof", str(pair["dof"])] if free else []
        self.jobs.append(dict(pair=pair["name"], kind=pair["kind"], way=way, how=f"{model} {similarity}", fixed=fixed,
                              moving=moving, args=args, **more))

    def pair(self, pair):
        """All ways of a pair that belongs together."""
        a, np, files = self.a, self.a.np, self.files
        rng = np.random.default_rng([self.seed, zlib.crc32(pair["name"].encode())])
        kind, known, stem = pair["kind"], pair["known"], self.stem(pair["name"])
        fixed, moving = self.image(pair["fixed"]), self.image(pair["moving"])
        what = known[0] if known else "none"
        more = {}
        if what == "labels":
            more["labels"] = [self.labels(known[1], pair["fixed"]), self.labels(known[2], pair["moving"])]
        flat = kind in FLAT
        object_ = files.object(pair["fixed"])
        centre = object_.mean(0)
        radius = float(np.linalg.norm(object_ - centre, axis=1).mean())
        here, there = object_[rng.permutation(len(object_))[:60]], None
        if what == "points":
            here, there = a.points(files, known[1], pair["fixed"]), a.points(files, known[2], pair["moving"])
        elif what == "table":
            lists = [{r[0]: r[1:3] for r in list(a.csv.reader(open(files.path(p))))[1:]} for p in known[1:]]
            of = lambda t: np.array([[-float(t[k][0]), -float(t[k][1]), 0] for k in lists[0] if k in lists[1]])
            here, there = of(lists[0]), of(lists[1])
        elif what in ("chain", "matrix"):
            truth = known[1] if what == "matrix" else np.eye(4)
            for path, direction in known[1] if what == "chain" else []:
                step = a.transform(files.path(path))
                truth = (step if direction > 0 else np.linalg.inv(step)) @ truth
            there = here @ truth[:3, :3].T + truth[:3, 3]
        more["points"] = self.points("points_" + stem, here)
        more["truth"] = None if there is None else np.round(there, 2).tolist()
        add = lambda way, how, extra=(), m=moving, **own: self.add(pair, way, how, fixed, m, extra, **{**more, **own})
        for how in ALL + (OTHER if kind in MIXED else SAME):
            add("plain", how)
        about = lambda matrix, shift: np.block([[matrix, (centre - matrix @ centre + shift)[:, None]],
                                                [np.zeros((1, 3)), np.ones((1, 1))]])
        axis, along = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)) * [[1, 1, 1], [1, 1, not flat]])
        turn = lambda angle: a.Rotation.from_rotvec((np.array([0, 0, 1.0]) if flat else axis) * np.deg2rad(angle)).as_matrix()
        starts = {
            "start shifted by 15 mm": about(np.eye(3), along * min(15, 0.4 * radius)),
            "start shifted far": about(np.eye(3), along * 0.8 * radius),
            "start turned by 20": about(turn(20), 0 * along), "start turned far": about(turn(rng.uniform(45, 90)), 0 * along),
            "start turned over": about(turn(180), 0 * along), "start mirrored": about(np.diag([-1.0, 1, 1]), 0 * along),
            "start of a local search": about(turn(25), along * 0.3 * radius),
        }
        for i, (way, by) in enumerate(starts.items()):
            for how in (ONE, [("greedy", "lncc"), ("greedy", "mi"), ("lddmm", "mi")][(i + len(stem)) % 3]):
                if way != "start mirrored" or how[0] != "symmetric":
                    add(way, how, after=by.tolist())
        add("little smoothing", ONE, ["--sigma", "0.6", "--total-sigma", "0"])
        add("little smoothing", ("greedy", "mi"), ["--sigma", "0.6", "--total-sigma", "0"])
        add("little smoothing", ("lddmm", "lncc"), ["--lddmm-sigma", "0.02"])
        values, matrix = self.coarse(pair["moving"])
        as_if = lambda name, by: self.write(f"{self.stem(pair['moving'])}_{name}", values, by @ matrix)
        if not flat:
            add("mirrored", ONE, m=as_if("mirrored", np.diag([-1.0, 1, 1, 1])), labels=None, truth=None)
            half = values.shape[2] // 2
            own = {"m": self.write(f"{self.stem(pair['moving'])}_half", values[:, :, :half], matrix)}
            if "labels" in more:
                cut, to = self.coarse(known[2], True, pair["moving"])
                own["labels"] = [more["labels"][0], self.write(f"labels_{self.stem(known[2])}_half", cut[:, :, :half], to, True)]
            add("half", ONE, **own)
            add("half", ("symmetric", "lncc"), **own)
        for way, factor in (("metres", 0.001), ("ten times", 10.0)):
            add(way, ONE, m=as_if(way.replace(" ", "_"), np.diag([factor] * 3 + [1.0])), labels=None, truth=None)
        own, to = self.coarse(pair["fixed"])
        low, high = np.percentile(own, [2, 98])
        inside = own > low + 0.15 * (high - low)
        x = np.arange(own.shape[0])[:, None, None] < np.argwhere(inside)[:, 0].mean()
        for name, mask in (("of a half", x & np.ones_like(inside)), ("of all but the object", ~inside)):
            if mask.sum() > 500:
                path = self.write(f"mask_{name.replace(' ', '_')}_{stem}", mask.astype(float), to, True)
                add("mask " + name, ONE, ["--fixed-mask", path])
        self.landmarks(pair, add, rng, more, here, there)

    def landmarks(self, pair, add, rng, more, here, there):
        """Those that pull: known points, or the middles of labels, in their order or a wrong one."""
        a, np, stem = self.a, self.a.np, self.stem(pair["name"])
        if "labels" in more:
            sides = []
            for name, like in ((pair["known"][1], pair["fixed"]), (pair["known"][2], pair["moving"])):
                values, matrix = self.coarse(name, True, like)
                values = np.rint(values).astype(int)
                sides.append({k: matrix[:3, :3] @ np.argwhere(values == k).mean(0) + matrix[:3, 3]
                              for k in np.unique(values) if k > 0 and (values == k).sum() > 30})
            both = [k for k in sides[0] if k in sides[1]]
            both = [both[i] for i in sorted(rng.permutation(len(both))[:30])]
            here, there = (np.array([side[k] for k in both]) for side in sides)
        if there is None or len(here) < 5:
            return
        keep = np.sort(rng.permutation(len(here))[:30])
        here, there = here[keep], there[keep]
        weight = 3e-4
        pairs = {"landmarks": (here, there), "landmarks exchanged": (there, here), "landmarks reversed": (here, there[::-1]),
                 "landmarks shuffled": (here, there[rng.permutation(len(there))])}
        two = there.copy()
        two[[0, len(two) // 2]] = two[[len(two) // 2, 0]]
        pairs["two landmarks exchanged"] = (here, two)
        flipped = there.copy()
        flipped[:, 0] = 2 * there[:, 0].mean() - there[:, 0]
        pairs["landmarks mirrored"] = (here, flipped)
        noisy = there + rng.normal(0, 2, there.shape) * [1, 1, pair["kind"] not in FLAT]
        pairs["landmarks off by 2 mm"] = (here, noisy)
        for way, (f, m) in pairs.items():
            name = f"{stem}_{way.replace(' ', '_')}"
            lists = [self.points(name + "_fixed", f), self.points(name + "_moving", m)]
            use = ["--landmarks", *lists]
            add(way, ONE, use)
            strong = [*use, "--landmark-weight", str(30 * weight)]
            if way in ("landmarks", "landmarks reversed"):
                add(way + ", strong", ONE, strong)
                add(way + ", strong", ("symmetric", "lncc"), strong)
            if way in ("landmarks", "landmarks reversed", "landmarks shuffled"):
                start = ["--init", f"landmarks:{lists[0]},{lists[1]}", "--search", "local"]
                add(way + ", start", ONE, [*use, *start])

    def stranger(self, pair, rng):
        """What does not belong together: after its own affine part, and from where the middles lie on each other."""
        np = self.a.np
        fixed, moving = self.image(pair["fixed"]), self.image(pair["moving"])
        middles = [self.files.object(pair[side]).mean(0) for side in ("fixed", "moving")]
        by = np.eye(4)
        by[:3, 3] = middles[1] - middles[0]
        hows = [ONE, ("greedy", "mi"), ("greedy", "lncc"), ("symmetric", "auto"), ("lddmm", "mi"), ("greedy", "nmi"), ("greedy", "ssd")]
        some = hows[:4] if len(pair["costs"]) > 1 else [hows[i] for i in rng.permutation(len(hows))[:2]]
        for how in some:
            self.add(pair, "unrelated", how, fixed, moving)
            self.add(pair, "unrelated, laid on each other", how, fixed, moving, start=by.tolist())


def make(args, folder):
    """Writes everything into a folder, and the jobs."""
    sys.path.insert(0, HERE)
    import calibrate_affine as affine
    np = affine.np
    files = affine.Files(args.data, args.seed)
    pairs = affine.pairs(args.data)
    rng = np.random.default_rng(args.seed)
    others = affine.strangers(pairs, rng, 40)
    if args.set_aside:
        others = [p for p in others if len(p["costs"]) == 1]
    words = [w for w in args.only.split(",") if w]
    wanted = lambda p: not words or any(w in p["name"] or w in p["kind"] for w in words)
    there = lambda p: all(files.there(n) for n in [p["fixed"], p["moving"]] + [
        k for k in p["known"] if isinstance(k, str) and "/" in k])
    left = [p["name"] for p in pairs + others if not there(p)]
    if left:
        print(f"Left out, as files are not there: {', '.join(left)}.\n")
    maker, count = Maker(affine, files, folder, args.seed), {}
    for p in (p for p in pairs if there(p) and wanted(p)):
        count[p["kind"]] = count.get(p["kind"], 0) + 1
        if (count[p["kind"]] <= MOST.get(p["kind"], 100)) != args.set_aside:
            maker.pair(p)
    for p in (p for p in others if there(p) and wanted(p)):
        maker.stranger(p, rng)
    with open(os.path.join(folder, "jobs.json"), "w") as file:
        json.dump(maker.jobs, file)
    return maker.jobs


# Running.

def affine_file(path, m):
    """An affine map of RAS mm as ITK's text, whose world is LPS."""
    s = (-1, -1, 1)
    numbers = [m[i][j] * s[i] * s[j] for i in range(3) for j in range(3)] + [m[i][3] * s[i] for i in range(3)]
    with open(path, "w") as file:
        file.write("#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_3_3\nParameters: "
                   + " ".join(f"{v:.15g}" for v in numbers) + "\nFixedParameters: 0 0 0\n")


def product(a, b):
    return [[sum(a[i][k] * b[k][j] for k in range(4)) for j in range(4)] for i in range(4)]


def run(program, folder, job, plain):
    """One run, and all that it found."""
    record = {k: job[k] for k in ("pair", "kind", "way", "how", "truth", "fixed") if k in job}
    program = os.path.abspath(program)
    with tempfile.TemporaryDirectory(prefix="calibrate-") as scratch:
        out, start = os.path.join(scratch, "out"), os.path.join(scratch, "start.tfm")
        line = [program, "deform", job["fixed"], job["moving"], "-o", out, "--no-report", "--threads", "1", "--quiet",
                "--device", "cpu", "--outputs", "affine,warp" if job.get("points") else "affine", *job["args"]]
        given = job.get("start")
        if "after" in job:
            if job["pair"] not in plain:
                return dict(record, error="the plain run has no result")
            given = product(plain[job["pair"]], job["after"])
        if given:
            affine_file(start, given)
            line += ["--init", start, "--search", "local"] if job["way"] == "start of a local search" else ["--affine", start]
        if job.get("labels"):
            line += ["--fixed-labels", job["labels"][0], "--moving-labels", job["labels"][1]]
        done = subprocess.run(line, capture_output=True, text=True, cwd=folder)
        record["code"] = done.returncode
        try:
            with open(os.path.join(out, "result.json")) as file:
                result = json.load(file)
        except OSError:
            return dict(record, error=done.stderr.strip()[-300:])
        deformation = result.get("deformation") or {}
        record.update(
            matrix=result["transform"]["matrix"], good=result["verdict"]["good"], checks=result["verdict"]["checks"],
            remarks=result["verdict"]["remarks"], limits=result.get("limits"), figures=result["figures"], evidence=deformation.get("evidence"),
            measures=deformation.get("measures"), mended=deformation.get("mended"),
            affine=(deformation.get("affine_verdict") or {}).get("checks"), seconds=sum(result["timings"].values()),
            landmarks=[[p["before_mm"], p["after_mm"]] for p in result.get("landmarks", [])])
        if job.get("points") and os.path.exists(os.path.join(out, "warp.nii.gz")):
            to = os.path.join(scratch, "to.csv")
            chain = ["-t", os.path.join(out, "warp.nii.gz"), "-t", os.path.join(out, "affine.tfm")]
            subprocess.run([program, "apply", "-i", job["points"], "--points-from", "fixed", *chain, "-o", to, "--quiet"],
                           capture_output=True, cwd=folder)
            if os.path.exists(to):
                with open(to) as file:
                    record["mapped"] = [[float(v) for v in row.split(",")[:3]] for row in file.read().split("\n")[1:] if row]
    return record


def run_all(args, folder, jobs):
    """The first plain runs, as others start from what they found, then all others in a random order."""
    keep = open(args.keep, "w") if args.keep else None
    found, plain, end = [], {}, time.monotonic() + args.limit
    first = lambda job: job["way"] == "plain" and job["args"][1] == ONE[0] and job["args"][3] == ONE[1]

    def work(some):
        def one(job):
            return run(args.program, folder, job, plain) if time.monotonic() < end else None
        with ThreadPoolExecutor(args.workers) as pool:
            for record in (r for r in pool.map(one, some) if r):
                found.append(record)
                if keep:
                    print(json.dumps(record), file=keep, flush=True)
    work([j for j in jobs if first(j)])
    plain.update({r["pair"]: r["matrix"] for r in found if "matrix" in r})
    rest = [j for j in jobs if not first(j)]
    random.Random(args.seed).shuffle(rest)
    work(rest)
    if len(found) < len(jobs):
        print(f"{len(jobs) - len(found)} of {len(jobs)} jobs were not run: the time was over")
    if keep:
        keep.close()
    return found


# What the runs say.

def mean_distance(one, other):
    return sum(sum((p - q) ** 2 for p, q in zip(a, b)) ** 0.5 for a, b in zip(one, other)) / max(1, len(one))


def dice(record, when):
    return record["figures"].get("label_overlap_" + when)


def label(runs):
    """Gives every run its `label`: right, wrong, mirrored, or None."""
    runs_of = {}
    for r in runs:
        r["label"], r["score"] = None, None
        if "checks" in r:
            runs_of.setdefault(r["pair"], []).append(r)
    for some in runs_of.values():
        plain = [r for r in some if r["way"] == "plain"]
        first = next((r for r in plain if r["how"] == " ".join(ONE)), None)
        base = first and dice(first, "before")
        tops = [dice(r, "after") for r in some if dice(r, "after") is not None]
        floor = max(base, 0.75 * max(tops)) if base is not None and tops else None
        for r in some:
            kind, way = r["kind"], r["way"]
            if kind in UNRELATED or way in UNITS:
                # A crop around a hippocampus may lie where it belongs after a search; middle on middle it does not.
                part = kind == "crop and brain" and "laid on" not in way
                r["label"] = None if part else "wrong"
                continue
            if way in ("mirrored", "start mirrored"):
                r["label"] = "mirrored"
                continue
            after = dice(r, "after")
            if after is not None and floor is not None:
                half = way == "half"
                low, high = (0.75 * floor, 0.4 * floor) if half else (floor - 0.02, 0.6 * floor)
                r["score"] = after
                r["label"] = "right" if after >= low else "wrong" if after < high else None
            elif r.get("mapped"):
                truth, (low, high) = r.get("truth"), PER_KIND[kind]
                if truth is None:
                    truth, (low, high) = first and first.get("mapped"), UNKNOWN
                if truth:
                    r["score"] = mean_distance(r["mapped"], truth)
                    r["label"] = "right" if r["score"] < low else "wrong" if r["score"] > high else None
            if r["label"] == "right" and (way == "two landmarks exchanged" or way == "mask of all but the object"):
                r["label"] = None
            left = [p[1] for p in r["landmarks"]]
            if way in DISORDER or way == "landmarks mirrored":
                far = left and sum(left) / len(left) > 10
                r["label"] = "wrong" if far else "wrong" if r["label"] == "wrong" else None


def source(name):
    """A constant of crates/register/src/limits.rs: its numbers, or those of its fields."""
    with open(os.path.join(HERE, "../crates/register/src/limits.rs")) as file:
        text = file.read()
    number = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
    if fields := re.search(rf"^    \w+, {name} \{{(.*?)^    \}}", text, re.S | re.M):
        return {k: float(v) for k, v in re.findall(rf"(\w+): \w+ = ({number}),", fields.group(1))}
    return [float(n) for n in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", re.search(rf"const {name}\b[^=]*=(.*?);", text, re.S).group(1))]


LITTLE = 0.02


def leads(evidence):
    """As in crates/register/src/evidence/seen.rs."""
    import math
    found, near, other = (evidence[k] for k in ("found", "near", "elsewhere"))
    clip = lambda v, most: max(-most, min(most, v))
    log = lambda a, b, of: clip(math.log((a[of] + LITTLE) / (b[of] + LITTLE)), 2)
    return [(found["edges"] - other["edges"]) / (1 - other["edges"] + LITTLE),
            clip((found["edges"] - near["edges"]) / (found["edges"] + LITTLE), 1),
            log(found, other, "tissue"), log(found, near, "tissue"), log(found, other, "information"),
            clip(log(found, near, "information"), 1)]


def dot(weights, values):
    return sum(w * v for w, v in zip(weights, values)) + weights[-1]


OWN = ("agreement of edges, information and tissue after", "agreement under the nearest affine map",
       "information within the tissue under")


def passes(run, deformation, landmarks):
    """Whether all checks but those of the agreement are met, by the bounds of the sources."""
    others = next((c for c in run["checks"] if "against that to the partners" in c["name"]), None)
    then = ((run.get("limits") or {}).get("landmarks") or {}).get("of_others", 0.3)
    others = float(re.search(r"at most ([\d.]+)", others["asked"]).group(1)) / then if others else 0.0
    for c in run["checks"]:
        name, value = c["name"], c["value"]
        if name.startswith(OWN):
            continue
        if value is None:
            return False
        if name.startswith("shared information"):
            met = value >= deformation["worth"]
        elif name.startswith("information within the tissue, as a fraction"):
            met = value >= landmarks["pays"]
        elif "against that to the partners" in name:
            met = value <= landmarks["of_others"] * others
        elif name == "mean distance of the landmarks":
            met = c["passed"] or value <= landmarks["near_others"] * others
        elif name.startswith("part of the landmarks"):
            met = value <= landmarks["exchanged"]
        else:
            met = c["passed"]
        if not met:
            return False
    return True


def bound(errors, of):
    """The largest rate, per cent, at which so few errors are as rare as 5 in 100 (one-sided)."""
    def at_most(p):
        term, total = (1 - p) ** of, 0.0
        for k in range(errors + 1):
            total += term
            term *= (of - k) / (k + 1) * p / (1 - p)
        return total
    low, high = 0.0, 1 - 1e-12
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at_most(middle) > 0.05 else (low, middle)
    return 100 * high if errors < of else 100.0


def print_fit(known):
    """The bounds on both agreements with each kind left out, and of all; how many of that kind are on the wrong side."""
    group = lambda r: "unrelated" if r["kind"] in UNRELATED else r["kind"]
    fitted = [r for r in known if r["way"] not in UNITS and "landmarks" not in r["way"]]

    def best(some):
        """The middle of the bounds with the smallest sum of both rates of errors."""
        sides = [[r for r in some if r["label"] == side] for side in ("right", "wrong")]
        found = {}
        for i in range(-40, 21):
            for j in range(-40, 21, 2):
                good = lambda r: r["rest"] and r["deformed"] >= i / 10 and r["straight"] >= j / 10
                errors = sum(not good(r) for r in sides[0]) / len(sides[0]) + sum(map(good, sides[1])) / len(sides[1])
                found.setdefault(round(errors, 9), []).append((i / 10, j / 10))
        those = found[min(found)]
        return [sorted(t[k] for t in those)[len(those) // 2] for k in (0, 1)]
    print("\n| left out | wrong ones called good | right ones called bad | bounds: deformed, straight |\n|---|---|---|---|")
    for out in [*dict.fromkeys(map(group, known)), None]:
        deformed, straight = best([r for r in fitted if group(r) != out])
        good = lambda r: r["rest"] and r["deformed"] >= deformed and r["straight"] >= straight
        test = [r for r in known if out in (None, group(r))]
        sides = {side: [good(r) for r in test if r["label"] == side] for side in ("wrong", "right")}
        print(f"| {out or 'nothing'} | {sum(sides['wrong'])} of {len(sides['wrong'])} | "
              f"{len(sides['right']) - sum(sides['right'])} of {len(sides['right'])} | {deformed:.1f}, {straight:.1f} |")


def report(runs, show_fit):
    """Prints the tables; whether the verdict is good enough."""
    label(runs)
    weights, deformation, landmarks = source("AGREEMENT"), source("DEFORMATION"), source("LANDMARKS")
    done = [r for r in runs if r.get("evidence")]
    for r in done:
        r["deformed"], r["straight"] = (dot(weights, leads(r["evidence"][k])) for k in ("deformed", "straight"))
        r["rest"] = passes(r, deformation, landmarks)
        r["rest"] = r["rest"] and r["evidence"]["straight"]["found"]["tissue"] >= deformation["tissue"]
        agrees = r["deformed"] >= deformation["agreement"] and r["straight"] >= deformation["straight"]
        r["called"] = "good" if agrees and r["rest"] else "bad"
    # No deformation starts from an affine part that failed far: there is nothing that could be called good.
    for r in runs:
        if not r.get("evidence"):
            r["called"] = "refused"
            r["label"] = r["label"] or ("wrong" if r["kind"] in UNRELATED or r["way"] in UNITS else None)
    count = lambda label_, called=None, **of: sum(
        r["label"] == label_ and called in (None, r["called"]) and all(r[k] in v for k, v in of.items()) for r in runs)

    def table(heading, rows):
        print(f"\n| {heading} | right | called bad | wrong | called good | neither | called good |\n|---|---|---|---|---|---|---|")
        for name, of in rows:
            cells = [count("right", **of), count("right", "bad", **of) + count("right", "refused", **of), count("wrong", **of),
                     count("wrong", "good", **of), count(None, **of) + count("mirrored", **of),
                     count(None, "good", **of) + count("mirrored", "good", **of)]
            if sum(cells):
                print(f"| {name} | {' | '.join(map(str, cells))} |")
    names = lambda key: sorted({r[key] for r in runs})
    table("kind of data", [(k, {"kind": [k]}) for k in [*PER_KIND, *UNRELATED]] + [("all", {})])
    table("what was done", [(k, {"way": [k]}) for k in names("way")])
    table("model and similarity", [(k, {"how": [k]}) for k in names("how")])
    right, wrong = count("right"), count("wrong")
    good, bad = count("wrong", "good"), right - count("right", "good")
    if right and wrong:
        print(f"\nAt most {bound(good, wrong):.2f} % of wrong ones are called good and {bound(bad, right):.2f} % of right ones "
              "bad (one-sided 95 %, as if all runs were independent, which those of one pair are not).")
    for words, label_, called in (("Wrong ones called good", "wrong", "good"), ("Right ones called bad", "right", "bad")):
        print(f"\n{words}, with both agreements and the score:")
        for r in (r for r in done if r["label"] == label_ and r["called"] == called):
            failed = "; ".join(f"{c['name']} {c['value']}" for c in r["checks"] if not c["passed"])
            print(f"- {r['pair']}, {r['way']}, {r['how']}: {r['deformed']:.2f} and {r['straight']:.2f}, "
                  f"{r['score'] if r['score'] is None else round(r['score'], 2)} {failed if called == 'bad' else ''}")
    failed = [r for r in runs if "error" in r]
    if failed:
        print(f"\n{len(failed)} of {len(runs)} runs have no result, such as of {failed[0]['pair']}, {failed[0]['way']}: "
              f"{failed[0]['error'][:200]}")
    if show_fit:
        print_fit([r for r in done if r["label"] in ("right", "wrong")])
    return good == 0 and bad <= 0.02 * right


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", metavar="DATA", nargs="?")
    parser.add_argument("--program", default="target/release/voxalign")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="substrings of the names of pairs or kinds")
    parser.add_argument("--set-aside", action="store_true", help="the other brains, crops and slices, and random pairs alone")
    parser.add_argument("--jobs", help="write images and jobs into this folder, and exit")
    parser.add_argument("--run", help="run the jobs of this folder, and exit")
    parser.add_argument("--keep", help="file for the runs, one JSON record per line")
    parser.add_argument("--from", dest="source", help="evaluate kept runs instead of running any")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no further job starts")
    parser.add_argument("--fit", action="store_true")
    args = parser.parse_args()
    if args.source:
        with open(args.source) as file:
            runs = [json.loads(line) for line in file]
        words = [w for w in args.only.split(",") if w]
        runs = [r for r in runs if not words or any(w in r["pair"] or w in r["kind"] for w in words)]
    elif args.run:
        with open(os.path.join(args.run, "jobs.json")) as file:
            run_all(args, args.run, json.load(file))
        return
    elif not args.data:
        parser.error("give DATA, --run or --from")
    elif args.jobs:
        os.makedirs(args.jobs, exist_ok=True)
        print(f"{len(make(args, args.jobs))} jobs in {args.jobs}")
        return
    else:
        with tempfile.TemporaryDirectory(prefix="calibrate-") as folder:
            runs = run_all(args, folder, make(args, folder))
    sys.exit(0 if report(runs, args.fit) else 1)


if __name__ == "__main__":
    main()
