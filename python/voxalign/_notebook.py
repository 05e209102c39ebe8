"""What a notebook shows of a result."""

from __future__ import annotations

import html
import re

from ._native import Result, VoxalignError

#: So many pictures of the report are shown.
_FIRST = 2


def pictures(result: Result) -> str:
    """The verdict and the first pictures of the report."""
    verdict = f"<p><b>{html.escape(str(result.verdict))}</b></p>"
    try:
        report = result.report()
    except VoxalignError:
        return verdict
    style = "".join(re.findall(r"<style>.*?</style>", report, re.DOTALL))
    figures = re.findall(r"<figure\b.*?</figure>", report, re.DOTALL)[:_FIRST]
    page = f"<!doctype html><meta charset='utf-8'>{style}<body>{''.join(figures)}</body>"
    # The style of the report is for these pictures alone.
    frame = f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:640px;border:0"></iframe>'
    return verdict + frame
