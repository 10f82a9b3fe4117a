"""Coresets and cubes in files of karat 0.2.0 load, are not trusted, and verify tells the right ones
from spoilt ones.

The facts that they are compared with are those of the full data, by plain NumPy (make_0_2_0.py).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from golden import plain
from golden.make_0_2_0 import facts
from golden.recipes import contained, waves
from golden.recipes_0_2_0 import CASES, CUBES, FILES, known, shop
from golden.test_golden_start_again import source

import karat

CLOSE = 1e-10
AGAIN = "proven by an older version: verify again"
BOTH = pytest.mark.parametrize("suffix", ["npz", "parquet"])
OF_FILES = [name for name, case in CASES.items() if case.run]


def stored(name, suffix, case):
    return karat.load(FILES / f"{name}.{suffix}", **case.asked)


def same_facts(core, found):
    """The parameter ``centred``, which 0.2.0 stored, was always true."""
    params = found["problem"]["params"]
    params = params and {name: value for name, value in params.items() if name != "centred"}
    found = found | {"problem": found["problem"] | {"params": params}}
    assert facts(core) == {key: found[key] for key in facts(core)}


def tables(case):
    """What ``verify`` takes; the key is no feature."""
    data = case.data()
    X, y = contained(data, case.container)
    return X.drop(columns="id") if data.keys is not None else X, y, data.options()


def verify_again(certificate):
    assert not certificate.ok
    assert certificate.proof_version == 2
    assert sum(AGAIN in note for note in certificate.notes) == 1


def spoilt(core, factor=1 + 1e-6):
    """The same with one weight changed, the heaviest."""
    weights = core.weights.copy()
    weights[weights.argmax()] *= factor
    return replace(core, weights=weights)


def test_the_files_are_those_of_0_2_0():
    assert known()["version"] == "0.2.0"
    assert list(known()["cases"]) == list(CASES)
    assert list(known()["cubes"]) == list(CUBES)


@BOTH
@pytest.mark.parametrize("name", CASES)
def test_a_coreset_loads_and_asks_to_be_verified(name, suffix, tmp_path):
    case, found = CASES[name], known()["cases"][name]
    core = stored(name, suffix, case)
    assert case.data().digest() == found["digest"]
    same_facts(core, found)
    verify_again(core.certificate)
    for one in found["losses"]:
        assert abs(core.loss(np.array(one["query"])) - one["value"]) <= CLOSE * one["scale"]
    core.save(tmp_path / f"again.{suffix}")  # nothing is proven by writing it once more
    verify_again(karat.load(tmp_path / f"again.{suffix}", **case.asked).certificate)


@BOTH
@pytest.mark.parametrize("name", CASES)
def test_verify_gives_a_current_certificate_or_refutes(name, suffix):
    case = CASES[name]
    core, (X, y, options) = stored(name, suffix, case), tables(CASES[name])
    proof = core.verify(X, y, **options)
    assert proof.ok, proof
    assert AGAIN not in str(proof)
    assert not spoilt(core).verify(X, y, **options).ok
    if case.latent and case.data().lengths is not None:
        return
    one = (
        17
        if options.get("sample_weight") is None
        else int(np.flatnonzero(options["sample_weight"])[17])
    )
    rest = [i for i in range(case.data().count) if i != one]
    fewer = {key: value[rest] for key, value in options.items()}
    assert not core.verify(
        *(None if part is None else _rows(part, rest) for part in (X, y)), **fewer
    ).ok


def _rows(table, which):
    return table.iloc[which] if hasattr(table, "iloc") else table[which]


@BOTH
@pytest.mark.parametrize("name", OF_FILES)
def test_a_coreset_of_files_is_verified_against_them(name, suffix):
    case, found = CASES[name], known()["cases"][name]["files"]
    core = stored(f"{name}.files", suffix, case)
    same_facts(core, found)
    verify_again(core.certificate)
    address = source(name, case)
    proof = karat.verify_files(core, address)
    assert proof.ok, proof
    assert proof.data == "identical"
    assert not karat.verify_files(spoilt(core), address).ok


def test_merging_what_is_not_proven_is_not_proven():
    case = CASES["least_squares"]
    old, data = stored("least_squares", "npz", case), case.data()
    both = old.merge(karat.coreset(data.X + 1.0, data.y))
    assert not both.certificate.ok
    assert both.certificate.proof_version == 2


def kept_moments(cube, place):
    """Second moments of ``[1 | columns]`` of the kept rows of a cell."""
    cells = cube.cells
    rows = slice(cells.starts[place], cells.starts[place + 1])
    table = np.column_stack(
        [np.ones(cells.sizes[place]), *(column[rows] for column in cells.columns)]
    )
    return (table * cells.weights[rows, None]).T @ table


@pytest.mark.parametrize("name", CUBES)
def test_a_cube_loads_and_asks_to_be_verified(name, tmp_path):
    case, found = CUBES[name], known()["cubes"][name]
    cube = karat.Cube.load(FILES / f"{name}.parquet", **case.asked)
    again = plain.cells(shop(), case.by, case.names, case.options.get("sample_weight"))
    assert [(one["label"], one["rows"]) for one in found["cells"]] == [
        (one["label"], one["rows"]) for one in again
    ]
    assert cube.cells.weights.tolist() == found["weights"]
    assert cube.cells.numbers.tolist() == found["numbers"]
    assert [
        list(label)
        for label in zip(*(v.astype(str).tolist() for v in cube.cells.labels), strict=True)
    ] == [one["label"] for one in found["cells"]]
    assert cube.cells.counts.tolist() == [one["rows"] for one in found["cells"]]
    for place, one in enumerate(found["cells"]):
        verify_again(cube.cells.certificates[place])
        moments = np.array(one["moments"])
        if cube.problem.storable:
            kept = kept_moments(cube, place)
            if len(cube.targets) == 2:  # products of targets are not kept
                kept[-2, -1], kept[-1, -2] = moments[-2, -1], moments[-1, -2]
            np.testing.assert_allclose(kept, moments, rtol=0, atol=CLOSE * moments.max())
    verify_again(cube.certificate())
    cube.save(tmp_path / "again.parquet")
    verify_again(karat.Cube.load(tmp_path / "again.parquet", **case.asked).cells.certificates[0])


def test_a_cube_of_a_function_keeps_its_sums():
    case, columns = CUBES["cube_kernel"], shop()
    cube = karat.Cube.load(FILES / "cube_kernel.parquet", problem=case.problem)
    for place, region in enumerate(cube.labels("region")):
        own = columns["region"] == region
        full = waves(np.column_stack([columns["a"], columns["b"]])[own])
        rows = slice(cube.cells.starts[place], cube.cells.starts[place + 1])
        kept = waves(np.column_stack([column[rows] for column in cube.cells.columns]))
        np.testing.assert_allclose(
            cube.cells.weights[rows] @ kept, full.sum(axis=0), atol=CLOSE * np.abs(full).sum()
        )


@pytest.mark.parametrize("name", [name for name, case in CUBES.items() if case.problem.storable])
def test_a_slice_of_an_old_cube_is_verified_as_a_coreset(name):
    case = CUBES[name]
    cube = karat.Cube.load(FILES / f"{name}.parquet")
    verify_again(cube.select().certificate)
    frame = pd.DataFrame(shop()).sort_values(list(case.by), kind="stable")
    y = frame[case.options["target"]] if "target" in case.options else None
    weight = case.options.get("sample_weight")
    proof = cube.select().verify(
        frame[case.options["columns"]], y, sample_weight=None if weight is None else frame[weight]
    )
    assert proof.ok, proof


@pytest.mark.parametrize("name", CUBES)
def test_a_cube_is_verified_or_refuted(name, tmp_path):
    case, frame = CUBES[name], pd.DataFrame(shop())
    cube = karat.Cube.load(FILES / f"{name}.parquet", **case.asked)
    found = cube.verify(frame)
    assert found.ok, found
    found.cube.save(tmp_path / "current.parquet")
    assert karat.Cube.load(tmp_path / "current.parquet", **case.asked).to_frame().ok.all()
    weights = cube.cells.weights.copy()
    first = slice(cube.cells.starts[0], cube.cells.starts[1])
    weights[first][weights[first].argmax()] *= 1 + 1e-6
    cube.cells = replace(cube.cells, weights=weights)
    assert len(cube.verify(frame).differ) == 1
