"""The options that make a problem, such as ``--problem ridge --alpha 10``.

:data:`KINDS` is the table of the problems: the class, the parameter for each option, and the
required options.  An option that the problem does not have is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karat.errors import InputError

if TYPE_CHECKING:
    from karat.problems import Problem

problem_option = partial(typer.Option, rich_help_panel="What must be kept")


class Name(StrEnum):
    """Names of the problems on the command line."""

    LEAST_SQUARES = "least-squares"
    RIDGE = "ridge"
    LP = "lp"
    MOMENTS = "moments"
    MEAN = "mean"
    TENSOR = "tensor"
    GAUSSIAN_MIXTURE = "gaussian-mixture"
    SINGLE_TOPIC = "single-topic"
    LATENT_DIRICHLET = "latent-dirichlet"
    HIDDEN_MARKOV = "hidden-markov"
    MULTI_VIEW = "multi-view"
    ICA = "ica"


# values of the options of the same names
Absorb = StrEnum("Absorb", ["DIAGONAL", "BOX"])
Variances = StrEnum("Variances", ["SHARED", "SPHERICAL"])
Emissions = StrEnum("Emissions", ["CATEGORICAL", "GAUSSIAN"])
Keep = StrEnum("Keep", ["TENSOR", "MOMENTS", "ALL"])


@dataclass(frozen=True)
class ProblemKind:
    """The name of a problem's class, its parameter for each option, and the options without a
    default.
    """

    name: str
    options: dict[str, str]
    required: tuple[str, ...] = ()


_PENALISED = {
    "alpha": "alpha",
    "absorb": "absorb",
    "intercept": "fit_intercept",
    "total_weight": "total_weight",
}
_LATENT = {"keep": "keep", "total_weight": "total_weight"}
KINDS = {
    Name.LEAST_SQUARES: ProblemKind(
        "LeastSquares", {"intercept": "fit_intercept", "total_weight": "total_weight"}
    ),
    Name.RIDGE: ProblemKind("Ridge", _PENALISED),
    Name.LP: ProblemKind("LpRegression", {"p": "p", **_PENALISED}, ("p",)),
    Name.MOMENTS: ProblemKind("Moments", {"degree": "degree"}),
    Name.MEAN: ProblemKind("Mean", {}),
    Name.TENSOR: ProblemKind(
        "TensorContraction", {"p": "p", "total_weight": "total_weight"}, ("p",)
    ),
    Name.GAUSSIAN_MIXTURE: ProblemKind(
        "GaussianMixture", {"k": "n_components", "variances": "variances", **_LATENT}, ("k",)
    ),
    Name.SINGLE_TOPIC: ProblemKind("SingleTopic", {"k": "n_topics", **_LATENT}, ("k",)),
    Name.LATENT_DIRICHLET: ProblemKind(
        "LatentDirichlet", {"k": "n_topics", "alpha0": "alpha0", **_LATENT}, ("k", "alpha0")
    ),
    Name.HIDDEN_MARKOV: ProblemKind(
        "HiddenMarkov", {"k": "n_states", "emissions": "emissions", **_LATENT}, ("k",)
    ),
    Name.MULTI_VIEW: ProblemKind("MultiView", {"k": "n_components", **_LATENT}, ("k",)),
    Name.ICA: ProblemKind("ICA", {"k": "n_components", **_LATENT}, ("k",)),
}
_FLAGS = {"intercept": "--no-intercept", "total_weight": "--no-total-weight"}


@dataclass(frozen=True)
class ProblemOptions:
    """A problem and its parameters; None means that the option was not given."""

    problem: Annotated[
        Name | None,
        problem_option(
            metavar="NAME",
            help=(
                f"One of {', '.join(Name)}. Default: least-squares if there is a target, else"
                " moments."
            ),
        ),
    ] = None
    alpha: Annotated[float | None, problem_option(help="Penalty of ridge (1) or lp (0).")] = None
    p: Annotated[int | None, problem_option("--p", help="Power of lp (even) or tensor.")] = None
    degree: Annotated[int | None, problem_option(help="Highest degree of moments (2).")] = None
    absorb: Annotated[
        Absorb | None,
        problem_option(
            help="Let the penalty of ridge or lp absorb a part of the data, to keep fewer rows."
        ),
    ] = None
    k: Annotated[
        int | None, problem_option("--k", help="Components, topics or states of a latent model.")
    ] = None
    alpha0: Annotated[
        float | None, problem_option("--alpha0", help="Concentration of latent-dirichlet.")
    ] = None
    variances: Annotated[
        Variances | None, problem_option(help="Variances of gaussian-mixture.")
    ] = None
    emissions: Annotated[Emissions | None, problem_option(help="Emissions of hidden-markov.")] = (
        None
    )
    keep: Annotated[
        Keep | None,
        problem_option(help="What the rows of a latent coreset keep without its maps (tensor)."),
    ] = None
    intercept: Annotated[
        bool | None, problem_option("--no-intercept", help="Models have no intercept.")
    ] = None
    total_weight: Annotated[
        bool | None, problem_option("--no-total-weight", help="Do not keep the total weight.")
    ] = None

    def takes_target(self) -> bool:
        """Whether the problem that was named has a target."""
        from karat import problems

        return self.problem is not None and bool(
            getattr(problems, KINDS[self.problem].name).needs_target
        )

    def chosen(self, target: bool) -> Problem:
        """Make the problem and check its options; the default depends on whether there is a
        target.
        """
        from karat import problems

        name = self.problem or (Name.LEAST_SQUARES if target else Name.MOMENTS)
        kind = KINDS[name]
        given = {
            f.name: v
            for f in fields(self)
            if f.name != "problem" and (v := getattr(self, f.name)) is not None
        }
        for option in given:
            if option not in kind.options:
                takes = ", ".join(map(_flag, kind.options)) or "no options of its own"
                raise InputError(
                    f"{_flag(option)} does not apply to --problem {name}, which takes {takes}."
                )
        for option in kind.required:
            if option not in given:
                raise InputError(f"--problem {name} needs {_flag(option)}.")
        problem: Problem = getattr(problems, kind.name)(
            **{kind.options[o]: _value(o, v) for o, v in given.items()}
        )
        if target and not problem.needs_target:
            raise InputError(
                f"Remove --target: --problem {name} has no target; the column becomes a feature."
            )
        if problem.needs_target and not target:
            raise InputError(f"--problem {name} needs --target.")
        return problem


def _flag(option: str) -> str:
    return _FLAGS.get(option, f"--{option}")


def _value(option: str, value: Any) -> Any:
    if option in _FLAGS:
        return False
    return str(value) if isinstance(value, StrEnum) else value
