"""The call after the first one: what newcomers tried that ended in a raw error or in advice that
did not apply.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import karat
from karat import InputError
from karat.report import write_report

N = 800


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"a": rng.standard_normal(N), "town": rng.choice(["x", "y"], N)})
    table["half"] = rng.integers(1, 3, N) / 2
    table["price"] = table["a"] + rng.standard_normal(N)
    return table


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: karat.coreset(f, "price", one_hot=True), "one_hot must be a list of names"),
        (lambda f: karat.coreset({"a": [1.0], "b": [2.0]}, "b"), "or X as a frame"),
        (lambda f: karat.coreset(f[["a", "a", "price"]], "price"), "two columns of one name, 'a'"),
        (lambda f: karat.ols("price ~ a", f.to_numpy()), "array into a frame"),
        (lambda f: karat.ols("price ~ a", f, weights=f["half"]), "not values of type Series"),
        (lambda f: karat.ols("price ~ a", f, cov_type="cluster", cluster=f["a"]), "type Series"),
        (lambda f: karat.ols("price ~ Q('a')", f), "in backticks"),
        (lambda f: karat.ols("price ~ i(half, town, ref=1)", f), "'town' is text"),
        (lambda f: karat.ols("price ~ [a + half ~ town]", f), "2 endogenous .* 1 instrument "),
        (lambda f: karat.cube(f[["a", "half", "price"]], "price", by="half").select(half="1.0"),
         r"numbers, such as 0\.5\."),
    ],
)  # fmt: skip
def test_messages_say_what_applies(frame, call, message):
    with pytest.raises(InputError, match=message):
        call(frame)


def test_a_coreset_of_a_frame_knows_its_target(frame, tmp_path):
    numbers = frame[["a", "half", "price"]]
    for core in (
        karat.coreset(numbers, "price"),
        karat.coreset(numbers[["a", "half"]], numbers["price"]),
        karat.coreset(numbers, ["price", "half"]),
    ):
        assert core.verify(numbers).ok
        changed = numbers.assign(price=numbers["price"] + 1e-3 * (numbers.index == 5))
        assert not core.verify(changed).ok
        with pytest.raises(InputError, match="needs a target"):
            core.verify(numbers[["a", "half"]])
    page = write_report(karat.coreset(numbers, "price"), tmp_path / "page.html", data=numbers)
    assert "measured" in page.read_text()


def test_reports_are_about_coresets(frame, tmp_path):
    cube = karat.cube(frame[["a", "half", "price"]], "price", by="half")
    with pytest.raises(InputError, match=r"cube\.select"):
        write_report(cube, tmp_path / "page.html")
    with pytest.raises(InputError, match="its coreset"):
        write_report(karat.ols("price ~ a", frame), tmp_path / "page.html")


def test_results_are_shown_in_a_line(frame):
    cube = karat.cube(frame[["a", "half", "price"]], "price", by="half")
    assert repr(cube.fit(LinearRegression(), by="half")) == "Fits(2 models by half)"
    assert repr(cube.rolling("half", 1)) == "Rolling(2 windows of 1 by half)"


def test_a_coreset_is_no_cube(frame, tmp_path):
    core = karat.coreset(frame[["a", "price"]], "price")
    for name in ("core.npz", "core.parquet"):
        core.save(tmp_path / name)
        with pytest.raises(InputError, match=r"a coreset, not a cube.*karat\.load"):
            karat.Cube.load(tmp_path / name)
