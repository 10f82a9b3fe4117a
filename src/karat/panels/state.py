"""Sums of panels as JSON and named arrays, for checkpoints (:mod:`karat.io.checkpoint`)."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from karat.data.labels import as_objects, as_text
from karat.errors import InputError, require
from karat.storage.archive import Stored, prefixed, without_prefix

NUMBERS = {bool: "?", float: "<f8", datetime.date: "<M8[D]", datetime.datetime: "<M8[us]"}


class InZone(datetime.datetime):
    """Stands for times in a zone, whose values are saved as text."""


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
    kinds = [_kind(label) for label in labels]
    types = set(kinds)
    for kind in types:
        places = [place for place, other in enumerate(kinds) if other is kind]
        values = labels if len(types) == 1 else [labels[place] for place in places]
        if kind is int:
            wide = any(not -(2**63) <= value < 2**63 for value in values)
            array = np.array(
                [str(v) for v in values] if wide else values, dtype=None if wide else "<i8"
            )
        elif kind in (pd.Timestamp, InZone):
            array = as_text(as_objects([_written(value) for value in values]))
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


def _kind(label: Any) -> type:
    aware = type(label) is datetime.datetime and label.tzinfo is not None
    return InZone if aware else type(label)


def _written(time: Any) -> str:
    """A time, with its zone behind it if that has a name."""
    zone = str(time.tzinfo)
    return f"{time.isoformat()} {zone}" if "/" in zone or zone == "UTC" else time.isoformat()


def _read_time(text: str) -> pd.Timestamp:
    time, _, zone = text.partition(" ")
    return pd.Timestamp(time).tz_convert(zone) if zone else pd.Timestamp(time)


READ: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "Timestamp": lambda text: _read_time(text).as_unit("ns"),
    "InZone": lambda text: _read_time(text).to_pydatetime(),
}


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
        read = READ.get(kind, lambda value: value)
        for place, value in zip(places.tolist(), values.tolist(), strict=True):
            labels[place] = read(value)
    return labels


def require_shape(array: Any, *shape: int | None) -> Any:
    """An array of a checkpoint, if it has this shape; None is any length."""
    fits = array.ndim == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
    )
    require(fits, f"an array of shape {array.shape}")
    return array
