"""What a notebook shows of each result: its numbers and its verdict, with text escaped."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import karat
from karat.core.wording import LINES
from karat.models import GaussianMixture


class Text(HTMLParser):
    """The texts of a page, and a check that its tags are closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open, self.texts = [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag != "script"
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def shown(result) -> str:
    return " ".join(Text(result._repr_html_()).texts)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    data = pd.DataFrame(rng.standard_normal((600, 3)), columns=["<script>x", "z", "price"])
    return data.assign(site=np.arange(600) % 25)


@pytest.fixture(scope="module")
def cube(frame):
    return karat.cube(frame, "price", by="site")


def test_a_certificate(frame):
    X, y = frame[["<script>x", "z"]], frame["price"]
    core = karat.coreset(X, y)
    text = shown(core.certificate)
    assert "exact" in text
    assert "NOT" not in text
    assert "600" in text
    bad = replace(core, weights=core.weights * 1.01).verify(X, y)
    assert "NOT exact" in shown(bad)
    assert "not kept" not in shown(bad)


def test_a_plan():
    text = shown(karat.plan(n=10**9, d=10))
    assert "78" in text
    assert "onepass" in text


def test_a_verification_of_files(frame, tmp_path):
    path = tmp_path / "rows.csv"
    frame.rename(columns={"<script>x": "x"}).to_csv(path, index=False)
    core = karat.coreset_files(path, target="price")
    assert "identical" in shown(karat.verify_files(core, path))
    frame.rename(columns={"<script>x": "x"}).assign(z=0.0).to_csv(path, index=False)
    text = shown(karat.verify_files(core, path))
    assert "CHANGED" in text
    assert "NOT exact" in text


def test_a_cube_and_what_it_returns(frame, cube):
    text = shown(cube)
    assert f"and {25 - LINES} more" in text
    assert "site" in text
    assert "exact" in shown(cube.verify(frame))
    assert "NOT exact" in shown(cube.verify(frame.assign(price=frame["price"] + 1)))
    fits = cube.fit(LinearRegression(), by="site")
    assert "25 models by site" in shown(fits)
    assert "<script>x" in shown(fits)
    comparison = cube.compare({"site": 1}, {"site": 2})
    text = shown(comparison)
    assert str(comparison) in text
    assert "intercept" in text


def test_a_recovery():
    rng = np.random.default_rng(0)
    centres = np.array([[8.0, 0, 0], [0, 8, 0], [0, 0, 8]])
    X = centres[rng.integers(3, size=4000)] + rng.standard_normal((4000, 3))
    recovery = GaussianMixture(2, random_state=0).fit(X[X[:, 2] < 4]).recovery_
    text = shown(recovery)
    for value in str(recovery).split(", ")[:6]:
        assert value.rsplit(" ", 1)[1] in text
