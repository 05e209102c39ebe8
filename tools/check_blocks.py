#!/usr/bin/env python3
"""Registers two images in blocks with several processes under mpirun, by every strategy, kills and stops some of them, and checks
that every result has the same bytes.

    tools/check_blocks.py FIXED MOVING [--program target/release/voxalign] [--ranks 1,2,3,4,6]
                          [--kills 4] [--options "--dof 6"] [--launcher "mpirun --bind-to none"]
                          [--strategies auto,replicate,halo,list,peer,stream] [--small FOLDER] [--keep FOLDER]

Needs Linux, and a voxalign that was built with `--features mpi`. FIXED and MOVING are images that `voxalign affine
--distributed` takes; MOVING as an OME-Zarr loses a chunk as well. In containers and on machines with few cores Open MPI
wants --launcher "mpirun --allow-run-as-root --oversubscribe --bind-to none". It ends with the code 1 where something is not as
it should be.

What is done:
  1. the registration, by every strategy and with each number of ranks: the same bytes in the transform and the resampled image
  2. one rank is killed at a random moment: all end within seconds, and the next run, which finds the levels that were made, has the
     same bytes
  3. the launcher is interrupted as by Ctrl-C
  4. the disk is full (--small): one message, and nothing is left
  5. a chunk is missing: one message that names it, and nothing is left
"""
import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from check_ranks import check, ranks_of, wrong


def results(folder):
    """The checksum of every file of the transforms and of the resampled image."""
    found = {}
    for root, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(root, name)
            inside = os.path.relpath(path, folder)
            if inside.startswith(("affine", "warped")):
                with open(path, "rb") as file:
                    found[inside] = hashlib.sha256(file.read()).hexdigest()
    return found


