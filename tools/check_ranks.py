#!/usr/bin/env python3
"""Builds an atlas with several processes under mpirun, kills and stops some of them, and checks that every
result has the same bytes.

    tools/check_ranks.py LIST.csv|IMAGES... [--program target/release/voxalign] [--ranks 1,2,4]
                         [--kills 4] [--options "--spacing 3"] [--launcher "mpirun --bind-to none"]
                         [--keep FOLDER]

Needs Linux, and a voxalign that was built with `--features mpi`. IMAGES are at least as many images as
ranks; a LIST may name label maps and masks too. In containers and on machines with few cores Open MPI wants
--launcher "mpirun --allow-run-as-root --oversubscribe --bind-to none". It ends with the code 1 where
something is not as it should be.

What is done:
  1. the atlas, with each number of ranks: the same bytes in all images and transforms
  2. one rank is killed at a random moment, and the run resumed with another number of ranks: the same bytes
  3. the launcher is interrupted as by Ctrl-C, and the run resumed
  4. one image is cut short: one message that names it, and nothing is left
"""
import argparse
import csv
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

wrong = []


def check(good, what):
    print(f"  {'ok   ' if good else 'WRONG'} {what}", flush=True)
    if not good:
        wrong.append(what)


def results(folder):
    """The bytes of all images and transforms below a folder, by their names; what killed runs left, in hidden
    folders, is no result."""
    found = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".voxalign-")]
        for name in files:
            if name.endswith((".nii.gz", ".tfm")):
                path = os.path.join(root, name)
                found[os.path.relpath(path, folder)] = open(path, "rb").read()
    return found


def differing(folder, wanted):
    found = results(folder)
    return sorted(n for n in wanted.keys() | found.keys() if wanted.get(n) != found.get(n))


def ranks_of(launcher, program):
    """The processes of the program that a launcher started."""
    parents, ranks = {}, []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                parents[int(entry)] = int(file.read().rsplit(")", 1)[1].split()[1])
            if os.path.samefile(f"/proc/{entry}/exe", program):
                ranks.append(int(entry))
        except OSError:
            pass

    def is_below(pid):
        while pid > 1:
            if pid == launcher:
                return True
            pid = parents.get(pid, 0)
        return False

    return sorted(filter(is_below, ranks))


