#!/usr/bin/env python3
"""Error rates of the verdicts of `voxalign pose --stream` on the frames of a sequence and on the whole of it.

    tools/calibrate_track.py DATA [--program target/release/voxalign] [--jobs N] [--seeds N] [--held-out] [--only TEXT,...]
        [--keep RUNS.jsonl] [--from RUNS.jsonl]

The CTs, views and noise are those of tools/calibrate_poses.py, which lies beside: voxels of 4.6 mm, two images of 128 x 128 pixels that were
simulated of finer CTs. A sequence has 10 frames; its CT moves along a straight line or to and fro, up to 3 mm and 2 degrees a frame, from
where the search starts. What is done to it is one of `WAYS`. Needs numpy. DATA has ct_head_invesalius and lung_4dct_plastimatch.

Every frame counts, and every sequence:

- a frame that was followed or found is right where the mean error of 27 points over the middle half of the CT is at most 1 mm, else wrong,
  and is called good. One whose error is 1 to 2 mm is not labelled;
- a frame that is lost is called bad. It is right where the images show the CT by the geometry that was given and the CT did not move
  farther than the range of a frame (it should have been followed), else wrong;
- a sequence is right where nothing was done to its images or views that no pose explains and no frame is farther off than 1 mm, wrong
  where a frame is more than 2 mm off or shows what is not the CT; and good or bad by its verdict.

Odd seeds are those that bounds are chosen on, even ones (--held-out) are set aside. Prints Markdown.
"""
import os
import shutil
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import calibrate_poses as poses  # noqa: E402
import calibration  # noqa: E402

FRAMES, PHOTONS = 10, 1e5
NEAR, FAR = 1.0, 2.0
PER_FRAME, JUMP = np.array([2.0] * 3 + [3.0] * 3), np.array([0, 0, 25.0, 25.0, 0, 0])
SHORT = np.array([3.0, -3.0, 4.0, 5.0, 5.0, -5.0])
# Method, and whether the images still are those of the CT by the geometry that is given.
HONEST = ["straight on", "to and fro", "noise of 5000", "brighter and darker", "border in some frames", "short jump", "jump of 25 mm and degrees",
          "frames between missing", "metal in some frames"]
FALSE = ["a blank frame", "a blank view", "a frame of another body", "another body from then on", "a frame mirrored", "mirrored from then on",
         "a view mirrored from then on", "a frame with views exchanged", "views exchanged from then on", "a view stands still",
         "a view one frame late", "a frame of noise", "a frame upside down", "distance +10 % in one", "distance +10 % from then on in one",
         "detector shifted from then on", "mirrored", "views exchanged"]
WAYS = [*HONEST, *FALSE]


