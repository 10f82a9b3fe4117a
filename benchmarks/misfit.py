"""Measure how often the learners notice that a model does not fit, and how often they say so of
data that do fit: the table of docs/latent.md.

    python benchmarks/misfit.py [--rows 300 3000 30000] [--draws 60 150 60] [--correct 200]
        [--seed 200000] [--families mixture views ..]

Every cell, in per cent: false alarms ("the model does not fit") and "too little data" among draws
of the model; and draws of other laws of which nothing was said, on average and (in brackets) of the
kind that is missed most.  The kinds that are silent in more than 5 % of the draws follow the table.
The thresholds were chosen on seeds from 1,000 on and from 70,000 on; a fair measurement uses
others.
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
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 3_000, 30_000])
    parser.add_argument("--draws", type=int, nargs="+", default=[60, 150, 60], help="for every n")
    parser.add_argument("--correct", type=int, default=200)
    parser.add_argument("--seed", type=int, default=200_000)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES))
    asked = parser.parse_args()
    print("| model | " + " | ".join(f"n = {n:,}" for n in asked.rows) + " |")
    print("|---" * (1 + len(asked.rows)) + "|")
    silent = []
    for family in asked.families:
        kinds, cells = FAMILIES[family][1], []
        for n, draws in zip(asked.rows, asked.draws, strict=True):
            alarms, few, _ = share(family, None, n, asked.correct, asked.seed)
            quiet = []
            for kind in kinds:
                quiet.append(draws - sum(share(family, kind, n, draws, asked.seed)[:2]))
                if quiet[-1] > QUIET * draws:
                    silent.append(f"{family}, {kind}, n = {n:,}: {quiet[-1]} of {draws} silent")
            shares = [alarms / asked.correct, few / asked.correct, sum(quiet) / draws / len(kinds)]
            cells.append(" / ".join(f"{round(100 * x, 1):g}" for x in shares))
            cells[-1] += f" ({round(100 * max(quiet) / draws, 1):g})"
        print(f"| {family} | " + " | ".join(cells) + " |", flush=True)
    print("\n".join(["", *silent]))


if __name__ == "__main__":
    main()
