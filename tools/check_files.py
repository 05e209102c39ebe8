#!/usr/bin/env python3
"""Damages files of every format in many ways and passes them to the program: each must be read, or refused with
one message that names it.

    tools/check_files.py [--program target/release/voxalign] [--mutations 5000] [--seed 1] [--jobs 2]
                         [--memory 2000000] [--seconds 20] [--keep FOLDER]

Needs Linux. It ends with the code 1 where something is not as it should be; --keep keeps the files that did it.

What is done: a small image (3D, flat, labels), points, a mesh, streamlines, an affine transform and a field are written in
all formats that the program writes, and beside them files of anatomies; of each a copy is damaged (bits flipped, bytes replaced by extreme ones, pieces cut out,
doubled or exchanged, the end cut off, numbers of texts exchanged for odd ones) and read by `info`, and by `convert`,
`apply`, `surface` or `anatomy`, with bounded memory and time. Allowed are
  code 0  and an output that `info` reads
  code 1  from `compare`, `apply`, `surface`, `anatomy` and `info` only where the program says so
  code 2  a message on standard error that names the file, and no output
Everything else is wrong: a panic, an abort, a signal, no end, another code, a file or folder that is left.
"""
import argparse
import concurrent.futures
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

ODD = ["nan", "inf", "-inf", "1e308", "-1e308", "1e-320", "0", "-0", "-1", "2147483648", "4294967296",
       "9223372036854775808", "1e999", "", "x", "1,5", "0x10", "1 2", "99999999999999999999999", "\u00b5"]
BYTES = [0x00, 0xFF, 0x7F, 0x80, 0x01, 0x0A, 0x20]


def nifti(path, dims, values, spacing=(2.0, 1.5, 3.0), code=16):
    """A small NIfTI-1 file of 32-bit floats (code 16) or integers (code 8)."""
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    sizes = [len(dims), *dims] + [1] * (7 - len(dims))
    struct.pack_into("<8h", header, 40, *sizes)
    struct.pack_into("<hh", header, 70, code, 32)
    struct.pack_into("<8f", header, 76, 1.0, *spacing, 0, 0, 0, 0)
    struct.pack_into("<ff", header, 108, 352.0, 1.0)
    struct.pack_into("<hh", header, 252, 0, 2)
    for row, x in enumerate(([spacing[0], 0, 0, -9.0], [0, spacing[1], 0, 5.0], [0, 0, spacing[2], 1.0])):
        struct.pack_into("<4f", header, 280 + 16 * row, *x)
    struct.pack_into("<4s", header, 344, b"n+1\0")
    kind = "f" if code == 16 else "i"
    with open(path, "wb") as file:
        file.write(bytes(header) + struct.pack(f"<{len(values)}{kind}", *values))


def limited(memory):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (memory * 1024, memory * 1024))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return limit


