"""A name means one thing: few functions and classes of the package share theirs with another
module.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import karat

PACKAGE = Path(karat.__file__).parent
# One name on purpose, because users see it: the problem and its learner, and a coreset of rows in
# memory or on a cluster.
PUBLIC_PAIRS = {
    "ICA",
    "MultiView",
    "GaussianMixture",
    "HiddenMarkov",
    "SingleTopic",
    "LatentDirichlet",
    "coreset",
}
# Commands are called as people type them: ``karat merge`` is the function ``merge`` of ``cli``.
COMMANDS = {"build", "merge", "plan", "verify"}
MOST = 16


def homes() -> dict[str, list[str]]:
    """The modules that define each name at their top level, private names too, without the
    commands.
    """
    found = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(
                node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ) or node.name.startswith("__"):
                continue
            if place.parts[0] != "cli" or node.name not in COMMANDS:
                found[node.name].append(place.as_posix())
    return found


def test_few_names_have_two_homes():
    many = {
        name: places
        for name, places in homes().items()
        if len(set(places)) > 1 and name not in PUBLIC_PAIRS
    }
    assert len(many) <= MOST, "\n".join(
        f"{name}: {', '.join(places)}" for name, places in sorted(many.items())
    )


def test_exceptions_are_needed():
    found = homes()
    assert all(len(found[name]) > 1 for name in PUBLIC_PAIRS)
    assert all(name in found for name in COMMANDS)
