"""The figures of README.md: what lies between its two marks is made from
docs/figures/measured.json.

python benchmarks/readme.py        (``make bench`` does it)
"""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
MEASURED = ROOT / "docs" / "figures" / "measured.json"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
CASES = {
    "curve gaussian 1e6 x 10": "1,000,000 x 10",
    "curve gaussian 1e5 x 30": "100,000 x 30",
    "curve gaussian 1e5 x 53": "100,000 x 53",
}


def table(measured: dict) -> str:
    """One row of numbers: what it takes to build the coresets of three tables."""
    found = {line["case"]: line for line in measured["lines"] if line["what"] == "karat"}
    one_thread = measured["machine"]["clock"] == "process_time"
    heads, cells = (
        [""],
        ["coreset, " + ("one thread" if one_thread else f"{measured['machine']['cores']} cores")],
    )
    for case, name in CASES.items():
        line = found[case]
        seconds = (
            f"{line['seconds'] * 1e3:.0f} ms" if line["seconds"] < 1 else f"{line['seconds']:.1f} s"
        )
        heads.append(name)
        cells.append(f"{line['size']:,} rows in {seconds}, {line['ratio']:.1f} x ({line['of']})")
    rows = [heads, ["---"] * len(heads), cells]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def filled(text: str, measured: dict) -> str:
    """The README with these figures."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table(measured)}\n{END}{rest.partition(END)[2]}"


def main() -> None:
    path = ROOT / "README.md"
    path.write_text(filled(path.read_text(), json.loads(MEASURED.read_text())))


if __name__ == "__main__":
    main()
