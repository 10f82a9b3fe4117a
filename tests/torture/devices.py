"""``python -m tests.torture.devices``: the families of degree 2 as PyTorch tensors, whose sums are
made where they lie.

    python -m tests.torture.devices --device cpu     everywhere; tensors are read as if elsewhere
    python -m tests.torture.devices --device cuda    on an accelerator

The judge reads the same rows as NumPy arrays.  Blocks are short, so that every table has several;
batches of sketches are summed on the device, however few rows they have.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from . import ways
from .arithmetic import extended
from .cases import Case, draw, squared
from .families import interleaved, names
from .judge import BAD, judge
from .made import SQUARES

LONGEST = 200_000  # rows of a case
NUMBERS = 2**13  # of a block on the device


def prepare(device: str) -> None:
    """Let karat read tensors on the device, in short blocks, and the campaign make them."""
    import torch

    from karat.compat import array_api
    from karat.engine import device as engine
    from karat.stream import sketch

    engine.NUMBERS, sketch.AT_ONCE = NUMBERS, 0
    if device == "cpu":
        array_api.on_host = lambda array: False

    def tensor(values: Any) -> Any:
        return None if values is None else torch.tensor(np.ascontiguousarray(values), device=device)

    def moved(case: Case) -> Case:
        return replace(case, X=tensor(case.X), y=tensor(case.y))

    build, verify, again = ways.build, ways.verify, ways.again
    ways.build = lambda case: build(moved(case))
    ways.verify = lambda core, case: verify(core, moved(case))
    ways.again = lambda core, case: again(core, moved(case))


def cases(count: int, seed: int, rows: str) -> list[Case]:
    """Dense tables of the families, in memory, merged or in a stream."""
    found = []
    for name in interleaved(names(count, ",".join(SQUARES))):
        case = draw(name, seed, rows)
        if case.way["kind"] == "files":
            case.way = {"kind": "memory"}
        dense = not sparse.issparse(case.X) and case.X.dtype.kind == "f"
        if dense and case.count <= LONGEST and case.spec == squared(case.spec):
            found.append(case)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture.devices",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="cpu", help="of the tensors: cpu, cuda, cuda:1, ...")
    parser.add_argument("--cases", type=int, default=1000, help="of each kind of rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after so many")
    options = parser.parse_args()
    if not extended():
        print("The oracles need a long double of 64 bits; this machine has none.")
        return 2
    prepare(options.device)
    start, verdicts, bad = time.monotonic(), Counter(), []
    for pair in zip(
        *(cases(options.cases, options.seed, rows) for rows in ("real", "synthetic")), strict=False
    ):
        for case in pair:
            verdict = judge(case)
            verdicts[case.rows, verdict.verdict] += 1
            if verdict.verdict in BAD:
                bad.append(verdict)
                print(
                    f"{verdict.name} {case.rows}: {verdict.verdict}, {verdict.detail}", flush=True
                )
        if time.monotonic() - start > options.seconds:
            print("Stopped before the end.")
            break
    for (rows, verdict), count in sorted(verdicts.items()):
        print(f"{rows:10} {verdict:12} {count:6,}")
    print(f"{sum(verdicts.values()):,} cases on {options.device}, {len(bad)} bad")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
