"""Arrays of PyTorch, CuPy and JAX as tables.

Those in the memory of the host are NumPy arrays without a copy.  Those on an accelerator stay there
(:mod:`karat.engine.device`).
"""

from __future__ import annotations

from typing import Any

from karat.compat import array_api
from karat.engine.device import DevicePart
from karat.engine.parts import WHOLE
from karat.errors import InputError


def device_table(array: Any, name: str) -> DevicePart:
    """The table of an array on an accelerator; raise unless it is one of numbers."""
    functions, kind = array_api.namespace(array), array.dtype
    if functions.isdtype(kind, "complex floating"):
        raise InputError(f"{name} holds complex numbers; split it into real and imaginary columns.")
    dimensions = len(array.shape)
    if dimensions == 0:
        raise InputError(f"{name} is a single number; pass one per row.")
    if dimensions > 2:
        raise InputError(
            f"{name} has {dimensions} dimensions; it must be a table of rows and columns."
        )
    if functions.isdtype(kind, "integral") and array.shape[0] and functions.iinfo(kind).bits > 32:
        high, low = int(functions.max(array)), int(functions.min(array))
        if max(high, -low) > WHOLE:
            raise InputError(
                f"{name} holds integers beyond 2^53, which double precision cannot tell apart;"
                " subtract an offset first, or pass a NumPy array.",
                argument=name,
            )
    return DevicePart(array if dimensions == 2 else array[:, None])


def check_one_device(table: Any, target: Any) -> None:
    """Raise unless X and y lie in one place."""
    places = [
        part.device if isinstance(part, DevicePart) else None
        for part in (table, target)
        if part is not None
    ]
    if len(set(map(str, places))) > 1:
        x_place, y_place = ("the host" if place is None else str(place) for place in places)
        raise InputError(
            f"X is on {x_place}, y is on {y_place}; move one of them to the device of the other.",
            argument="y",
        )
