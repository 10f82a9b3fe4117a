"""The paper's data sets: from the folder in ``KARAT_DATA``, from the cache, or downloaded.

If a set is not available, :class:`MissingDataError` is raised; the page shows its message, and the
other experiments run. Downloads are cached in scikit-learn's data folder (``SCIKIT_LEARN_DATA``).
"""

from __future__ import annotations

import os
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from karat.engine.linalg import Array

Value = TypeVar("Value")
PATIENCE = 6.0  # seconds to wait for a server
OPENML, FIGSHARE = "https://www.openml.org", "https://ndownloader.figshare.com"
GLASS = (
    "build wind float", "build wind non-float", "vehic wind float", "vehic wind non-float",
    "containers", "tableware", "headlamps",
)  # fmt: skip
SUBJECTS = ("physics", "mathematics", "computer science")
GROUPS = ("sci.space", "sci.med", "comp.graphics")


class MissingDataError(LookupError):
    """A data set is not on this machine and cannot be downloaded; the message says what to do."""


class Labelled(NamedTuple):
    """A table, the class of each row (numbered in the order of their names), and the source."""

    X: Array
    y: Array
    source: str


class Documents(NamedTuple):
    """Texts, their subjects, and the source."""

    texts: Sequence[str]
    subjects: np.ndarray
    source: str


class Source:
    """Where the experiments get their data from: a folder, by default ``KARAT_DATA``, and else the
    network, if allowed.
    """

    def __init__(
        self, folder: str | Path | None = None, *, network: bool = True, patience: float = PATIENCE
    ) -> None:
        named = folder or os.environ.get("KARAT_DATA")
        self.folder = Path(named) if named else None
        self.network = network
        self.patience = patience
        self._reachable: dict[str, bool] = {}
        self._held: dict[str, Any] = {}

    def _once(self, name: str, load: Callable[[Source], Value]) -> Value:
        """Load a set at the first call and keep it for the others."""
        if name not in self._held:
            self._held[name] = load(self)
        return cast(Value, self._held[name])

    def classes(self, name: str) -> Labelled:
        """One of the four sets of Table 1: numeric features and the number of the class."""
        return self._once(name, _CLASSES[name])

    def credit_card(self) -> Array:
        """8,636 customers without missing values, 17 numeric columns."""
        return self._once("credit card", _credit_card)

    def covertype(self) -> Array:
        """The first 101,012 rows of Covertype (581,012 - 480,000), 54 columns."""
        return self._once("covertype", _covertype)

    def documents(self) -> Documents:
        """Texts of three subjects."""
        return self._once("documents", _documents)

    def find(self, stem: str) -> Path | None:
        """Find a file of the folder by its name without the suffix."""
        endings = (".csv.gz", ".csv", ".parquet")
        paths = (self.folder / f"{stem}{ending}" for ending in endings) if self.folder else ()
        return next((path for path in paths if path.exists()), None)

    def download(
        self,
        name: str,
        host: str,
        fetch: Callable[[], dict[str, np.ndarray]],
        stem: str | None = None,
    ) -> dict[str, np.ndarray]:
        """Load arrays from the cache, or download them and fill it.

        ``stem`` is the file that would replace the download.
        """
        from sklearn.datasets import get_data_home

        cached = Path(get_data_home()) / "karat" / f"{name}.npz"
        if cached.exists():
            with np.load(cached, allow_pickle=False) as arrays:
                return dict(arrays)
        if not (self.network and self._reaches(host)):
            raise MissingDataError(
                self._missing(
                    stem or name,
                    f"and {host} cannot be reached" if self.network else "(downloads are off)",
                )
            )
        try:
            with _timeout(self.patience):
                arrays = fetch()
        except Exception as error:  # servers fail in many ways; the set is missing in each case
            raise MissingDataError(
                self._missing(stem or name, f"and its download from {host} failed: {error}")
            ) from error
        cached.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(cached, **cast(dict[str, Any], arrays))
        return arrays

    @property
    def place(self) -> str:
        """The folder, as text for messages."""
        return f"the folder {self.folder}" if self.folder else "KARAT_DATA (not set)"

    def _missing(self, name: str, why: str) -> str:
        return (
            f"{name} is not in {self.place}, {why}. Put {name}.csv.gz or .parquet there, or allow"
            " downloads."
        )

    def _reaches(self, host: str) -> bool:
        """Whether a host answers; asked once, in a thread, because a name server may never
        answer.
        """
        if host not in self._reachable:
            answers: list[bool] = []

            def ask() -> None:
                try:
                    urllib.request.urlopen(
                        urllib.request.Request(host, method="HEAD"), timeout=self.patience
                    ).close()
                except urllib.error.HTTPError:
                    pass  # an error status is an answer
                except (OSError, ValueError):
                    return
                answers.append(True)

            asking = threading.Thread(target=ask, daemon=True)
            asking.start()
            asking.join(self.patience)
            self._reachable[host] = any(answers)
        return self._reachable[host]


