"""Formulas as MathML, which browsers render without scripts or network and screen readers can read.

The font is STIX Two Math, copied at build time from the package ``ziamath``.
"""

import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

MATHML = "http://www.w3.org/1998/Math/MathML"
FONT = "STIXTwoMath-Regular.ttf"
BELOW = {
    "min",
    "max",
    "sup",
    "inf",
    "lim",
}  # in displayed formulas their index is below them


def mathml(latex: str, display: bool) -> str:
    """Convert a formula; ``latex`` may have several lines, aligned at ``&``."""
    if "\\\\" in latex and not latex.lstrip().startswith("\\begin"):
        latex = f"\\begin{{align*}}{latex}\\end{{align*}}"
    ElementTree.register_namespace("", MATHML)
    tree = ElementTree.fromstring(
        convert(latex, display="block" if display else "inline")
    )
    for bar in tree.iter(f"{{{MATHML}}}mo"):
        if (bar.text or "").strip() == "|":  # a delimiter, not an operator
            bar.attrib.update(lspace="0", rspace="0", stretchy="false")
    for index in tree.iter(f"{{{MATHML}}}msub"):
        if display and (index[0].text or "").strip() in BELOW:
            index.tag = f"{{{MATHML}}}munder"
    return ElementTree.tostring(tree, encoding="unicode")


def visit_math(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext(), display=False))
    raise nodes.SkipNode


def visit_block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="formula"))
    writer.body.append(mathml(node.astext(), display=True) + "</div>\n")
    raise nodes.SkipNode


def copy_font(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        with (
            (files("ziamath") / "fonts" / FONT).open("rb") as source,
            (Path(app.outdir) / "_static" / FONT).open("wb") as target,
        ):
            shutil.copyfileobj(source, target)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_block, None))
    app.config.html_math_renderer = "mathml"
    app.connect("build-finished", copy_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
