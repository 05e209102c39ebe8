#!/usr/bin/env python3
"""Runs every command with less and less memory (limits of the address space, as by `ulimit -v`), and checks
that each run either succeeds or reports how much memory it lacks, and leaves no files.

    tools/check_memory.py [--program target/release/voxalign] [--steps 12] [--only REGEX] [--threads 2]
                          [--data data] [--keep FOLDER] [--verbose]

Needs Linux. The ladder of a command goes from the lowest limit under which `voxalign --version` works to the
lowest one under which the command does its work, found by bisection, with STEPS limits between. Allowed are
  - the code that the command ends with without a limit, and the same bytes in all images, transforms and tables
  - the code 2, a message that says how much memory was needed (or which threads could not be started), and no
    file or folder that was not there before (but the checkpoint of an atlas)
All else, such as an abort, a signal, a panic or a hidden folder, is wrong; then it ends with the code 1.
"""
import argparse
import math
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

# Address space in KiB: no machine that runs this needs more.
MOST = 64 << 20
COMPARED = (".nii", ".nii.gz", ".nrrd", ".mha", ".tfm", ".mat", ".csv", ".npy", ".gii", ".vtk", ".vtp", ".ply", ".stl")


def write_image(path, size, spacing, value, code=16):
    """A NIfTI image of `value(x, y, z)`, positions in mm from its middle; of f32 (16) or u8 (2)."""
    header = bytearray(348)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, 3, *size, 1, 1, 1, 1)
    struct.pack_into("<hh", header, 70, code, 32 if code == 16 else 8)
    struct.pack_into("<8f", header, 76, 1, spacing, spacing, spacing, 0, 0, 0, 0)
    struct.pack_into("<f", header, 108, 352)
    struct.pack_into("<f", header, 112, 1)
    header[123] = 2
    struct.pack_into("<hh", header, 252, 0, 1)
    middle = [(n - 1) / 2 * spacing for n in size]
    for row in range(3):
        line = [0.0] * 4
        line[row], line[3] = spacing, -middle[row]
        struct.pack_into("<4f", header, 280 + 16 * row, *line)
    header[344:347] = b"n+1"
    values = [value(*(i * spacing - m for i, m in zip((x, y, z), middle)))
              for z in range(size[2]) for y in range(size[1]) for x in range(size[0])]
    kind = "f" if code == 16 else "B"
    with open(path, "wb") as file:
        file.write(header + b"\0" * 4 + struct.pack(f"<{len(values)}{kind}", *values))


def head(shift, stretch):
    """Something like a head, with structure inside, that differs from subject to subject."""
    def value(x, y, z):
        x, y, z = (x - shift) / stretch, y * stretch, z + 0.5 * shift
        r = math.sqrt((x / 50) ** 2 + (y / 62) ** 2 + (z / 54) ** 2)
        inside = 1 / (1 + math.exp(min(40 * (r - 1), 60)))
        return inside * (60 + 25 * math.sin(x / 9) * math.cos(y / 11) + 20 * math.cos(z / 8 + x / 20))
    return value


def make_inputs(folder):
    for i in range(4):
        picture = head(3 * i - 4, 1 + 0.03 * i)
        write_image(f"{folder}/{i}.nii", (40, 44, 40), 4.0, picture)
        write_image(f"{folder}/labels{i}.nii", (40, 44, 40), 4.0,
                    lambda x, y, z, f=picture: int(f(x, y, z) > 20) + int(f(x, y, z) > 60), 2)
    write_image(f"{folder}/large.nii", (120, 120, 100), 1.5, lambda x, y, z: (x * 7 + y * 3 + z) % 50)
    for i in range(2):
        disc = head(4 * i, 1 + 0.05 * i)
        write_image(f"{folder}/flat{i}.nii", (120, 130, 1), 1.2, lambda x, y, z, f=disc: f(x, y, 0))
    with open(f"{folder}/points.csv", "w") as file:
        file.write("x,y,z,name\n" + "".join(f"{i % 37 - 18},{i % 23 - 11},{i % 29 - 14},p{i}\n"
                                            for i in range(2000)))
    with open(f"{folder}/list.csv", "w") as file:
        file.write("path,name,labels,age\n" + "".join(f"{i}.nii,s{i},labels{i}.nii,{60 + i}\n"
                                                      for i in range(4)))
    classes = "".join(f"[[probability]]\nname = 'class{label}'\nlabels = 'labelsSIDE.nii'\nlabel = {label}\n"
                      for label in (1, 2))
    image = "[[image]]\nname = 't1'\nimage = 'SIDE.nii'\n"
    shapes = ("[[surface]]\nname = 'hull'\nmesh = 'meshSIDE.gii'\nwidth = 12\n"
              "[[points]]\nname = 'cloud'\npoints = 'points.csv'\nwidth = 12\n")
    made = ("[[surface]]\nname = 'hull'\nlabels = 'labelsSIDE.nii'\nlabel = [1, 2]\nwidth = 12\n"
            "[[surface]]\nname = 'level'\nimage = 'SIDE.nii'\nlevel = 60\nlargest_component = true\nwidth = 12\n")
    for name, tables in (("classes", classes), ("both", image + shapes), ("shapes", shapes), ("made", image + made)):
        for side in "01":
            with open(f"{folder}/{name}{side}.toml", "w") as file:
                file.write(tables.replace("SIDE", side))


