"""The HTML repr of a coreset in a notebook: a headline and one table; all text is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from karat._core import wording
from karat._core.facts import facts
from karat._core.wording import PAGE

if TYPE_CHECKING:
    from karat._core.coreset import Coreset

STYLE = "border-collapse:collapse;font-size:90%"
CELL = "text-align:left;padding:2px 10px 2px 0;vertical-align:top"
HEAD = "border-left:3px solid #b8860b;padding-left:10px"


def coreset_html(core: Coreset) -> str:
    """Write the headline and the summary of a coreset."""
    known = facts(core)
    rows = "".join(
        f'<tr><th style="{CELL}">{escape(name)}</th><td style="{CELL}">{escape(value)}</td></tr>'
        for name, value in (wording.summary(known, PAGE) | wording.details(known, PAGE)).items()
    )
    mark = "&#10003;" if known["exact"] else "&#10007;"
    head = f"<b>{PAGE.count(known['rows'])} &rarr; {PAGE.count(known['kept'])} rows</b> &nbsp; {mark} "
    return f'<div style="{HEAD}">{head}{wording.verdict(known["exact"])}<table style="{STYLE}">{rows}</table></div>'
