"""Data read again: identical, reordered or changed; and the coreset proven or refuted, against
oracles on the full data.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import PolynomialFeatures
from tables import COLUMNS, arrays, make, write

import karat
from karat import InputError
from karat import problems as P
from karat.io.row_hashes import BLOCK

N = 6000
ROLES = {"columns": COLUMNS, "groups": "g", "key": "id", "sample_weight": "w"}


@pytest.fixture(scope="module")
def table():
    return make(N)


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    return write(table, tmp_path_factory.mktemp("data") / "data")


@pytest.fixture(scope="module")
def core(folder):
    return karat.coreset_files(folder, "y", **ROLES)


def set_value(table, row, column, value):
    values = table[column].to_pylist()
    values[row] = value
    return table.set_column(
        table.column_names.index(column), column, pa.array(values, table.schema.field(column).type)
    )


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        (P.LeastSquares(), {}),
        (P.LeastSquares(), ROLES),
        (P.Ridge(2.0, absorb="diagonal"), {"columns": COLUMNS}),
        (P.LpRegression(4, 1.0, absorb="box"), {"columns": ["a", "d"]}),
        (P.LpRegression(4), {"columns": ["a", "d"], "sample_weight": "w"}),
        (P.Moments(2), {"columns": COLUMNS, "groups": "g"}),
        (P.Mean(), {"columns": COLUMNS}),
        (P.Kernel(np.sin, lambda q: q), {"columns": COLUMNS}),
    ],
)
def test_identical_data_of_every_problem(problem, options, folder):
    options = {"columns": COLUMNS} | options
    core = karat.coreset_files(folder, "y" if problem.needs_target else None, problem, **options)
    found = karat.verify_files(core)
    assert found.ok
    assert found.data == "identical"
    assert (found.changed, found.moved) == ((), ())
    assert found.certificate.n_rows == N
    wrong = replace(core, weights=core.weights * np.linspace(0.999, 1.001, len(core)))
    refuted = karat.verify_files(wrong)
    assert not refuted.ok
    assert refuted.data == "identical"


def test_the_error_is_that_of_the_full_data(table, folder):
    core = karat.coreset_files(folder, "y", columns=COLUMNS)
    wrong = replace(core, weights=core.weights * np.linspace(0.9, 1.1, len(core)))
    D = np.column_stack([np.ones(N), *arrays(table)])
    kept = D[wrong.indices]
    full, small = D.T @ D, kept.T @ (wrong.weights[:, None] * kept)
    root = np.linalg.inv(np.linalg.cholesky(full))
    worst = np.abs(np.linalg.eigvalsh(root @ (small - full) @ root.T)).max()
    assert karat.verify_files(wrong).certificate.loss_error == pytest.approx(worst, rel=1e-6)


def test_reordered_across_files(core, table, tmp_path):
    shuffled = write(
        table.take(np.random.default_rng(0).permutation(N)), tmp_path / "other", files=3
    )
    found = karat.verify_files(core, shuffled)
    assert found.ok
    assert found.data == "reordered"
    assert "another order" in str(found)
    assert set(found.moved) <= set(core.indices.tolist())
    assert found.moved


def test_the_same_values_in_csv(core, table, tmp_path):
    pacsv.write_csv(table, tmp_path / "data.csv")
    assert karat.verify_files(core, tmp_path / "data.csv").data == "identical"


@pytest.mark.parametrize("column", ["a", "y", "w", "g", "id"])
def test_a_changed_value_in_any_column(column, core, table, tmp_path):
    row = next(i for i in range(N) if i not in core.indices and table["w"][i].as_py() > 0)
    value = table[column][row].as_py()
    other = {"g": "north" if value == "south" else "south", "id": -5}.get(column) or np.nextafter(
        value, np.inf
    )
    found = karat.verify_files(
        core, write(set_value(table, row, column, other), tmp_path / "other")
    )
    assert found.data == "changed"
    assert not found.ok
    assert "CHANGED" in str(found)
    if column != "g":  # the moments cannot tell
        assert found.certificate.ok


def test_the_changed_block_is_named(tmp_path):
    n = 3 * BLOCK
    rng = np.random.default_rng(0)
    values = rng.standard_normal((n, 2))
    make_table = lambda: pa.table({"a": values[:, 0], "y": values[:, 1]})  # noqa: E731
    core = karat.coreset_files(
        write(make_table(), tmp_path / "before", files=4, row_group_size=9000), "y"
    )
    row = 2 * BLOCK + 7
    values.view(np.uint64)[row, 0] ^= np.uint64(1)
    found = karat.verify_files(
        core, write(make_table(), tmp_path / "after", files=4, row_group_size=9000)
    )
    (block,) = found.changed
    assert (block.start, block.stop) == (2 * BLOCK, 3 * BLOCK)
    per_file = n // 4
    assert [name for name, _, _ in block.files] == ["part-002.parquet", "part-003.parquet"]
    name, first, last = block.files[0]
    assert first <= row - 2 * per_file < last
    assert name in str(found)
    assert found.to_dict()["changed"][0]["start"] == 2 * BLOCK


@pytest.mark.parametrize("change", ["doubled", "lost", "swapped for a duplicate"])
def test_rows_that_come_twice_or_are_lost(change, core, table, tmp_path):
    other = {
        "doubled": pa.concat_tables([table, table.slice(100, 1)]),
        "lost": pa.concat_tables([table.slice(0, 100), table.slice(101)]),
        "swapped for a duplicate": pa.concat_tables(
            [table.slice(0, 100), table.slice(99, 1), table.slice(101)]
        ),
    }[change]
    found = karat.verify_files(core, write(other.combine_chunks(), tmp_path / "other"))
    assert found.data == "changed"
    assert not found.ok


def test_a_changed_kept_row(core, table, tmp_path):
    kept = int(core.indices[3])
    found = karat.verify_files(core, write(set_value(table, kept, "a", 1234.5), tmp_path / "other"))
    assert found.moved == (kept,)
    assert not found.certificate.ok


def test_without_hashes(folder, table, tmp_path):
    core = karat.coreset_files(folder, "y", columns=COLUMNS, content=False)
    found = karat.verify_files(core)
    assert found.data == "unknown"
    assert found.ok
    shuffled = karat.verify_files(core, write(table.take(np.arange(N)[::-1]), tmp_path / "other"))
    assert shuffled.data == "unknown"
    # kept rows that are elsewhere cannot be told from kept rows that are gone
    assert not shuffled.ok


def test_other_columns_are_not_compared_by_hash(core, folder):
    found = karat.verify_files(core, folder, columns=["b", "a", "c", "d"])
    assert not found.ok
    assert karat.verify_files(core, folder, key="w").data == "unknown"


def test_a_coreset_of_arrays(table, folder):
    X, y = arrays(table)
    core = karat.coreset(X, y)
    with pytest.raises(InputError, match="pass the source"):
        karat.verify_files(core)
    with pytest.raises(InputError, match="columns="):
        karat.verify_files(core, folder, "y")
    found = karat.verify_files(core, folder, "y", columns=COLUMNS)
    assert found.ok
    assert found.data == "unknown"
    assert found.moved == ()


def test_a_stream_comes_only_once(table):
    core = karat.coreset_files(table.to_reader(), "y", columns=COLUMNS)
    with pytest.raises(InputError, match="pass the source"):
        karat.verify_files(core)
    assert karat.verify_files(core, table.to_reader(max_chunksize=999)).data == "identical"


def test_saved_and_merged(table, tmp_path):
    parts = [
        write(table.slice(a, b), tmp_path / name, files=2)
        for name, a, b in (("one", 0, 2000), ("two", 2000, N))
    ]
    cores = [karat.coreset_files(part, "y", columns=COLUMNS) for part in parts]
    merged = cores[0].merge(cores[1])
    merged.save(tmp_path / "core.parquet")
    found = karat.verify_files(tmp_path / "core.parquet")
    assert found.data == "identical"
    assert found.ok
    assert karat.verify_files(merged, parts[::-1]).data == "reordered"
    assert karat.verify_files(merged, parts[:1]).data == "changed"


def test_a_pipeline(folder, table):
    pipeline = PolynomialFeatures(2, include_bias=False).fit(table.select(COLUMNS).to_pandas())
    core = karat.coreset_files(folder, "y", columns=COLUMNS, pipeline=pipeline)
    with pytest.raises(InputError, match="PolynomialFeatures"):
        karat.verify_files(core)
    found = karat.verify_files(core, pipeline=pipeline)
    assert found.ok
    assert found.data == "identical"


def test_missing_values(table, tmp_path):
    holes = set_value(set_value(table, 5, "a", None), 50, "y", None)
    folder = write(holes, tmp_path / "holes")
    core = karat.coreset_files(folder, "y", columns=COLUMNS, on_missing="drop")
    assert karat.verify_files(core).data == "identical"
    assert karat.verify_files(core).ok
    with pytest.raises(InputError, match="no value"):
        karat.verify_files(core, on_missing="error")


def test_a_table_is_a_source(table):
    core = karat.coreset_files(table, "y", columns=COLUMNS)
    found = karat.verify_files(core, table.slice(0).combine_chunks())
    assert found.ok
    assert (found.data, found.moved) == ("identical", ())
    reordered = karat.verify_files(core, table.take(np.arange(N)[::-1]))
    assert reordered.ok
    assert reordered.data == "reordered"


def test_latent_problems_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((500, 4)) + 5 * np.eye(4)[i] for i in range(2)])
    pq.write_table(pa.table(list(X.T), names=COLUMNS), tmp_path / "data.parquet")
    core = karat.coreset(X, problem=P.GaussianMixture(2))
    assert karat.verify_files(core, tmp_path / "data.parquet", columns=COLUMNS).ok
    X[3] += 1
    pq.write_table(pa.table(list(X.T), names=COLUMNS), tmp_path / "other.parquet")
    assert not karat.verify_files(core, tmp_path / "other.parquet", columns=COLUMNS).ok
    with pytest.raises(InputError, match="memory"):
        karat.verify_files(core, tmp_path / "data.parquet", columns=COLUMNS, memory=1000)


def test_groups_must_be_told(folder, core):
    plain = karat.coreset_files(folder, "y", columns=COLUMNS)
    with pytest.raises(InputError, match="groups"):
        karat.verify_files(plain, groups="g")
    with pytest.raises(InputError, match="groups"):
        karat.verify_files(replace(core, provenance=None), folder, "y", columns=COLUMNS)


def test_provenance_tells_what_was_done(folder, core):
    told = core.provenance
    assert told["source"]["given"] == [str(folder)]
    assert [f["name"] for f in told["source"]["files"]] == [
        f"part-{i:03d}.parquet" for i in range(5)
    ]
    assert [f["rows"] for f in told["source"]["files"]] == [N // 5] * 5
    assert [f["size"] for f in told["source"]["files"]] == [
        f.stat().st_size for f in sorted(folder.iterdir())
    ]
    assert told["target"] == "y"
    assert told["columns"] == COLUMNS
    assert told["roles"] == {"weight": "w", "group": "g", "key": "id"}
    again = karat.coreset_files(folder, "y", **ROLES).provenance
    assert {k: v for k, v in again.items() if k != "created"} == {
        k: v for k, v in told.items() if k != "created"
    }


def test_a_seed_of_numpy_is_stored_as_a_number(folder, tmp_path):
    core = karat.coreset_files(folder, "y", columns=COLUMNS, random_state=np.int64(3))
    core.save(tmp_path / "core.npz")
    assert karat.load(tmp_path / "core.npz").provenance["seed"] == 3


def test_one_source_is_merged_once(folder):
    first, second = (
        karat.coreset_files(folder, "y", columns=COLUMNS, random_state=seed) for seed in (0, 1)
    )
    with pytest.raises(InputError, match="count twice"):
        first.merge(second)


def test_a_merged_coreset_says_what_was_left_out(table, tmp_path):
    cores = []
    for i, start in enumerate((0, 3000)):
        part = set_value(
            set_value(table.slice(start, 3000), 7, COLUMNS[0], None), 9, COLUMNS[0], None
        )
        pq.write_table(part, tmp_path / f"{i}.parquet")
        cores.append(
            karat.coreset_files(tmp_path / f"{i}.parquet", "y", columns=COLUMNS, on_missing="drop")
        )
    assert "2 rows with missing values" in " ".join(cores[0].merge(cores[1]).certificate.notes)
