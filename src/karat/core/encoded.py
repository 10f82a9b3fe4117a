"""Frames with categories and missing values: karat.coreset hands them to karat.coreset_files, which
learns levels and means in a pass of its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from karat.data.containers import is_frame
from karat.errors import InputError

if TYPE_CHECKING:
    from karat.core.coreset import Coreset


def encoded_coreset(
    X: Any, y: Any, problem: Any, lengths: Any, method: str, **options: Any
) -> Coreset:
    """The coreset of a frame with encoded columns."""
    _check_encoded(X, y, options["sample_weight"], options["groups"], lengths, method)
    # imported by name, because files are read above this room
    core: Coreset = import_module("karat.io").coreset_files(X, y, problem, **options)
    return core


def _check_encoded(
    X: Any, y: Any, sample_weight: Any, groups: Any, lengths: Any, method: str
) -> None:
    """Raise unless columns can be encoded: of a frame whose other columns are given by name."""
    for argument, value in {"y": y, "sample_weight": sample_weight, "groups": groups}.items():
        if not (value is None or isinstance(value, str) or (argument == "y" and _are_names(value))):
            raise InputError(
                f"one_hot and on_missing read columns by name; put {argument} into the frame, and"
                f" pass {argument}= the name of its column.",
                argument=argument,
            )
    if not (is_frame(X) or hasattr(X, "__arrow_c_stream__")):
        raise InputError(
            "one_hot and on_missing need a frame with named columns; X is of type"
            f" {type(X).__name__}.",
            argument="X",
        )
    if lengths is not None or method != "auto":
        raise InputError("one_hot and on_missing cannot be combined with lengths or method.")


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
