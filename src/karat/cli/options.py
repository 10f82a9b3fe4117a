"""Options that several commands share, as dataclasses.

A parameter of such a type becomes one option per field:

    def plan(problem: ProblemOptions, shown: Common) -> None: ...

is a command with all options of both.  :class:`Roles` are the columns, whose names are checked
before any row is read; :class:`ProblemOptions` make a Problem, where an option that the problem
does not have is an error; :class:`Database` is a query in place of files.  :func:`check_output`
sees to it that ``--output`` overwrites neither the data nor a file of another kind.
"""

from __future__ import annotations

import functools
import glob
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints
from urllib.parse import unquote, urlparse

import typer

import karat
from karat.errors import InputError, StorageError

if TYPE_CHECKING:
    from karat.io.source import Source
    from karat.problems import Problem

FAILED = 1  # exit code of a verification that failed
UNITS = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "kb": 10**3,
    "m": 10**6,
    "mb": 10**6,
    "g": 10**9,
    "gb": 10**9,
    "t": 10**12,
    "tb": 10**12,
}
column_option = partial(
    typer.Option, rich_help_panel="Columns (several separated by commas, or the option repeated)"
)
problem_option = partial(typer.Option, rich_help_panel="What must be kept")
database_option = partial(typer.Option, rich_help_panel="Rows of a database instead of files")


@dataclass(frozen=True)
class Common:
    """Options of every command."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of tables.")
    ] = False
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Replace every dataclass among the parameters of a command by its fields."""
    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    bundles: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    single = [
        p.replace(annotation=hints[p.name])
        for p in signature.parameters.values()
        if p.name not in bundles
    ]
    bundled = [parameter for bundle in bundles.values() for parameter in _parameters(bundle)]

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        built = {
            name: bundle(**{f.name: values.pop(f.name) for f in fields(bundle)})
            for name, bundle in bundles.items()
        }
        command(**values, **built)

    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*single, *bundled)]
    flat.__signature__ = signature.replace(parameters=keyword)  # type: ignore[attr-defined]
    flat.__annotations__ = {p.name: p.annotation for p in keyword} | {"return": None}
    return flat


