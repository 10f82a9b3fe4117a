"""Arrays of other libraries: PyTorch, CuPy and JAX, by the array API standard.

``array-api-compat`` (the extra ``arrays``) gives the functions of the standard, under the same
names for every library.  Beside them stands here what the standard leaves out: which library an
array is of, a copy in the memory of NumPy, and which arrays cannot be read in double precision.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from karat.errors import InputError, MissingExtraError

# the packages that define the arrays, and how people call the libraries
LIBRARIES = {
    "torch": "PyTorch",
    "cupy": "CuPy",
    "jax": "JAX",
    "jaxlib": "JAX",
    "array_api_strict": "array-api-strict",
}


def library_of(array: Any) -> str | None:
    """The library of an array, if it is one of those read here; None for anything else."""
    homes = (kind.__module__.split(".")[0] for kind in type(array).__mro__)
    return next((LIBRARIES[home] for home in homes if home in LIBRARIES), None)


def namespace(array: Any) -> Any:
    """The functions of the array API for an array."""
    return _compat(array).array_namespace(array)


def device_of(array: Any) -> Any:
    """Where an array lies."""
    return _compat(array).device(array)


def _compat(array: Any) -> Any:
    try:
        import array_api_compat
    except ImportError:
        raise MissingExtraError(f"Reading a {library_of(array)} array", "arrays") from None
    return array_api_compat


def on_host(array: Any) -> bool:
    """Whether NumPy can read the array where it lies."""
    library = library_of(array)
    if library == "PyTorch":
        return bool(array.device.type == "cpu")
    if library == "JAX":
        return all(device.platform == "cpu" for device in array.devices())
    return library == "array-api-strict" and "CPU_DEVICE" in str(array.device)


def to_host(array: Any) -> np.ndarray:
    """The values as a NumPy array, without a copy if they are in its memory."""
    library = library_of(array)
    if library == "PyTorch":
        array = array.cpu()
        if str(array.dtype) == "torch.bfloat16":  # which NumPy does not have
            array = array.float()
    elif library == "CuPy":
        array = array.get()
    elif library == "array-api-strict":
        import array_api_strict

        array = array.to_device(array_api_strict.Device("CPU_DEVICE"))
    return np.asarray(array)


def from_host(values: np.ndarray, like: Any) -> Any:
    """A NumPy array as an array of the library of ``like``, where that lies."""
    if library_of(like) == "PyTorch":  # which needs no other package
        import torch

        # which takes no array that runs backwards
        return torch.tensor(np.ascontiguousarray(values), device=like.device)
    return namespace(like).asarray(values, device=device_of(like))


def take_rows(array: Any, positions: np.ndarray) -> Any:
    """Some rows, in the same library and on the same device."""
    where = from_host(np.asarray(positions, dtype=np.int64), array)
    if library_of(array) == "PyTorch":
        return array[where]
    return namespace(array).take(array, where, axis=0)


def side_by_side(blocks: Sequence[Any], shift: Any = None) -> Any:
    """Blocks of columns in double precision as one block, minus a shift, in memory of its own."""
    functions, library = namespace(blocks[0]), library_of(blocks[0])
    if library not in ("PyTorch", "CuPy"):
        if len(blocks) == 1:  # which some libraries would not copy
            return functions.asarray(blocks[0], copy=True) if shift is None else blocks[0] - shift
        joint = functions.concat(list(blocks), axis=1)
        return joint if shift is None else joint - shift
    # These write into a part of an array, with a quarter of the traffic of their concat.
    subtract = importlib.import_module("torch" if library == "PyTorch" else "cupy").subtract
    edges = np.cumsum([0, *(int(block.shape[1]) for block in blocks)]).tolist()
    shape = (int(blocks[0].shape[0]), edges[-1])
    joint = functions.empty(shape, dtype=functions.float64, device=device_of(blocks[0]))
    for block, start, stop in zip(blocks, edges, edges[1:], strict=False):
        if shift is None:
            joint[:, start:stop] = block
        else:
            subtract(block, shift[start:stop], out=joint[:, start:stop])
    return joint


def add_twice(values: Any, doubled: Any) -> Any:
    """``values + 2 * doubled``, in the memory of the second where the library allows it."""
    if library_of(values) == "PyTorch":  # in one look at the numbers
        return importlib.import_module("torch").add(values, doubled, alpha=2, out=doubled)
    doubled *= 2
    doubled += values
    return doubled


def check_readable(array: Any, name: str) -> None:
    """Raise unless the values can be read, and rows be made of them, in double precision."""
    library = library_of(array)
    if library == "PyTorch" and array.requires_grad:
        raise InputError(
            f"{name} is a tensor that requires gradients, and a coreset has none; pass"
            f" {name}.detach().",
            argument=name,
        )
    if library == "PyTorch" and array.layout is not _strided():
        raise InputError(
            f"{name} is a sparse tensor; pass a SciPy sparse matrix, or {name}.to_dense().",
            argument=name,
        )
    if library == "JAX" and not _jax_doubles():
        raise InputError(
            f"{name} is a JAX array, and JAX computes in single precision. Make the arrays after"
            " jax.config.update('jax_enable_x64', True).",
            argument=name,
        )
    if not on_host(array) and not has_doubles(array):
        raise InputError(
            f"{name} is on the device {device_of(array)}, which has no double precision; pass"
            f" {name}.cpu().",
            argument=name,
        )


def has_doubles(array: Any) -> bool:
    """Whether the device of an array computes in double precision."""
    functions = namespace(array)
    try:
        number = functions.ones((1,), dtype=functions.float64, device=device_of(array))
        return bool(number.dtype == functions.float64)
    except (TypeError, RuntimeError, ValueError):
        return False


def _strided() -> Any:
    import torch

    return torch.strided


def _jax_doubles() -> bool:
    import jax

    return bool(jax.config.jax_enable_x64)
