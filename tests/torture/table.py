"""Counts per family, for people."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

COLUMNS = (
    "cases",
    "exact",
    "refused",
    "harmless",
    "understated",
    "wrong",
    "verify",
    "crashed",
    "slow",
)
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


def beside(results: Iterable[dict[str, Any]]) -> str:
    """Refusals of made rows and of real ones, family by family where there are any, and the reasons
    of the former.
    """
    table: dict[str, dict[tuple[bool, bool], int]] = {}
    reasons: dict[str, int] = {}
    for result in results:
        made, real = result["verdict"] == "refused", result.get("real", "exact") != "exact"
        row = table.setdefault(result["name"].rsplit("/", 1)[0], {})
        row[made, real] = row.get((made, real), 0) + 1
        if made and not real:
            word = re.sub(r"[-+]?\d[\d.,e+-]*|(?<=[Cc]olumn )\w+", "#", result["detail"])[:100]
            reasons[word] = reasons.get(word, 0) + 1
    kinds = {"made only": (True, False), "both": (True, True), "real only": (False, True)}
    total = {
        "ALL": {kind: sum(row.get(kind, 0) for row in table.values()) for kind in kinds.values()}
    }
    lines = [f"{'family':16}" + "".join(f"{name:>12}" for name in kinds)]
    for family, row in (table | total).items():
        if any(row.get(kind) for kind in kinds.values()) or family == "ALL":
            lines.append(
                f"{family:16}" + "".join(f"{row.get(kind) or '.':>12}" for kind in kinds.values())
            )
    return "\n".join(
        lines
        + [
            f"{count:6} {reason}"
            for reason, count in sorted(reasons.items(), key=lambda one: -one[1])
        ]
    )


def line(result: dict[str, Any], seed: int) -> str:
    """One bad case in one line, with what repeats it."""
    again = f"python -m tests.torture --only {result['name']}" + (f" --seed {seed}" if seed else "")
    again += " --synthetic" if result.get("real") else ""
    return (
        f"{result['verdict']:12}{result['name']:31} {result.get('detail', '')} "
        f" [{result.get('about', '')}]  {again}"
    )
