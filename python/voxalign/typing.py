"""Types of what functions take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ._native import Transform

#: A path.
PathLike: TypeAlias = "str | os.PathLike[str]"
#: A path, an Image, or an image of nibabel, SimpleITK, ITK or ANTs, which have no type in common.
ImageLike: TypeAlias = Any
#: A path, `inverse:` and a path, or a Transform.
TransformLike: TypeAlias = "str | os.PathLike[str] | Transform"
#: A number, a text that stands for values as at the command line, or a list of them.
Value: TypeAlias = "str | float | os.PathLike[str] | Sequence[Any]"
