"""Moments, moments followed by EM (``refine=``), and the peers, side by side on twelve real tables:
the table of docs/latent.md.

    KARAT_DATA=folder python benchmarks/tables.py [mixtures] [chains] [texts]

Mixtures and chains: log-likelihood per row of held-out rows (higher is better), k of the peer's
default example or of the known classes, columns standardised.  Topics: held-out perplexity by
scikit-learn's bound (lower is better).  Every third row is held out; of chains the last third.  The
tables: Old Faithful (tests/models/old_faithful.csv); iris, wine and breast cancer of scikit-learn;
yeast and credit card of KARAT_DATA (UCI, CC BY 4.0; CC0); sunspots, Nile, El Nino and US macro data
of statsmodels; arXiv abstracts, bags of words of computer science and of six subjects (CC0).
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

from karat import models
from karat.errors import InputError

KINDS = ("spherical", "diag", "full")


def held_out(X):
    """Two thirds of the rows and every third."""
    third = np.arange(X.shape[0]) % 3 == 2
    return X[~third], X[third]


def standardised(train, test):
    mean, size = train.mean(axis=0), train.std(axis=0)
    size = np.where(size > 0, size, 1.0)
    return (train - mean) / size, (test - mean) / size


def folder():
    return Path(os.environ["KARAT_DATA"])


def frame(name, columns):
    import pandas as pd

    return pd.read_csv(folder() / name).iloc[:, columns].dropna().to_numpy(dtype=float)


def statsmodels_data(name):
    import statsmodels.api as sm

    return getattr(sm.datasets, name).load_pandas().data


def mixtures():
    """Name, rows and number of components."""
    from sklearn import datasets

    path = Path(__file__).parents[1] / "tests" / "models" / "old_faithful.csv"
    yield "Old Faithful", np.loadtxt(path, delimiter=",", skiprows=4), 2
    yield "iris", datasets.load_iris().data, 3
    yield "wine", datasets.load_wine().data, 3
    yield "breast cancer", datasets.load_breast_cancer().data, 2
    yield "yeast", frame("yeast.csv.gz", [0, 1, 2, 3, 6, 7]), 4
    yield "credit card", frame("credit_card.csv.gz", slice(1, None)), 4


def chains():
    """Name, steps and number of states."""
    yield "sunspots", statsmodels_data("sunspots")[["SUNACTIVITY"]].to_numpy(float), 2
    yield "Nile", statsmodels_data("nile")[["volume"]].to_numpy(float), 2
    yield "El Nino", statsmodels_data("elnino").iloc[:, 1:].to_numpy(float).reshape(-1, 1), 2
    macro = statsmodels_data("macrodata")[["realgdp", "realcons", "realinv"]].to_numpy(float)
    yield "US macro data", np.diff(np.log(macro), axis=0), 2


def texts():
    """Name, word counts and number of topics."""
    import pandas as pd
    from sklearn.feature_extraction.text import CountVectorizer

    doc, word, count = (
        pd.read_parquet(folder() / "arxiv_cs_bow.parquet")[["doc", "word", "count"]].to_numpy().T
    )
    yield "arXiv, computer science", sparse.csr_array((count.astype(float), (doc, word))), 6
    abstracts = pd.read_csv(folder() / "arxiv_6topics_small.csv.gz")["abstract"]
    counts = CountVectorizer(min_df=5, stop_words="english").fit_transform(abstracts)
    yield "arXiv, six subjects", sparse.csr_array(counts.astype(float)), 6


def value(make, score):
    """A score; "refused" if the learner says that the data do not support the model."""
    try:
        return f"{score(make()):.2f}"
    except InputError:
        return "refused"


def mixture_row(X, k):
    from sklearn.mixture import GaussianMixture as EM

    train, test = standardised(*held_out(X))

    def learned(**options):
        model = models.GaussianMixture(k, **options)
        return value(lambda: model.fit(train), lambda fitted: fitted.score(test))

    cells = [learned()]
    cells += [learned(variances=which, refine=None) for which in ("shared", "spherical")]
    cells += [learned(refine=kind) for kind in KINDS]
    for kind in KINDS:
        peer = EM(k, covariance_type=kind, n_init=3, random_state=0).fit(train)
        cells.append(f"{peer.score(test):.2f}")
    return cells


def chain_row(X, k):
    from hmmlearn.hmm import GaussianHMM

    edge = 2 * len(X) // 3
    train, test = standardised(X[:edge], X[edge:])

    def learner(**options):
        return models.HiddenMarkov(k, emissions="gaussian", **options).fit(train)

    def score(model):
        return model.score(test) / len(test)

    cells = [value(learner, score), value(lambda: learner(refine=None), score), ""]
    cells += [value(lambda kind=kind: learner(refine=kind), score) for kind in KINDS]
    for kind in KINDS:
        peers = [GaussianHMM(k, kind, n_iter=100, random_state=s).fit(train) for s in range(3)]
        cells.append(f"{score(max(peers, key=lambda peer: peer.score(train))):.2f}")
    return cells


def text_row(X, k):
    from sklearn.decomposition import LatentDirichletAllocation as Peer

    train, test = held_out(X)

    def continued(model):
        peer = model.to_sklearn()
        peer.total_samples = train.shape[0]
        for _ in range(10):
            peer.partial_fit(train)
        return peer.perplexity(test)

    def learner():
        return models.LatentDirichlet(k, alpha0="auto").fit(train)

    peer = Peer(k, max_iter=10, random_state=0).fit(train)
    return [
        value(learner, lambda model: model.to_sklearn().perplexity(test)),
        value(learner, continued),
        f"{peer.perplexity(test):.2f}",
    ]


def printed(name, cells):
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    chosen = sys.argv[1:] or ["mixtures", "chains", "texts"]
    warnings.simplefilter("ignore")
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    if {"mixtures", "chains"} & set(chosen):
        heads = ["default", "moments", "moments, own variances", *(f"refine {k}" for k in KINDS)]
        printed("table", [*heads, *(f"EM {kind}" for kind in KINDS)])
        print("|---" * 10 + "|")
    for name, X, k in mixtures() if "mixtures" in chosen else ():
        printed(f"{name}, {len(X):,} x {X.shape[1]}, k = {k}", mixture_row(X, k))
    for name, X, k in chains() if "chains" in chosen else ():
        printed(f"{name}, {len(X):,} steps, k = {k}", chain_row(X, k))
    if "texts" in chosen:
        print()
        printed("table", ["moments", "moments, then variational Bayes", "scikit-learn"])
        print("|---" * 4 + "|")
    for name, X, k in texts() if "texts" in chosen else ():
        printed(f"{name}, {X.shape[0]:,} x {X.shape[1]:,}, k = {k}", text_row(X, k))


if __name__ == "__main__":
    main()