def motion(way, random):
    """Rotations about x, y, z (degrees) and translations (mm) of all frames."""
    start, by = random.uniform(-1, 1, 6) * [4, 4, 4, 6, 6, 6], random.uniform(-1, 1, 6) * PER_FRAME
    if way == "a view stands still" or way == "a view one frame late":
        by = np.sign(by) * np.maximum(abs(by), 0.5 * PER_FRAME)
    steps = np.arange(FRAMES, dtype=float)
    if way == "to and fro" or random.random() < 0.5:
        steps = 2.2 * np.sin(2 * np.pi * steps / 7)
    if way == "frames between missing":
        steps = np.where(steps >= FRAMES // 2, steps + 2, steps)
    return start + steps[:, None] * by


class Study:
    def __init__(self, args):
        self.program, self.folder = args.program, args.folder
        os.makedirs(self.folder, exist_ok=True)
        self.bodies = {}
        for name, path in poses.CTS.items():
            if args.data and os.path.exists(os.path.join(args.data, path)):
                self.bodies[name] = poses.Body(name, os.path.join(args.data, path), self.folder)

    def images(self, body, views, moves, run, random, photons):
        """Attenuations of all views and frames, with noise: view, frame, row, column."""
        names = [f"{k}_{a}" for k in ("rotation", "translation") for a in "xyz"]
        with open(f"{run}/poses.csv", "w") as file:
            print(",".join(names), *(",".join("%.9g" % v for v in row) for row in moves), sep="\n", file=file)
        poses.table(views, f"{run}/true.toml")
        line = [self.program, "drr", body.fine, "-o", f"{run}/sim", "--geometry", f"{run}/true.toml", "--units", "attenuation", "--format", "nifti"]
        line += ["--poses", f"{run}/poses.csv", "--centre=" + ",".join(map(str, body.centre))]
        poses.call(line + ["--no-report", "--device", "cpu", "--threads", "1", "-q"])
        clean = [[np.squeeze(poses.read(f"{run}/sim/{v.name}_{i:04}.nii.gz")[0]) for i in range(len(moves))] for v in views]
        shutil.rmtree(f"{run}/sim")
        return np.log(photons / np.maximum(random.poisson(photons * np.exp(-np.array(clean, float))), 1))

    def views(self, body):
        wide = 1.25 * poses.FAR / poses.NEAR * np.linalg.norm(body.rows[:, :3] @ (body.dims * [1, 1, 0])) / np.sqrt(2)
        return [poses.View(n, a, body.centre, wide / 128) for n, a in (("ap", 0), ("lateral", 90))]

    def make(self, job, run):
        """Images and views as they are handed in, the true motion, and which frames the images tell truly."""
        body, way = self.bodies[job["set"]], job["way"]
        random = np.random.default_rng([job["seed"], WAYS.index(way), sorted(poses.CTS).index(job["set"])])
        moves, true, given = motion(way, random), self.views(body), self.views(body)
        at = int(random.integers(3, FRAMES - 3))
        later, one = np.arange(FRAMES) >= at, np.arange(FRAMES) == at
        if "jump" in way:
            moves[later] += (JUMP if "25" in way else SHORT) * random.choice([-1, 1])
        make = lambda views, body=body: self.images(body, views, moves, run, random, 5000 if way == "noise of 5000" else PHOTONS)
        if way.startswith("distance"):
            wrong = [true[0].copy(), true[1].copy().distance(1.1)]
        elif way.startswith("detector"):
            wrong = [true[0].copy().moved(20 * true[0].column / np.linalg.norm(true[0].column)), true[1].copy()]
        else:
            wrong = None
        images = make(true)
        some = later if "then on" in way else one if "frame" in way else ~np.zeros(FRAMES, bool)
        if wrong:
            images[:, some] = make(wrong)[:, some]
        elif "body" in way:
            other = self.bodies["chest" if job["set"] == "head" else "head"]
            seen = [poses.View(v.name, a, other.centre, np.linalg.norm(v.column)) for v, a in zip(true, (0, 90))]
            images[:, some] = make(seen, other)[:, some]
        elif "a view mirrored" in way:
            images[1:, some] = images[1:, some, :, ::-1]
        elif "mirrored" in way:
            images[:, some] = images[:, some, :, ::-1]
        elif "exchanged" in way:
            images[:, some] = images[::-1, some]
        elif "upside down" in way:
            images[:, some] = images[:, some, ::-1]
        elif way == "a frame of noise":
            images[:, some] = random.uniform(0, images.max(), images[:, some].shape)
        elif way == "a blank frame":
            images[:, some] = 0
        elif way == "a blank view":
            images[1:, one] = 0
            some = one
        elif way == "a view stands still":
            images[1, later] = images[1, at]
            some = later & ~one
        elif way == "a view one frame late":
            images[1, 1:] = images[1, :-1].copy()
            some = np.arange(FRAMES) > 0
        elif way == "brighter and darker":
            images = images * (1 + 0.15 * np.sin(np.arange(FRAMES)))[:, None, None] + 0.05 * random.uniform(0, 1, FRAMES)[:, None, None]
        elif "some frames" in way:
            for view in images:
                for i in range(at, min(at + 3, FRAMES)):
                    view[i] = framed(view[i]) if "border" in way else poses.metal(view[i], random)
        truth = ~some if way in FALSE else np.ones(FRAMES, bool)
        return body, images, given, moves, truth, at

    def run(self, job):
        run = f"{self.folder}/{calibration.name_of(job)}"
        shutil.rmtree(run, ignore_errors=True)
        os.makedirs(run)
        body, images, views, moves, truth, at = self.make(job, run)
        line = [self.program, "pose", body.coarse, "-o", f"{run}/found", "--units", "attenuation", "--geometry", f"{run}/views.toml"]
        poses.table(views, f"{run}/views.toml")
        for view, frames in zip(views, images):
            os.makedirs(f"{run}/{view.name}")
            for i, image in enumerate(frames):
                poses.write(f"{run}/{view.name}/{i:04}.nii", image[None], np.hstack([np.eye(3), np.zeros((3, 1))]))
            line += ["--stream", f"{run}/{view.name}"]
        result, error = calibration.call(line)
        shutil.rmtree(run)
        record = dict(job, at=at, truth=truth.tolist(), good=result and result["verdict"]["good"], error=error, frames=[])
        before = None
        for frame, move in zip((result or {}).get("frames", []), moves):
            off = body.error(frame, (move[:3], move[3:]))
            step = 0 if before is None else float(np.abs(move - before).max())
            record["frames"].append(dict(mm=round(off, 3), status=frame["status"], correlations=frame["correlations"], step=round(step, 2),
                                         cost=frame["cost"], alone=frame.get("alone_mm"), ms=round(frame["milliseconds"], 1), reason=frame.get("reason")))
            before = move
        if result:
            record["checks"] = result["verdict"]["checks"]
        return record


def framed(image):
    """What a collimator leaves: a border of one value around the middle."""
    n, out = image.shape[0], np.zeros_like(image)
    a, b = int(0.14 * n), int(0.86 * n)
    out[a:b, a:b] = image[a:b, a:b]
    return out


def frames_of(run):
    """The frames of a sequence, labelled."""
    for number, (frame, true) in enumerate(zip(run["frames"], run["truth"])):
        good = frame["status"] in ("found", "followed")
        if good:
            label = "right" if frame["mm"] <= NEAR else "wrong" if frame["mm"] > FAR else None
        else:
            jump = "25" in run["way"] and number >= run["at"]
            label = "wrong" if not true else None if jump else "right"
        said = f"frame {number} {frame['status']} {frame.get('reason') or ''} {frame['mm']} mm, {frame['correlations']}, wrong at {run['at']}"
        yield dict(set=run["set"], way=run["way"], seed=run["seed"], order=run["order"], good=good, label=label, said=said)


def main():
    args = calibration.study(__doc__, "/tmp/calibrate-track")
    study = Study(args)
    jobs = [dict(set=name, way=way, seed=seed) for way in WAYS for name in study.bodies for seed in calibration.seeds(args)]
    runs = calibration.run_all(args, jobs, study.run)
    for run in runs:
        run["order"] = WAYS.index(run["way"])
        good = [f["mm"] for f in run["frames"] if f["status"] in ("found", "followed")]
        worst = max(good, default=0.0)
        if all(run["truth"]):
            close = all(f["mm"] <= NEAR for f in run["frames"])
            run["label"] = "right" if close else "wrong" if worst > FAR or run["error"] else None
        else:
            run["label"] = "wrong"
        lost = sum(f["status"] not in ("found", "followed") for f in run["frames"])
        unmet = "; ".join(f"{c['name']} {c['value']}" for c in run.get("checks", []) if not c["passed"])
        run["said"] = f"{worst:.2f} mm at most, {lost} lost {unmet} {run['error'] or ''}"
    frames = [frame for run in runs for frame in frames_of(run)]
    calibration.table("what was done, frames", frames, lambda r: r["way"])
    calibration.errors(frames, "frames")
    calibration.table("what was done, sequences", runs, lambda r: r["way"])
    calibration.errors(runs, "sequences")


if __name__ == "__main__":
    main()
