"""No modules import each other in a circle, and functions import nothing but optional
dependencies.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from structure.import_graph import graph_of, read_graph

import karat

GRAPH = read_graph(Path(karat.__file__).parent)
# (module, what it imports inside a function) -> why
LATE = {
    ("karat.cubes.file", "fcntl"): "Windows has none",
    (
        "karat.engine.linear_proof",
        "scipy.optimize",
    ): "it takes as long to import as the rest of karat, for few verifications",
    ("karat.io.checkpoint", "fcntl"): "Windows has none",
    (
        "karat.problems.absorb.programme",
        "scipy.optimize",
    ): "it takes as long to import as the rest of karat, for few problems",
    (
        "karat.report.latent",
        "scipy.optimize",
    ): "it takes as long to import as the rest of karat, for one picture",
}
# (module, what it imports) -> why that is no circle
UPWARDS = {
    (
        "karat.cluster.partitions",
        "karat.dask",
    ): "chosen by the library of a frame; it schedules what this module does",
    (
        "karat.cluster.partitions",
        "karat.spark",
    ): "chosen by the library of a frame; it schedules what this module does",
}


def is_command(module: str) -> bool:
    """Commands import what they need when they run, so that ``karat --help`` answers at once."""
    return module == "karat.cli" or module.startswith("karat.cli.")


def test_no_modules_import_each_other_in_a_circle():
    assert GRAPH.cycles(UPWARDS) == []


def test_functions_import_optional_dependencies_only():
    wrong = [
        one
        for one in GRAPH.inside_functions()
        if not is_command(one.module) and (one.module, one.target) not in LATE
    ]
    assert not wrong, "\n".join(
        f"{one.module}:{one.line} imports {one.target} inside a function" for one in wrong
    )


def test_the_exceptions_are_still_needed():
    assert set(LATE) <= {(one.module, one.target) for one in GRAPH.imports if one.inside}
    assert set(UPWARDS) <= {(one.module, one.target) for one in GRAPH.imports}
    assert GRAPH.cycles({}) != []


CIRCLE = {
    "karat.a": "from karat.b import f",
    "karat.b": "def f():\n    from karat import a",
    "karat.c": "from karat.a import f",
}


def test_a_circle_is_found_inside_functions():
    assert graph_of(CIRCLE).cycles({}) == [["karat.a", "karat.b"]]
    assert graph_of(CIRCLE).cycles({("karat.b", "karat.a"): "why"}) == []


def test_imports_for_type_checkers_do_not_count():
    types = {
        "karat.b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from karat import a"
    }
    assert graph_of(CIRCLE | types).cycles({}) == []


OPTIONAL = {"karat.b": "import numpy", "karat.files": "import karat.c", "karat.c": "import pyarrow"}


@pytest.mark.parametrize(
    ("body", "allowed"),
    [
        ("import pyarrow", True),
        ("import karat.files", True),
        ("import numpy", False),
        ("import csv", False),
        ("import karat.b", False),
    ],
)
def test_what_a_function_may_import(body, allowed):
    found = graph_of(OPTIONAL | {"karat.a": f"def f():\n    {body}"}).inside_functions()
    assert bool(found) is not allowed
