"""Cubes: one exact coreset per cell, in one file; any slice, window or refit is a union of a few
rows.
"""

from karat.errors import MissingExtraError

try:
    import pyarrow  # noqa: F401
except ImportError:
    raise MissingExtraError("karat.cube", "io") from None

from karat._cube.base import Cube, cube
from karat._cube.compare import Comparison
from karat._cube.fits import Fits
from karat._cube.rolling import Rolling
from karat._cube.verify import CubeVerification

__all__ = ["Comparison", "Cube", "CubeVerification", "Fits", "Rolling", "cube"]
