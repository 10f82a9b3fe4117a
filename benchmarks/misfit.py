"""Measure how often the learners notice that a model does not fit, and how often they say so of data that do fit.

python benchmarks/misfit.py [draws] [correct draws] [family ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from misfit_cases import FAMILIES, share


def main():
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    correct = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    for family in sys.argv[3:] or FAMILIES:
        for n in (3_000, 30_000):
            count, by = share(family, None, n, correct)
            print(f"{family}, n = {n:,}: {count} of {correct} false alarms {by if count else ''}", flush=True)
            total = 0
            for kind in FAMILIES[family][1]:
                count, by = share(family, kind, n, draws)
                total += count
                print(f"    {kind:28} {count:3} of {draws}   {'; '.join(by)[:90]}", flush=True)
            print(f"  all kinds: {total / (draws * len(FAMILIES[family][1])):.0%} noticed", flush=True)


if __name__ == "__main__":
    main()
