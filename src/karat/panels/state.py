"""Sums of panels as JSON and named arrays, for checkpoints (:mod:`karat.io.checkpoint`)."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

import numpy as np

from karat.data.labels import as_objects, as_text
from karat.errors import InputError, require
from karat.storage.archive import Stored, prefixed, without_prefix

NUMBERS = {bool: "?", float: "<f8", datetime.date: "<M8[D]", datetime.datetime: "<M8[us]"}


def joined_state(parts: Iterable[tuple[str, Stored]]) -> Stored:
    """Several states as one, by their names."""
    headers: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for name, (header, own) in parts:
        headers[name] = header
        arrays |= prefixed(name, own)
    return headers, arrays


def part_state(name: str, header: dict[str, Any], arrays: dict[str, Any]) -> Stored:
    """A state that was joined with others."""
    return header[name], without_prefix(name, arrays)


def label_state(labels: list[Any]) -> dict[str, Any]:
    """Labels as arrays: by type, the places and the values; integers beyond 64 bits as text."""
    arrays: dict[str, Any] = {}
    types = {type(label) for label in labels}
    for kind in types:
        places = [place for place, label in enumerate(labels) if type(label) is kind]
        values = labels if len(types) == 1 else [labels[place] for place in places]
        if kind is int:
            wide = any(not -(2**63) <= value < 2**63 for value in values)
            array = np.array(
                [str(v) for v in values] if wide else values, dtype=None if wide else "<i8"
            )
        elif kind is str:
            array = as_text(as_objects(values))
        elif kind in NUMBERS:
            array = np.array(values, dtype=NUMBERS[kind])
        else:
            raise InputError(
                f"Labels of type {kind.__name__} cannot be saved; leave out checkpoint=, or convert"
                " them to text or numbers.",
                argument="checkpoint",
            )
        arrays[f"{kind.__name__} places"] = np.array(places, dtype=np.int64)
        arrays[f"{kind.__name__} values"] = array
    return arrays


def labels_of(arrays: dict[str, Any]) -> list[Any]:
    """The labels of :func:`label_state`."""
    parts = {
        name.removesuffix(" places"): places
        for name, places in arrays.items()
        if name.endswith(" places")
    }
    labels: list[Any] = [None] * sum(len(places) for places in parts.values())
    for kind, places in parts.items():
        values = arrays[f"{kind} values"]
        require(len(values) == len(places), "labels without a place")
        for place, value in zip(places.tolist(), values.tolist(), strict=True):
            labels[place] = int(value) if kind == "int" else value
    return labels


def require_shape(array: Any, *shape: int | None) -> Any:
    """An array of a checkpoint, if it has this shape; None is any length."""
    fits = array.ndim == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
    )
    require(fits, f"an array of shape {array.shape}")
    return array
