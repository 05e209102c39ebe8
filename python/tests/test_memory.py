"""Images are copied once on their way in, and not at all on their way out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import voxalign as vx

#: What each line does, and how many times the 32 MiB of the image it may take at its peak.
STEPS = {
    "image = vx.image(np.asfortranarray(values), affine=np.eye(4))": 2,
    "image = vx.image(values, affine=np.eye(4))": 1,
    "image = vx.image(doubles, affine=np.eye(4))": 1,
    "image = vx.image(doubles[::-1, ::2, ::-1].repeat(2, 1).astype('i2'), affine=np.eye(4))": 3,
    "kept = image.numpy(), np.asarray(image), image.to_nibabel()": 0,
    "kept = np.from_dlpack(image)": 1,
    "kept = image.to_sitk()": 1,
    "kept = vx.image(image.to_nibabel())": 1,
    "kept = [vx.Transform(np.eye(4)) for _ in range(3)], image.affine, image.shape": 0,
}

CODE = """
import sys
import numpy as np
import nibabel, SimpleITK
import voxalign as vx

def of(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))

values = np.ones((256, 256, 128), dtype=np.float32)
doubles = np.ones((256, 256, 128))
vx.image(values[:4], affine=np.eye(4)).to_nibabel()
for step in sys.argv[1:]:
    image = kept = None
    image = vx.image(values, affine=np.eye(4)) if "kept" in step else None
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")
    before = of("VmRSS")
    exec(step)
    print((of("VmHWM") - before) / 1024 / 32)
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak of a process cannot be reset here")
def test_copies() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, *STEPS],
        env=os.environ | {"PYTHONPATH": str(Path(vx.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    taken = [float(line) for line in done.stdout.split()]
    assert len(taken) == len(STEPS)
    for (step, most), copies in zip(STEPS.items(), taken):
        print(f"{copies:.2f} copies of {most}: {step}")
        assert copies < most + 0.25, step
