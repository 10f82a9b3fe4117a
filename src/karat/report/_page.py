"""The report: one dictionary, one template, one file that needs nothing else.

    facts(core, data)     all that the page says, as plain values          # a pure function
    write_report          the template, filled with them, written in one step

Every value reaches the page through the template's escaping, or as JSON in which ``<``, ``>`` and ``&`` are written as escapes,
and scripts put it there as text.  A column named ``<script>`` is a name like any other.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from karat._core import facts as core_facts
from karat._core import wording
from karat._core.coreset import Coreset
from karat._storage.atomic import write_atomically
from karat.engine.linalg import Array
from karat.engine.rows import Progress
from karat.errors import InputError, MissingExtraError
from karat.report import _charts
from karat.report._data import Data, kept_block, open_data, row_names
from karat.report._moments import keeps_columns
from karat.report._projection import Plane
from karat.report._table import kept_table
from karat.report._weights import weight_bins

MOMENTS = 2000  # shown on the page; the worst is among them
STATIC = 200  # rows of the table that are there without scripts, and in print


def facts(
    core: Coreset,
    data: Any = None,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    lengths: Any = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """All that a report says, as plain values that JSON can hold.

    Parameters
    ----------
    core : Coreset
    data : (X, y), X, path or list of paths, optional
        The full data, in memory or in files; files are read in batches.  Without it there is nothing to compare with, and the
        report says so.
    sample_weight, groups, lengths : arrays, optional
        As in :meth:`karat.Coreset.verify`, for data in memory; of files the coreset knows the columns.
    progress : callable, optional
        Called with (bytes done, bytes in all) while files are read.

    Returns
    -------
    dict
        The facts of the coreset, and ``table``, ``histogram``, ``projection``, ``verified``, ``moments``, ``columns`` and
        ``reproduce``.
    """
    known = core_facts.facts(core)
    if data is None and any(value is not None for value in (sample_weight, groups, lengths)):
        raise InputError("sample_weight, groups and lengths belong to data; pass the data too.")
    opened = None if data is None else open_data(
        core, data, sample_weight=sample_weight, groups=groups, lengths=lengths, progress=progress
    )  # fmt: skip
    edges, counts = weight_bins(core.weights)
    table = kept_table(core)
    return known | {
        "karat": _version(),
        "table": table,
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "projection": _projection(core, table["chosen"], opened),
        "verified": None if opened is None else opened.verify(),
        "moments": None if opened is None else _moments(opened),
        "columns": None if opened is None else _columns(core, opened),
        "reproduce": _reproduce(core, known),
    }


def write_report(core: Coreset, path: str | Path, data: Any = None, **options: Any) -> Path:
    """Write a self-contained HTML page about a coreset.

    Parameters
    ----------
    core : Coreset
    path : path
        An ``.html`` file; written whole or not at all.
    data, **options
        As in :func:`karat.report.facts`.

    Returns
    -------
    Path
        The page.

    Examples
    --------
    >>> import numpy as np, karat, tempfile, pathlib
    >>> X = np.random.default_rng(0).standard_normal((1000, 3))
    >>> page = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> karat.report.write_report(karat.coreset(X), page, data=X).name
    'report.html'
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"A report is saved as .html, not {path.suffix or 'without a suffix'!r}: {path}.")
    write_page(facts(core, data, **options), path)
    return path


def write_page(known: dict[str, Any], path: Path) -> None:
    """The page of a dictionary of facts, in a file."""
    page = render(known).encode()
    write_atomically(path, lambda file: file.write(page))


def render(known: dict[str, Any]) -> str:
    """The page of a dictionary of facts."""
    weights = np.array(next(c["values"] for c in known["table"]["columns"] if c["role"] == "weight"))
    charts = {
        "weights": _charts.weights_chart(**known["histogram"]),
        "projection": _charts.projection_chart(known["projection"], weights),
    }
    if known["moments"]:
        tolerance = known["verified"]["tolerance"]
        charts["moments"] = _charts.moments_chart(known["moments"])
        charts["differences"] = _charts.differences_chart(known["moments"], tolerance)
    table = {name: known["table"][name] for name in ("columns", "shown", "rows")}
    places = {"charts": charts, "table_json": as_script_data(table), "static": STATIC}
    origin = {"provenance": _origin(known["provenance"]), "content": known["provenance"].get("content")}
    return str(_template().render(known | places | origin))


