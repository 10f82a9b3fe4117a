"""Counts per family, for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

COLUMNS = ("cases", "exact", "refused", "harmless", "understated", "wrong", "verify", "crashed", "slow")
BAD = ("understated", "wrong", "verify", "crashed", "slow", "oracle")


def counts(results: Iterable[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Family by verdict; "harmless" are refusals of what double precision can evaluate."""
    table: dict[str, dict[str, int]] = {}
    for result in results:
        row = table.setdefault(result["name"].rsplit("/", 1)[0], dict.fromkeys(COLUMNS, 0))
        row["cases"] += 1
        row[result["verdict"]] = row.get(result["verdict"], 0) + 1
        row["harmless"] += bool(result.get("harmless"))
    total = dict.fromkeys(COLUMNS, 0)
    for row in table.values():
        for name, value in row.items():
            total[name] = total.get(name, 0) + value
    return table | {"ALL": total}


def printed(table: dict[str, dict[str, int]]) -> str:
    lines = [f"{'family':16}" + "".join(f"{name:>12}" for name in COLUMNS)]
    for family, row in table.items():
        lines.append(f"{family:16}" + "".join(f"{row[name] or '.':>12}" for name in COLUMNS))
        if row.get("oracle"):
            lines[-1] += f"   ({row['oracle']} where the oracle itself failed)"
    return "\n".join(lines)


def line(result: dict[str, Any], seed: int) -> str:
    """One bad case in one line, with what repeats it."""
    again = f"python -m tests.torture --only {result['name']}" + (f" --seed {seed}" if seed else "")
    return f"{result['verdict']:12}{result['name']:31} {result.get('detail', '')}  [{result.get('about', '')}]  {again}"
