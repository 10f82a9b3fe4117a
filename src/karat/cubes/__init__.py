"""Cubes: one exact coreset per cell, in one file; any slice, window or refit is a union of a few
rows.
"""

from karat.errors import MissingExtraError

try:
    import pyarrow  # noqa: F401
except ImportError:
    raise MissingExtraError("karat.cube", "io") from None

from karat.cubes.base import Cube
from karat.cubes.compare import Comparison
from karat.cubes.create import cube
from karat.cubes.fits import Fits
from karat.cubes.rolling import Rolling
from karat.cubes.verify import CubeVerification

__all__ = ["Comparison", "Cube", "CubeVerification", "Fits", "Rolling", "cube"]
