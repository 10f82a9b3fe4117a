"""Measure how often the learners notice that a model does not fit, and how often they say so of
data that do fit: the table of docs/latent.md.

python benchmarks/misfit.py [--draws 20] [--correct 100] [--rows 300 .. 30000] [--seed 50000]
[--families mixture views ..]

Every cell: false alarms ("the model does not fit") and "too little data" among draws of the model,
and draws of other laws of which nothing was said, in per cent.  The kinds of misfit of which more
than 5 % of the draws are silent follow the table.  The thresholds were chosen on seeds from 1,000
on and from 70,000 on; a fair measurement uses others.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from misfit_cases import FAMILIES, share

QUIET = 0.05  # share of silent draws from which a kind of misfit is named


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--correct", type=int, default=100)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1_000, 3_000, 10_000, 30_000])
    parser.add_argument("--seed", type=int, default=50_000)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES))
    asked = parser.parse_args()
    print("| model | " + " | ".join(f"n = {n:,}" for n in asked.rows) + " |")
    print("|---" * (1 + len(asked.rows)) + "|")
    silent = []
    for family in asked.families:
        kinds, cells = FAMILIES[family][1], []
        for n in asked.rows:
            alarms, few, _ = share(family, None, n, asked.correct, asked.seed)
            missed = 0
            for kind in kinds:
                misfit, too_few, _ = share(family, kind, n, asked.draws, asked.seed)
                quiet = asked.draws - misfit - too_few
                missed += quiet
                if quiet > QUIET * asked.draws:
                    silent.append(f"{family}, {kind}, n = {n:,}: {quiet} of {asked.draws} silent")
            cells.append(
                f"{alarms / asked.correct:.0%} / {few / asked.correct:.0%} /"
                f" {missed / (asked.draws * len(kinds)):.0%}"
            )
        print(f"| {family} | " + " | ".join(cells) + " |", flush=True)
    print("\n".join(["", *silent]))


if __name__ == "__main__":
    main()
