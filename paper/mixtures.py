"""Table 2 of the paper: Gaussian mixtures by moments, from all rows and from the coreset.

The coreset keeps the whitened third-moment tensor with binom(k+2, 3) + 1 rows, and stores the
whitening of the full data.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np

import karat
from karat import models, problems
from karat.core.construct import read_sample
from karat.engine.linalg import Array
from paper.measure import difference, kmeans_loss, learn_twice, real_data, seconds
from paper.result import Experiment, Table
from paper.settings import Settings

#              k, loss, rows, columns, size, speed-up
PAPER = {
    "Credit card": (4, 1025.93, 8636, 17, 21, 15.0),
    "Synthetic": (3, 101541.14, 10_000, 30, 11, 29.25),
    "Covertype": (4, 4082.34, 101_012, 54, 21, 643.8),
}
NOISE = 101541.14 / 300_000  # variance of the synthetic set: the paper's loss, per coordinate


def unit_rows(X: Array) -> Array:
    """Scale rows to length 1."""
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


PREPARATIONS: dict[str, Callable[[Array], Array]] = {
    "rows of length 1": unit_rows,
    "columns between 0 and 1": lambda X: np.asarray((X - X.min(axis=0)) / np.ptp(X, axis=0)),
    # Mean 1: away from the origin the means of components can be independent.
    "columns of variance 1": lambda X: np.asarray((X - X.mean(axis=0)) / X.std(axis=0) + 1.0),
    "as they are": lambda X: X,
}


def preparations(X: Array) -> Table:
    """Compare the losses of Credit card after several preparations with the paper's."""
    k, paper = PAPER["Credit card"][:2]
    rows: list[list[Any]] = []
    for name, prepare in PREPARATIONS.items():
        prepared = prepare(X)
        with real_data():
            loss = kmeans_loss(prepared, models.GaussianMixture(k).fit(prepared).means_)
        rows.append([name, loss, paper, loss / paper])
    columns = ["preparation", "loss, full data", "loss, paper", "ratio"]
    return Table(
        "table2_preparations", "Credit card: the loss after several preparations", columns, rows
    )


def synthetic() -> Array:
    """Draw 10,000 rows of three Gaussians in 30 dimensions."""
    rng = np.random.default_rng(0)
    means = rng.uniform(-1.0, 1.0, (3, 30))
    return np.asarray(
        means[rng.integers(3, size=10_000)] + np.sqrt(NOISE) * rng.standard_normal((10_000, 30))
    )


def tensor_seconds(X: Array, core: karat.Coreset) -> tuple[float, float]:
    """Time to sum the whitened tensor over all rows and over the coreset, which is the paper's
    speed-up.
    """
    problem: Any = core.problem
    sample, _ = read_sample(X, problem, None, None)
    kept = problem.kept_sample(core)
    maps = problem.kept_maps(core, kept)
    return seconds(lambda: problem.statistics(sample, maps)), seconds(
        lambda: problem.statistics(kept, maps)
    )


def compare(name: str, X: Array) -> tuple[list[Any], list[Any], list[str]]:
    """Learn a mixture both ways: a row of losses, a row of sizes and times, and what the learner
    warns of.
    """
    k, paper_loss, _, _, paper_size, paper_speed = PAPER[name]
    found = learn_twice(X, problems.GaussianMixture(k), lambda: models.GaussianMixture(k))
    core, full, small, slow, fast, build, doubts = found
    conic = len(karat.coreset(X, problem=problems.GaussianMixture(k, total_weight=False)))
    tensor = tensor_seconds(X, core)
    before, after = kmeans_loss(X, full.means_), kmeans_loss(X, small.means_)
    n, d = X.shape
    losses = [
        name,
        k,
        paper_loss,
        before,
        after,
        abs(before - after) / before,
        difference(small.means_, full.means_),
    ]
    sizes = [
        name, f"{n:,} x {d}", paper_size, len(core), conic, comb(k + 2, 3) + 1,
        f"{100 * (1 - len(core) / n):.2f} %", f"{paper_speed:g} x", f"{slow / fast:.1f} x",
        f"{tensor[0] / tensor[1]:.0f} x", f"{1e3 * build:.1f} ms", f"{1e3 * slow:.1f} ms",
    ]  # fmt: skip
    return losses, sizes, [f"{name}: the learner warns. {doubt}" for doubt in doubts]


def run(settings: Settings) -> Experiment:
    missing: list[str] = []
    source = settings.source
    tables: dict[str, Callable[[], Array]] = {
        "Credit card": lambda: unit_rows(source.credit_card()),
        "Synthetic": synthetic,
        "Covertype": lambda: unit_rows(source.covertype()),
    }
    rows = [
        compare(name, X)
        for name, X in settings.each(list(tables), lambda name: tables[name](), missing)
    ]
    tried = [preparations(source.credit_card())] if rows and rows[0][0][0] == "Credit card" else []
    return Experiment(
        "Table 2: Gaussian mixtures",
        [
            (
                "A mixture of k spherical Gaussians is learned by the method of moments from all"
                " rows, and from the coreset with the full data's whitening; the loss is the"
                " k-means loss of all rows with the learned means as centres. Losses and means are"
                " equal."
            ),
        ],
        [
            Table(
                "table2_losses",
                "k-means loss with the learned means",
                [
                    "data set",
                    "k",
                    "loss, paper",
                    "loss, full data",
                    "loss, coreset",
                    "relative difference",
                    "difference of the means",
                ],
                [losses for losses, _, _ in rows],
            ),
            Table(
                "table2_sizes",
                "Rows kept and time",
                [
                    "data set",
                    "full data",
                    "size, paper",
                    "size, karat",
                    "size, total weight free",
                    "bound, binom(k+2, 3) + 1",
                    "reduction",
                    "speed-up, paper",
                    "learning speed-up, karat",
                    "tensor speed-up, karat",
                    "building the coreset",
                    "learning from all rows",
                ],
                [sizes for _, sizes, _ in rows],
            ),
            *tried,
        ],
        notes=[
            (
                "The paper does not say how it prepared the data. Rows are scaled to length 1 here,"
                " because the loss of Credit card is then close to the paper's, as the last table"
                " shows; with the usual scalings of columns it is not. The scaling was chosen for"
                " this agreement, which is therefore no confirmation. Covertype does not agree as"
                " well."
            ),
            (
                "Covertype: we guess that the paper's 101,012 rows are the last ones (581,012 -"
                " 480,000). The synthetic set is not described: we use three Gaussians with means"
                " in [-1, 1]^30 and the variance that the paper's loss implies."
            ),
            (
                "The paper's theorem omits that the coreset needs the full data's whitening: the"
                " kept rows alone (21 points in 54 dimensions) have a singular covariance. karat"
                " stores it with the coreset."
            ),
            (
                "karat learns from all rows in milliseconds, mostly by two passes of matrix"
                " products, so a coreset saves little. The paper's 643.8 is the time of a slow run"
                " on the full data divided by that on 21 rows. The tensor column compares that step"
                " alone."
            ),
            *(doubt for _, _, doubts in rows for doubt in doubts),
        ],
        missing=missing,
    )
