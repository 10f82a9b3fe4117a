"""The application: the list of the commands, and what stands before all of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from inspect import cleandoc
from typing import Annotated, Any

import typer

from karat.cli import build, demo, inspect, merge, plan, report, reproduce, train, verify
from karat.cli._options import expanded

NARROW = 70  # columns of a terminal below which framed help would cut the names of options

app = typer.Typer(
    name="karat",
    no_args_is_help=True,
    rich_markup_mode="rich" if shutil.get_terminal_size().columns >= NARROW else None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _add(command: Callable[..., None]) -> None:
    """A command by the name of its function; the last paragraph of its docstring is the example."""
    text, _, example = cleandoc(command.__doc__ or "").rpartition("\n\n")
    app.command(help=text, epilog=example)(expanded(command))


def _version(wanted: bool) -> None:
    if wanted:
        from karat import __version__

        print(f"karat {__version__}")
        raise typer.Exit


@app.callback(epilog="Example:  karat build data.parquet --target y -o core.parquet")
def karat(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Accurate coresets: a few real rows with weights on which a model trains to exactly the same answer."""


_COMMANDS: list[Any] = [
    build.build, train.train, verify.verify, report.report, inspect.inspect, merge.merge, plan.plan, demo.demo,
    reproduce.reproduce,
]  # fmt: skip
for _command in _COMMANDS:
    _add(_command)
