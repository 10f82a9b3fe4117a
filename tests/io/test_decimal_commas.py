"""Numbers with a comma in CSV files are never read as text without a word."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

import karat
from karat import InputError

COUNT = 60
ERROR = "line {}: column '{}' has the value '{}', a number with a comma.*decimal=','"


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame({
        "a": rng.integers(0, 9, COUNT) / 4,
        "b": rng.integers(0, 9, COUNT),
        "y": np.round(rng.standard_normal(COUNT), 2),
        "g": rng.choice(["x", "z"], COUNT),
    })  # fmt: skip


def written(frame, path, sep=";", decimal=",", **changes):
    frame.assign(**changes).to_csv(path, sep=sep, decimal=decimal, index=False)
    return path


CALLS = {
    "files": partial(karat.coreset_files, target="y"),
    "categories": partial(karat.coreset_files, target="y", one_hot="auto"),
    "one category": partial(karat.coreset_files, target="y", one_hot=["g"]),
    "cube": partial(karat.cube, target="y", by="g"),
    "formula": lambda path, **how: karat.ols("y ~ a + b", path, **how),
    "interaction": lambda path, **how: karat.ols("y ~ b + a:b + g", path, **how),
    "effects": lambda path, **how: karat.ols("y ~ a | g", path, **how),
}


@pytest.mark.parametrize("on_missing", ["error", "drop"])
@pytest.mark.parametrize("call", CALLS)
def test_every_call_names_the_line_and_the_column(frame, call, on_missing, tmp_path):
    for sep in (";", "\t", "|", ","):
        path = written(frame, tmp_path / "rows.csv", sep, y=frame.b)
        first = str(frame.a[0]).replace(".", ",")
        with pytest.raises(InputError, match=ERROR.format(2, "a", first)):
            CALLS[call](path, on_missing=on_missing)


@pytest.mark.parametrize("value", ["1,5", "-0,25", "1.234,5", "12,000", ",5", "1,5e3"])
def test_however_they_are_written(frame, value, tmp_path):
    frame = frame.assign(a=frame.b.astype(str), y=frame.b)
    frame.loc[7, "a"] = value
    path = written(frame, tmp_path / "rows.csv")
    with pytest.raises(InputError, match=ERROR.format(9, "a", value)):
        karat.coreset_files(path, "y", one_hot="auto")


def test_the_target_and_the_weight(frame, tmp_path):
    path = written(frame.drop(columns="a"), tmp_path / "rows.csv")
    first = str(frame.y[0]).replace(".", ",")
    for call in (
        lambda: karat.coreset_files(path, "y", one_hot="auto"),
        lambda: karat.coreset_files(path, "b", sample_weight="y", one_hot="auto"),
        lambda: karat.ols("y ~ b", path),
        lambda: karat.ols("b ~ g", path, weights="y"),
    ):
        with pytest.raises(InputError, match=ERROR.format(2, "y", first)):
            call()


def test_the_remedies(frame, tmp_path):
    path = written(frame, tmp_path / "rows.csv")
    read = pd.read_csv(path, sep=";", decimal=",")
    fit = karat.ols("y ~ a + b", read)
    X = np.column_stack([np.ones(COUNT), frame.a, frame.b])
    np.testing.assert_allclose(fit.params, np.linalg.lstsq(X, frame.y, rcond=None)[0], rtol=1e-10)
    texts = written(frame, tmp_path / "texts.csv", y=frame.b)
    as_text = karat.io.csv_files(texts, dtype={"a": "str"})
    levels = frame.a.nunique()
    assert len(karat.ols("y ~ a", as_text).params) == levels
    core = karat.coreset_files(as_text, "y", one_hot="auto")
    assert sum(name.startswith("a=") for name in core.X.column_names) == levels


def test_what_is_text_stays_text(frame, tmp_path):
    """Labels that the caller names, and text that has commas but is no number."""
    texts = np.resize(["1,5", "2,25"], COUNT)
    path = written(frame, tmp_path / "rows.csv", y=frame.b, a=1, g=texts)
    assert karat.cube(path, "y", by="g").labels("g").tolist() == ["1,5", "2,25"]
    core = karat.coreset_files(path, "y", one_hot=["g"])
    assert {"g=1,5", "g=2,25"} <= set(core.X.column_names)
    for value in ("1,2,3", "a,5", "3, 4", "1,5 kg"):
        odd = np.resize([value, "7"], COUNT)
        path = written(frame, tmp_path / "odd.csv", y=frame.b, a=1, g=odd)
        core = karat.coreset_files(path, "y", one_hot="auto")
        assert {f"g={value}", "g=7"} <= set(core.X.column_names)


def test_a_number_column_with_a_word_is_no_category(frame, tmp_path):
    path = written(frame, tmp_path / "rows.csv", decimal=".", a=[*["1"] * (COUNT - 1), "many"])
    with pytest.raises(InputError, match=f"line {COUNT + 1}: column 'a' has the value 'many'"):
        karat.coreset_files(path, "y", one_hot="auto")
