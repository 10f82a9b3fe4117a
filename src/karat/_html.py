"""The HTML repr of a coreset for notebooks: one small table, everything from the data escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karat._coreset import Coreset

STYLE = "border-collapse:collapse;font-size:90%"
CELL = "text-align:left;padding:2px 10px 2px 0;vertical-align:top"


def coreset_html(core: Coreset) -> str:
    """A headline and a table of the certificate."""
    certificate = core.certificate
    mark = "&#10003; exact" if certificate.ok else "&#10007; not exact"
    facts = {
        "problem": core.problem.describe(),
        "worst loss error over every query": f"{certificate.loss_error:.1e}",
        "size, rank, bound": f"{certificate.size:,}, {certificate.rank:,}, {certificate.bound:,}",
        "weights": f"{core.weights.min():.3g} to {core.weights.max():.3g}, sum {core.weights.sum():.10g}",
        "made by": f"{certificate.method}, {certificate.seconds:.3g} s, passes: {certificate.passes}",
        "kept": certificate.keeps,
        "not kept": "; ".join(certificate.excludes),
    }
    if certificate.notes:
        facts["note"] = " ".join(certificate.notes)
    rows = "".join(
        f'<tr><th style="{CELL}">{escape(name)}</th><td style="{CELL}">{escape(value)}</td></tr>'
        for name, value in facts.items()
    )
    head = f"<b>{core.n_rows:,} &rarr; {len(core):,} rows</b> &nbsp; {mark}"
    return f'<div>{head}<table style="{STYLE}">{rows}</table></div>'
