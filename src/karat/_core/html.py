"""The HTML representation of a coreset in notebooks; everything that comes from the data is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from karat._core.facts import facts
from karat._core.wording import count, duration, error, number

if TYPE_CHECKING:
    from karat._core.coreset import Coreset

STYLE = "border-collapse:collapse;font-size:90%"
CELL = "text-align:left;padding:2px 10px 2px 0;vertical-align:top"
HEAD = "border-left:3px solid #b8860b;padding-left:10px"


def coreset_html(core: Coreset) -> str:
    """A headline and a table of the certificate."""
    known = facts(core)
    certificate, weights = known["certificate"], known["weights"]
    mark = "&#10003; exact" if known["exact"] else "&#10007; not exact"
    lines = {
        "problem": known["problem"],
        "worst loss error over every query": error(certificate["loss_error"]),
        "size, rank, bound, peeled": ", ".join(count(certificate[name]) for name in ("size", "rank", "bound", "peeled")),
        "weights": f"{number(weights['min'])} to {number(weights['max'])}, sum {number(weights['sum'], 10)}",
        "made by": f"{certificate['method']}, {duration(certificate['seconds'])}, passes: {certificate['passes']}",
        "kept": known["keeps"],
        "not kept": "; ".join(known["excludes"]),
    }
    if known["groups"] is not None:
        lines["groups"] = count(known["groups"])
    if known["notes"]:
        lines["note"] = " ".join(known["notes"])
    rows = "".join(
        f'<tr><th style="{CELL}">{escape(name)}</th><td style="{CELL}">{escape(value)}</td></tr>'
        for name, value in lines.items()
    )
    head = f"<b>{count(known['rows'])} &rarr; {count(known['kept'])} rows</b> &nbsp; {mark}"
    return f'<div style="{HEAD}">{head}<table style="{STYLE}">{rows}</table></div>'
