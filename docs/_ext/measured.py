"""The directive ``{measured} word``: a table of the measurements of ``make bench`` whose case begins with a word.

They are in ``figures/measured.json``, or in the file of that folder that ``:file:`` names.
"""

import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

CLOCKS = {"perf_counter": "wall time", "process_time": "processor time on one thread"}


def amount(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def asked(line: dict[str, Any]) -> str:
    if line["limit"] is None:
        return ""
    return f"{'at least' if line['at_least'] else 'at most'} {line['limit']:g} x: {'met' if line['met'] else 'missed'}"


def table(lines: list[dict[str, Any]], tools: bool) -> list[str]:
    """The lines as a Markdown table; of several tools, the names of these."""
    rows = ["| case | what | time | ratio | asked |", "|---|---|---|---|---|"]
    for line in lines:
        if line["seconds"] is None:
            continue
        ratio = "" if line["ratio"] is None else f"{line['ratio']:.3g} x {line['of']}"
        case = line["case"].split(" ", 1)[1]
        what = line["what"] if tools else line["note"] or line["what"]
        rows.append(
            f"| {case} | {what} | {amount(line['seconds'])} | {ratio} | {asked(line)} |"
        )
    return rows


class Measured(SphinxDirective):
    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "file": directives.unchanged,
        "tools": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        name = self.options.get("file", "measured.json")
        path = Path(self.env.srcdir) / "figures" / name
        self.env.note_dependency(str(path))
        known = json.loads(path.read_text(encoding="utf-8"))
        chosen = [
            line
            for line in known["lines"]
            if line["case"].split(" ")[0] == self.arguments[0]
        ]
        about = known["machine"]
        text = [
            *table(chosen, "tools" in self.options),
            "",
            f"{about['cores']} cores, {CLOCKS[about['clock']]}, NumPy {about['numpy']}.",
        ]
        node = nodes.container()
        self.state.nested_parse(StringList(text), self.content_offset, node)
        return node.children


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("measured", Measured)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
