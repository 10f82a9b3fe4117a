"""Rows on an accelerator, beside D'D there, sums without a bound, and karat on the host's cores.

    python benchmarks/device.py                    all cases on a CUDA device: about two minutes
    python benchmarks/device.py --only synthetic   or real, sums
    python benchmarks/device.py --quick --device cpu   small sizes, to see that it runs
    python benchmarks/device.py --json FILE        and the results there

Needs PyTorch, NumPy, SciPy and array-api-compat, and karat on the path (PYTHONPATH=src).  Times are
medians of 5, in milliseconds, with the device synchronised.  "pass" is the proven sums alone;
"proof" is what the host takes to bound the rounding of the sums, to prove made rows and to bound
the errors of coefficients, and "rows" all the rest of a coreset, to which the limits apply (to all
of it for real rows).
"unproven" is one product a block of 2^18 rows, added up without a bound on rounding.  Memory on
the device is what is taken beyond the data; on the host, how much the peak of the process grew.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

import karat
import karat.core.synthetic as core_synthetic
import karat.engine.synthetic as engine_synthetic
from karat.compat import array_api
from karat.engine import device, second_moments
from karat.engine.device import DeviceBlocks, DevicePart
from karat.engine.rows import Rows

WARM_UP, REPEATS = 3, 5
UNPROVEN = 2**18  # rows of a block whose sums have no bound
MOST_ON_HOST = 1.2e9  # numbers
# kind of rows, rows, columns, milliseconds that are allowed
CASES = [
    ("synthetic", 10_000_000, 10, 6),
    ("synthetic", 100_000_000, 10, 40),
    ("synthetic", 1_000_000, 100, 8),
    ("synthetic", 1_000_000, 1000, 200),
    ("real", 10_000_000, 10, 30),
    ("real", 1_000_000, 30, 150),
]
SUMS = [(10_000_000, 11), (4_000_000, 31), (2_000_000, 62), (1_000_000, 101), (200_000, 301)]


def synchronise(place: torch.device) -> None:
    if place.type == "cuda":
        torch.cuda.synchronize(place)


def median_ms(
    action: Callable[[], Any], place: torch.device, warm_up: int = WARM_UP, repeats: int = REPEATS
) -> tuple[float, Any]:
    """Median milliseconds of an action, after calls that are not timed; and its last result."""
    times: list[float] = []
    for _ in range(warm_up):
        result = action()
    for _ in range(repeats):
        synchronise(place)
        start = time.perf_counter()
        result = action()
        synchronise(place)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times), result


def table(rows: int, columns: int, place: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Normal columns and a target, made on the device."""
    torch.manual_seed(0)
    X = torch.empty(rows, columns, dtype=torch.float64, device=place)
    for start in range(0, rows, 2**20):
        X[start : start + 2**20].normal_()
    y = 2 * X[:, 0] + 1
    y += torch.randn(rows, dtype=torch.float64, device=place)
    return X, y


