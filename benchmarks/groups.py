"""One coreset per group: 20,000 groups of 100 rows against one scikit-learn fit each, 2,000 of
10,000 against one call.

    python benchmarks/groups.py            a few minutes, 2 GB
    python benchmarks/groups.py --quick    a tenth of the groups

Both sides run in turn, and the best of the rounds counts.  Beside wall time stands the time of the
processor, which other programs disturb less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LinearRegression

import karat

ROUNDS = 3
CELLS = (7300, 1370, 8)  # of a cube of 365 days x 20 regions, 1e7 rows


def best(things: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """Least wall time and processor time of each, in rounds."""
    found = dict.fromkeys(things, (np.inf, np.inf))
    for _ in range(ROUNDS):
        for name, thing in things.items():
            wall, cpu = time.perf_counter(), time.process_time()
            thing()
            spent = (time.perf_counter() - wall, time.process_time() - cpu)
            found[name] = (min(found[name][0], spent[0]), min(found[name][1], spent[1]))
    return found


def rows(groups: int, size: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and labels in order."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((groups * size, columns)) @ (
        np.eye(columns) + 0.3 * rng.standard_normal((columns, columns))
    )
    X += rng.standard_normal(columns)
    return X, X.sum(axis=1) + rng.standard_normal(len(X)), np.repeat(np.arange(groups), size)


def against_fits(groups: int, size: int, columns: int) -> None:
    """A coreset per group beside a fit per group, of which a tenth is timed."""
    X, y, labels = rows(groups, size, columns)
    shuffled = np.random.default_rng(1).permutation(labels)
    some = max(groups // 10, 1)

    def fits() -> None:
        for start in range(0, some * size, size):
            LinearRegression().fit(X[start : start + size], y[start : start + size])

    found = best(
        {
            "fit": fits,
            "in order": lambda: karat.coreset(X, y, groups=labels),
            "shuffled": lambda: karat.coreset(X, y, groups=shuffled),
        }
    )
    fit = tuple(seconds * 1e3 / some for seconds in found.pop("fit"))
    print(
        f"{groups:,} groups of {size:,} rows, d = {columns}: one fit takes {fit[0]:.3f} ms"
        f" (processor {fit[1]:.3f})"
    )
    for name, seconds in found.items():
        wall, cpu = (s * 1e3 / groups for s in seconds)
        print(
            f"    {name:9} {wall:.3f} ms a group (processor {cpu:.3f}), {wall / fit[0]:.2f} x a fit"
            f" ({cpu / fit[1]:.2f})"
        )


def against_one(groups: int, size: int, columns: int) -> None:
    """A coreset per group beside one of all rows."""
    X, y, labels = rows(groups, size, columns)
    shuffled = np.random.default_rng(1).permutation(labels)
    found = best(
        {
            "one": lambda: karat.coreset(X, y),
            "in order": lambda: karat.coreset(X, y, groups=labels),
            "shuffled": lambda: karat.coreset(X, y, groups=shuffled),
        }
    )
    one = found.pop("one")
    print(
        f"{groups:,} groups of {size:,} rows, d = {columns}: one call takes {one[0]:.2f} s"
        f" (processor {one[1]:.2f})"
    )
    for name, (wall, cpu) in found.items():
        print(
            f"    {name:9} {wall:.2f} s (processor {cpu:.2f}), {wall / one[0]:.1f} x one call"
            f" ({cpu / one[1]:.1f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    share = 10 if parser.parse_args().quick else 1
    against_fits(20_000 // share, 100, 5)
    against_one(2_000 // share, 10_000, 5)
    against_fits(CELLS[0] // share, *CELLS[1:])


if __name__ == "__main__":
    main()
