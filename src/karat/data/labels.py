"""Labels of rows (groups, keys, clusters, categories): their checks, and the codes that stand for
them.

    labels  b, a, b, c      ->      distinct  b, a, c      codes  0, 1, 0, 2

Codes are found by Arrow's dictionary encoding where pyarrow is loaded, and by a dictionary where it
is not; both give the same codes.

Text is compared and stored in arrays of fixed width.  NumPy pads such text with NUL characters and
strips them when it is read, so "a" and "a\\0" would be one label.  :func:`as_text`, where objects
become text, therefore raises for text that ends in NUL.

Keys are equal whatever their type: 7 is an integer of any width, 7.0 or DECIMAL 7.00, a date is
its midnight (:func:`key_numbers`).  Text is no number; keys of different kinds are not compared.

:func:`group_rows` sorts rows by their groups once, so that no group needs a pass over all rows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from karat.compat import array_api
from karat.engine.linalg import Array, Flags, Indices
from karat.errors import InputError, several

NUL = ("\0", b"\0")
MANY = 2**16  # integers within so large a range are counted, however few there are
PLAIN = "use numbers or strings throughout, one per row"
MISSING = ("a missing value",)  # the one key of all values that do not equal themselves
NUMBER, LARGE, FRACTION, TIME = (np.uint64(kind) for kind in (1, 2, 3, 4))  # sorts of keys
STEP, FIRST, SECOND = (
    np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
KINDS = {"U": "text", "S": "text", "M": "times", "m": "durations"}
# rows per run of equal labels, on average, from which on the runs are sorted instead of the rows
FEW_RUNS = 4


def as_objects(values: Any) -> np.ndarray:
    """An array; text that is not in a NumPy array yet (in a list, in polars) becomes objects."""
    if not isinstance(values, np.ndarray) and array_api.library_of(values) is not None:
        return array_api.to_host(values)
    array = np.asarray(values)
    return (
        np.array(values, dtype=object)
        if array.dtype.kind in "US" and not isinstance(values, np.ndarray)
        else array
    )


def as_text(values: np.ndarray, kind: Any = str) -> np.ndarray:
    """Objects as text of fixed width (or as bytes of it)."""
    nested = next(
        (v for v in values.ravel() if isinstance(v, list | tuple | dict | np.ndarray)), None
    )
    if nested is not None:
        raise InputError(
            f"A label or key is no single value ({_short(nested)}); use text, numbers or dates."
        )
    cut = next(
        (v for v in values.ravel().tolist() if isinstance(v, str | bytes) and v[-1:] in NUL), None
    )
    if cut is not None:
        raise InputError(
            f"The label or key {cut!r:.60} ends in a NUL character (\\0); remove it from the text."
        )
    return values.astype(kind)


def as_keys(values: Any) -> np.ndarray:
    """Keys as integers, numbers or text; a missing key is an error."""
    keys = as_objects(values)
    if missing_values(keys).any():
        raise InputError("The key column has missing values; every row needs a key.")
    if keys.dtype.kind != "O":
        return keys
    listed = keys.tolist()
    decimal = any(isinstance(key, Decimal) for key in listed)
    if decimal and all(isinstance(key, Decimal | int) for key in listed):
        return _numbers_of_decimals([Decimal(key) for key in listed])
    return as_text(keys)


def _numbers_of_decimals(keys: Sequence[Decimal]) -> np.ndarray:
    """Decimals without places as integers, others as doubles; raise if a digit would be lost."""
    if all(key == key.to_integral_value() and key.as_tuple().exponent == 0 for key in keys):
        low, high = -(2**63), 2**63 - 1
        lost = next((key for key in keys if not low <= key <= high), None)
        if lost is None:
            return np.array([int(key) for key in keys], dtype=np.int64)
    else:
        doubles = np.array(keys, dtype=np.float64)
        written = map(repr, doubles.tolist())
        lost = next((k for k, text in zip(keys, written, strict=True) if Decimal(text) != k), None)
        if lost is None:
            return doubles
    raise InputError(
        f"The decimal {lost} labels or identifies rows and has more digits than 64 bits hold;"
        " make text of the column (in SQL, CAST(... AS VARCHAR))."
    )


def key_kind(keys: np.ndarray) -> str:
    """What keys are: "numbers", "text", "times" or "durations"."""
    return KINDS.get(keys.dtype.kind, "numbers")


def key_numbers(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys that are no text as 64 bits, and the kind of each; equal keys have equal numbers."""
    if keys.dtype.kind == "u":
        whole = keys.astype(np.uint64)
        return whole, np.where(whole >> np.uint64(63), LARGE, NUMBER)
    if keys.dtype.kind == "f":
        return _numbers_of_doubles(keys.astype(np.float64))
    if keys.dtype.kind in "mM":
        times = keys.astype(f"{keys.dtype.kind}8[ns]").astype(np.int64).view(np.uint64)
        return times, np.full(len(keys), TIME)
    return keys.astype(np.int64).view(np.uint64), np.full(len(keys), NUMBER)