class Check:
    def __init__(self, arguments, folder):
        self.a, self.folder = arguments, folder
        self.program = os.path.realpath(arguments.program)
        self.wanted = None

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, ranks, name, strategy, *more, images=None):
        command = [*self.a.launcher.split(), "-np", str(ranks), self.program, "affine",
                   *(images or [self.a.fixed, self.a.moving]), "-o", self.path(name), "--distributed", strategy,
                   "--no-report", "--threads", "1", *self.a.options.split(), *more]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def run(self, ranks, name, strategy, *more, **how):
        began = time.time()
        run = self.start(ranks, name, strategy, *more, **how)
        said = run.communicate()[1]
        return run.returncode, said, time.time() - began

    def left(self, name):
        """What a run that failed left in its folder, but for levels that a later one can use."""
        there = sorted(os.listdir(self.path(name))) if os.path.isdir(self.path(name)) else []
        return ", ".join(n for n in there if n != "pyramids")

    def same(self, name):
        found = results(self.path(name))
        self.wanted = self.wanted or found
        names = self.wanted.keys() | found.keys()
        return sorted(n for n in names if self.wanted.get(n) != found.get(n))

    def whole(self):
        for strategy in self.a.strategies:
            for ranks in self.a.ranks:
                name = f"{strategy}{ranks}"
                code, said, seconds = self.run(ranks, name, strategy, "--work", self.path("levels"))
                if code not in (0, 1):
                    check(False, f"{strategy}, {ranks} ranks: code {code}\n{said}")
                    continue
                off = self.same(name)
                check(not off, f"{strategy}, {ranks} ranks: code {code}, {seconds:.1f} s, {len(self.wanted)} files, {len(off)} differ")
                self.code = code
                shutil.rmtree(self.path(name))

    def killed(self, number):
        several = [r for r in self.a.ranks if r > 1]
        ranks, strategy = several[number % len(several)], self.a.strategies[number % len(self.a.strategies)]
        began = time.time()
        self.run(ranks, "timed", strategy)
        seconds = time.time() - began
        shutil.rmtree(self.path("timed"))
        name, part = f"killed{number}", random.uniform(0.1, 0.95)
        run = self.start(ranks, name, strategy)
        time.sleep(part * seconds)
        pids = ranks_of(run.pid, self.program)
        if run.poll() is not None or not pids:
            print(f"  -     {ranks} ranks had ended before the kill")
            run.communicate()
            return
        victim = random.randrange(len(pids))
        os.kill(pids[victim], signal.SIGKILL)
        began = time.time()
        try:
            run.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            check(False, f"process {victim} of {ranks} killed: the others did not end in 60 s")
            run.kill()
            return
        has = os.path.exists(self.path(f"{name}/affine.tfm"))
        check(run.returncode not in (0, 1) and not has,
              f"{strategy}, process {victim} of {ranks} killed after {part:.0%}: code {run.returncode} after "
              f"{time.time() - began:.1f} s; left: {self.left(name)}")
        ranks = self.a.ranks[(number + 1) % len(self.a.ranks)]
        code, said, seconds = self.run(ranks, name, strategy)
        off = self.same(name) if code in (0, 1) else [said]
        check(not off, f"again with {ranks} ranks: code {code}, {seconds:.1f} s, {len(off)} files differ {off[:2]}")
        hidden = [n for n in os.listdir(self.path(name)) if n.startswith(".voxalign") or n == "pyramids"]
        check(not hidden, f"nothing else is left {hidden}")

    def stopped(self):
        ranks = max(self.a.ranks)
        _, _, seconds = self.run(ranks, "timed", self.a.strategies[0])
        shutil.rmtree(self.path("timed"))
        run = self.start(ranks, "stopped", self.a.strategies[0])
        time.sleep(min(self.a.after, 0.5 * seconds))
        run.send_signal(signal.SIGINT)
        began = time.time()
        run.communicate(timeout=60)
        # Launchers pass a signal on after a second, so that a short run may have ended: then its results are whole.
        left = self.left("stopped")
        is_whole = "affine" in left and not self.same("stopped")
        check(run.returncode != 0 and (is_whole or not left),
              f"interrupted: code {run.returncode} after {time.time() - began:.1f} s; left: {'all of it' if is_whole else left or 'nothing'}")

    def failing(self, what, name, code, said, seconds, words):
        errors = [line for line in said.splitlines() if "error:" in line]
        check(code == 2 and len(errors) == 1 and all(w in errors[0] for w in words),
              f"{what}: code {code} after {seconds:.1f} s, {len(errors)} messages: {errors[:2]}")
        check(not self.left(name), f"left: {self.left(name) or 'nothing'}")

    def full(self):
        if not self.a.small:
            print("  -     the full disk is not tried without --small")
            return
        name = os.path.join(os.path.abspath(self.a.small), "full")
        self.failing("no room", name, *self.run(2, name, self.a.strategies[0]), [])

    def missing(self):
        if not os.path.isdir(self.a.moving):
            return
        bad = self.path("missing.ome.zarr")
        shutil.copytree(self.a.moving, bad)
        chunks = [os.path.join(root, f) for root, _, files in os.walk(os.path.join(bad, "0")) for f in files
                  if not f.startswith(".") and f != "zarr.json"]
        os.remove(sorted(chunks)[len(chunks) // 2])
        images = [self.a.fixed, bad]
        self.failing("a chunk is missing", "bad", *self.run(max(self.a.ranks), "bad", self.a.strategies[0], images=images),
                     ["missing.ome.zarr", "--missing"])
        code, said, _ = self.run(2, "filled", self.a.strategies[0], "--missing", "background", images=images)
        check(code in (0, 1), f"--missing background: code {code} {said if code > 1 else ''}")
        images = [self.a.fixed, self.path("none.tif")]
        self.failing("an image is not there", "none", *self.run(2, "none", self.a.strategies[0], images=images), ["none.tif"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("fixed")
    parser.add_argument("moving")
    parser.add_argument("--program", default="target/release/voxalign")
    parser.add_argument("--ranks", default="1,2,3,4,6", type=lambda t: [int(n) for n in t.split(",")])
    parser.add_argument("--strategies", default="auto,replicate,halo,list,peer,stream", type=lambda t: t.split(","))
    parser.add_argument("--kills", default=4, type=int)
    parser.add_argument("--options", default="")
    parser.add_argument("--after", default=2.0, type=float, help="seconds until the launcher is interrupted, at most half of a run")
    parser.add_argument("--small", help="a folder on a small file system (a tmpfs of 200 KB) for the full disk")
    parser.add_argument("--launcher", default="mpirun --bind-to none")
    parser.add_argument("--keep")
    parser.add_argument("--seed", default=0, type=int)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    folder = arguments.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    try:
        checks = Check(arguments, folder)
        print("the same registration with any number of ranks, by any strategy")
        checks.whole()
        print("killed ranks")
        for number in range(arguments.kills):
            checks.killed(number)
        print("interrupted")
        checks.stopped()
        print("no room, missing chunks and images")
        checks.full()
        checks.missing()
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(wrong)} things are wrong" if wrong else "all is as it should be")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
