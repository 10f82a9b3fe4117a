"""``python -m tests.torture``: run the campaign, print the table and every bad case."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .arithmetic import extended
from .families import FAMILIES, NEWER, interleaved, names
from .made import SQUARES
from .pool import ROOT, run
from .reported import REPORTED
from .table import BAD, beside, counts, line, printed

CASES = 10_000
MORE = 2_300  # of the newer families
HARMLESS = 0.0015  # of the cases of the older families


def stopped(stream: Iterator[dict]) -> Iterator[dict]:
    """The results, up to the moment at which somebody stops the campaign: what is there is
    printed.
    """

    def stop(*_) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        yield from stream
    except KeyboardInterrupt:
        print("\nStopped before the end.")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES, help="how many, over all families")
    parser.add_argument(
        "--newer", type=int, default=MORE, help="how many more, over all newer families"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--family", help=f"one or several, by commas: {', '.join(FAMILIES)}, reported"
    )
    parser.add_argument("--only", help="names of cases, by commas: pareto/17,reported/heavy-tails")
    parser.add_argument(
        "--src", type=Path, default=ROOT / "src", help="the source tree of the karat to judge"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write every verdict there")
    parser.add_argument(
        "--keep", type=Path, help="save wrong coresets there, for tests.torture.refute"
    )
    parser.add_argument(
        "--synthetic", action="store_true", help="made rows, in the families of degree 2"
    )
    parser.add_argument("--refusals", action="store_true", help="print harmless refusals too")
    options = parser.parse_args()
    if not extended():
        print("The oracles need a long double of 64 bits; this machine has none.")
        return 2
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    if options.only:
        chosen = options.only.split(",")
    else:
        chosen = (
            interleaved(names(options.cases, options.family, options.newer))
            if options.family != "reported"
            else []
        )
        if options.synthetic:
            chosen = [name for name in chosen if name.rsplit("/", 1)[0] in SQUARES]
        elif options.family is None or "reported" in options.family.split(","):
            chosen += [f"reported/{name}" for name in REPORTED]
    start, results = time.monotonic(), []
    keep = str(options.keep.resolve()) if options.keep else ""
    kind = "synthetic" if options.synthetic else "real"
    stream = run(chosen, options.src.resolve(), options.seed, options.processes, keep, rows=kind)
    home = next(stream)
    partial = options.json.with_suffix(".jsonl").open("w", buffering=1) if options.json else None
    print(f"karat {home['version']} in {home['ready']}, {len(chosen):,} cases", flush=True)
    for result in stopped(stream):
        results.append(result)
        if partial:
            partial.write(json.dumps(result) + "\n")
        if options.only:
            print(json.dumps(result, indent=1))
        elif sys.stderr.isatty() and len(results) % 20 == 0:
            print(f"\r{len(results):,} of {len(chosen):,}", end="", file=sys.stderr)
    order = [*FAMILIES, "reported"]
    results.sort(key=lambda r: order.index(r["name"].rsplit("/", 1)[0]))
    parts = [
        [r for r in results if (r["name"].rsplit("/", 1)[0] in NEWER) is newer]
        for newer in (False, True)
    ]
    for title, part in zip(("families", "newer families"), parts, strict=True):
        if part:
            print(f"\n{title}\n{printed(counts(part))}")
    if options.synthetic:
        print(f"\nrefusals beside those of real rows\n{beside(results)}")
    print(f"\n{time.monotonic() - start:.0f} s in {options.processes} processes\n")
    for result in results:
        refusal = result["verdict"] == "refused" and result.get("harmless")
        if result["verdict"] in BAD or (refusal and options.refusals):
            print(line(result, options.seed))
    refused = [
        [r["name"] for r in part if r["verdict"] == "refused" and r.get("harmless")]
        for part in parts
    ]
    for title, part, own in zip(("families", "newer families"), parts, refused, strict=True):
        if part:
            share = f"{len(own)}, {100 * len(own) / len(part):.2f} %"
            print(f"\nRefused though harmless, {title} ({share}): {' '.join(own)}")
    if partial:
        partial.close()
        head = {"version": home["version"], "seed": options.seed, "cases": len(results)}
        options.json.write_text(json.dumps(head | {"results": results}))
    # made rows need more digits than real ones: refusals are counted
    most = 1.0 if options.synthetic else HARMLESS
    return int(any(r["verdict"] in BAD for r in results) or len(refused[0]) > most * len(parts[0]))


if __name__ == "__main__":
    sys.exit(main())
