"""Provenance: what a coreset of files was made from and how, so that it can be made and checked again.

A plain dictionary that JSON can hold, the same for the same call on the same files apart from ``created``:

    karat, created, command         the version, the time (UTC), and the line that was typed (set by the command line)
    source                          {"given": the paths passed, "files": [{"name" below their common folder, "size", "rows"}]}
    target, columns, roles          the columns (of MultiView: a list per view); roles: {"weight", "group", "key"}, "sequence"
    pipeline                        the class of the transformer, or None
    on_missing, dropped             "error" or "drop"; {"missing": rows, "broken": rows} that were left out
    problem, seed
    content                         hashes of the rows (:mod:`karat.io.row_hashes`), or None
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from karat.io.layout import Layout
from karat.problems import Problem


def provenance(
    source: dict[str, Any], layout: Layout, problem: Problem, seed: int, dropped: dict[str, int], content: Any = None
) -> dict[str, Any]:
    """The dictionary of one run; ``source`` is that of :func:`described_source`."""
    import karat

    targets = list(layout.targets)
    return {
        "karat": karat.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": None,
        "source": source,
        "target": None if not targets else targets[0] if len(targets) == 1 else targets,
        "columns": list(layout.features),
        "roles": {"weight": layout.weight, "group": layout.group, "key": layout.key},
        "pipeline": None if layout.pipeline is None else type(layout.pipeline).__name__,
        "on_missing": "drop" if layout.drop else "error",
        "dropped": dropped,
        "problem": problem.describe(),
        "seed": seed,
        "content": content,
    }


def described_source(given: Any, files: Sequence[Sequence[Any]], rows: Mapping[int, int]) -> dict[str, Any]:
    """The paths that were passed (none, if it was a stream), and the files found there: ``files`` have path and size first."""
    single = isinstance(given, str) or hasattr(given, "__fspath__")
    parts = [given] if single else list(given) if isinstance(given, list | tuple) else []
    names = short_names([str(f[0]) for f in files])
    found = [{"name": name, "size": f[1], "rows": rows.get(i, 0)} for i, (name, f) in enumerate(zip(names, files, strict=True))]
    return {"given": [os.fspath(one) for one in parts], "files": found}


def feature_columns(columns: Sequence[Any]) -> list[str]:
    """The names in ``columns``, those of views one after the other."""
    return [name for one in columns for name in ([one] if isinstance(one, str) else one)]


def short_names(paths: Sequence[str]) -> list[str]:
    """Paths below their common folder."""
    if not paths:
        return []
    home = os.path.commonpath([os.path.dirname(path) for path in paths])
    return [PurePath(os.path.relpath(path, home or ".")).as_posix() for path in paths]
