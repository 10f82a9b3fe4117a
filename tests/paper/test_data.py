"""Data that are there, data that are not, and a network that never answers."""

import io
import threading
import urllib.request

import numpy as np
import pytest

from paper import MissingDataError, Source, data
from tests.paper.conftest import has_data


@pytest.mark.skipif(not has_data(), reason="KARAT_DATA does not name a folder with the data sets")
def test_shapes_of_the_papers_sets():
    source = Source(network=False)
    shapes = {name: source.classes(name).X.shape for name in data.CLASSES}
    assert shapes == {
        "Iris": (150, 4),
        "Yeast": (1484, 8),
        "Breast cancer": (699, 9),
        "Glass": (214, 9),
    }
    for name, classes in {"Iris": 3, "Yeast": 10, "Breast cancer": 2, "Glass": 6}.items():
        X, y, _ = source.classes(name)
        assert np.isfinite(X).all()
        assert np.array_equal(np.unique(y), np.arange(classes))
    assert source.credit_card().shape == (8636, 17)
    assert source.covertype().shape == (101_012, 54)
    assert set(source.documents().subjects) == set(data.SUBJECTS)


def test_iris_needs_nothing(nothing):
    X, y, source = nothing.source.classes("Iris")
    assert X.shape == (150, 4)
    assert source == "scikit-learn"
    assert np.bincount(y.astype(int)).tolist() == [50, 50, 50]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda s: s.classes("Glass"), "glass is not in KARAT_DATA"),
        (lambda s: s.covertype(), "covtype is not in KARAT_DATA"),
        (lambda s: s.documents(), "arxiv_6topics_small is not in KARAT_DATA"),
        (lambda s: s.credit_card(), "needs a login"),
    ],
)
def test_missing_data_say_what_to_do(nothing, ask, words):
    with pytest.raises(MissingDataError, match=words) as caught:
        ask(nothing.source)
    assert "ut " in str(caught.value)  # "Put .. there" or "put it there"


def test_a_network_that_never_answers_does_not_hold_up_the_run(monkeypatch, nothing):
    asked, answer, answered = [], threading.Event(), []

    def never(request, timeout):
        asked.append((request.full_url, timeout))
        answered.append(answer.wait(60))
        raise TimeoutError

    monkeypatch.setattr(urllib.request, "urlopen", never)
    source = Source(patience=0.2)
    for name in ("Glass", "Yeast", "Breast cancer"):
        with pytest.raises(MissingDataError, match="cannot be reached"):
            source.classes(name)
    assert asked == [(data.OPENML, 0.2)]  # once, not once for each set
    assert not answered  # nobody waited for the server
    answer.set()


def test_downloads_are_kept(monkeypatch, nothing):
    fetched = []

    def fetch(data_id, **options):
        fetched.append(data_id)
        labels = np.array(["build wind float", "containers", "containers"])
        return np.array([[1.0, np.nan], [3.0, 4.0], [5.0, 6.0]]), labels

    monkeypatch.setattr(urllib.request, "urlopen", lambda request, timeout: io.BytesIO())
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    for _ in range(2):
        X, y, where = Source().classes("Glass")
        # the gap has the median of its column
        assert X.tolist() == [[1.0, 5.0], [3.0, 4.0], [5.0, 6.0]]
        assert y.tolist() == [0.0, 1.0, 1.0]
        assert where == "OpenML, set 41"
    assert fetched == [41]


def test_a_failed_download_is_an_error_message(monkeypatch, nothing):
    def fetch(**options):
        raise TimeoutError("timed out")

    monkeypatch.setattr(urllib.request, "urlopen", lambda request, timeout: io.BytesIO())
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    with pytest.raises(MissingDataError, match=r"yeast is not in .* failed: timed out"):
        Source().classes("Yeast")


def test_a_folder_comes_first(tmp_path):
    (tmp_path / "glass.csv").write_text("a,b,type\n1,2,7\n3,4,1\n5,,2\n")
    X, y, where = Source(tmp_path, network=False).classes("Glass")
    assert X.tolist() == [[1, 2], [3, 4], [5, 3]]
    assert y.tolist() == [2, 0, 1]
    assert where == "glass.csv"


def test_classes_are_numbered_in_the_order_of_the_original(monkeypatch):
    labels = np.array(
        ["headlamps", "build wind float", "containers", "build wind float"], dtype=object
    )
    assert data._numbered(labels, data.GLASS).tolist() == [2, 0, 1, 0]