class Checker:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.program = os.path.abspath(options.program)

    def call(self, where, *words):
        """The code, standard error and output of the program; no code where it did not end."""
        environment = dict(os.environ, RAYON_NUM_THREADS="2", VOXALIGN_DEVICE="cpu")
        try:
            run = subprocess.run([self.program, *words], cwd=where, capture_output=True, env=environment,
                                 timeout=self.options.seconds, preexec_fn=limited(self.options.memory))
        except subprocess.TimeoutExpired:
            return None, "", ""
        return run.returncode, run.stderr.decode(errors="replace"), run.stdout.decode(errors="replace")

    def must(self, where, *words, allowed=(0,)):
        code, err, _ = self.call(where, *words)
        if code not in allowed:
            sys.exit(f"voxalign {' '.join(words)}: code {code}\n{err}")

    def seeds(self):
        """Whole files of every format: their names, and the command that reads them."""
        folder = os.path.join(self.folder, "seeds")
        os.makedirs(folder)
        at = lambda name: os.path.join(folder, name)
        number = random.Random(7)
        image = [number.uniform(0, 100) for _ in range(9 * 8 * 7)]
        nifti(at("image.nii"), (9, 8, 7), image)
        nifti(at("flat.nii"), (11, 9), image[:99])
        nifti(at("labels.nii"), (9, 8, 7), [number.randrange(5) for _ in image], code=8)
        with open(at("points.csv"), "w") as file:
            file.write("x,y,z,name\n" + "".join(f"{i},{i * i % 7},{-i}.5,p{i}\n" for i in range(9)))
        with open(at("affine.tfm"), "w") as file:
            file.write("#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_3_3\n"
                       "Parameters: 1 0.1 0 0 0.9 0 0 0 1.1 3 -2 1\nFixedParameters: 0 0 0\n")
        for kind, turn in (("fixed", 0.0), ("moving", 0.3)):
            ellipse = [(12 * math.cos(a + turn), 9 * math.sin(a), turn) for a in [0.1 * i for i in range(63)]]
            with open(at(f"{kind}.csv"), "w") as file:
                file.write("x,y,z\n" + "".join(f"{x},{y},{z}\n" for x, y, z in ellipse))
        with open(at("lines.vtk"), "w") as file:
            file.write("# vtk DataFile Version 3.0\na\nASCII\nDATASET POLYDATA\nPOINTS 6 float\n"
                       "0 0 0  1 2 3  2 4 5  5 5 5  6 7 8  9 9 9.5\nLINES 2 8\n3 0 1 2\n3 3 4 5\n")
        for side in ("fixed", "moving"):
            with open(at(f"{side}.toml"), "w") as file:
                file.write(f"[[points]]\nname = 'cloud'\npoints = '{at(side)}.csv'\nwidth = 6.5\nkernel = 'gaussian'\n"
                           f"[[landmarks]]\nname = 'marks'\npoints = '{at(side)}.csv'\nspace = 'ras'\nweight = 0.01\n"
                           f"[[surface]]\nname = 'all'\nmesh = '{at('mesh.gii')}'\noriented = true\nweight = 0.5\n")
        files = {}
        for kind in ("image", "flat", "labels"):
            for end in (".nii", ".nii.gz", ".nrrd", ".mha", ".hdr", ".mhd", ".nhdr"):
                if end != ".nii":
                    self.must(folder, "convert", f"{kind}.nii", f"{kind}{end}")
                files[f"{kind}{end}"] = ("convert", "{}", "out.nii")
        self.must(folder, "convert", "affine.tfm", "affine.mat")
        self.must(folder, "convert", "affine.tfm", "affine.fsl.mat", "--fixed-geometry", "image.nii",
                  "--moving-geometry", "image.nii")
        self.must(folder, "compose", "-t", "affine.tfm", "-o", "field.nii", "--fixed-geometry", "image.nii")
        self.must(folder, "compose", "-t", "affine.tfm", "-o", "field.nii.gz", "--fixed-geometry", "image.nii")
        self.must(folder, "compose", "-t", "affine.tfm", "-t", "field.nii", "-o", "both.h5")
        here = os.path.join(folder, "image.nii")
        for name in ("affine.tfm", "affine.mat", "field.nii", "field.nii.gz", "both.h5"):
            files[name] = ("apply", "-i", here, "-r", here, "-t", "{}", "-o", "out.nii")
        files["affine.fsl.mat"] = ("convert", "{}", "out.tfm", "--fixed-geometry", here, "--moving-geometry", here)
        files["points.csv"] = ("convert", "{}", "out.csv", "--to-convention", "lps")
        self.must(folder, "surface", "labels.nii", "--label", "1,2,3", "-o", "mesh.gii", "--sigma", "3", "-q",
                  allowed=(0, 1))
        for end in ("fcsv", "mrk.json", "tag"):
            self.must(folder, "convert", "points.csv", f"points.{end}")
            files[f"points.{end}"] = ("convert", "{}", "out.csv")
        for name in ("mesh.gii", "mesh.vtk", "mesh.vtp", "mesh.stl", "mesh.ply", "lh.white", "lines.vtk", "lines.vtp",
                     "lines.tck", "lines.trk"):
            of = name.split(".")[0] if name != "lh.white" else "mesh"
            if name not in ("mesh.gii", "lines.vtk"):
                self.must(folder, "convert", {"mesh": "mesh.gii", "lines": "lines.vtk"}[of], name)
            files[name] = ("convert", "{}", "out.vtk")
            if name in ("mesh.vtp", "lines.tck"):
                files[f"2{name}"] = ("apply", "-i", "{}", "-t", os.path.join(folder, "affine.tfm"), "-o", "out.vtk")
                shutil.copy(at(name), at(f"2{name}"))
        files["moving.toml"] = ("anatomy", os.path.join(folder, "fixed.toml"), "{}", "-o", "out", "--schedule", "4x1",
                                "--affine", "none", "--no-report", "--spacing", "3")
        for end in (".nii.gz", ".mha"):
            shutil.copy(at(f"labels{end}"), at(f"objects{end}"))
            files[f"objects{end}"] = ("surface", "{}", "--label", "1,2", "-o", "out.gii", "--keep", "0.5")
        return folder, files

    def damaged(self, data, number):
        """One damage or several."""
        data = bytearray(data)
        for _ in range(number.choice((1, 1, 1, 2, 4))):
            if not data:
                break
            # Most of the meaning of a file is in its first bytes.
            at = number.randrange(min(len(data), number.choice((400, 400, len(data)))))
            way = number.randrange(7)
            if way == 0:
                data[at] ^= 1 << number.randrange(8)
            elif way == 1:
                for i in range(at, min(at + number.choice((1, 2, 4, 8)), len(data))):
                    data[i] = number.choice(BYTES)
            elif way == 2:
                del data[at:at + number.randrange(1, 40)]
            elif way == 3:
                data[at:at] = data[at:at + number.randrange(1, 40)]
            elif way == 4:
                del data[number.randrange(len(data)):]
            elif way == 5:
                words = [m for m in re.finditer(rb"-?[0-9][0-9.e+-]*", bytes(data[:2000]))]
                if words:
                    word = number.choice(words)
                    data[word.start():word.end()] = number.choice(ODD).encode()
            else:
                form = number.choice("<h >h <i >i <f >f <d <q".split())
                odd = {"h": (-1, 0, 32767, -32768), "i": (-1, 0, 2**31 - 1, -2**31, 1 << 20),
                       "q": (-1, 0, 2**63 - 1, -2**63, 1 << 40)}
                value = number.choice(odd.get(form[1], (float("nan"), float("inf"), 1e38, -1e38, 0.0, 1e-38)))
                piece = struct.pack(form, value)
                data[at:at + len(piece)] = piece
        return bytes(data)

    def one(self, task):
        """Damages one file and reads it; what is wrong, and the code."""
        index, folder, name, words = task
        number = random.Random(self.options.seed * 1_000_003 + index)
        where = tempfile.mkdtemp(dir=self.folder)
        partner = {".hdr": ".img", ".mhd": ".zraw", ".nhdr": ".raw.gz"}.get(os.path.splitext(name)[1])
        try:
            target = name
            if partner:
                other = name[:name.rindex(".")] + partner
                shutil.copy(os.path.join(folder, other), where)
                shutil.copy(os.path.join(folder, name), where)
                target = number.choice((name, name, other))
            with open(os.path.join(folder, target), "rb") as file:
                data = self.damaged(file.read(), number)
            with open(os.path.join(where, target), "wb") as file:
                file.write(data)
            before = sorted(os.listdir(where))
            wrong = []
            line = [w.format(name) for w in words]
            code, err, _ = self.call(where, "info", name)
            self.judge(wrong, "info", code, err, name, (0, 1, 2))
            if sorted(os.listdir(where)) != before:
                wrong.append("info left files")
            code, err, _ = self.call(where, *line)
            self.judge(wrong, line[0], code, err, name, 
                       (0, 2) if line[0] == "convert" else (0, 1, 2))
            left = sorted(set(os.listdir(where)) - set(before))
            if code == 2 and left:
                wrong.append(f"{line[0]} with code 2 left {left}")
            if any(n.startswith(".") for n in left):
                wrong.append(f"{line[0]} left {left}")
            written = next((w for w in line if w in ("out.nii", "out.vtk", "out.gii", "out.csv")), None)
            if code in (0, 1) and written:
                again, err, _ = self.call(where, "info", written)
                if again not in (0, 1):
                    wrong.append(f"the output of {line[0]} is not read: {err}")
            if wrong and self.options.keep:
                shutil.copytree(where, os.path.join(self.options.keep, f"{index}"), dirs_exist_ok=True)
            return code, [f"{index} {target}: {w}" for w in wrong]
        finally:
            shutil.rmtree(where, ignore_errors=True)

    @staticmethod
    def judge(wrong, what, code, err, name, allowed):
        stem = name.split(".")[0]
        if code is None:
            wrong.append(f"{what} did not end")
        elif "panicked" in err or code not in allowed:
            wrong.append(f"{what} ended with {code}: {err.strip()[-300:]}")
        elif code == 2 and stem not in err:
            wrong.append(f"{what} does not name the file: {err.strip()[-300:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="target/release/voxalign")
    parser.add_argument("--mutations", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--memory", type=int, default=2_000_000, help="KiB of address space")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--keep")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(options, folder)
        seeds, files = checker.seeds()
        names = sorted(files)
        tasks = ((i, seeds, names[i % len(names)], files[names[i % len(names)]]) for i in range(options.mutations))
        codes, wrong = {}, []
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for code, found in pool.map(checker.one, tasks):
                codes[code] = codes.get(code, 0) + 1
                for line in found:
                    print("WRONG", line, flush=True)
                wrong += found
    print(f"{options.mutations} damaged files of {len(names)} kinds; codes {dict(sorted(codes.items(), key=str))}; "
          f"{len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
