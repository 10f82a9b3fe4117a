"""The latent models of latent_data.py as tables with named columns, in files."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
from latent_data import CASES, make_chain, make_topics
from tables import write

from karat import models, problems

MODES = ("tensor", "moments", "all")
LENGTHS = np.random.default_rng(8).integers(
    1, 60, 700
)  # some sequences are too short, some begin in one file and end in the next
SMALL = {
    "chain": lambda: make_chain(lengths=LENGTHS),
    "chain, gaussian": lambda: make_chain(lengths=LENGTHS, gaussian=True),
    "single topic": lambda: make_topics(n=6000, length=6),
}


class Case:
    """One model: its data in memory and as a table, and the learner fitted on all of it."""

    def __init__(self, tag):
        self.tag = tag
        self.name, self.args, self.options, make, self.parameters = CASES[tag]
        truth = SMALL.get(tag, make)()
        self.X = truth.X
        self.lengths = {"lengths": truth.lengths} if "lengths" in truth else {}
        self.views = self.X if isinstance(self.X, tuple) else (self.X.reshape(len(self.X), -1),)
        self.n = len(self.views[0])
        names = [[f"v{i}_{j}" for j in range(view.shape[1])] for i, view in enumerate(self.views)]
        self.columns = names if len(names) == 3 else names[0]
        columns = {
            n: c
            for ns, view in zip(names, self.views, strict=True)
            for n, c in zip(ns, view.T, strict=True)
        }
        rng = np.random.default_rng(3)
        columns["w"] = self.weights = rng.random(self.n) * (rng.random(self.n) > 0.1)
        columns["id"] = np.arange(self.n) + 10**6
        if self.lengths:
            columns["seq"] = [
                f"s{i}" for i in np.repeat(np.arange(len(truth.lengths)), truth.lengths)
            ]
        self.table = pa.table(columns)
        self.sequence = {"sequence": "seq"} if self.lengths else {}
        self.roles = {"columns": self.columns} | self.sequence

    def learner(self):
        return getattr(models, self.name)(*self.args, **self.options)

    def problem(self, keep="tensor"):
        return getattr(problems, self.name)(*self.args, **self.options, keep=keep)

    def write(self, folder):
        return write(self.table, folder, files=3, row_group_size=1237)

    def windows(self):
        """First rows of the samples, found one by one."""
        if not self.lengths:
            return (
                np.flatnonzero(self.X.sum(axis=1) >= 3)
                if "opic" in self.name or "Dir" in self.name
                else np.arange(self.n)
            )
        starts = np.cumsum([0, *self.lengths["lengths"][:-1]])
        return np.array(
            [
                s + t
                for s, long in zip(starts, self.lengths["lengths"], strict=True)
                for t in range(long - 2)
            ]
        )

    def rows_at(self, indices):
        """What a coreset should hold of the samples at these rows."""
        if self.lengths:
            return [np.hstack([self.views[0][indices + a] for a in range(3)])]
        return [view[indices] for view in self.views]


case_of = cache(Case)


def flat(model, name):
    value = getattr(model, name)
    return (
        np.concatenate([np.ravel(v) for v in value])
        if isinstance(value, tuple)
        else np.ravel(value)
    )


def parameter_error(one, two, names):
    """Largest difference of a parameter, relative to its largest entry."""
    return max(
        np.abs(flat(one, n) - flat(two, n)).max() / np.abs(flat(one, n)).max() for n in names
    )
