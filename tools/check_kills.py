#!/usr/bin/env python3
"""Kills and stops affine, deform, anatomy, atlas, stack, surface and apply at random moments, and checks that every result is complete.

    tools/check_kills.py [--program target/release/voxalign] [--kills 300] [--only affine,atlas]
                         [--seed 0] [--keep FOLDER] [--verbose]

Needs Linux, and the images of `data/`. It ends with the code 1 where something is not as it should be.

Each command first runs undisturbed. Then it is started again and again, into a new folder or one with an older
result, and gets SIGKILL, SIGTERM or SIGINT at a random moment: over the whole run, near its end, or once its
files begin to appear. After each:
  - a run that was asked to stop ends by itself, with the code 130 or that of a run that was done
  - under the names of the outputs there is nothing, all of the older result, or all of the new one; where the run
    was killed while files were moved there is no record, and nothing half written
  - a run that was asked to stop leaves no hidden folder, lock or temporary file
  - the next run (with --resume for an atlas) has the bytes of the undisturbed one, and leaves nothing hidden
"""
import argparse
import gzip
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
IMAGES = ["../a.nii", "../b.nii"]
PAIR = ["../a.nii", "../c.nii"]
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
# Files that hold times, so that no two are alike.
TIMED = (".json", ".html")

COMMANDS = {
    "affine": ["affine", *PAIR, "-o", "out", "--search", "local", "--levels", "8,6"],
    "deform": ["deform", *PAIR, "-o", "out", "--affine", "none", "--similarity", "ssd", "--schedule", "4x3"],
    "elastic": ["elastic", *PAIR, "-o", "out", "--affine", "none", "--schedule", "4x3", "--mesh-spacing", "30"],
    "atlas": ["atlas", *IMAGES, "-o", "out", "--align", "none", "--similarity", "ssd", "--schedule", "4x3",
              "--checkpoint-every", "0"],
    "stack": ["stack", "smooth", *IMAGES, "-o", "out", "--sigma", "3"],
    "stack_file": ["stack", "mean", *IMAGES, "-o", "out/mean.nii.gz"],
    "anatomy": ["anatomy", "../a.toml", "../c.toml", "-o", "out", "--affine", "none", "--schedule", "4x3"],
    "surface": ["surface", "../l.nii", "--each", "-o", "out", "--report"],
    "surface_file": ["surface", "../a.nii", "--level", "60", "-o", "out/a.gii", "--keep", "0.3", "--report"],
    "mesh_file": ["apply", "-i", "../c.gii", "-t", "../affine.tfm", "-o", "out/m.vtp"],
}
# An anatomy of an image and a surface.
TABLES = "[[image]]\nname = 't1'\nimage = 'NAME.nii'\n[[surface]]\nname = 'head'\nmesh = 'NAME.gii'\nwidth = 15\n"
AFFINE = ("#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_3_3\n"
          "Parameters: 1 0.1 0 0 0.9 0 0 0 1.1 3 -2 1\nFixedParameters: 0 0 0\n")

wrong = []


def check(good, what):
    if not good:
        wrong.append(what)
        print(f"  WRONG {what}", flush=True)
    return good


def hidden(folder):
    """What is hidden below a folder: what no finished run leaves."""
    found = []
    for root, folders, files in os.walk(folder):
        found += [os.path.relpath(os.path.join(root, n), folder) for n in folders + files if n.startswith(".")]
    return found


