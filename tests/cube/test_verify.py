"""Cube.verify: right cubes are proven, whatever the data comes in; one spoilt cell is refuted, and
named.

The oracle of right cubes is a plain sum over the full data of each cell; a spoilt cube differs from
a right one in one place.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from cube.conftest import FEATURES, labelled_rows, sales
from cube.test_cube import sources
from cube.test_hostile import FEATURES as ABC
from cube.test_hostile import scales, tails

import karat
from karat import InputError
from karat import problems as P

BY = ["region", "day"]
PLACE = 17  # of the cell that is spoilt


@pytest.fixture(scope="module")
def rows():
    return sales(6000, 8)


@pytest.fixture
def cube(rows):
    return karat.cube(rows, target="y", by=BY, columns=FEATURES, key="id", rows="real")


def label_of(cube, place):
    return {name: values[place] for name, values in zip(cube.by, cube.cells.labels, strict=True)}


def agrees(cube, rows, weights=None, close=1e-11):
    """By plain NumPy: the second moments and the number of rows of every cell are those of its
    rows.
    """
    table = np.column_stack([np.ones(len(rows)), rows[[*cube.columns, *cube.targets]]]).astype(
        float
    )
    mass = np.ones(len(rows)) if weights is None else rows[weights].to_numpy()
    cells, seen = cube.cells, 0
    for place in range(len(cells)):
        own = np.logical_and.reduce(
            [rows[name].to_numpy() == value for name, value in label_of(cube, place).items()]
        )
        full = (table[own] * mass[own, None]).T @ table[own]
        some = slice(cells.starts[place], cells.starts[place + 1])
        kept = np.column_stack(
            [np.ones(cells.sizes[place]), *(column[some] for column in cells.columns)]
        )
        size = np.sqrt(np.outer(np.diag(full), np.diag(full)))
        moments = (kept * cells.weights[some, None]).T @ kept
        if np.any(np.abs(moments - full) > close * size) or own.sum() != cells.counts[place]:
            return False
        seen += own.sum()
    return seen == len(rows)


def proven(cube, data, count):
    found = cube.verify(data)
    assert found.ok, str(found)
    assert not found.differ + found.extra + found.missing
    assert found.n_rows == count
    assert found.cube.to_frame().ok.all()
    assert found.certificate.ok
    assert found.certificate.method == "verified on the full data"
    assert found.cube.cells.counts.tolist() == cube.cells.counts.tolist()
    assert "exact" in str(found)
    return found


def refuted(cube, data, **named):
    """Not ok; exactly these cells are named, as differ, extra or missing."""
    found = cube.verify(data)
    assert not found.ok
    assert "NOT exact" in str(found)
    for kind in ("differ", "extra", "missing"):
        assert list(getattr(found, kind)) == named.get(kind, []), str(found)
        for label in named.get(kind, []):
            assert all(str(value) in str(found) for value in label.values())
    bad = [*named.get("differ", []), *named.get("extra", [])]
    ok = found.cube.to_frame().ok
    assert int((~ok).sum()) == len(bad)
    assert not any(found.cube.certificate(label).ok for label in bad)
    return found


def changed(cube, **fields):
    """A cube with other cells; the original stays as it is."""
    other = karat.Cube.from_bytes(cube.to_bytes())
    other.cells = replace(cube.cells, **fields)
    return other


@pytest.mark.parametrize("i", range(7))
def test_right_cubes_are_proven_from_every_source(cube, rows, tmp_path, i):
    assert agrees(cube, rows)
    proven(cube, list(sources(rows, tmp_path))[i], len(rows))


def test_the_order_of_rows_does_not_matter(cube, rows):
    found = proven(cube, rows.sample(frac=1.0, random_state=0), len(rows))
    again = proven(found.cube, rows, len(rows))
    # a second look claims no more than the first
    assert again.certificate.rounding <= 1.01 * found.certificate.rounding


def test_an_old_cube_becomes_current(cube, rows, tmp_path):
    """Certificates of 0.2.0 do not count; those of the verified cube do, in files and slices and
    after changes.
    """
    old = changed(
        cube, certificates=tuple(replace(one, proof_version=2) for one in cube.cells.certificates)
    )
    old.save(tmp_path / "old.parquet")
    loaded = karat.Cube.load(tmp_path / "old.parquet")
    assert not loaded.to_frame().ok.any()
    assert "verify again" in str(loaded.certificate())
    found = proven(loaded, rows, len(rows))
    assert found.cube.path is None
    assert not loaded.to_frame().ok.any()  # it stays as it was
    found.cube.save(tmp_path / "new.parquet")
    new = karat.Cube.load(tmp_path / "new.parquet")
    assert new.to_frame().ok.all()
    more = sales(500, 8, seed=1).assign(id=lambda f: f.id + 10**6)
    assert new.update(more).to_frame().ok.all()
    proven(new, pd.concat([more, rows]), 6500)
    assert not loaded.update(more).to_frame().ok.all()  # nothing is proven by adding to it


@pytest.mark.parametrize("factor", [1 + 1e-6, 1 - 1e-6, 2.0])
def test_a_changed_weight(cube, rows, factor):
    cells = cube.cells
    weights = cells.weights.copy()
    some = slice(cells.starts[PLACE], cells.starts[PLACE + 1])
    weights[some][weights[some].argmax()] *= factor
    spoilt = changed(cube, weights=weights)
    assert not agrees(spoilt, rows)
    found = refuted(spoilt, rows, differ=[label_of(cube, PLACE)])
    assert "loss is off by" in str(found)


def test_a_kept_row_that_is_missing(cube, rows):
    cells = cube.cells
    rest = np.delete(np.arange(len(cells.weights)), cells.starts[PLACE])
    starts = cells.starts - (np.arange(len(cells) + 1) > PLACE)
    spoilt = changed(
        cube, starts=starts, columns=tuple(c[rest] for c in cells.columns),
        weights=cells.weights[rest], numbers=cells.numbers[rest], keys=cells.keys[rest],
    )  # fmt: skip
    refuted(spoilt, rows, differ=[label_of(cube, PLACE)])


def test_rows_of_the_data_that_are_missing_or_twice(cube, rows):
    label = label_of(cube, PLACE)
    own = np.flatnonzero((rows.region == label["region"]) & (rows.day == label["day"]))
    found = refuted(cube, rows.drop(index=own[3]), differ=[label])
    assert f"made of {len(own):,} rows, the data has {len(own) - 1:,}" in str(found)
    refuted(cube, pd.concat([rows, rows.iloc[own[3:4]]]), differ=[label])
    away = rows.copy()
    away.loc[own[3], "price"] *= 1 + 1e-6
    refuted(cube, away, differ=[label])


def test_a_row_of_another_cell(cube, rows):
    """Two rows change places: both cells have as many rows as before."""
    labels = [label_of(cube, place) for place in (2, PLACE)]
    first, second = (
        rows.index[(rows.region == one["region"]) & (rows.day == one["day"])][0] for one in labels
    )
    moved = rows.copy()
    moved.loc[[first, second], BY] = moved.loc[[second, first], BY].to_numpy()
    refuted(cube, moved, differ=labels)


def test_an_extra_cell_and_a_missing_cell(cube, rows):
    label = label_of(cube, PLACE)
    own = (rows.region == label["region"]) & (rows.day == label["day"])
    found = refuted(cube, rows[~own], extra=[label])
    assert "no rows of this cell" in str(found.cube.certificate(label))
    fewer = karat.cube(rows[~own], target="y", by=BY, columns=FEATURES, key="id")
    found = refuted(fewer, rows, missing=[label])
    assert found.cube.to_frame().ok.all()
    both = rows.assign(day=rows.day.where(~own, np.datetime64("2027-01-01")))
    elsewhere = {"region": label["region"], "day": np.datetime64("2027-01-01")}
    refuted(cube, both, extra=[label], missing=[elsewhere])
    assert len(cube.verify(rows[rows.region == "EU"]).extra) == 16
    assert cube.drop(found.missing[0]).verify(rows).missing == (label,)  # a label is a selection


def test_no_cell_in_common(cube, rows):
    found = cube.verify(rows.assign(region="MARS"))
    assert (len(found.differ), len(found.extra), len(found.missing)) == (0, 24, 8)
    assert "21 more" in str(found)


def test_rows_that_are_not_those_of_the_data_but_have_their_moments(cube, rows):
    """The kept rows of a cell are turned by an orthogonal matrix that keeps their weights: all
    second moments stay.
    """
    cells = cube.cells
    some = slice(cells.starts[PLACE], cells.starts[PLACE + 1])
    root = np.sqrt(cells.weights[some])
    rng = np.random.default_rng(0)
    axis = rng.standard_normal(len(root))
    axis -= root * (root @ axis) / (root @ root)
    turn = np.eye(len(root)) - 2 * np.outer(axis, axis) / (axis @ axis)
    table = np.column_stack([column[some] for column in cells.columns]).astype(float)
    turned = turn @ (table * root[:, None]) / root[:, None]
    columns = [column.astype(float) for column in cells.columns]
    for column, values in zip(columns, turned.T, strict=True):
        column[some] = values
    fake = changed(cube, columns=tuple(columns))
    assert agrees(fake, rows)
    found = refuted(fake, rows, differ=[label_of(cube, PLACE)])
    assert f"{len(root)} kept rows not among the rows of the data" in str(found)


def test_other_keys(cube, rows):
    keys = cube.cells.keys.copy()
    keys[cube.cells.starts[PLACE]] = -1
    found = refuted(changed(cube, keys=keys), rows, differ=[label_of(cube, PLACE)])
    assert "1 kept row not among" in str(found)


def test_weights_missing_values_and_several_targets(rows):
    data = rows.assign(
        units=np.where(rows.id % 7 == 0, 0.0, rows.units), z=rows.price**2 + rows["count"]
    )
    data.loc[5, "price"] = np.nan
    cube = karat.cube(
        data,
        target=["y", "z"],
        by="region",
        columns=FEATURES,
        sample_weight="units",
        on_missing="drop",
        key="id",
    )
    proven(cube, data, len(data))
    heavier = data.assign(units=np.where(data.id == 1010, data.units * (1 + 1e-5), data.units))
    region = {"region": data.region[10]}
    refuted(cube, heavier, differ=[region])
    refuted(
        cube,
        data.drop(index=[data.index[data.units.eq(0) & data.region.eq("EU")][3]]),
        differ=[{"region": "EU"}],
    )


@pytest.mark.parametrize(
    "problem", [P.Ridge(2.0), P.LpRegression(4), P.Moments(3), P.Mean(), P.TensorContraction(3)]
)
def test_other_problems(rows, problem):
    target = "y" if problem.needs_target else None
    cube = karat.cube(rows, target=target, by="region", columns=["size", "price"], problem=problem)
    proven(cube, rows, len(rows))
    refuted(
        changed(cube, weights=cube.cells.weights * (1 + 1e-6)),
        rows,
        differ=[{"region": r} for r in ("AP", "EU", "US")],
    )


def test_after_updates_and_merges(rows):
    first, second, third = (rows.iloc[i::3] for i in range(3))
    cube = karat.cube(first, target="y", by=BY, columns=FEATURES).update(second)
    cube.merge(karat.cube(third, target="y", by=BY, columns=FEATURES))
    proven(cube, rows, len(rows))
    proven(cube.rollup("region"), rows, len(rows))
    refuted(cube.rollup("region"), rows.iloc[1:], differ=[{"region": rows.region[0]}])


@pytest.mark.parametrize("data", [tails(300, 0), tails(40, 1, power=0.1), scales(200, 0)])
@pytest.mark.parametrize("weight", [None, "w"])
def test_hostile_rows(data, weight):
    """Tails so heavy that hardly a reduction is proven: rows that both keep cancel."""
    cube = karat.cube(data, target="y", by="k", columns=ABC, sample_weight=weight)
    proven(cube, data.sample(frac=1.0, random_state=0), len(data))
    refuted(cube, data.iloc[1:], differ=[{"k": 0}])


def test_whole_numbers_beyond_doubles():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {
            "a": 2**60 + rng.integers(0, 1000, 400),
            "y": rng.standard_normal(400),
            "k": np.arange(400) % 2,
        }
    )
    cube = karat.cube(data, target="y", by="k", columns=["a"])
    proven(cube, data, 400)
    off = data.assign(a=data.a + (np.arange(400) == 2))
    refuted(cube, off, differ=[{"k": 0}])


@pytest.mark.parametrize("memory", [10**9, 10**6])
def test_little_memory(tmp_path, memory):
    many = sales(130_000, 10, seed=5)
    cube = karat.cube(many, target="y", by=BY, columns=FEATURES)
    many.to_parquet(tmp_path / "many.parquet")
    seen = []
    found = cube.verify(
        tmp_path / "many.parquet", memory=memory, progress=lambda *place: seen.append(place)
    )
    assert found.ok, str(found)
    assert seen[-1][0] == seen[-1][1]


def test_dask(cube, rows):
    dd = pytest.importorskip("dask.dataframe")
    proven(cube, dd.from_pandas(rows, npartitions=7, sort=False), len(rows))
    keys = cube.cells.keys.copy()
    keys[cube.cells.starts[PLACE]] = -1
    refuted(
        changed(cube, keys=keys),
        dd.from_pandas(rows, npartitions=7, sort=False),
        differ=[label_of(cube, PLACE)],
    )
    made = karat.cube(
        dd.from_pandas(rows, npartitions=3, sort=False), target="y", by=BY, columns=FEATURES
    )
    assert "present" not in made.history[0]


def test_what_is_refused(cube, rows):
    with pytest.raises(InputError, match="no column 'day'"):
        cube.verify(rows.drop(columns="day"))
    with pytest.raises(InputError, match="memory"):
        cube.verify(rows, memory=3)
    numbers = labelled_rows([1, 2, 3])
    with pytest.raises(InputError, match="integers"):
        karat.cube(numbers, target="y", by="k").verify(numbers.assign(k=numbers.k.astype(str)))


def test_what_is_said_for_json(cube, rows):
    import json

    found = cube.verify(rows[rows.region != "EU"])
    told = json.loads(json.dumps(found.to_dict()))
    assert told["ok"] is False
    assert (told["cells"], told["rows"]) == (24, int((rows.region != "EU").sum()))
    assert told["extra"][0] == {"region": "EU", "day": "2026-01-20"}


def test_what_a_cell_keeps_is_in_its_file():
    """A cell without noise keeps no R2; before, a cube that was loaded, and a union, said that it
    does.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(400), "k": np.repeat([0, 1], 200)})
    frame["y"] = 2 * frame.x + np.where(frame.k, rng.standard_normal(400), 0.0)
    cube = karat.cube(frame, target="y", by="k")
    assert "not R2" in cube.certificate(k=0).keeps
    for other in (cube, karat.Cube.from_bytes(cube.to_bytes())):
        assert other.certificate(k=0) == cube.certificate(k=0)
        assert "not R2" not in other.certificate(k=1).keeps
        assert "not R2" in other.certificate().keeps