class Check:
    def __init__(self, arguments, folder):
        self.a, self.folder = arguments, folder
        self.program = os.path.realpath(arguments.program)
        self.input = arguments.images
        if len(self.input) == 1 and self.input[0].endswith(".csv"):
            self.input = ["--list", self.input[0]]

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, ranks, name, *more, images=None):
        command = [*self.a.launcher.split(), "-np", str(ranks), self.program, "atlas",
                   *(images or self.input), "-o", self.path(name), "--no-report",
                   *self.a.options.split(), *more]
        text = subprocess.PIPE
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=text, text=True)

    def run(self, ranks, name, *more, images=None):
        began = time.time()
        run = self.start(ranks, name, *more, images=images)
        said = run.communicate()[1]
        return run.returncode, said, time.time() - began

    def left(self, name):
        """What an unfinished run left in its folder."""
        there = sorted(os.listdir(self.path(name))) if os.path.isdir(self.path(name)) else []
        return ", ".join("a hidden folder" if n.startswith(".voxalign-") else n for n in there)

    def whole(self):
        for ranks in self.a.ranks:
            code, said, seconds = self.run(ranks, f"whole{ranks}", "--checkpoint-every", "never")
            check(code in (0, 1), f"{ranks} ranks: code {code}, {seconds:.1f} s")
            if code not in (0, 1):
                sys.exit(said)
            if ranks == self.a.ranks[0]:
                self.wanted, self.code = results(self.path(f"whole{ranks}")), code
            else:
                off = differing(self.path(f"whole{ranks}"), self.wanted)
                check(not off, f"{ranks} ranks: {len(self.wanted)} files, {len(off)} differ")
        began = time.time()
        run = self.start(max(self.a.ranks), "timed", "--checkpoint-every", "0")
        self.wait_for_checkpoint(run, "timed")
        first = time.time() - began
        run.communicate()
        self.seconds = time.time() - began
        self.after_first = 1.0 - first / self.seconds
        check(not differing(self.path("timed"), self.wanted),
              f"checkpoints after each iteration: {self.seconds:.1f} s")

    def wait_for_checkpoint(self, run, name):
        while run.poll() is None and not os.path.exists(self.path(f"{name}/checkpoint/current")):
            time.sleep(0.02)

    def resume(self, ranks, name):
        there = os.path.exists(self.path(f"{name}/checkpoint/current"))
        code, said, seconds = self.run(ranks, name, "--checkpoint-every", "0", "--resume")
        off = differing(self.path(name), self.wanted) if code == self.code else [said]
        check(not off, f"resumed with {ranks} ranks {'from' if there else 'without'} a checkpoint: "
                       f"code {code}, {seconds:.1f} s, {len(off)} files differ {off[:3]}")
        check(not os.path.exists(self.path(f"{name}/checkpoint")), "no checkpoint is left")

    def killed(self, number):
        several = [r for r in self.a.ranks if r > 1]
        ranks = several[number % len(several)]
        name, part = f"killed{number}", random.uniform(0.05, 0.95)
        run, began = self.start(ranks, name, "--checkpoint-every", "0"), time.time()
        if number % 3 > 0:
            # Most of them between two iterations: after some of the time from the first checkpoint on.
            self.wait_for_checkpoint(run, name)
            part *= self.after_first
        time.sleep(part * self.seconds)
        part = (time.time() - began) / self.seconds
        pids = ranks_of(run.pid, self.program)
        if run.poll() is not None or not pids:
            print(f"  -     {ranks} ranks had ended before the kill")
            run.communicate()
            return
        victim = random.randrange(len(pids))
        os.kill(pids[victim], signal.SIGKILL)
        began = time.time()
        try:
            said = run.communicate(timeout=120)[1]
        except subprocess.TimeoutExpired:
            check(False, f"process {victim} of {ranks} killed: the others did not end in 120 s")
            run.kill()
            return
        check(run.returncode not in (0, 1),
              f"process {victim} of {ranks} killed after {part:.0%}: code {run.returncode} after "
              f"{time.time() - began:.1f} s; left: {self.left(name)}")
        if self.a.verbose:
            print(said)
        self.resume(self.a.ranks[(number + 1) % len(self.a.ranks)], name)

    def stopped(self):
        ranks, name = max(self.a.ranks), "stopped"
        run = self.start(ranks, name, "--checkpoint-every", "0")
        self.wait_for_checkpoint(run, name)
        time.sleep(0.3 * self.after_first * self.seconds)
        run.send_signal(signal.SIGINT)
        said = run.communicate()[1]
        print(f"        interrupted: code {run.returncode}; left: {self.left(name)}")
        hints = sum("--resume" in line for line in said.splitlines())
        check(run.returncode != 0, f"the code is not that of success; --resume is named {hints} times")
        if self.a.verbose:
            print(said)
        self.resume(self.a.ranks[0], name)

    def cut_short(self):
        images = self.input
        if images[0] == "--list":
            base = os.path.dirname(os.path.abspath(images[1]))
            with open(images[1]) as file:
                images = [os.path.join(base, row["path"]) for row in csv.DictReader(file)]
        bad = self.path("cut_short" + os.path.basename(images[-1])[-7:])
        with open(images[-1], "rb") as file:
            whole = file.read()
        with open(bad, "wb") as file:
            file.write(whole[:len(whole) * 2 // 3])
        for what, images in (("cut short", [*images[:-1], bad]),
                             ("that is not there", [*images[:-1], self.path("none.nii.gz")])):
            code, said, seconds = self.run(max(self.a.ranks), "bad", images=images)
            errors = [line for line in said.splitlines() if "error:" in line]
            check(code == 2 and len(errors) == 1,
                  f"an image {what}: code {code} after {seconds:.1f} s, {len(errors)} messages: {errors[:1]}")
            if self.a.verbose:
                print(said)
            check(not self.left("bad").replace("checkpoint", ""), f"left: {self.left('bad') or 'nothing'}")
            shutil.rmtree(self.path("bad"), ignore_errors=True)
            code, said, _ = self.run(max(self.a.ranks), "without", "--exclude", "unreadable", images=images)
            check(code in (0, 1) and said.count("was left out") == 1, f"--exclude unreadable: code {code}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("images", nargs="+")
    parser.add_argument("--program", default="target/release/voxalign")
    parser.add_argument("--ranks", default="1,2,4", type=lambda t: [int(n) for n in t.split(",")])
    parser.add_argument("--kills", default=4, type=int)
    parser.add_argument("--options", default="")
    parser.add_argument("--launcher", default="mpirun --bind-to none")
    parser.add_argument("--keep")
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--verbose", action="store_true", help="show the output of failing runs")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    folder = arguments.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    try:
        checks = Check(arguments, folder)
        print("the same atlas with any number of ranks")
        checks.whole()
        print("killed ranks")
        for number in range(arguments.kills):
            checks.killed(number)
        print("interrupted")
        checks.stopped()
        print("unreadable images")
        checks.cut_short()
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(wrong)} things are wrong" if wrong else "all is as it should be")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
