"""The program `voxalign`, as its script and `python -m voxalign` run it."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from ._native import program


def main() -> NoReturn:
    """Runs the program with the arguments of this process, and ends with its exit code."""
    # Ctrl-C is the program's, also before it listens.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # What is printed must not get into a file that happens to be opened in the place of a stream that is closed.
    for stream in (0, 1, 2):
        try:
            os.fstat(stream)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    # No folder of this name, where one happens to be, is taken for the package.
    again = [sys.executable, "-P", "-m", "voxalign"]
    sys.exit(program(["voxalign", *sys.argv[1:]], again))