def commands(data):
    """The name, the words, and whether the command has --threads."""
    t1 = f"{data}/icbm152_t1.nii.gz {data}/colin27_t1.nii.gz"
    quick = "--affine none --schedule 4x6,2x4"
    atlas = "atlas 0.nii 1.nii 2.nii -o out --spacing 6 --schedule 2x3,1x2"
    # What the others read, made without a limit.
    yield "made", "deform 0.nii 1.nii -o made --schedule 2x5,1x3 --no-report"
    yield "made stack", "stack normalise 0.nii 1.nii 2.nii -o madestack"
    for side in "01":
        yield f"made mesh {side}", f"surface labels{side}.nii --label 1,2 -o mesh{side}.gii"
    yield "affine header", f"affine {t1} -o out --search none --cost nmi"
    yield "affine local", f"affine {t1} -o out --search local --cost cr --levels 8,4"
    for cost in ("cr", "mi", "nmi", "ncc", "ssd"):
        yield f"affine {cost}", (f"affine 0.nii 1.nii -o out --cost {cost} --fixed-mask labels0.nii "
                                 "--fixed-labels labels0.nii --moving-labels labels1.nii")
    yield "affine 2D", "affine flat0.nii flat1.nii -o out"
    yield "deform headers", f"deform {t1} -o out --affine none --schedule 4x6,2x3,1x1"
    for model in ("greedy", "symmetric", "lddmm"):
        for similarity in ("ssd", "lncc", "mi", "nmi"):
            yield f"deform {model} {similarity}", (
                f"deform 0.nii 1.nii -o out {quick} --model {model} --similarity {similarity} "
                "--fixed-labels labels0.nii --moving-labels labels1.nii")
    for solver in ("sor", "cg", "hybrid", "gaussian"):
        yield f"deform {solver}", f"deform 0.nii 1.nii -o out {quick} --solver {solver} --no-report"
    yield "deform affine", ("deform 0.nii 1.nii -o out --schedule 4x6,2x4 --fixed-mask labels0.nii "
                            "--channel 0.nii 1.nii mi 0.5 --histogram-match")
    yield "elastic", "elastic 0.nii 1.nii -o out --affine none --schedule 4x6,2x4"
    yield "deform 2D", "deform flat0.nii flat1.nii -o out --schedule 4x6,2x4"
    for model in ("greedy", "symmetric", "lddmm"):
        yield f"atlas {model}", f"{atlas} --model {model}"
    for what in ("classes", "both", "shapes", "made"):
        yield f"anatomy {what}", f"anatomy {what}0.toml {what}1.toml -o out --schedule 4x6,2x4"
    yield "anatomy lddmm", f"anatomy both0.toml both1.toml -o out --affine none --schedule 4x4 --model lddmm"
    yield "atlas list", "atlas --list list.csv -o out --spacing 6 --schedule 2x3,1x2 --align none"
    yield "atlas streamed", f"{atlas} --align none --device-memory 24MiB --host-memory 2MiB"
    yield "atlas regress", ("atlas --list list.csv -o out --spacing 8 --schedule 1x2 --align none "
                            "--regress age --at 61,62 --bandwidth 2")
    yield "atlas stability", ("atlas 0.nii 1.nii 2.nii -o out --spacing 8 --schedule 1x2 --align none "
                              "--stability 2,3 --cohorts 2")
    for operation in ("mean", "max", "min", "variance", "product"):
        yield f"stack {operation}", f"stack {operation} 0.nii 1.nii 2.nii -o out/stack.nii.gz"
    yield "stack large", "stack mean large.nii large.nii large.nii -o out/stack.nii"
    yield "stack energy", "stack energy 0.nii 1.nii 2.nii --reference 3.nii -o out/energy.csv"
    yield "stack normalise", "stack normalise 0.nii 1.nii 2.nii -o out --range 0,1"
    yield "stack smooth", "stack smooth 0.nii 1.nii 2.nii -o out --sigma 8"
    yield "stack window-mean", "stack window-mean 0.nii 1.nii 2.nii -o out"
    yield "surface", "surface labels0.nii --label 1 -o out/a.gii --keep 0.5 --report"
    yield "surface each", "surface labels0.nii --each -o out --report"
    yield "surface level", "surface 0.nii --level 60 -o out/a.ply --sigma 2 --largest-component --fill-holes"
    warp, affine = "made/warp.nii.gz", "made/affine.tfm"
    for how in ("nearest", "linear", "cubic", "label"):
        source = "labels1.nii" if how == "label" else "1.nii"
        yield f"apply {how}", (f"apply -i {source} -r large.nii -t {warp} -t {affine} -o out/a.nii.gz "
                               f"--interpolation {how}")
    yield "apply data", (f"apply -i {data}/colin27_t1.nii.gz -r {data}/icbm152_t1.nii.gz -o out/a.nii.gz "
                         "--data-type i16")
    yield "apply points", f"apply -i points.csv -t {warp} -t {affine} -o out/p.csv"
    for end in ("vtk", "gii", "ply"):
        yield f"apply mesh {end}", f"apply -i mesh1.gii -t {warp} -t {affine} -o out/m.{end}"
    yield "apply inverse", f"apply -i 0.nii -r 1.nii -t inverse:{affine} -t inverse:{warp} -o out/a.nii.gz"
    yield "invert field", f"invert -t {warp} -o out/i.nii.gz"
    yield "invert affine", f"invert -t {affine} -o out/i.tfm"
    yield "compose field", (f"compose -t {warp} -t {affine} -o out/c.nii.gz "
                            f"--fixed-geometry {data}/icbm152_t1.nii.gz")
    yield "compare images", f"compare 0.nii 1.nii --json"
    yield "compare mask", f"compare {data}/icbm152_t1.nii.gz {data}/icbm152_gm.nii.gz"
    yield "compare labels", "compare labels0.nii labels1.nii --labels"
    yield "compare points", "compare --points points.csv points.csv"
    yield "compare meshes", "compare --meshes mesh0.gii mesh1.gii"
    yield "compare transforms", f"compare --transforms {warp} {affine} --fixed-geometry large.nii"
    yield "info image", f"info {data}/colin27_t1.nii.gz"
    yield "info field", f"info {warp}"
    yield "info mesh", "info mesh0.gii"
    yield "info points", "info points.csv --json"
    yield "convert image", f"convert {data}/colin27_t1.nii.gz out/c.nrrd"
    yield "convert labels", f"convert {data}/icbm152_tissues.nii.gz out/c.mha"
    yield "convert large", "convert large.nii out/c.nii.gz --data-type f64"
    yield "convert field", f"convert {affine} out/c.nii.gz --fixed-geometry large.nii"
    for end in ("vtp", "stl"):
        yield f"convert mesh {end}", f"convert mesh0.gii out/m.{end}"
    yield "convert points", "convert points.csv out/p.csv --to-convention lps"
    yield "demo", "demo -o out"
    yield "demo anatomy", "demo anatomy -o out"
    yield "bench", "bench --size 40x40x40 --operators-only"


