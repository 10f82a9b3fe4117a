"""Sources of data: the real sets where KARAT_DATA points at them, nothing otherwise; never the
network.
"""

import os

import pytest

from paper import Settings, Source


@pytest.fixture(scope="session")
def real():
    """The folder of KARAT_DATA, else what is shipped with scikit-learn (Iris)."""
    return Settings(Source(network=False), quick=True)


@pytest.fixture
def nothing(monkeypatch, tmp_path):
    """No folder, an empty cache, no network."""
    monkeypatch.delenv("KARAT_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    return Settings(Source(network=False), quick=True)


def columns(table):
    """A table of an experiment as columns by name."""
    return {name: [row[i] for row in table.rows] for i, name in enumerate(table.columns)}


def has_data():
    return bool(os.environ.get("KARAT_DATA"))
