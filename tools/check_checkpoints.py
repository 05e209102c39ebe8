#!/usr/bin/env python3
"""Damages every file of an atlas checkpoint in turn, and checks that a resumed run gives the bytes of an
undisturbed one or refuses with a message.

    tools/check_checkpoints.py [IMAGES...] [--program target/release/voxalign] [--flips 3]
                               [--options "--align none --spacing 8 --schedule 2x6,1x4"] [--keep FOLDER]

Needs Linux. IMAGES are two or more; by default the T1 images and brains of data/ in the repository. It ends with the
code 1 where something is not as it should be.

What is done:
  1. the atlas, undisturbed
  2. the same, interrupted once both places of its checkpoint are written
  3. of each file of that checkpoint in turn: some bits are flipped (the first, the last, random ones), it is cut short,
     emptied, made longer, overwritten by zeros, replaced by its neighbour, removed; then the run is resumed
  4. the same file of both places is damaged, and both copies of the common space; then the run is resumed
A resumed run ends with the bytes of the undisturbed one, or with code 2, one line of error, and no result.
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
IMAGES = ["colin27_t1.nii.gz", "icbm152_t1.nii.gz", "colin27_brain.nii.gz"]
wrong = []


def check(good, what):
    print(f"  {'ok   ' if good else 'WRONG'} {what}", flush=True)
    if not good:
        wrong.append(what)


def results(folder):
    """The bytes of all images and transforms below a folder, by their names; what ended runs left, in hidden folders
    and in that of checkpoints, is no result."""
    found = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".") and f != "checkpoint"]
        for name in files:
            path = os.path.join(root, name)
            if name.endswith((".nii.gz", ".tfm")):
                found[os.path.relpath(path, folder)] = open(path, "rb").read()
            else:
                found.setdefault("other", []).append(os.path.relpath(path, folder))
    found.get("other", []).sort()
    return found


def flipped(data, bit):
    out = bytearray(data)
    out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


def damages(data, neighbour, flips):
    """Names and bytes of what may become of a file; None for one that is removed."""
    last = 8 * len(data) - 1
    for bit in sorted({0, last, *(random.randrange(last) for _ in range(flips))}):
        yield f"bit {bit} of {last + 1} flipped", flipped(data, bit)
    middle = len(data) // 2
    yield "its last byte cut off", data[:-1]
    yield "half of it cut off", data[:middle]
    yield "emptied", b""
    yield "a byte longer", data + b"\0"
    yield "zeros in the middle", data[:middle] + bytes(min(64, len(data) - middle)) + data[middle + 64:]
    if neighbour is not None:
        yield "exchanged for its neighbour", neighbour
    yield "removed", None


class Check:
    def __init__(self, arguments, folder):
        self.a, self.folder, self.counts = arguments, folder, {"same": 0, "refused": 0}
        self.program = os.path.realpath(arguments.program)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, name, *more):
        command = [self.program, "atlas", *self.a.images, "-o", self.path(name), "--no-report",
                   *self.a.options.split(), *more]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def run(self, name, *more):
        run = self.start(name, *more)
        said = run.communicate()[1]
        return run.returncode, said

    def whole(self):
        began = time.time()
        self.code, said = self.run("whole", "--checkpoint-every", "never")
        check(self.code in (0, 1), f"code {self.code}, {time.time() - began:.1f} s")
        if self.code not in (0, 1):
            sys.exit(said)
        self.wanted = results(self.path("whole"))

    def interrupted(self):
        states = [self.path(f"kept/checkpoint/{place}/course.state") for place in "ab"]
        run = self.start("kept", "--checkpoint-every", "0")
        while run.poll() is None and not all(map(os.path.exists, states)):
            time.sleep(0.002)
        run.send_signal(signal.SIGINT)
        said = run.communicate()[1]
        check(run.returncode == 130 and "--resume" in said, f"interrupted: code {run.returncode}")
        if run.returncode != 130:
            sys.exit("the run ended before it was interrupted; give more iterations by --options")
        top = self.path("kept/checkpoint")
        self.files = sorted(os.path.relpath(os.path.join(root, name), top)
                            for root, _, names in os.walk(top) for name in names)
        print(f"        {len(self.files)} files: {', '.join(self.files)}")

    def bytes_of(self, name):
        with open(self.path(f"kept/checkpoint/{name}"), "rb") as file:
            return file.read()

    def resumed(self, what, damaged, may_refuse=True):
        """Resumes a copy of the checkpoint some of whose files are others."""
        shutil.rmtree(self.path("again"), ignore_errors=True)
        shutil.copytree(self.path("kept"), self.path("again"))
        for name, data in damaged.items():
            path = self.path(f"again/checkpoint/{name}")
            if data is None:
                os.remove(path)
            else:
                with open(path, "wb") as file:
                    file.write(data)
        code, said = self.run("again", "--checkpoint-every", "60", "--resume")
        found = results(self.path("again"))
        errors = [line for line in said.splitlines() if "error:" in line]
        if code == self.code:
            off = [n for n in self.wanted.keys() | found.keys() if self.wanted.get(n) != found.get(n)]
            good, end = not off, f"code {code}, other bytes in {sorted(off)}" if off else "the same bytes"
            self.counts["same"] += good
        else:
            good = may_refuse and code == 2 and len(errors) == 1 and not found
            end = f"code {code}: {(errors or said.splitlines()[-1:] or ['no words'])[0][:160]}"
            self.counts["refused"] += 1
        if not good or self.a.verbose:
            check(good, f"{what}: {end}")
            if not good:
                print(said)
        return good

    def each_file(self):
        for name in self.files:
            others = [f for f in self.files if f != name and os.path.dirname(f) == os.path.dirname(name)]
            neighbour = self.bytes_of(random.choice(others)) if others else None
            kinds = list(damages(self.bytes_of(name), neighbour, self.a.flips))
            good = sum(self.resumed(f"{name}: {kind}", {name: data}) for kind, data in kinds)
            check(good == len(kinds), f"{name}: {good} of {len(kinds)} damages did no harm")

    def both(self):
        copies = [(f"a/{name[2:]}", f"b/{name[2:]}") for name in self.files if name.startswith("a/")]
        copies.append(tuple(f for f in self.files if f.startswith("aligned")))
        for pair in copies:
            data = {name: flipped(self.bytes_of(name), random.randrange(8 * len(self.bytes_of(name)) - 1))
                    for name in pair}
            before = self.counts["refused"]
            good = self.resumed(f"bits of {' and '.join(pair)} flipped", data)
            check(good and self.counts["refused"] > before, f"{' and '.join(pair)}: refused")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("images", nargs="*", default=[os.path.join(ROOT, "data", name) for name in IMAGES])
    parser.add_argument("--program", default=os.path.join(ROOT, "target/release/voxalign"))
    parser.add_argument("--options", default="--align none --spacing 8 --schedule 2x6,1x4 --device cpu")
    parser.add_argument("--flips", default=3, type=int, help="random bits of each file")
    parser.add_argument("--keep")
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--verbose", action="store_true", help="show every run")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    folder = arguments.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    try:
        checks = Check(arguments, folder)
        print("undisturbed")
        checks.whole()
        print("interrupted")
        checks.interrupted()
        print("one file damaged")
        checks.each_file()
        print("a file of both places damaged")
        checks.both()
        counts = checks.counts
        print(f"{counts['same']} runs had the same bytes, {counts['refused']} were refused")
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(wrong)} things are wrong" if wrong else "all is as it should be")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
