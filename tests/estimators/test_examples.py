"""The gallery runs, and each example checks its own claim and draws a figure."""

import runpy
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[2] / "examples"
NAMES = [
    "lasso_path",
    "grid_search",
    "wide",
    "categories",
    "polynomial",
    "factories",
    "two_sites",
    "when_not",
    "mixture",
    "streams",
    "cost",
    "new_problem",
    "flights",
]


@pytest.mark.parametrize("name", NAMES)
def test_example(name, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.close("all")
    runpy.run_path(str(GALLERY / f"{name}.py"))["main"](n=8000)
    assert capsys.readouterr().out
    assert plt.get_fignums(), "every card of the gallery has a picture of its own"
    plt.close("all")