def results(folder):
    """The bytes of all files below a folder that are not hidden and not of a checkpoint, by their names."""
    found = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".") and f != "checkpoint"]
        for name in files:
            if not name.startswith("."):
                path = os.path.join(root, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = file.read()
    return found


def alike(found, wanted):
    """Whether there are the same files, with the same bytes where they hold no times."""
    return found.keys() == wanted.keys() and all(n.endswith(TIMED) or found[n] == wanted[n] for n in wanted)


def is_whole(name, content):
    if name.endswith(".json"):
        return content.rstrip().endswith(b"}")
    return not name.endswith(".html") or content.rstrip().endswith(b"</html>")


def coarse(name, to):
    """Writes every second voxel of an image of `data/` along each axis, so that a run is short."""
    with gzip.open(os.path.join(DATA, name)) as file:
        whole = file.read()
    header = bytearray(whole[:352])
    nx, ny, nz = struct.unpack_from("<3h", header, 42)
    values = whole[352:]
    rows = [values[nx * (y + ny * z):][:nx:2] for z in range(0, nz, 2) for y in range(0, ny, 2)]
    struct.pack_into("<3h", header, 42, (nx + 1) // 2, (ny + 1) // 2, (nz + 1) // 2)
    spacing = struct.unpack_from("<3f", header, 80)
    struct.pack_into("<3f", header, 80, *(2 * s for s in spacing))
    for row in range(3):
        at = 280 + 16 * row
        struct.pack_into("<3f", header, at, *(2 * v for v in struct.unpack_from("<3f", header, at)))
    with open(to, "wb") as file:
        file.write(header + b"".join(rows))


class Job:
    def __init__(self, name, arguments, folder):
        self.name, self.a = name, arguments
        self.folder = os.path.join(folder, name)
        self.out = os.path.join(self.folder, "out")
        self.program = os.path.realpath(arguments.program)
        self.seen = {"nothing": 0, "older": 0, "new": 0, "no record": 0}
        self.ended = self.number = 0
        self.clear()

    def clear(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        # A file is written into a folder that is there.
        os.makedirs(self.out if self.name.endswith("_file") else self.folder)

    def start(self, *more):
        command = [self.program, *COMMANDS[self.name], *more]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def run(self, *more):
        run = self.start(*more)
        said = run.communicate()[1].decode()
        return run.returncode, said

    def undisturbed(self):
        times = []
        for _ in range(2):
            self.clear()
            began = time.time()
            self.code, said = self.run()
            times.append(time.time() - began)
            if self.code not in (0, 1):
                sys.exit(f"{self.name}: code {self.code}\n{said}")
        self.seconds = min(times)
        self.wanted = results(self.out)
        # A command without a record leaves one file, which is the last one, too.
        self.record = next((n for n in self.wanted if n.endswith(".json")), next(iter(self.wanted)))
        check(not hidden(self.folder), f"{self.name}: undisturbed, it leaves {hidden(self.folder)}")
        print(f"{self.name}: {self.seconds:.2f} s, code {self.code}, {len(self.wanted)} files", flush=True)

    def older(self):
        """An older result, of other bytes."""
        older = {}
        for name in self.wanted:
            path = os.path.join(self.out, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            older[name] = b"an older result"
            with open(path, "wb") as file:
                file.write(older[name])
        return older

    def wait_for_outputs(self, run, before):
        """Until the first of the outputs has changed."""
        names = [os.path.join(self.out, n) for n in self.wanted]

        def state():
            found = []
            for name in names:
                try:
                    found.append(os.stat(name).st_ino)
                except OSError:
                    found.append(None)
            return found

        first = state()
        while run.poll() is None and state() == first:
            time.sleep(0.0002)

    def kill(self):
        self.number += 1
        with_older, way = self.number % 2 == 1, self.number // 2 % 3
        number = SIGNALS[self.number % len(SIGNALS)]
        self.clear()
        older = self.older() if with_older else {}
        run = self.start()
        if way == 2:
            self.wait_for_outputs(run, older)
            time.sleep(random.uniform(0, 0.002))
        else:
            low, high = [(0.0, 1.0), (0.85, 1.05)][way]
            time.sleep(random.uniform(low, high) * self.seconds)
        what = f"{self.name}, kill {self.number} by {number.name}"
        if run.poll() is not None:
            self.ended += 1
        else:
            run.send_signal(number)
        try:
            said = run.communicate(timeout=60)[1].decode()
        except subprocess.TimeoutExpired:
            check(False, f"{what}: it did not end in 60 s")
            run.kill()
            run.communicate()
            return
        self.look(what, run.returncode, number, older, said)
        self.again(what)

    def look(self, what, code, number, older, said):
        """What a killed run leaves."""
        found = results(self.out) if os.path.isdir(self.out) else {}
        done = code == self.code
        # Before it listens, a signal ends the program as signals do.
        codes = [self.code, -number] if number == signal.SIGKILL else [self.code, 130, -number]
        check(code in codes, f"{what}: code {code}\n{said}")
        check("panicked" not in said, f"{what}: {said}")
        if number != signal.SIGKILL and code == 130:
            check(not hidden(self.folder), f"{what}: it leaves {hidden(self.folder)}")
        half = [n for n in found if found[n] != older.get(n) and not is_whole(n, found[n])]
        check(not half, f"{what}: half written: {half}")
        if found == older:
            kind = "older" if older else "nothing"
            check(not done, f"{what}: it ended with code {code} and wrote nothing")
        elif self.record not in found:
            kind = "no record"
            others = [n for n in found if not n.endswith(TIMED) and found[n] not in (older.get(n), self.wanted.get(n))]
            check(not others, f"{what}: neither older nor new: {others}")
            check(number == signal.SIGKILL, f"{what}: it was asked to stop and left no whole result")
        else:
            kind = "new"
            check(alike(found, self.wanted) and found[self.record] != older.get(self.record),
                  f"{what}: of several runs: {sorted(found)}")
        self.seen[kind] += 1

    def again(self, what):
        """The next run mends all."""
        saved = os.path.exists(os.path.join(self.out, "checkpoint"))
        code, said = self.run(*["--resume"] * (self.name == "atlas"))
        check(code == self.code, f"{what}: the next run has the code {code}\n{said}")
        check(alike(results(self.out), self.wanted), f"{what}: the next run has other bytes, checkpoint: {saved}")
        check(not hidden(self.folder), f"{what}: the next run leaves {hidden(self.folder)}")
        check(not os.path.exists(os.path.join(self.out, "checkpoint")), f"{what}: a checkpoint is left")
        if self.a.verbose:
            print(f"  {what}: checkpoint {saved}, {self.seen}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", default="target/release/voxalign")
    parser.add_argument("--kills", default=300, type=int, help="over all commands")
    parser.add_argument("--only", default=list(COMMANDS), type=lambda t: t.split(","))
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--keep")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    folder = arguments.keep or tempfile.mkdtemp()
    try:
        os.makedirs(folder, exist_ok=True)
        for name, to in (("icbm152_t1", "a"), ("icbm152_gm", "b"), ("colin27_t1", "c"), ("icbm152_tissues", "l")):
            coarse(f"{name}.nii.gz", os.path.join(folder, f"{to}.nii"))
        with open(os.path.join(folder, "affine.tfm"), "w") as file:
            file.write(AFFINE)
        for side in "ac":
            with open(os.path.join(folder, f"{side}.toml"), "w") as file:
                file.write(TABLES.replace("NAME", side))
            subprocess.run([os.path.realpath(arguments.program), "surface", f"{side}.nii", "--level", "60",
                            "--largest-component", "-o", f"{side}.gii", "-q"], cwd=folder, check=False)
        jobs = [Job(name, arguments, folder) for name in arguments.only]
        for job in jobs:
            job.undisturbed()
        for number in range(arguments.kills):
            jobs[number % len(jobs)].kill()
        for job in jobs:
            seen = ", ".join(f"{count} {what}" for what, count in job.seen.items())
            print(f"{job.name}: {job.number} runs, {job.ended} had ended before; left: {seen}")
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(wrong)} things are wrong" if wrong else "all is as it should be")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
