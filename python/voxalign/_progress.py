"""Progress of a job on the terminal or in a notebook."""

from __future__ import annotations

import sys
from typing import Any


class Bar:
    """A bar of tqdm where that is installed, else lines on standard error."""

    def __init__(self) -> None:
        self._before = 0.0
        self._share = 0.0
        self._bar: Any = None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        self._bar = tqdm(total=1.0, bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}")

    def __call__(self, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "stage":
            if message["index"] == 0:
                self._before = 0.0
            self._share = message["share"]
            self._say(message["name"], self._before)
        elif kind == "step":
            if self._bar is not None:
                self._move(self._before + self._share * message["done"])
        elif kind == "end":
            self._before = min(1.0, self._before + self._share)
            self._say(f"{message['name']}: {message['best']:.6g}", self._before)

    def _say(self, text: str, done: float) -> None:
        if self._bar is None:
            print(f"voxalign {100.0 * done:3.0f} % {text}", file=sys.stderr)
        else:
            self._bar.set_description(text, refresh=False)
            self._move(done)

    def _move(self, done: float) -> None:
        self._bar.n = min(1.0, done)
        self._bar.refresh()