def _parameters(bundle: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(bundle, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(bundle)
    ]


def count(text: str | int) -> int:
    """Parse an integer, also 1e9 or 1_000_000; defaults are numbers already."""
    for kind in (int, float):
        try:
            value = kind(text)
            if value == int(value):
                return int(value)
        except (ValueError, OverflowError):
            continue
    raise InputError(f"{text!r} is not an integer, such as 1000000 or 1e6.")


def size(text: str) -> int:
    """Parse a number of bytes, such as 500MB or 2GB."""
    number = text.lower().rstrip("bkmgt ")
    unit = text[len(number) :].strip().lower()
    try:
        return int(float(number) * UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        raise InputError(f"{text!r} is not an amount of memory, such as 500MB or 2GB.") from None


@dataclass(frozen=True)
class Roles:
    """The roles of the columns; None means that the option was not given."""

    target: Annotated[
        list[str] | None,
        column_option("--target", "-t", metavar="COLUMN", help="The column to predict."),
    ] = None
    columns: Annotated[
        list[str] | None, column_option(metavar="COLUMN", help="Features; default: all others.")
    ] = None
    drop_columns: Annotated[
        list[str] | None, column_option(metavar="COLUMN", help="Columns that are not features.")
    ] = None
    view: Annotated[
        list[str] | None,
        column_option(
            metavar="COLUMN", help="Features of one view of multi-view; give it three times."
        ),
    ] = None
    weight: Annotated[str | None, column_option(metavar="COLUMN", help="Sample weights.")] = None
    groups: Annotated[
        str | None,
        column_option(metavar="COLUMN", help="Groups (folds, sites): one exact coreset for each."),
    ] = None
    key: Annotated[
        str | None, column_option(metavar="COLUMN", help="A column that identifies rows.")
    ] = None
    sequence: Annotated[
        str | None,
        column_option(metavar="COLUMN", help="The sequence of each row, for hidden-markov."),
    ] = None

    def arguments(self, known: list[str]) -> dict[str, Any]:
        """Those of :func:`karat.coreset_files`, with every name found among the ``known`` columns
        of the data.
        """
        single = {
            "sample_weight": self.weight,
            "groups": self.groups,
            "key": self.key,
            "sequence": self.sequence,
        }
        typed = {
            "--weight": self.weight,
            "--groups": self.groups,
            "--key": self.key,
            "--sequence": self.sequence,
        }
        for option, name in typed.items():
            named(option, None if name is None else [name], known)
        target = named("--target", self.target, known)
        return single | {
            "target": target or None,
            "columns": self._features(known, {*target, *single.values()}),
        }

    def _features(self, known: list[str], taken: set[str | None]) -> list[Any]:
        given = [self.columns, self.drop_columns, self.view]
        if sum(one is not None for one in given) > 1:
            raise InputError(
                "--columns, --drop-columns and --view exclude each other; use one of them."
            )
        if self.view is not None:
            if len(self.view) != 3:
                raise InputError(
                    "--view is for the three views of multi-view: give it three times, not"
                    f" {len(self.view)}."
                )
            return [named("--view", [view], known) for view in self.view]
        from karat.data.arguments import other_columns

        dropped = named("--drop-columns", self.drop_columns, known)
        return named("--columns", self.columns, known) or other_columns(known, {*taken, *dropped})


def named(option: str, typed: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Split a list of columns at commas and check every name.

    A text with a comma is one name if the data has such a column.
    """
    found = []
    for text in typed or ():
        found += [text] if text in known else [part.strip() for part in text.split(",")]
    for name in found:
        if name not in known:
            from karat.data.advice import closest

            close = closest(name, known)
            hint = f"there are {', '.join(known)}." if close is None else f"did you mean {close}?"
            raise InputError(f"{option} {name}: the data has no such column; {hint}")
    return found


@dataclass(frozen=True)
class Database:
    """A query; None means that the option was not given."""

    sql: Annotated[
        str | None, database_option(metavar="QUERY", help="A DuckDB query that gives the rows.")
    ] = None
    database: Annotated[
        Path | None, database_option(metavar="FILE", help="The DuckDB file that it reads.")
    ] = None

    def source(self, paths: Sequence[str] | None) -> Source:
        """The files or the query; one of them must be given."""
        if self.sql is None and self.database is not None:
            raise InputError("--database needs a query: add --sql 'SELECT ...'.")
        if self.sql is not None and paths:
            raise InputError("Give files or --sql, not both.")
        if self.sql is not None:
            from karat.io.find import query

            return query(self.sql, self.database)
        if not paths:
            raise InputError(
                "Missing argument 'DATA': name files, or rows of a database with --sql."
            )
        from karat.io.find import open_source

        return open_source(list(paths))

    def source_if_given(self, paths: Sequence[str] | None) -> Source | None:
        """The same; None if neither is given."""
        return (
            self.source(paths)
            if paths or self.sql is not None or self.database is not None
            else None
        )

    @property
    def files(self) -> list[str]:
        """Files that must not be overwritten."""
        return [] if self.database is None else [str(self.database)]


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


# Values of the options of the same names.
Absorb = StrEnum("Absorb", ["DIAGONAL", "BOX"])
Variances = StrEnum("Variances", ["SHARED", "SPHERICAL"])
Emissions = StrEnum("Emissions", ["CATEGORICAL", "GAUSSIAN"])
Keep = StrEnum("Keep", ["TENSOR", "MOMENTS", "ALL"])


@dataclass(frozen=True)
class ProblemKind:
    """The class of a problem, its parameter for each option, and the options that have no
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
                f"--problem {name} has no target; without --target the column is one of the"
                " features."
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


@dataclass(frozen=True)
class OutputKind:
    """A kind of output: its name, its suffixes, and a test whether a file is one."""

    name: str
    suffixes: tuple[str, ...]
    is_one: Callable[[Path], bool]


def loads(load: Callable[[Path], object], path: Path) -> bool:
    """Whether a file is what ``load`` reads."""
    try:
        load(path)
    except InputError as error:
        # One that holds a user's function loads with problem=... only, but it is one.
        return error.argument == "problem"
    return True


CORESET = OutputKind("a coreset", (".parquet", ".npz"), lambda path: loads(karat.load, path))


def check_output(
    output: Path, sources: Sequence[str], force: bool, kind: OutputKind = CORESET
) -> None:
    """Refuse an output that could not be written or would overwrite other data; an older result may
    be replaced.
    """
    if output.suffix not in kind.suffixes:
        raise InputError(f"--output must end in {' or '.join(kind.suffixes)}, not {output.name!r}.")
    if not output.parent.is_dir():
        raise StorageError(
            f"There is no folder {output.parent}; make it, or choose another --output."
        )
    if not os.access(output.parent, os.W_OK):
        raise StorageError(f"The folder {output.parent} is not writable; choose another --output.")
    place = output.resolve()
    for source in map(_local, sources):
        # a file name may contain * or ?
        for path in map(Path, [source, *glob.glob(source, recursive=True)]):
            if place == path.resolve():
                raise InputError(f"--output {output} is the data itself; choose another name.")
            if path.is_dir() and place.is_relative_to(path.resolve()):
                raise InputError(
                    f"--output {output} is in the folder {path}, whose files are all read; choose"
                    " another folder."
                )
    if output.exists() and not force and not kind.is_one(output):
        raise InputError(
            f"{output} exists and is not {kind.name}; choose another name, or replace it with"
            " --force."
        )


def _local(source: str) -> str:
    """The path of a file: URL."""
    return unquote(urlparse(source).path) if source.startswith("file:") else source
