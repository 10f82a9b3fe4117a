"""The directive ``{drawn} name``: embeds the figure of ``figures/name.py`` in the page, as SVG.

A script with ``panels`` gives several figures, which stand side by side, or one below the other on
a phone.  The ink becomes ``currentColor``, so that one figure fits the light and the dark theme.
"""

import io
import re
import runpy
from pathlib import Path
from typing import Any, ClassVar

import matplotlib as mpl
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

INK = "#010203"  # replaced by the colour of the surrounding text
STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.5,
    "legend.frameon": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def save(script: Path, target: Any, **options: Any) -> None:
    """Write the figure that ``draw()`` in a script returns."""
    mpl.use("Agg")
    with mpl.rc_context({**STYLE, "svg.hashsalt": script.stem}):
        figure = runpy.run_path(str(script))["draw"](INK)
        figure.savefig(target, transparent=True, **options)


def draw(script: Path) -> list[str]:
    """Draw the figure of a script, or its panels, as SVG for a page."""
    mpl.use("Agg")
    with mpl.rc_context(STYLE):
        names = runpy.run_path(str(script))
        figures = names["panels"](INK) if "panels" in names else [names["draw"](INK)]
        return [
            as_svg(figure, f"{script.stem}-{number}")
            for number, figure in enumerate(figures)
        ]


def as_svg(figure: Any, name: str) -> str:
    """A figure as SVG; its anchors are made of the name, so that no other figure has them."""
    buffer = io.StringIO()
    options: dict[str, Any] = {"bbox_inches": "tight", "metadata": {"Date": None}}
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, transparent=True, format="svg", **options)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"font: ([^;\"]*?)'[^;\"]*", r"font: \1sans-serif", text)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    used = set(re.findall(r"#([\w-]+)", text))
    return re.sub(
        r' id="([\w.-]+)"', lambda found: found[0] if found[1] in used else "", text
    )


class Drawn(SphinxDirective):
    """``{drawn} name`` with the caption as its content."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        script = Path(self.env.srcdir) / "figures" / f"{self.arguments[0]}.py"
        self.env.note_dependency(str(script))
        pictures = draw(script)
        kind = "picture" if len(pictures) == 1 else "panel"
        divs = "".join(f'<div class="{kind}">{picture}</div>' for picture in pictures)
        if not self.content:  # on a card
            return [nodes.raw("", divs, format="html")]
        figure = nodes.figure(classes=["drawn"])
        figure += nodes.raw("", f'<div class="panels">{divs}</div>', format="html")
        caption = nodes.caption()
        inline, messages = self.state.inline_text(" ".join(self.content), self.lineno)
        caption += inline
        figure += caption
        return [figure, *messages]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("drawn", Drawn)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
