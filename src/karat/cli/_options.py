"""Options that several commands share, as dataclasses.  A parameter of such a type becomes one option per field:

    def plan(problem: ProblemOptions, shown: Common) -> None: ...

is a command with all options of both.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from karat.errors import InputError

UNITS = {"": 1, "b": 1, "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9, "t": 10**12, "tb": 10**12}


@dataclass(frozen=True)
class Common:
    """Options of every command."""

    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Replace every dataclass among the parameters of a command by its fields."""
    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    bundles: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    single = [p.replace(annotation=hints[p.name]) for p in signature.parameters.values() if p.name not in bundles]
    bundled = [parameter for bundle in bundles.values() for parameter in _parameters(bundle)]

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        built = {name: bundle(**{f.name: values.pop(f.name) for f in fields(bundle)}) for name, bundle in bundles.items()}
        command(**values, **built)

    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*single, *bundled)]
    flat.__signature__ = signature.replace(parameters=keyword)  # type: ignore[attr-defined]
    flat.__annotations__ = {p.name: p.annotation for p in keyword} | {"return": None}
    return flat


def _parameters(bundle: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(bundle, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(bundle)
    ]


def count(text: str | int) -> int:
    """Parse a whole number, also 1e9 or 1_000_000; defaults are numbers already."""
    for kind in (int, float):
        try:
            value = kind(text)
            if value == int(value):
                return int(value)
        except (ValueError, OverflowError):
            continue
    raise InputError(f"{text!r} is not a whole number, such as 1000000 or 1e6.")


def size(text: str) -> int:
    """Parse a number of bytes, such as 500MB or 2GB."""
    number = text.lower().rstrip("bkmgt ")
    unit = text[len(number) :].strip().lower()
    try:
        return int(float(number) * UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        raise InputError(f"{text!r} is not an amount of memory, such as 500MB or 2GB.") from None
