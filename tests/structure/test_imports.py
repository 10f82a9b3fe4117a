"""No module uses the private names of another, and no example needs a private module."""

from __future__ import annotations

from pathlib import Path

import pytest
from structure.private_names import modules, uses

import karat

PACKAGE = Path(karat.__file__).parent
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
# The experiments of the paper may use what is open to all of karat, such as karat.core.
SOURCES = [
    *modules(PACKAGE),
    *((f"karat.{module}", path) for module, path in modules(ROOT / "paper")),
]
# the only place for private names of other libraries; tests/compat says what broke
COMPAT = "karat.compat."
ALLOWED: dict[tuple[str, str], str] = {}  # (module, name) -> why


def test_no_module_uses_a_foreign_private_name():
    found = [
        use for module, path in SOURCES for use in uses(module, path.read_text(encoding="utf-8"))
    ]
    wrong = [
        str(use)
        for use in found
        if (use.module, use.name) not in ALLOWED and not use.module.startswith(COMPAT)
    ]
    assert not wrong, f"{len(wrong)} uses of private names:\n" + "\n".join(wrong)


def test_the_exceptions_are_still_needed():
    found = {
        (use.module, use.name)
        for module, path in SOURCES
        for use in uses(module, path.read_text(encoding="utf-8"))
    }
    assert not set(ALLOWED) - found


def test_examples_are_written_with_public_names():
    wrong = [
        str(use)
        for path in sorted(EXAMPLES.glob("*.py"))
        for use in uses(path.stem, path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from karat.problems.base import _check", "karat.problems.base._check"),
        ("from karat.report._table import kept_table", "karat.report._table.kept_table"),
        ("import sklearn.utils._mask", "sklearn.utils._mask"),
        ("def f(sketch):\n    return sketch._rows[0]", "sketch._rows"),
        ("def f(a):\n    return a.b._rows", "a.b._rows"),
        ("def f(core):\n    return getattr(core, '_proof', None)", "core._proof"),
        ("from karat.io import csv\ncsv._sniff()", "csv._sniff"),
        ("f(_state={})", "_state="),
        ("import_module('numpy.linalg._umath_linalg')", "numpy.linalg._umath_linalg"),
        ("from a import B\nclass C(B):\n    def _f(self): return super()._f()", "super._f"),
        ("from a import B\nclass C(B):\n    def fit(self): return self._check()", "self._check"),
    ],
)
def test_what_is_found(source, name):
    assert [use.name for use in uses("karat.io.csv", source)] == [name]


@pytest.mark.parametrize(
    "source",
    [
        "from karat.core.construct import merged",
        "from karat.io._lines import split",
        "from __future__ import annotations\nimport karat\nkarat.__version__",
        (
            "class A:\n    def _sum(self): return super()._sum() + self._x\n    def __add__(self,"
            " other): return other._sum()"
        ),
        "class A:\n    def __init__(self): self._x = 1\ndef f(a: A): return a._x",
        "class A:\n    _x: int\n    _y = 1\ndef f(a: A): return a._x + a._y",
        (
            "class A:\n    def __init__(self): object.__setattr__(self, '_x', 1)\ndef f(a: A):"
            " return a._x"
        ),
        "def f(pair): return pair._replace(x=1), pair._repr_html_()",
    ],
)
def test_what_is_allowed(source):
    assert not list(uses("karat.io.csv", source))
