"""Random sequences of changes of cubes: rows that come again are refused, and no others are.

    cd tests && python -m cube.twice 300

Every row has a number of its own, which the cube does not know (or knows as its key).  So what a
cube should hold is known from sets of numbers alone.  A sequence makes a few changes that are
allowed.  Then rows come again, in one of the ways that ``docs/promises.md`` lists: the change must
be refused, and the cube must be what it was.  A legitimate sequence has no such rows, but rows that
are equal by accident, rows that were dropped, and disjoint parts of one cube: nothing of it may be
refused, and the cube must have the number of rows, and the sums, of the numbers it should hold.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import karat

BY, COLUMNS = ["region", "day"], ["a", "b"]
REFUSED = re.compile("twice|is in both coresets")


class Shop:
    """A cube, and the rows that it should hold."""

    def __init__(self, rng: np.random.Generator, keyed: bool, equal: bool, home: Path) -> None:
        self.rng, self.keyed, self.equal, self.home = rng, keyed, equal, home
        self.next = 0  # the number of the next row
        self.files = 0
        first = self.rows()
        self.batches, self.held = [first], first
        self.cube = self.made(first)

    def rows(self, count: int | None = None) -> pd.DataFrame:
        """New rows; rows of ``equal`` data are equal to others by accident."""
        rng, n = self.rng, count or int(self.rng.integers(40, 250))
        number = self.next + rng.permutation(n)
        self.next += n
        if self.equal:
            a, b, y = rng.integers(0, 4, n), rng.integers(0, 3, n) / 2, rng.integers(0, 5, n)
        else:
            a, b, y = rng.standard_normal((3, n))
        day = np.datetime64("2026-03-01") + rng.integers(0, 5, n)
        region = rng.choice(["EU", "US"], n)
        return pd.DataFrame({"id": number, "a": a, "b": b, "y": y, "region": region, "day": day})

    def made(self, rows: Any, by: Any = None) -> karat.Cube:
        key = "id" if self.keyed else None
        return karat.cube(rows, target="y", by=by or BY, columns=COLUMNS, key=key)

    def file(self, rows: pd.DataFrame, folder: Path | None = None) -> Path:
        self.files += 1
        path = (folder or self.home) / f"rows-{self.files:03d}.parquet"
        rows.to_parquet(path)
        return path

    def folder(self, parts: list[pd.DataFrame]) -> Path:
        self.files += 1
        folder = self.home / f"folder-{self.files}"
        folder.mkdir()
        for part in parts:
            self.file(part, folder)
        return folder

    def sent(self, rows: pd.DataFrame) -> Any:
        """Rows as a frame, in another order, as a file or as a folder."""
        ways: list[Callable[[], Any]] = [
            lambda: rows,
            lambda: rows.iloc[self.rng.permutation(len(rows))],
            lambda: self.file(rows),
            lambda: self.folder([rows.iloc[: len(rows) // 2], rows.iloc[len(rows) // 2 :]]),
        ]
        return ways[self.rng.integers(len(ways))]()

    def part(self, rows: pd.DataFrame, least: int = 1) -> pd.DataFrame:
        """Some of the rows."""
        count = int(self.rng.integers(min(least, len(rows)), len(rows) + 1))
        return rows.iloc[self.rng.choice(len(rows), count, replace=False)]

    def others(self) -> list[str]:
        """All regions but one."""
        return [str(region) for region in self.cube.labels("region") if region != "EU"]

    def update(self) -> None:
        """New rows; one row may be equal to others by accident, so there are more."""
        new = self.rows()
        self.cube.update(self.sent(new))
        self.batches.append(new)
        self.held = pd.concat([self.held, new])

    def check(self) -> None:
        """The cube holds what it should."""
        core, held = self.cube.select(), self.held
        assert core.n_rows == len(held), (core.n_rows, len(held))
        assert np.isclose(core.weights.sum(), len(held), rtol=1e-9)
        for name, column in (("a", np.asarray(core.X["a"])), ("y", np.asarray(core.y))):
            size = np.abs(held[name]).sum() + 1
            assert abs(core.weights @ column - held[name].sum()) < 1e-8 * size
        assert core.certificate.ok


# Rows that come again, and how: each makes the change that must be refused.


def whole(shop: Shop) -> Any:
    return shop.cube.update(shop.sent(shop.batches[-1]))


def an_early_batch(shop: Shop) -> Any:
    return shop.cube.update(shop.sent(shop.batches[0]))


def a_merged_batch(shop: Shop) -> Any:
    return shop.cube.merge(shop.made(shop.sent(shop.batches[-1])))


def a_file_of_a_folder(shop: Shop) -> Any:
    new = shop.rows()
    parts = [new.iloc[:20], new.iloc[20:]]
    shop.cube.update(shop.folder(parts))
    shop.held = pd.concat([shop.held, new])
    return shop.cube.update(shop.file(parts[shop.rng.integers(2)]))


def a_copy(shop: Shop) -> Any:
    other = karat.Cube.from_bytes(shop.cube.to_bytes())
    if shop.rng.integers(2):
        other.drop(region="EU")
    return shop.cube.merge(other)


def overlapping_windows(shop: Shop) -> Any:
    windows = [core for _, core in shop.cube.rolling("day", 2)]
    return windows[0].merge(windows[1])


def a_window_and_a_slice(shop: Shop) -> Any:
    _, window = next(iter(shop.cube.rolling("day", 2)))
    return window.merge(shop.cube.select(day=shop.cube.labels("day")[1]))


def a_slice_and_its_rollup(shop: Shop) -> Any:
    rolled = shop.cube.rollup("region").select(region="EU")
    return shop.cube.select(region="EU", reduce=bool(shop.rng.integers(2))).merge(rolled)


def slices_that_overlap(shop: Shop) -> Any:
    day = shop.cube.labels("day")[0]
    return shop.cube.select(region="EU").merge(shop.cube.select(day=day, reduce=True))


def a_slice_before_an_update(shop: Shop) -> Any:
    before = shop.cube.select(region="US")
    shop.update()
    return before.merge(shop.cube.select(region="US"))


def a_coreset_of_the_files(shop: Shop) -> Any:
    key = "id" if shop.keyed else None
    path = shop.file(shop.rows())
    core = karat.coreset_files(path, target="y", columns=COLUMNS, key=key)
    piece = shop.made(path).select(region="EU")
    return core.merge(piece) if shop.rng.integers(2) else piece.merge(core)


def slices_by_other_labels(shop: Shop) -> Any:
    rows = shop.rows()
    return shop.made(rows, "region").select().merge(shop.made(rows, "day").select())


def update_of_a_rollup(shop: Shop) -> Any:
    return shop.cube.rollup("region").update(shop.batches[0])


ALWAYS = [
    whole, an_early_batch, a_merged_batch, a_file_of_a_folder, a_copy, overlapping_windows,
    a_window_and_a_slice, a_slice_and_its_rollup, slices_that_overlap, a_slice_before_an_update,
    a_coreset_of_the_files, slices_by_other_labels, update_of_a_rollup,
]  # fmt: skip


def some_rows(shop: Shop) -> Any:
    return shop.cube.update(shop.sent(shop.part(shop.held)))


def rows_of_a_label(shop: Shop) -> Any:
    return shop.cube.update(shop.sent(shop.held[shop.held.region == "EU"]))


def half(shop: Shop) -> Any:
    batch = shop.batches[-1]
    return shop.cube.update(shop.sent(batch.iloc[: len(batch) // 2]))


def one_row_more(shop: Shop) -> Any:
    again = shop.part(shop.held, 9)
    return shop.cube.update(shop.sent(pd.concat([again, shop.rows(len(again) // 9)])))


def some_rows_of_a_cube(shop: Shop) -> Any:
    return shop.cube.merge(shop.made(shop.sent(shop.part(shop.held))))


def some_rows_of_a_rollup(shop: Shop) -> Any:
    return shop.cube.rollup("day").update(shop.part(shop.held))


DISTINCT = [
    some_rows, rows_of_a_label, half, one_row_more, some_rows_of_a_cube, some_rows_of_a_rollup
]  # fmt: skip


def one_key_of_many(shop: Shop) -> Any:
    new = shop.rows()
    new.iloc[3, 0] = shop.held.id.iloc[shop.rng.integers(len(shop.held))]
    return shop.cube.update(shop.sent(new))


def a_key_with_other_values(shop: Shop) -> Any:
    row = shop.part(shop.held).iloc[:1].assign(a=7.5, region="US")
    return shop.cube.update(row)


def a_key_of_a_merged_cube(shop: Shop) -> Any:
    new = shop.rows()
    new.iloc[0, 0] = shop.held.id.iloc[0]
    return shop.cube.merge(shop.made(new))


def a_replaced_cell_with_a_key_of_another(shop: Shop) -> Any:
    region = shop.held[shop.held.region == "EU"]
    return shop.cube.replace(pd.concat([region, shop.held[shop.held.region == "US"].iloc[:1]
                                        .assign(region="EU")]))  # fmt: skip


def a_key_twice_in_a_batch(shop: Shop) -> Any:
    new = shop.rows()
    return shop.cube.update(pd.concat([new, new.iloc[:1].assign(b=3.5, region="EU")]))


KEYED = [
    one_key_of_many, a_key_with_other_values, a_key_of_a_merged_cube,
    a_replaced_cell_with_a_key_of_another, a_key_twice_in_a_batch,
]  # fmt: skip


# Legitimate changes


def update(shop: Shop) -> None:
    shop.update()


def merge(shop: Shop) -> None:
    new = shop.rows()
    shop.cube.merge(shop.made(shop.sent(new)))
    shop.held = pd.concat([shop.held, new])


def drop_and_send_again(shop: Shop) -> None:
    gone = shop.held[shop.held.region == "EU"]
    shop.cube.drop(region="EU")
    shop.cube.update(shop.sent(gone))


def replace(shop: Shop) -> None:
    shop.cube.replace(shop.sent(shop.held[shop.held.region == "US"]))


def split_and_merge(shop: Shop) -> None:
    first, second = (karat.Cube.from_bytes(shop.cube.to_bytes()) for _ in range(2))
    shop.cube = first.drop(region="EU").merge(second.drop(region=shop.others()))


def reload(shop: Shop) -> None:
    path = shop.home / "cube.parquet"
    shop.cube.save(path)
    shop.cube = karat.Cube.load(path)


def disjoint_slices(shop: Shop) -> None:
    merged = shop.cube.select(region="EU").merge(shop.cube.select(region=shop.others()))
    assert merged.n_rows == len(shop.held)
    built = shop.made(shop.held)
    merged = shop.cube.select(region="EU").merge(built.select(region=shop.others(), reduce=True))
    assert merged.n_rows == len(shop.held)


def disjoint_windows(shop: Shop) -> None:
    windows = [core for _, core in shop.cube.rolling("day", 2)]
    assert windows[0].merge(windows[-1]).n_rows == windows[0].n_rows + windows[-1].n_rows


def other_labels(shop: Shop) -> None:
    if not shop.keyed:
        moved = shop.batches[0].assign(region="NZ", day=np.datetime64("2027-01-01") + shop.files)
        shop.files += 1
        shop.cube.update(moved)
        shop.held = pd.concat([shop.held, moved])


def rows_half_known(shop: Shop) -> None:
    """Equal values under other keys, or half of the rows equal to others, are other rows."""
    known = shop.batches[0]
    if shop.keyed:
        again = known.assign(id=shop.rows(len(known)).id.to_numpy())
    else:
        again = pd.concat([known.iloc[: len(known) // 2], shop.rows(len(known))])
    shop.cube.update(shop.sent(again))
    shop.held = pd.concat([shop.held, again])


LEGITIMATE = [
    update, merge, drop_and_send_again, replace, split_and_merge, reload, disjoint_slices,
    disjoint_windows, other_labels, rows_half_known,
]  # fmt: skip


def seeded(seed: int, home: Path) -> tuple[Shop, np.random.Generator]:
    """A cube of one of four kinds."""
    rng = np.random.default_rng(seed)
    return Shop(rng, keyed=bool(seed % 2), equal=bool(seed // 2 % 2), home=home), rng


def again(seed: int, home: Path) -> str:
    """A sequence in which rows come again; raises unless they are refused."""
    shop, rng = seeded(seed, home)
    for _ in range(rng.integers(0, 3)):
        (update, merge, reload)[rng.integers(3)](shop)
    ways = [*ALWAYS]
    if shop.keyed or not shop.equal:
        ways += DISTINCT
    if shop.keyed:
        ways += KEYED
    way = ways[seed // 4 % len(ways)]
    refusal = ""
    try:
        way(shop)
    except karat.InputError as error:
        refusal = str(error)
    assert REFUSED.search(refusal), f"{way.__name__} was not refused: {refusal}"
    shop.check()
    return way.__name__


def legitimate(seed: int, home: Path) -> str:
    """A sequence of legitimate changes, none of which is refused."""
    shop, rng = seeded(seed, home)
    names = []
    for _ in range(rng.integers(2, 7)):
        change = LEGITIMATE[rng.integers(len(LEGITIMATE))]
        change(shop)
        names.append(change.__name__)
        shop.check()
    return ", ".join(names)


def campaign(count: int, seed: int) -> list[str]:
    """What was wrong in ``count`` sequences of either kind."""
    wrong, ways = [], Counter[str]()
    for kind in (again, legitimate):
        for number in range(seed, seed + count):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    done = kind(number, Path(folder))
                except Exception as error:
                    wrong.append(f"{kind.__name__}, seed {number}: {error!r}")
                else:
                    ways.update(done.split(", "))
    for name, times in sorted(ways.items()):
        print(f"{times:6,} {name}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    wrong = campaign(given.count, given.seed)
    print("\n".join(wrong))
    print(f"{given.count} sequences of either kind, {len(wrong)} wrong.")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
