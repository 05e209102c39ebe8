"""Shared parts of the calibration scripts: arguments, runs, counts and tables.

A run is one line of JSON. What it was is in `set` (the kind of data), `way` (what was done) and `seed`; what was found is in `good` (none
where the program refused its input) and in whatever a script needs to tell right from wrong. Needs Python alone.
"""
import argparse
import json
import os
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor, as_completed


def arguments(doc, workers="--workers", data="?"):
    """The options of all: the data, the program, random seed, which runs, and where they are kept."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DATA", nargs=data)
    parser.add_argument("--program", default="target/release/voxalign")
    parser.add_argument(workers, type=int, dest="workers", default=os.cpu_count(), help="runs at a time, of one thread each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="substrings of the names of runs, separated by commas")
    parser.add_argument("--keep", metavar="RUNS.jsonl", help="file for the runs, one JSON record per line")
    parser.add_argument("--from", dest="source", metavar="RUNS.jsonl", help="evaluate kept runs instead of running any")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no further run starts")
    return parser


def study(doc, folder):
    """The options of a script with random cases, each of which has a seed: odd ones to choose bounds on, even ones set aside."""
    parser = arguments(doc, "--jobs")
    parser.add_argument("--seeds", type=int, default=3, help="random cases of each kind")
    parser.add_argument("--held-out", action="store_true", help="run the held-out cases")
    parser.add_argument("--folder", default=folder, help="where images and runs are made (default: %(default)s)")
    args = parser.parse_args()
    if not args.data and not args.source:
        parser.error("give DATA or --from")
    args.program = os.path.abspath(args.program)
    return args


def seeds(args):
    first = 2 if args.held_out else 1
    return [first + 2 * i for i in range(args.seeds)]


def words(text):
    return [word for word in text.split(",") if word]


def wanted(run, only):
    return not only or any(word in f"{run['set']} {run['way']}" for word in words(only))


def kept(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def name_of(run):
    return f"{run['set']}_{run['way']}_{run['seed']}".translate({ord(c): "_" for c in " ,;:%+/()'"})


def run_all(args, jobs, run):
    """The records of all jobs, in a random order; those that were kept already are not run again."""
    if args.source:
        return [r for r in kept(args.source) if wanted(r, args.only)]
    jobs = [job for job in jobs if wanted(job, args.only)]
    there = {name_of(r): r for r in kept(args.keep)} if args.keep and os.path.exists(args.keep) else {}
    found = [there[name_of(job)] for job in jobs if name_of(job) in there]
    left = [job for job in jobs if name_of(job) not in there]
    random.Random(args.seed).shuffle(left)
    end = time.monotonic() + args.limit
    keep = open(args.keep, "a") if args.keep else None
    with ThreadPoolExecutor(args.workers) as pool:
        begun = [pool.submit(lambda job: run(job) if time.monotonic() < end else None, job) for job in left]
        for done in as_completed(begun):
            record = done.result()
            if record:
                found.append(record)
                if keep:
                    print(json.dumps(record), file=keep, flush=True)
    if len(found) < len(jobs):
        print(f"{len(jobs) - len(found)} of {len(jobs)} runs were not made: the time was over")
    return found


def call(line, cwd=None):
    """A run of the program: its record, or what it said where it made none."""
    out = line[line.index("-o") + 1]
    done = subprocess.run(line + ["--no-report", "--threads", "1", "--device", "cpu", "--quiet"], capture_output=True, text=True, cwd=cwd)
    if done.returncode not in (0, 1):
        return None, done.stderr.strip()[-300:] or f"ended with {done.returncode}"
    with open(os.path.join(cwd or "", out, "result.json")) as file:
        return json.load(file), None


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


def count(runs, label, good=None):
    return sum(r["label"] == label and good in (None, bool(r["good"])) for r in runs)


def table(heading, runs, key):
    """Counts of right and wrong ones by what their verdict is; `key` gives the row of a run."""
    print(f"\n| {heading} | right | called bad | wrong | called good | neither | called good |\n|---|---|---|---|---|---|---|")
    rows = list(dict.fromkeys(key(r) for r in sorted(runs, key=lambda r: (r["order"], r["set"]))))
    for row in rows + ["all"]:
        some = [r for r in runs if row == "all" or key(r) == row]
        cells = [count(some, "right"), count(some, "right", False), count(some, "wrong"), count(some, "wrong", True),
                 count(some, None), count(some, None, True)]
        print(f"| {row} | {' | '.join(map(str, cells))} |")


def errors(runs, what="ones"):
    """The rates of both errors as far as these runs are a sample, and which runs they are."""
    right, wrong = count(runs, "right"), count(runs, "wrong")
    good, bad = count(runs, "wrong", True), count(runs, "right", False)
    if right and wrong:
        print(f"\nOf {wrong} wrong {what} {good} are called good, at most {bound(good, wrong):.1f} %; of {right} right {what} {bad} are "
              f"called bad, at most {bound(bad, right):.1f} % (one-sided 95 %, as if all were independent).")
    for text, label, is_good in (("Wrong and good", "wrong", True), ("Right and bad", "right", False)):
        print(f"\n{text}:")
        for r in runs:
            if r["label"] == label and bool(r["good"]) == is_good:
                print(f"- {r['set']}, {r['way']}, {r['seed']}: {r.get('said', '')}")
