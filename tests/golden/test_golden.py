"""Coresets in files of karat 0.1.0 load and give back what was saved.

Certificates are left out on purpose, see test_golden_trust.py; sketches and checkpoints, see test_golden_start_again.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from golden import plain
from golden.recipes import NAMES, RIGHT, WRONG, Data
from golden.stored import FILES, SUFFIXES, VISIBLE, case_of, dense, expected, known, names, stored

import karat

CLOSE = 1e-10
OF_FILES = [name for name, case in RIGHT.items() if case.run == "parquet"]
BOTH = pytest.mark.parametrize("suffix", SUFFIXES)


def same_facts(core, found):
    """Rows, weights, labels and the problem are those that were saved."""
    assert core.n_rows == found["n_rows"]
    assert len(core) == found["size"]
    for name in ("indices", "weights", "groups", "keys"):
        value = getattr(core, name)
        assert (None if value is None else value.tolist()) == found[name], name
    assert type(core.problem).__name__ == found["problem"]["name"]
    if found["problem"]["params"] is not None:
        params = core.problem.params()
        assert {name: params[name] for name in found["problem"]["params"]} == found["problem"]["params"]


def samples(case, data):
    """What a coreset holds of all samples, and the number of the first row of each."""
    if data.lengths is None:
        return data.tables, np.arange(data.count)
    first = plain.windows(data.lengths)
    return (np.hstack([data.X[first + a] for a in range(3)]),), first


def same_rows(core, case, data):
    """The kept rows are rows of the data, at their indices."""
    tables, first = samples(case, data)
    places = np.searchsorted(first, core.indices)
    kept = core.X if isinstance(core.X, tuple) else (core.X,)
    for table, own in zip(tables, kept, strict=True):
        np.testing.assert_array_equal(dense(own), table[places])
    if data.y is not None:
        np.testing.assert_array_equal(dense(core.y), data.y[core.indices])
    for name in ("groups", "keys"):
        if getattr(data, name) is not None:
            np.testing.assert_array_equal(getattr(core, name), getattr(data, name)[core.indices])


def same_losses(core, losses):
    for one in losses:
        assert abs(core.loss(np.array(one["query"])) - one["value"]) <= CLOSE * one["scale"]


def same_second_moments(core, case, found):
    """Those of the kept samples alone."""
    tables = tuple(dense(part) for part in (core.X if isinstance(core.X, tuple) else (core.X,)))
    if tables[0].shape[1] == 3 and case.problem.describe().startswith("HiddenMarkov"):
        symbols = len(found["second_moments"])
        tables = tuple(np.eye(symbols)[tables[0][:, a].astype(int)] for a in range(3))
    moments = plain.second_moments(case.problem, tables, core.weights)
    np.testing.assert_allclose(moments, found["second_moments"], rtol=0, atol=CLOSE * np.abs(moments).max())


def same_container(core, container):
    if container == "sparse":
        assert hasattr(core.X, "toarray")
    elif container == "array":
        assert all(isinstance(part, np.ndarray) for part in (core.X if isinstance(core.X, tuple) else (core.X,)))
    else:
        assert type(core.X).__module__.split(".")[0] == container
        columns = core.X.column_names if container == "pyarrow" else list(core.X.columns)
        assert columns == list(NAMES[: len(columns)])
    if container == "pandas":
        assert core.X.index.tolist() == core.indices.tolist()


def test_the_files_are_those_of_0_1_0():
    assert known()["version"] == "0.1.0"
    assert list(known()["cases"]) == names()


@pytest.mark.parametrize("name", names())
def test_the_data_is_made_again(name):
    assert case_of(name).data().digest() == expected(name)["digest"]


@BOTH
@pytest.mark.parametrize("name", RIGHT)
def test_a_coreset_loads(name, suffix):
    case, found = RIGHT[name], expected(name)
    core = stored(name, suffix)
    same_facts(core, found)
    assert core.problem == case.problem
    same_container(core, found["container"])
    same_rows(core, case, case.data())
    same_losses(core, found["losses"])
    if "maps" in found:
        assert {key: np.asarray(value).tolist() for key, value in core.maps.items()} == found["maps"]
    if "second_moments" in found:
        assert core.maps is None
        same_second_moments(core, case, found)


@BOTH
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_coreset_loads_and_is_wrong(name, suffix):
    case, found = WRONG[name], expected(f"wrong_{name}")
    core = stored(f"wrong_{name}", suffix)
    same_facts(core, found)
    same_rows(core, case, case.data())
    if case.moment is None:
        kept = core.loss(np.array(case.query))
    else:
        kept = plain.moment(Data(core.arrays()[0]), case.moment, core.weights)[0]
    assert abs(kept - found["off"]["value"]) > VISIBLE * found["off"]["scale"]


@pytest.mark.parametrize("name", [name for name, case in RIGHT.items() if not case.problem.storable])
def test_the_function_of_a_user_must_be_given(name):
    with pytest.raises(karat.InputError, match="user's function"):
        karat.load(FILES / f"{name}.npz")


@BOTH
@pytest.mark.parametrize("name", OF_FILES)
def test_a_coreset_of_files_loads(name, suffix):
    case, found = RIGHT[name], expected(name)["files"]
    core = karat.load(FILES / f"{name}.files.{suffix}")
    same_facts(core, found)
    same_rows(core, case, case.data())
    assert core.provenance == found["provenance"]
