"""Odd sources for clusters, by kind: each is a frame with roles, and what must come of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

NAMES = [
    "a.b", "`q`", "a`b.c", "*", "a.*", " ", "  two  words ", "partition:offset",
    "partition:offset'", "1", "0.5", "None", "éß漢", "select", "c0", "c1", "part", "message",
    "__index_level_0__", "weight", "x" * 300, "a\nb", "'", '"', "%s", "{}",
]  # fmt: skip
ROLES = ["feature", "target", "weight", "key"]
N = 90


@dataclass
class Odd:
    """A source: a frame, the arguments of the coreset, and the words of its refusal (None: it must
    be exact).
    """

    name: str
    frame: pd.DataFrame
    options: dict[str, Any]
    refused: str | None = None
    roles: dict[str, str] = field(default_factory=dict)


def plain(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((N, 3)), columns=["u", "v", "w"])
    frame["y"], frame["id"] = rng.standard_normal(N), rng.permutation(N)
    return frame


def with_names() -> list[Odd]:
    """Every odd name in every role."""
    found = []
    for i, name in enumerate(NAMES):
        for role in ROLES:
            old = {"feature": "u", "target": "y", "weight": "w", "key": "id"}[role]
            frame = plain(i).rename(columns={old: name})
            roles = {"u": "u", "v": "v", "y": "y", "w": "w", "id": "id"} | {old: name}
            frame[roles["w"]] = np.abs(frame[roles["w"]])
            options = {"target": roles["y"], "sample_weight": roles["w"], "key": roles["id"]}
            if role != "feature":  # features by default and by name
                options["columns"] = [roles["u"], roles["v"]]
            found.append(Odd(f"{role} {name!r:.30}", frame, options, None, roles))
    return found


def with_arguments() -> list[Odd]:
    """Arguments that name columns in odd ways."""
    frame, roles = plain(), {"u": "u", "v": "v", "y": "y"}
    cases = [
        (
            "a text as columns",
            {"target": "y", "columns": "uv"},
            r"columns must be a list of names; did you mean \['uv'\]|list of",
        ),
        (
            "a column twice",
            {"target": "y", "columns": ["u", "u", "v"]},
            "'u' is named twice in columns",
        ),
        (
            "a target twice",
            {"target": ["y", "y"], "columns": ["u", "v"]},
            "'y' is named twice in target",
        ),
        (
            "the target among the columns",
            {"target": "y", "columns": ["u", "v", "y"]},
            "'y' is the target",
        ),
        (
            "a target that is a number",
            {"target": 3, "columns": ["u", "v"]},
            "target must be the name of a column",
        ),
        (
            "a column that is a number",
            {"target": "y", "columns": ["u", 7]},
            "columns must name columns of the data by text",
        ),
        (
            "a weight that is a number",
            {"target": "y", "sample_weight": 2.5},
            "sample_weight must name columns",
        ),
        (
            "a weight of values",
            {"target": "y", "sample_weight": np.ones(N)},
            "sample_weight must name columns",
        ),
        ("a key of values", {"target": "y", "key": np.arange(N)}, "key must name columns"),
        ("no columns", {"target": "y", "columns": []}, "No columns are left"),
        ("an unknown column", {"target": "y", "columns": ["u", "V"]}, "no column 'V'"),
        ("columns as a tuple", {"target": "y", "columns": ("u", "v")}, None),
        ("columns as an index", {"target": "y", "columns": pd.Index(["u", "v"])}, None),
        ("columns as an array", {"target": "y", "columns": np.array(["u", "v"])}, None),
        ("columns as a generator", {"target": "y", "columns": (c for c in "uv")}, None),
    ]
    return [Odd(name, frame, options, words, roles) for name, options, words in cases]


def check_exact(core: Any, odd: Odd) -> None:
    """Weighted second moments of (1, u, v, y), from the frame itself."""
    frame, at = odd.frame, odd.roles
    D = np.column_stack([np.ones(len(frame)), *(frame[at[name]] for name in ("u", "v", "y"))])
    w = frame[at["w"]].to_numpy() if "sample_weight" in odd.options else np.ones(len(frame))
    X, y = core.arrays()
    kept = np.column_stack([np.ones(len(core)), X, y])
    full = (D * w[:, None]).T @ D
    np.testing.assert_allclose(
        (kept * core.weights[:, None]).T @ kept, full, rtol=0, atol=1e-11 * np.abs(full).max()
    )
    assert core.certificate.ok
    assert core.n_rows == len(frame)
    if "key" in odd.options:
        rows = frame.set_index(at["id"])
        np.testing.assert_array_equal(rows.loc[core.keys, at["u"]].to_numpy(), X[:, 0])
