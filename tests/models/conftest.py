"""Fixtures: fitted cases, and the real data where KARAT_DATA points at it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from latent_data import CASES
from scipy import sparse

from karat import models, problems


class Case:
    """One model: its data, its problem in every mode, its learner, the learner fitted on all
    data.
    """

    def __init__(self, tag):
        self.tag = tag
        self.name, self.args, self.options, make, self.parameters = CASES[tag]
        self.truth = make()
        self.X = self.truth.X
        self.sequences = {"lengths": self.truth.lengths} if "lengths" in self.truth else {}
        self.full = self.learner().fit(self.X, **self.sequences)

    def learner(self):
        return getattr(models, self.name)(*self.args, **self.options)

    def problem(self, keep="tensor", **more):
        return getattr(problems, self.name)(*self.args, **self.options, keep=keep, **more)


_cases = {}


@pytest.fixture(params=list(CASES))
def case(request):
    if request.param not in _cases:
        _cases[request.param] = Case(request.param)
    return _cases[request.param]


@pytest.fixture(scope="session")
def data_folder():
    folder = os.environ.get("KARAT_DATA")
    if not folder:
        pytest.skip("KARAT_DATA is not set; it names the folder of the real data sets")
    return Path(folder)


@pytest.fixture(scope="session")
def arxiv(data_folder):
    pd = pytest.importorskip("pandas")
    doc, word, count = (
        pd.read_parquet(data_folder / "arxiv_cs_bow.parquet")[["doc", "word", "count"]].to_numpy().T
    )
    return sparse.csr_array((count.astype(float), (doc, word)))
