"""The application: the list of the commands, and what stands before all of them."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import Annotated, Any

import typer

from karat.cli import build, plan, reproduce
from karat.cli._options import expanded

app = typer.Typer(
    name="karat",
    no_args_is_help=True,
    rich_markup_mode="rich",
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


_COMMANDS: list[Any] = [build.build, plan.plan, reproduce.reproduce]
for _command in _COMMANDS:
    _add(_command)