def unproven(X: torch.Tensor, y: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """Second moments by one product a block."""
    columns = X.shape[1] + 2
    total = torch.zeros(columns, columns, dtype=torch.float64, device=X.device)
    for start in range(0, len(X), UNPROVEN):
        some = slice(start, start + UNPROVEN)
        block = torch.cat([torch.ones_like(y[some, None]), X[some], y[some, None]], 1) - shift
        total.addmm_(block.T, block)
    return total


def peak_of_host() -> float:
    """The most memory that the process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def proof_clock() -> Iterator[list[float]]:
    """Milliseconds that go into the proof of made rows and into their certificate, call by call."""
    spent: list[float] = []
    homes = (
        (second_moments, "expected_rounding"),
        (engine_synthetic, "measure"),
        (core_synthetic, "certify_made"),
    )
    originals = [getattr(module, name) for module, name in homes]

    def timed(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        result = function(*args, **options)
        spent.append(1e3 * (time.perf_counter() - start))
        return result

    for (module, name), function in zip(homes, originals, strict=True):
        setattr(module, name, partial(timed, function))
    try:
        yield spent
    finally:
        for (module, name), function in zip(homes, originals, strict=True):
            setattr(module, name, function)


def measured(kind: str, rows: int, columns: int, limit: float, place: torch.device) -> dict:
    """One case."""
    X, y = table(rows, columns, place)
    start, before = peak_of_host(), 0
    if place.type == "cuda":
        before = torch.cuda.memory_allocated(place)
        torch.cuda.reset_peak_memory_stats(place)
    whole, core = median_ms(lambda: karat.coreset(X, y, rows=kind), place)
    found: dict[str, Any] = {"kind": kind, "rows": rows, "columns": columns, "limit": limit}
    found |= {"ms": whole, "size": len(core), "error": core.certificate.loss_error}
    if kind == "synthetic":
        with proof_clock() as spent:
            both = median_ms(lambda: karat.coreset(X, y, rows=kind), place)[0]
        found["proof_ms"] = sum(spent) / (WARM_UP + REPEATS)
        found["rows_ms"] = both - found["proof_ms"]
    found["host_mb"] = peak_of_host() - start
    if place.type == "cuda":
        found["device_mb"] = (torch.cuda.max_memory_allocated(place) - before) / 2**20
        found["data_mb"] = before / 2**20
    found["verify_ms"], seen = median_ms(lambda: core.verify(X, y), place)
    assert core.certificate.ok
    assert seen.ok
    shift = np.append(X[:2048].mean(dim=0).cpu().numpy(), float(y[:2048].mean()))
    data = Rows([DevicePart(X), DevicePart(y[:, None])])
    found["pass_ms"] = median_ms(lambda: device.squares(data, shift, True), place)[0]
    moved = torch.tensor(np.append(0.0, shift), device=place)
    found["unproven_ms"] = median_ms(lambda: unproven(X, y, moved), place)[0]
    found["product_ms"] = median_ms(lambda: X.T @ X, place)[0]
    if X.numel() <= MOST_ON_HOST:
        on_host = X.cpu().numpy(), y.cpu().numpy()
        found["host_ms"] = median_ms(lambda: karat.coreset(*on_host, rows=kind), place, 1, 3)[0]
    return found


def summed(way: Callable[..., Any], blocks: DeviceBlocks) -> list[Any]:
    return [way(blocks, block, None) for _, block, _ in blocks]


def sums(rows: int, columns: int, place: torch.device) -> dict:
    """The two ways of proven sums, side by side: which is faster at so many columns?"""
    X, _ = table(rows, columns, place)
    blocks = DeviceBlocks(Rows([DevicePart(X)]), np.zeros(columns), ones=False)
    found: dict[str, Any] = {"kind": "sums", "rows": rows, "columns": columns}
    ways = {"pieces_ms": device.products_of_pieces, "exact_ms": device.exact_products}
    for name, way in ways.items():
        action = partial(summed, way, blocks)
        found[name] = median_ms(action, place)[0]
    return found


def line(found: dict) -> str:
    parts = [f"{found['kind']:10}{found['rows']:>12,} x {found['columns']:<5}"]
    parts += [
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in found.items()
        if name not in ("kind", "rows", "columns")
    ]
    if "limit" in found:
        parts.append("met" if found.get("rows_ms", found["ms"]) <= found["limit"] else "MISSED")
    return "  ".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", help="kinds, by commas: synthetic, real, sums")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows")
    parser.add_argument("--json", help="write the results there")
    options = parser.parse_args()
    place = torch.device(options.device)
    if place.type == "cpu":  # read it as if it were elsewhere
        array_api.on_host = lambda array: False
    else:
        print(torch.cuda.get_device_name(place), "PyTorch", torch.__version__)
    chosen = (options.only or "synthetic,real,sums").split(",")
    share, results = 100 if options.quick else 1, []
    runs = [
        *(lambda c=case: measured(c[0], c[1] // share, *c[2:], place) for case in CASES
          if case[0] in chosen),
        *(lambda c=case: sums(c[0] // share, c[1], place) for case in SUMS if "sums" in chosen),
    ]  # fmt: skip
    for run in runs:
        results.append(run())
        print(line(results[-1]), flush=True)
        if place.type == "cuda":
            torch.cuda.empty_cache()
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
