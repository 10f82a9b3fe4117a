"""``python -m tests.torture.kinds``: the eight kinds of data on which karat 0.2.0 said ok and its
claim was false.

1  a column beside its floored copy           5  sums of equal products
2  squares below the range of doubles         6  R2 near 1: standard errors
3  twins that differ in a few rare rows       7  harmless twins, which were refused
4  weights at both ends of the range          8  features that depend on the other rows of the block

Every variant is a case of a newer family of the campaign, through every way in.  Kind 4 must be
exact or refused, kind 8 refused with an InputError.  In the others a refusal is a shame
("harmless") if Householder QR of all rows in doubles has not lost the fitted values, and is no
shame if it has.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from .families import FAMILIES
from .pool import ROOT, run
from .table import BAD, line

KINDS = {
    1: "floored",
    2: "underflow",
    3: "rare-twins",
    4: "ends",
    5: "equal-products",
    6: "good-fit",
    7: "harmless-twins",
    8: "blockwise",
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture.kinds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--variants", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", help="one or several, by commas")
    parser.add_argument(
        "--src", type=Path, default=ROOT / "src", help="the source tree of the karat to judge"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write every verdict there")
    parser.add_argument("--refusals", action="store_true", help="print harmless refusals too")
    options = parser.parse_args()
    chosen = [int(k) for k in options.kind.split(",")] if options.kind else list(KINDS)
    names = [f"{KINDS[k]}/{i}" for i in range(options.variants) for k in chosen]
    start = time.monotonic()
    stream = run(names, options.src.resolve(), options.seed, options.processes)
    home = next(stream)
    print(f"karat {home['version']} in {home['ready']}, {len(names):,} variants", flush=True)
    results = list(stream)
    titles = ("variants", "accepted", "refused", "QR fails too", "harmless", "violations")
    widths = (10, 10, 10, 14, 10, 12)
    print(f"\n{'kind':22}" + "".join(f"{t:>{w}}" for t, w in zip(titles, widths, strict=True)))
    violations = []
    for kind in chosen:
        own = [r for r in results if r["name"].rsplit("/", 1)[0] == KINDS[kind]]
        bad = [r for r in own if r["verdict"] in BAD]
        refused = [r for r in own if r["verdict"] == "refused"]
        accepted = (
            len(own)
            - len(refused)
            - sum("accepted" not in r.get("detail", "") and r["verdict"] == "crashed" for r in bad)
        )
        shame = sum(bool(r.get("harmless")) for r in refused)
        excused = (
            ""
            if FAMILIES[KINDS[kind]].lax or FAMILIES[KINDS[kind]].refusal
            else str(len(refused) - shame)
        )
        shown = str(shame) if excused else ""
        title = f"{kind} {KINDS[kind]}"
        print(
            f"{title:22}{len(own):>10}{accepted:>10}{len(refused):>10}{excused:>14}{shown:>10}{len(bad):>12}"
        )
        violations += bad
    print(f"\n{time.monotonic() - start:.0f} s in {options.processes} processes\n")
    for result in results:
        if result in violations or (options.refusals and result.get("harmless")):
            print(line(result, options.seed))
    if options.json:
        options.json.write_text(
            json.dumps({"version": home["version"], "seed": options.seed, "results": results})
        )
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
