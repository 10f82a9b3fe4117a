"""``python -m tests.torture.compare OLD.json NEW.json``: two results of the campaign side by
side.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .families import FAMILIES
from .table import BAD, counts

SHOWN = ("cases", "exact", "harmless", "understated", "wrong", "verify", "crashed", "slow")


def main() -> None:
    both = [json.loads(Path(name).read_text()) for name in sys.argv[1:3]]
    tables = [counts(result["results"]) for result in both]
    print(
        f"{both[0]['version']} | {both[1]['version']}; harmless: refused though double precision"
        " evaluates the moments\n"
    )
    print(f"{'family':16}" + "".join(f"{name:>16}" for name in SHOWN))
    for family in [*FAMILIES, "reported", "ALL"]:
        rows = [table.get(family) for table in tables]
        if any(rows):
            cells = (
                " | ".join(str(row[name] or ".") if row else "" for row in rows) for name in SHOWN
            )
            print(f"{family:16}" + "".join(f"{cell:>16}" for cell in cells))
    before, after = ({r["name"]: r["verdict"] for r in result["results"]} for result in both)
    worse = [
        name
        for name, verdict in after.items()
        if verdict in BAD and before.get(name) in ("exact", "refused")
    ]
    print(f"\nworse than before ({len(worse)}): {' '.join(sorted(worse))}")


if __name__ == "__main__":
    main()