@contextmanager
def _timeout(seconds: float) -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _columns(path: Path) -> dict[str, np.ndarray]:
    """Read the columns of a CSV or Parquet file; strings become object arrays, missing values
    NaN.
    """
    if path.suffix == ".parquet":
        from pyarrow import parquet

        table = parquet.read_table(path)
    else:
        from pyarrow import csv

        table = csv.read_csv(path)
    return {
        name: column.to_numpy()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def _numbered(labels: np.ndarray, order: Sequence[Any] | None = None) -> Array:
    """Number the classes 0, 1, ... in the given order, or in that of their names; classes that do
    not occur are skipped.
    """
    present = sorted(set(labels.tolist()), key=None if order is None else order.index)
    return np.array([present.index(label) for label in labels.tolist()], dtype=float)


def _from_openml(
    number: int, order: Sequence[str] | None = None
) -> Callable[[], dict[str, np.ndarray]]:
    def fetch() -> dict[str, np.ndarray]:
        from sklearn.datasets import fetch_openml

        X, labels = fetch_openml(
            data_id=number, as_frame=False, parser="liac-arff", return_X_y=True, n_retries=1
        )
        return {"X": np.asarray(X, dtype=float), "y": _numbered(labels, order)}

    return fetch


def _classes(
    stem: str, first: int, number: int, order: Sequence[str] | None = None
) -> Callable[[Source], Labelled]:
    """Make a loader for a set of Table 1: features from column ``first`` on, the class in the last
    column.
    """

    def load(source: Source) -> Labelled:
        path = source.find(stem)
        if path is None:
            arrays = source.download(stem, OPENML, _from_openml(number, order))
            return Labelled(_imputed(arrays["X"]), arrays["y"], f"OpenML, set {number}")
        columns = list(_columns(path).values())
        X = np.column_stack([column.astype(float) for column in columns[first:-1]])
        return Labelled(_imputed(X), _numbered(columns[-1]), path.name)

    return load


def _iris(source: Source) -> Labelled:
    if source.find("iris"):
        return _classes("iris", 0, 61)(source)
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    return Labelled(X, y.astype(float), "scikit-learn")


def _imputed(X: Array) -> Array:
    """Replace missing values by the median of the column, which keeps the paper's 699 rows of
    Breast cancer.
    """
    return np.where(np.isnan(X), np.nanmedian(X, axis=0), X)


_CLASSES: dict[str, Callable[[Source], Labelled]] = {
    "Iris": _iris,
    "Yeast": _classes("yeast", 0, 181),
    "Breast cancer": _classes("breast_cancer_wisconsin_original", 1, 15),
    "Glass": _classes("glass", 0, 41, GLASS),
}
CLASSES = tuple(_CLASSES)


def _credit_card(source: Source) -> Array:
    path = source.find("credit_card")
    if path is None:
        raise MissingDataError(
            f"credit_card is not in {source.place}, and its source (Kaggle, arjunbhasin2013/ccdata)"
            " needs a login. Download CC GENERAL.csv by hand and put it there as credit_card.csv."
        )
    X = np.column_stack([column.astype(float) for column in list(_columns(path).values())[1:]])
    return np.ascontiguousarray(X[np.isfinite(X).all(axis=1)])


def _covertype(source: Source) -> Array:
    path = source.find("covtype")
    if path is None:

        def fetch() -> dict[str, np.ndarray]:
            from sklearn.datasets import fetch_covtype

            return {"X": fetch_covtype().data[:-480_000].astype(np.int16)}

        arrays = source.download("covtype_first", FIGSHARE, fetch, "covtype")
        return np.ascontiguousarray(arrays["X"], dtype=float)
    columns = {name: values for name, values in _columns(path).items() if name != "Cover_Type"}
    return np.column_stack([values[:-480_000] for values in columns.values()]).astype(float)


def _documents(source: Source) -> Documents:
    path = source.find("arxiv_6topics_small")
    if path is None:

        def fetch() -> dict[str, np.ndarray]:
            from sklearn.datasets import fetch_20newsgroups

            posts = fetch_20newsgroups(
                categories=list(GROUPS), remove=("headers", "footers", "quotes")
            )
            names = np.array(posts.target_names)
            return {"texts": np.array(posts.data), "subjects": names[posts.target]}

        arrays = source.download("newsgroups", FIGSHARE, fetch, "arxiv_6topics_small")
        return Documents(
            arrays["texts"].tolist(), arrays["subjects"], "three groups of 20 Newsgroups"
        )
    columns = _columns(path)
    subjects = columns["category"].astype(str)
    chosen = np.flatnonzero(np.isin(subjects, SUBJECTS))
    texts = [f"{columns['title'][i]} {columns['abstract'][i]}" for i in chosen]
    return Documents(texts, subjects[chosen], "titles and abstracts of arXiv")
