"""The directives ``{kept} Ridge(1.0)`` and ``{kept-table}``: tables of what problems keep, made from the code."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import karat
from karat import problems

COLUMNS = (5, 10, 20)
ONE_PASS = "yes, so one pass is enough for streams, files and clusters"
TWO_PASSES = "no: the features depend on all rows, so two passes"
IN_MEMORY = "yes; sketches, files and clusters take the inner problem, and rows that are transformed already"
NOT_SAVED = "no: load it with karat.load(path, problem=...)"
UNKNOWN = {  # sizes that depend on more than the number of columns
    "Kernel": (
        "the number of features, and one more for the total weight",
        "features + 1",
    ),
    "GroupedLogistic": ("the number of points, and the rank of (X, 1)", "points + 11"),
}
EVERYTHING = {
    "least-squares": "LeastSquares()",
    "ridge": "Ridge(1.0)",
    "lp-regression": "LpRegression(4)",
    "moments": "Moments(2)",
    "tensor-contraction": "TensorContraction(3)",
    "mean": "Mean()",
    "kernel": "Kernel(lambda X: X)",
    "grouped-logistic": "GroupedLogistic([[0.0], [1.0]])",
    "transformed": "Transformed(LeastSquares(), lambda X: X)",
    "gaussian-mixture": "GaussianMixture(4)",
    "single-topic": "SingleTopic(4)",
    "latent-dirichlet": "LatentDirichlet(4, 1.0)",
    "hidden-markov": "HiddenMarkov(4)",
    "multi-view": "MultiView(4)",
    "ica": "ICA(4)",
}


def problem_of(expression: str) -> problems.Problem:
    """Make a problem from a Python expression."""
    value = eval(expression, dict(vars(problems)))
    assert isinstance(value, problems.Problem), expression
    return value


def sizes(problem: problems.Problem) -> str:
    """The most rows a coreset can have, for a few numbers of columns."""
    try:
        rows = [karat.plan(problem, 10**9, d).rows for d in COLUMNS]
    except karat.InputError:
        return UNKNOWN[type(problem).__name__][0]
    if len(set(rows)) == 1:
        return f"{rows[0]:,}, for any d"
    return ", ".join(
        f"{count:,} (d = {d})" for count, d in zip(rows, COLUMNS, strict=True)
    )


def facts(expression: str) -> dict[str, str | list[str]]:
    """The facts about a problem, from the code."""
    problem = problem_of(expression)
    of = "" if type(problem).__name__ in UNKNOWN else f", for {expression}"
    return {
        "Kept": capitalised(problem.keeps),
        "Not kept": [capitalised(what) for what in problem.excludes],
        "Rows, at most": sizes(problem) + of,
        "Target": "yes" if problem.needs_target else "none",
        "Parts merge": IN_MEMORY
        if problem.transform is not None
        else ONE_PASS
        if problem.mergeable
        else TWO_PASSES,
        "Saved with the coreset": "yes" if problem.storable else NOT_SAVED,
    }


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def cell(content: str | list[str]) -> nodes.entry:
    if isinstance(content, str):
        return nodes.entry("", nodes.paragraph("", content))
    items = [nodes.list_item("", nodes.paragraph("", item)) for item in content]
    return nodes.entry("", nodes.bullet_list("", *items))


def table(
    rows: list[list[nodes.entry]], widths: list[int], header: list[str] | None = None
) -> nodes.table:
    group = nodes.tgroup(
        "", *(nodes.colspec(colwidth=w) for w in widths), cols=len(widths)
    )
    if header:
        group += nodes.thead("", nodes.row("", *(cell(h) for h in header)))
    group += nodes.tbody("", *(nodes.row("", *row) for row in rows))
    return nodes.table("", group, classes=["kept"])


class Kept(SphinxDirective):
    """A table about one problem."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        rows = []
        for name, content in facts(self.arguments[0]).items():
            rows.append(
                [
                    nodes.entry("", nodes.paragraph("", "", nodes.strong("", name))),
                    cell(content),
                ]
            )
        return [table(rows, [22, 78])]


class KeptTable(SphinxDirective):
    """A table of all problems, with links to their pages."""

    def run(self) -> list[nodes.Node]:
        rows = []
        for page, expression in EVERYTHING.items():
            said = facts(expression)
            link = nodes.reference("", "", internal=True, refuri=f"{page}.html")
            link += nodes.literal("", type(problem_of(expression)).__name__)
            assert isinstance(said["Kept"], str)
            rows.append(
                [
                    nodes.entry("", nodes.paragraph("", "", link)),
                    cell(said["Kept"]),
                    cell(sizes_at_ten(expression)),
                ]
            )
        return [
            table(
                rows,
                [20, 62, 18],
                ["problem", "kept", "rows, at most, for d = 10 (and k = 4)"],
            )
        ]


def sizes_at_ten(expression: str) -> str:
    try:
        return f"{karat.plan(problem_of(expression), 10**9, 10).rows:,}"
    except karat.InputError:
        return UNKNOWN[type(problem_of(expression)).__name__][1]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("kept", Kept)
    app.add_directive("kept-table", KeptTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