def _numbers_of_doubles(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    whole = np.floor(values) == values
    small = whole & (np.abs(values) < 2.0**63)
    large = whole & (values >= 2.0**63) & (values < 2.0**64)
    numbers = values.copy().view(np.uint64)
    numbers[small] = values[small].astype(np.int64).view(np.uint64)
    numbers[large] = values[large].astype(np.uint64)
    return numbers, np.where(small, NUMBER, np.where(large, LARGE, FRACTION))


def mixed(values: np.ndarray) -> np.ndarray:
    """Every bit spread over all of the word (splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * FIRST
    values = (values ^ (values >> np.uint64(27))) * SECOND
    return np.asarray(values ^ (values >> np.uint64(31)))


def first_word(numbers: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Sixty-four bits for each of :func:`key_numbers`; numbers of one kind never meet."""
    return mixed(numbers + kinds * STEP)


def check_groups(groups: Any, count: int) -> np.ndarray:
    """Labels of groups as an array of plain values, one per row."""
    try:
        labels = as_objects(groups)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"groups cannot be read as labels: {error}. It must be one label per row.",
            argument="groups",
        ) from error
    if labels.shape != (count,):
        raise InputError(
            f"X has {several(count, 'row')} but groups has shape {labels.shape}; it must be one"
            " label per row.",
            argument="groups",
        )
    missing = missing_values(labels)
    missing |= np.ma.getmaskarray(groups) if np.ma.isMaskedArray(groups) else False
    if missing.any():
        where = int(missing.argmax())
        raise InputError(
            f"groups has {int(missing.sum())} missing labels, the first in row {where}; every row"
            " needs one.",
            argument="groups",
            row=where,
        )
    return _plain_labels(labels)


def missing_values(values: np.ndarray) -> Flags:
    """Which values are missing: None, and those that do not equal themselves."""
    if values.dtype.kind == "O":
        return np.array(
            [value is None or comparable(value) is MISSING for value in values], dtype=bool
        )
    if values.dtype.kind in "fcMm":
        return np.asarray(values != values)  # noqa: PLR0124
    return np.zeros(len(values), dtype=bool)


def comparable(value: Any) -> Any:
    """The value itself, or ``MISSING`` for NaN, NaT and NA, which do not equal themselves."""
    try:
        return value if value == value else MISSING  # noqa: PLR0124
    except TypeError:
        return MISSING
    except ValueError:  # an array
        return value


def _plain_labels(labels: np.ndarray) -> np.ndarray:
    """Text, numbers or dates; objects only if they are of one type that has an order."""
    if labels.dtype.kind not in "biufMmUSO":
        raise InputError(f"groups has type {labels.dtype}; {PLAIN}.")
    if labels.dtype.kind != "O":
        return labels
    kind = next(
        kind for kind in (bool, int, float, str, type(labels[0])) if isinstance(labels[0], kind)
    )
    for row, label in enumerate(labels):
        if not isinstance(label, kind) or isinstance(
            label, tuple | list | set | frozenset | dict | np.ndarray
        ):
            raise InputError(
                f"groups has a label of type {type(label).__name__} in row {row} ({_short(label)});"
                f" {PLAIN}."
            )
    if issubclass(kind, str | np.bytes_):
        return as_text(labels, kind)
    if issubclass(kind, bool | int | float | np.generic):
        try:
            return labels.astype(kind)
        except OverflowError:
            raise InputError("groups has integers beyond 64 bits; use text.") from None
    try:
        sorted(set(labels[:2]))
    except TypeError:
        raise InputError(
            f"groups has labels of type {kind.__name__}, from row 0 on, which have no order or no"
            f" hash; {PLAIN}."
        ) from None
    return labels


