"""Measure how often the learners notice that a model does not fit, and how often they say so of
data that do fit.

python benchmarks/misfit.py [--draws 20] [--correct 200] [--rows 3000 30000] [--seed 50000]
[--families mixture views ..]

The thresholds were chosen on seeds from 1,000 on; a fair measurement uses others.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from misfit_cases import FAMILIES, share


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--correct", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="+", default=[3_000, 30_000])
    parser.add_argument("--seed", type=int, default=50_000)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES))
    asked = parser.parse_args()
    for family in asked.families:
        kinds = FAMILIES[family][1]
        for n in asked.rows:
            count, by = share(family, None, n, asked.correct, asked.seed)
            print(
                f"{family}, n = {n:,}: {count} of {asked.correct} false alarms"
                f" {by if count else ''}",
                flush=True,
            )
            total = 0
            for kind in kinds:
                count, by = share(family, kind, n, asked.draws, asked.seed)
                total += count
                print(
                    f"    {kind:28} {count:3} of {asked.draws}   {'; '.join(by)[:90]}", flush=True
                )
            print(f"  all kinds: {total / (asked.draws * len(kinds)):.0%} noticed", flush=True)


if __name__ == "__main__":
    main()