class Check:
    def __init__(self, arguments, folder):
        self.a, self.folder = arguments, folder
        self.program = os.path.realpath(arguments.program)
        self.wrong, self.runs = [], 0

    def start(self, words, limit):
        def limited():
            if limit:
                resource.setrlimit(resource.RLIMIT_AS, (limit << 10, limit << 10))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        environment = {k: v for k, v in os.environ.items() if k != "VOXALIGN_DEVICE"}
        return subprocess.run([self.program, *words], cwd=self.folder, preexec_fn=limited,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", env=environment, timeout=1800)

    def tree(self):
        """All files and folders."""
        found = set()
        for root, folders, files in os.walk(self.folder):
            found.update(os.path.relpath(os.path.join(root, n), self.folder) for n in folders + files)
        return found

    def bytes_of(self, names):
        files = sorted(n for n in names if n.endswith(COMPARED) and os.path.isfile(f"{self.folder}/{n}"))
        return {n: open(f"{self.folder}/{n}", "rb").read() for n in files}

    def run(self, words, limit):
        """The code, what is wrong or None, the message, and the bytes of what was made."""
        before = self.tree()
        if "out/" in " ".join(words):
            os.makedirs(f"{self.folder}/out", exist_ok=True)
            before.add("out")
        run = self.start(words, limit)
        self.runs += 1
        new = self.tree() - before
        made = self.bytes_of(new)
        shutil.rmtree(f"{self.folder}/out", ignore_errors=True)
        said = run.stderr.strip()
        fault = None
        if run.returncode not in (0, 1, 2):
            fault = f"code {run.returncode}"
        elif run.returncode == 2:
            left = sorted(n for n in new if not (words[0] == "atlas" and n.startswith("out/checkpoint")))
            if words[0] == "atlas" and left == ["out"] and len(new) > 1:
                left = []
            if left:
                fault = f"left: {', '.join(left[:4])}"
            elif not re.search(r"error: .*(memory|thread)", said, re.S) or not re.search(r"\d", said):
                fault = "the message does not say what was needed"
        elif any(os.path.basename(n).startswith(".") for n in new):
            fault = f"left: {sorted(n for n in new if os.path.basename(n).startswith('.'))[:4]}"
        return run.returncode, fault, said, made

    def lowest_start(self):
        low, high = 0, MOST
        while high - low > 256:
            middle = (low + high) // 2
            run = self.start(["--version"], middle)
            low, high = (low, middle) if run.returncode == 0 and run.stdout else (middle, high)
        return high

    def ladder(self, name, words, start):
        code, fault, said, wanted = self.run(words, None)
        if fault or code == 2:
            fault = fault or "code 2 without a limit"
            self.wrong.append((name, None, fault, said))
            print(f"  WRONG {name:24} {fault}: {said[-300:]}", flush=True)
            return
        seen = {}

        def at(limit):
            if limit not in seen:
                got, fault, said, made = self.run(words, limit)
                if not fault and got in (0, 1):
                    off = sorted(n for n in wanted.keys() | made.keys() if wanted.get(n) != made.get(n))
                    if got != code or off:
                        fault = f"code {got}, without a limit {code}; differing: {off[:4]}"
                seen[limit] = got, fault, said
            return seen[limit][0] == code and not seen[limit][1]

        low, high = start, MOST
        while high - low > max(low // 32, 256):
            middle = int(math.sqrt(low * high))
            low, high = (low, middle) if at(middle) else (middle, high)
        top = high
        for i in range(self.a.steps):
            at(int(start + (top - start) * (i + random.uniform(0, 1)) / self.a.steps))
        bad = [(limit, *what[1:]) for limit, what in sorted(seen.items()) if what[1]]
        self.wrong.extend((name, *b) for b in bad)
        print(f"  {'WRONG' if bad else 'ok   '} {name:24} needs {top >> 10:6} MiB, {len(seen):3} limits, "
              f"{len(bad)} wrong", flush=True)
        for limit, fault, said in bad[:None if self.a.verbose else 3]:
            print(f"          at {limit} KiB: {fault}: {said[-300:]}", flush=True)
        if self.a.messages:
            for said in sorted({re.sub(r"\d+(\.\d+)?", "N", w[2].splitlines()[-1]) for w in seen.values()
                                if w[0] == 2 and w[2]}):
                print(f"          said: {said}", flush=True)

    def all(self):
        start = self.lowest_start()
        print(f"--version works from {start} KiB on", flush=True)
        make_inputs(self.folder)
        for name, line in commands(os.path.realpath(self.a.data)):
            words = line.split()
            if words[0] not in ("info", "compare", "convert"):
                words += ["--threads", str(self.a.threads)]
            if name.startswith("made"):
                run = self.start(words, None)
                if run.returncode not in (0, 1):
                    sys.exit(f"{line}: {run.stderr}")
            elif re.search(self.a.only, name):
                self.ladder(name, words, start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", default="target/release/voxalign")
    parser.add_argument("--data", default="data")
    parser.add_argument("--steps", default=12, type=int)
    parser.add_argument("--only", default="", help="a regular expression for the names of commands")
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--keep")
    parser.add_argument("--verbose", action="store_true", help="show every limit that went wrong")
    parser.add_argument("--messages", action="store_true", help="show the messages of refused runs")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    folder = arguments.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    checks = Check(arguments, folder)
    try:
        checks.all()
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{checks.runs} runs: " + (f"{len(checks.wrong)} are wrong" if checks.wrong else "all as they should be"))
    sys.exit(1 if checks.wrong else 0)


if __name__ == "__main__":
    main()