def same_kind(first: np.ndarray, second: np.ndarray, what: str = "groups") -> None:
    """Raise if only one of two arrays of labels is text: joined, NumPy would make text of all."""
    if (first.dtype.kind in "US") != (second.dtype.kind in "US"):
        raise InputError(
            f"Some {what} are text and others are not ({first[0]!r} and {second[0]!r}); {PLAIN}."
        )


def like_stored(labels: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Labels in the type of stored ones, where nothing is lost: the number 7 is the text "7", and
    the text "007" is no number.
    """
    if stored.dtype.kind == "U" and labels.dtype.kind in "iuf":
        kind = labels.dtype.type
        texts = {_number(text, kind): text for text in np.unique(stored).tolist()}
        distinct, codes = encode(labels)
        names = [texts.get(label, str(label)) for label in distinct.tolist()]
        return np.array(names, dtype=str)[codes]
    if stored.dtype.kind in "iuf" and labels.dtype.kind == "U":
        distinct, codes = encode(labels)
        numbers = [_number(text, stored.dtype.type) for text in distinct.tolist()]
        return labels if None in numbers else np.array(numbers, dtype=stored.dtype)[codes]
    return labels


def _number(text: str, kind: Any) -> Any:
    """The number of a type that is written like this; None if there is none."""
    try:
        number = kind(int(text) if issubclass(kind, np.integer) else float(text)).item()
    except (ValueError, OverflowError):
        return None
    whole = isinstance(number, float) and number.is_integer()
    return number if text in (str(number), str(int(number)) if whole else "") else None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def encode(values: np.ndarray) -> tuple[np.ndarray, Indices]:
    """The distinct labels in order of appearance, and every row's code: the place of its label."""
    codes = _arrow_codes(values)
    if codes is None:
        numbers: dict[Any, int] = {}
        keys = values.tolist() if values.dtype.kind in "US" else map(comparable, values.tolist())
        codes = np.fromiter(
            (numbers.setdefault(key, len(numbers)) for key in keys), np.intp, len(values)
        )
    first = np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
    return values[first], codes


def encode_sorted(values: np.ndarray) -> tuple[np.ndarray, Indices]:
    """The distinct labels in increasing order, and every row's code: the place of its label."""
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        # counted rather than sorted
        if high - low < max(2 * len(values), MANY) and low >= -(2**62) and high < 2**62:
            codes = values.astype(np.int64, copy=False)
            codes = codes - low if low else codes
            seen = np.bincount(codes, minlength=high - low + 1) > 0
            labels = np.flatnonzero(seen) + low
            return labels.astype(values.dtype), (
                codes if seen.all() else (np.cumsum(seen) - 1)[codes]
            )
    distinct, codes = encode(values)
    order = np.argsort(distinct, kind="stable")
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return distinct[order], rank[codes]


def _arrow_codes(values: np.ndarray) -> Indices | None:
    """Codes by Arrow, if it is loaded (to load it would take longer than it saves) and knows such
    labels; else None.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is None:
        return None
    try:
        # To Arrow, -0.0 and 0.0 are two numbers.
        array = arrow.array(values + values.dtype.type(0) if values.dtype.kind == "f" else values)
        if array.null_count or (values.dtype.kind == "O" and not arrow.types.is_string(array.type)):
            # None and NaN are two labels, and objects need not equal what Arrow makes of them
            return None
        return np.asarray(array.dictionary_encode().indices, dtype=np.intp)
    # the last: more than 2 GiB, in chunks
    except (TypeError, ValueError, NotImplementedError, OverflowError, AttributeError):
        return None


@dataclass(frozen=True)
class Grouping:
    """The distinct labels, and the rows of each."""

    labels: list[Any]  # distinct, in order
    # the rows, group by group, in a group as they come; None if they come in that order
    order: Indices | None
    starts: Indices  # (G + 1,): group g has the rows ``order[starts[g]:starts[g + 1]]``

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {label: place for place, label in enumerate(self.labels)}

    def places(self, labels: list[Any]) -> Indices:
        """The numbers of groups."""
        return np.array([self._places[label] for label in labels], dtype=np.intp)

    def rows(self, label: Any) -> Indices:
        """The rows of a group, increasing; none if there is no such group."""
        place = self._places.get(label)
        if place is None:
            return np.zeros(0, dtype=np.intp)
        start, stop = self.starts[place], self.starts[place + 1]
        return (
            np.arange(start, stop) if self.order is None else self.order[start:stop].astype(np.intp)
        )


def group_rows(groups: np.ndarray, weights: Array | None = None) -> Grouping:
    """Sort rows by their labels, without rows of weight zero; raise if a group has no others."""
    changes = groups[1:] != groups[:-1]
    # long runs of equal labels: encode one label of each run, not of each row
    runs = FEW_RUNS * np.count_nonzero(changes) < len(groups)
    first = np.concatenate([[0], np.flatnonzero(changes) + 1]) if runs else np.arange(0)
    try:
        distinct, codes = encode_sorted(groups[first] if runs else groups)
    except TypeError as error:
        raise InputError(
            f"groups mixes types that cannot be ordered; {PLAIN}.", argument="groups"
        ) from error
    labels = list(distinct)
    in_order = bool((codes[1:] >= codes[:-1]).all())
    if runs and in_order and (weights is None or weights.all()):
        return Grouping(labels, None, np.append(first, len(groups)))  # a run is a group
    if runs:
        codes = np.repeat(codes, np.diff(first, append=len(groups)))
    rows = None
    if weights is not None and not weights.all():
        rows = np.flatnonzero(weights)
        codes = codes[rows]
    counts = np.bincount(codes, minlength=len(labels))
    if not counts.all():
        empty = labels[int(counts.argmin())]
        empty = empty.item() if isinstance(empty, np.generic) else empty
        raise InputError(
            f"Group {empty!r} has no row of positive weight; leave the group out or correct its"
            " weights.",
            argument="sample_weight",
        )
    order = None if in_order else sorted_codes(codes, len(labels))
    if rows is not None:
        order = rows if order is None else rows[order]
    return Grouping(labels, order, np.concatenate([[0], np.cumsum(counts)]))


def sorted_codes(codes: np.ndarray, count: int) -> Indices:
    """``argsort(codes, kind="stable")`` of numbers below ``count``, by counting them; of 32 bits
    where they suffice.

    SciPy does that when it transposes a sparse matrix whose row i has one entry, in column
    ``codes[i]``.
    """
    if count > MANY + 4 * len(codes):
        return np.argsort(codes, kind="stable")
    kind = np.int32 if max(len(codes), count) < 2**31 else np.int64
    entries = (
        np.ones(len(codes), dtype=np.int8),
        codes.astype(kind, copy=False),
        np.arange(len(codes) + 1, dtype=kind),
    )
    return np.asarray(sparse.csr_array(entries, shape=(len(codes), count)).tocsc().indices)


def contained(keys: Any, among: np.ndarray) -> np.ndarray:
    """Whether each key is one of others; raise if text is compared with numbers."""
    wanted = np.atleast_1d(as_objects(keys))
    if wanted.dtype.kind == "O":
        wanted = as_text(wanted)
    if len(wanted) and (wanted.dtype.kind in "US") != (among.dtype.kind in "US"):
        raise InputError(
            f"Keys are like {among[0].item()!r}, not like {wanted[0].item()!r}.", argument="keys"
        )
    return np.isin(wanted, among)
