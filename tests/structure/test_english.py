"""Messages and docstrings are plain English.

Each pattern is a phrase of an earlier version that read as translated, or a word for which the
field has another, such as integer, boolean and fit.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import karat

PACKAGE = Path(karat.__file__).parent
PHRASES = [
    r"whole numbers?",
    r"truth values?",
    r"(a few|some) of the own\b",
    r"ends at the same answer",
    r"by lot\b",
    r"single persons",
    r"\bWho pays",
    r"where the data is",
    r"cells that they concern",
    r"\bcame by\b",
    r"\bteach(es)? them\b",
    r"\basked again\b",
    r"This way go\b",
    r"without thought\b",
    r"beside the rounding",
    r"other than of\b",
    r"what is fitted on them sees",
    r"How unlike\b",
    r"they count up\b",
    r"is seen from\b",
    r"with the second and\b",
    r"needs clusters\. It needs",
    r"for one value's sake",
    r"\bWork beside\b",
    r"pictures know\b",
    r"\bper cent\b",
    r"hand(ed|s)? on\b.*\brounding",
    r"\bgoes? the ordinary way\b",
    r"\bbeside the (data|fixed|columns of)\b",
    r"\bof no known\b",
    r"\bis still that of\b",
    r"\bhas another one\b",
    r"\bgoes on from it\b",
    r"\blooked for\.",
    r"\bare not seen\b",
    r"\bis other data\b",
    r"\bThreads against\b",
    r"\bfor anybody without\b",
    r"\bwho would rather\b",
    r"\bcopy of the repository write\b",
    r"\beverything counted\b",
    r"\band its kin\b",
    r"\bgoes the other way round\b",
    r"\bmakes the size of\b",
    r"\b(map|treat)s? every row by itself\b",
    r"\bwrite `\.` for\b",
]
PATTERN = re.compile("|".join(PHRASES))


def texts(source: str):
    """Line and text of every string of a module, the constant parts of f-strings among them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, re.sub(r"\s+", " ", node.value)


ROOMS = sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")})


@pytest.mark.parametrize("room", ROOMS)
def test_messages_and_docstrings_are_plain_english(room):
    place = PACKAGE / room
    paths = [place] if place.suffix == ".py" else sorted(place.rglob("*.py"))
    hits = [
        f"{path.relative_to(PACKAGE)}:{line}: {hit[0]!r}"
        for path in paths
        for line, text in texts(path.read_text(encoding="utf-8"))
        if (hit := PATTERN.search(text))
    ]
    assert not hits, "\n".join(hits)


PROJECT = Path(__file__).parents[2]
PAGES = [
    PROJECT / "README.md",
    *(p for p in sorted((PROJECT / "docs").rglob("*.md")) if "_build" not in p.parts),
]


def test_pages_are_plain_english():
    hits = [
        f"{path.relative_to(PROJECT)}:{number}: {hit[0]!r}"
        for path in PAGES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (hit := PATTERN.search(line))
    ]
    assert not hits, "\n".join(hits)