def as_script_data(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


@cache
def _template() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError("karat.report.write_report", "report") from error
    from markupsafe import Markup

    folder = Path(__file__).parent / "template"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"count": wording.count, "number": wording.number, "error": wording.error}
    environment.filters |= {"duration": wording.duration, "script_data": Markup}
    environment.globals["asset"] = lambda name: Markup((folder / name).read_text(encoding="utf-8"))
    return environment.get_template("page.html")


def _version() -> str:
    from karat import __version__

    return __version__


def _projection(core: Coreset, chosen: list[int], data: Data | None) -> dict[str, Any]:
    """Two coordinates for the rows of the table and for a sample of the data."""
    kept = kept_block(core)
    rows = None if data is None else data.sample()
    plane = Plane.fit(kept, core.weights) if rows is None else Plane.fit(rows)
    return {
        "kept": _places(plane(kept[chosen])),
        "background": None if rows is None else _places(plane(rows)),
        "share": plane.share.tolist(),
    }


def _places(places: Array) -> list[list[float]]:
    return [[float(f"{a:.5g}"), float(f"{b:.5g}")] for a, b in places]


def _moments(data: Data) -> dict[str, Any] | None:
    found = data.moments()
    if found is None:
        return None
    difference = found.difference
    step = -(-len(difference) // MOMENTS)
    shown = np.union1d(np.arange(0, len(difference), step), np.argmax(np.abs(difference)))
    return {
        "count": len(difference),
        "worst": float(np.abs(difference).max()),
        "full": found.full[shown].tolist(),
        "difference": difference[shown].tolist(),
    }


def _columns(core: Coreset, data: Data) -> list[dict[str, Any]] | None:
    """Mean and deviation of every column, where the problem keeps them."""
    if not keeps_columns(core):
        return None
    found = data.columns()
    values = zip(row_names(core), found.mean, found.kept_mean, found.deviation, found.kept_deviation, strict=True)
    return [
        {"name": name, "mean": float(m), "kept_mean": float(km), "deviation": float(s), "kept_deviation": float(ks)}
        for name, m, km, s, ks in values
    ]


def _origin(provenance: dict[str, Any]) -> dict[str, Any]:
    """Provenance for readers: without the hashes and the command, which have their own places, and without empty entries."""
    apart = ("content", "command")
    known = {name: value for name, value in provenance.items() if name not in apart and value is not None}
    return {name: value for name, value in known.items() if not isinstance(value, dict) or any(value.values())}


def _reproduce(core: Coreset, known: dict[str, Any]) -> dict[str, str | None]:
    """The line that was typed, where it is known, and the call that makes the same coreset."""
    origin = known["provenance"]
    problem = f"karat.problems.{known['problem']}" if core.problem.storable else f"problem  # {type(core.problem).__name__}"
    if origin.get("source"):
        given = origin["source"]["given"]
        named = repr(given[0] if len(given) == 1 else given) if given else "stream"
        arguments = [named, f"target={origin['target']!r}", f"problem={problem}"]
        arguments.append(f"columns={origin['columns']!r}")
        roles = {"sample_weight": "weight", "groups": "group", "key": "key", "sequence": "sequence"}
        arguments += [f"{name}={origin['roles'][role]!r}" for name, role in roles.items() if origin["roles"].get(role)]
        arguments += ["on_missing='drop'"] if origin["on_missing"] == "drop" else []
        arguments += [f"random_state={origin['seed']}"] if origin["seed"] else []
        call = f"core = karat.coreset_files({', '.join(arguments)})"
    elif origin.get("merged"):
        call = "core = functools.reduce(karat.Coreset.merge, parts)  # the coresets of the parts, made as above"
    else:
        arguments = ["X", *(["y"] if core.y is not None else []), f"problem={problem}"]
        arguments += ["groups=groups"] if core.groups is not None else []
        call = f"core = karat.coreset({', '.join(arguments)})"
    return {"command": origin.get("command"), "python": call}
