"""The HTML report: a dictionary of facts, rendered by one template into one self-contained file.

    facts(core, data)                  everything on the page, as plain values
    write_report(core, path, data)     the page of these facts

The template escapes every value.  The table of rows is embedded as JSON with ``<``, ``>`` and ``&``
escaped, and the script inserts its values as text, so that a column named ``<script>`` does no
harm.  The page's policy allows its own style and script by their hashes, and no other.
"""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import karat
from karat.core import export, wording
from karat.core.coreset import Coreset
from karat.engine.linalg import Array
from karat.engine.rows import Progress
from karat.errors import InputError, MissingExtraError
from karat.report.charts import differences_chart, moments_chart, projection_chart, weights_chart
from karat.report.data import kept_block, open_data, row_names
from karat.report.moments import Data, keeps_columns, thinned
from karat.report.one_coreset import Plane, weight_bins
from karat.storage.archive import write_atomically

MOMENTS = 2000  # moments shown on the page, among them the worst
STATIC = 200  # rows of the table without scripts and in print
# most cells in the table of kept rows; a larger one shows the rows with the largest weights
CELLS = 150_000
LETTERS = 200  # most characters in a cell
MISSING = ("<NA>", "NaT")  # how frames write missing values


def facts(
    core: Coreset,
    data: Any = None,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    lengths: Any = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Collect everything that a report shows, as plain values that JSON can hold.

    Parameters
    ----------
    core : Coreset
    data : (X, y), X, path or list of paths, optional
        The full data, in memory or in files; files are read in batches.  Without it the report has
        no comparison with the full data.
    sample_weight, groups, lengths : arrays, optional
        As in :meth:`karat.Coreset.verify`, for data in memory; for files the coreset stores the
        columns.
    progress : callable, optional
        Called with (bytes done, total bytes) while files are read.

    Returns
    -------
    dict
        The facts of the coreset, and ``table``, ``histogram``, ``projection``, ``verified``,
        ``moments``, ``columns`` and ``reproduce``.
    """
    _require_coreset(core)
    summary = export.coreset_facts(core)
    if data is None and any(value is not None for value in (sample_weight, groups, lengths)):
        raise InputError("Pass the data: sample_weight, groups and lengths belong to it.")
    opened = None if data is None else open_data(
        core, data, sample_weight=sample_weight, groups=groups, lengths=lengths, progress=progress
    )  # fmt: skip
    edges, counts = weight_bins(core.weights)
    table = table_of_kept_rows(core)
    return summary | {
        "karat": karat.__version__,
        "table": table,
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "projection": _projection(core, table["chosen"], opened),
        "verified": None if opened is None else opened.verify(),
        "moments": None if opened is None else _moments(opened),
        "columns": None if opened is None else _column_comparison(core, opened),
        "reproduce": _reproduce(core, summary),
        "targets": [c.name for c in export.kept_columns(core) if c.role == "target"],
        "coefficients": _coefficients(core),
    }


def write_report(core: Coreset, path: str | Path, data: Any = None, **options: Any) -> Path:
    """Write a self-contained HTML page about a coreset.

    Parameters
    ----------
    core : Coreset
    path : path
        An ``.html`` file, written atomically.
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
        raise InputError(
            f"The path of a report must end in .html, not {path.suffix or 'nothing'!r}: {path}."
        )
    write_page(facts(core, data, **options), path)
    return path


def _require_coreset(given: Any) -> None:
    if not isinstance(given, Coreset):
        advice = {"coreset": "its coreset", "select": "a slice, cube.select(...)"}
        part = next((advice[name] for name in advice if hasattr(given, name)), "a coreset")
        raise InputError(
            f"A report is about a coreset, and this is a {type(given).__name__}; pass {part}."
        )


def write_page(page_facts: dict[str, Any], path: Path) -> None:
    """Render the page and write it to a file."""
    page = render(page_facts).encode()
    write_atomically(path, lambda file: file.write(page))


def render(page_facts: dict[str, Any]) -> str:
    """Render the page of a dictionary of facts."""
    weights = np.array(
        next(c["values"] for c in page_facts["table"]["columns"] if c["role"] == "weight")
    )
    charts = {
        "weights": weights_chart(**page_facts["histogram"]),
        "projection": projection_chart(page_facts["projection"], weights),
    }
    if page_facts["moments"]:
        tolerance = page_facts["verified"]["tolerance"]
        charts["moments"] = moments_chart(page_facts["moments"])
        charts["differences"] = differences_chart(page_facts["moments"], tolerance)
    table = {name: page_facts["table"][name] for name in ("columns", "shown", "rows")}
    places = {"charts": charts, "table_json": as_script_data(table), "static": STATIC}
    origin = {
        "provenance": _origin(page_facts["provenance"]),
        "content": page_facts["provenance"].get("content"),
    }
    return str(_template().render(page_facts | places | origin))


def as_script_data(value: Any) -> str:
    """Write JSON for a script element; escapes keep it from ending the element or beginning a
    comment.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def policy(style: str, script: str) -> str:
    """The content security policy: nothing is loaded or sent, and only this style and this script
    are used.
    """
    style_hash, script_hash = (
        b64encode(sha256(text.encode()).digest()).decode() for text in (style, script)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}';"
        " base-uri 'none'; form-action 'none'"
    )


@cache
def _template() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError("karat.report.write_report", "report") from error
    from markupsafe import Markup

    folder = Path(__file__).parent / "template"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    page = wording.PAGE
    environment.filters |= {
        "count": page.count, "number": wording.number, "error": page.error,
        "duration": page.duration, "several": page.several, "typeset": wording.typeset,
        "script_data": Markup,
    }  # fmt: skip
    assets = {name: (folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js")}
    own_policy = Markup(policy(assets["page.css"], assets["page.js"]))
    environment.globals |= {
        "wording": wording,
        "asset": lambda name: Markup(assets[name]),
        "policy": own_policy,
    }
    return environment.get_template("page.html")


def table_of_kept_rows(core: Coreset, cells: int = CELLS) -> dict[str, Any]:
    """Make the table of the kept rows; every cell is a number, a short text or None.

    Returns
    -------
    dict
        ``columns``: list of ``{name, role, numeric, values}``, with row number and weight first;
        ``rows`` and ``shown``: how many rows there are and are shown; ``chosen``: positions of
        those shown.
    """
    columns = export.kept_columns(core)
    most = max(1, cells // len(columns))
    chosen = np.sort(np.argsort(-core.weights, kind="stable")[:most])
    return {
        "columns": [_table_column(c.name, c.role, np.asarray(c.values)[chosen]) for c in columns],
        "chosen": chosen.tolist(),
        "shown": len(chosen),
        "rows": len(core),
    }


def _table_column(name: str, role: str, values: np.ndarray) -> dict[str, Any]:
    return {
        "name": name,
        "role": role,
        "numeric": values.dtype.kind in "fiu",
        "values": _cells(values),
    }


def _cells(values: np.ndarray) -> list[Any]:
    """Convert values for JSON: missing ones become None, anything but numbers and booleans becomes
    text.
    """
    if values.dtype.kind == "f":
        return [
            value if finite else None
            for value, finite in zip(values.tolist(), np.isfinite(values), strict=True)
        ]
    if values.dtype.kind in "iub":
        return list(values.tolist())
    return [_cell(value) for value in values.tolist()]


def _cell(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return value if np.isfinite(value) else None
    text = str(value)
    if value is None or text in MISSING:
        return None
    return text if len(text) <= LETTERS else text[:LETTERS] + "…"


def _projection(core: Coreset, chosen: list[int], data: Data | None) -> dict[str, Any]:
    """Project the rows of the table, and a sample of the data, to two dimensions."""
    kept = kept_block(core)
    rows = None if data is None else data.sample()
    plane = Plane.fit(kept, core.weights) if rows is None else Plane.fit(rows)
    return {
        "kept": _rounded_points(plane(kept[chosen])),
        "background": None if rows is None else _rounded_points(plane(rows)),
        "share": plane.share.tolist(),
    }


def _rounded_points(places: Array) -> list[list[float]]:
    return [[float(f"{a:.5g}"), float(f"{b:.5g}")] for a, b in places]


def _moments(data: Data) -> dict[str, Any] | None:
    moments = data.moments()
    if moments is None:
        return None
    difference = moments.difference
    shown = thinned(difference, MOMENTS)
    return {
        "count": len(difference),
        "worst": float(np.abs(difference).max()),
        "full": moments.full[shown].tolist(),
        "difference": difference[shown].tolist(),
    }


def _column_comparison(core: Coreset, data: Data) -> list[dict[str, Any]] | None:
    """Mean and standard deviation of every column, if the problem keeps them."""
    if not keeps_columns(core):
        return None
    columns = data.columns()
    values = zip(
        row_names(core),
        columns.mean,
        columns.kept_mean,
        columns.deviation,
        columns.kept_deviation,
        strict=True,
    )
    return [
        {
            "name": name,
            "mean": float(m),
            "kept_mean": float(km),
            "deviation": float(s),
            "kept_deviation": float(ks),
        }
        for name, m, km, s, ks in values
    ]


def _coefficients(core: Coreset) -> dict[str, Any] | None:
    """The table of the regression whose rows the coreset has; None if it is of none."""
    if core.regression is None:
        return None
    from karat.inference import ols

    fit = ols(core)
    names = ("term", "estimate", "std_error", "conf_low", "conf_high", "p_value")
    table = fit.tidy()
    rows = [
        dict(zip(names, values, strict=True))
        for values in zip(*(table[n] for n in names), strict=True)
    ]
    return {
        "formula": core.regression.facts["formula"],
        "rows": rows,
        "r_squared": float(fit.rsquared),
    }


def _origin(provenance: dict[str, Any]) -> dict[str, Any]:
    """Provenance without empty entries, the hashes and the command (the page shows the last two
    elsewhere).
    """
    apart = ("content", "command")
    present = {
        name: value for name, value in provenance.items() if name not in apart and value is not None
    }
    return {
        name: value
        for name, value in present.items()
        if not isinstance(value, dict) or any(value.values())
    }


def _reproduce(core: Coreset, summary: dict[str, Any]) -> dict[str, str | None]:
    """The command line, if it is known, and the Python call that makes the same coreset."""
    origin = summary["provenance"]
    problem = (
        f"karat.problems.{summary['problem']}"
        if core.problem.storable
        else f"problem  # {type(core.problem).__name__}"
    )
    if origin.get("source"):
        given = origin["source"]["given"]
        named = (
            repr(given[0] if len(given) == 1 else given)
            if given
            else _named_stream(origin["source"].get("query"))
        )
        arguments = [
            named,
            f"target={origin['target']!r}",
            f"problem={problem}",
            f"columns={origin['columns']!r}",
        ]
        roles = {"sample_weight": "weight", "groups": "group", "key": "key", "sequence": "sequence"}
        arguments += [
            f"{name}={origin['roles'][role]!r}"
            for name, role in roles.items()
            if origin["roles"].get(role)
        ]
        encoded = list((origin.get("encoding") or {}).get("levels", {}))
        arguments += [f"one_hot={encoded!r}"] if encoded else []
        arguments += (
            [f"on_missing={origin['on_missing']!r}"]
            if origin["on_missing"] in ("drop", "mean")
            else []
        )
        arguments += [f"random_state={origin['seed']}"] if origin["seed"] else []
        call = f"core = karat.coreset_files({', '.join(arguments)})"
    elif origin.get("merged"):
        call = "core = functools.reduce(karat.Coreset.merge, parts)  # coresets of the parts"
    else:
        arguments = ["X", *(["y"] if core.y is not None else []), f"problem={problem}"]
        arguments += ["groups=groups"] if core.groups is not None else []
        call = f"core = karat.coreset({', '.join(arguments)})"
    return {"command": origin.get("command"), "python": call}


def _named_stream(query: dict[str, Any] | None) -> str:
    return "stream" if query is None else f"karat.io.query({query['sql']!r}, {query['database']!r})"
