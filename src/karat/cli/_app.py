"""The application: the list of the commands, and ``--version``."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from inspect import cleandoc
from types import ModuleType
from typing import Annotated

import typer

from karat.cli._options import expanded

NARROW = 70  # terminal columns below which help in frames would cut the names of options
COMMANDS = ("build", "train", "regress", "verify", "report", "inspect", "merge", "cube", "plan", "demo", "reproduce")


def application(arguments: list[str]) -> typer.Typer:
    """Make the application; it imports only the command that the arguments name, or all of them for the help."""
    app = typer.Typer(
        name="karat",
        no_args_is_help=True,
        rich_markup_mode="rich" if shutil.get_terminal_size().columns >= NARROW else None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(epilog="Example:  karat build data.parquet --target y -o core.parquet")(karat)
    for name in arguments[:1] if arguments and arguments[0] in COMMANDS else COMMANDS:
        module = importlib.import_module(f"karat.cli.{name}")
        if hasattr(module, "COMMANDS"):
            app.add_typer(_group(name, module), name=name)
        else:
            _add(app, getattr(module, name))
    return app


def _group(name: str, module: ModuleType) -> typer.Typer:
    """A command with commands of its own; its help is the docstring of the module."""
    text = cleandoc(module.__doc__ or "").removeprefix(f"karat {name}: ")
    group = typer.Typer(name=name, no_args_is_help=True, help=text[:1].upper() + text[1:])
    for command in module.COMMANDS:
        _add(group, command)
    return group


def _add(app: typer.Typer, command: Callable[..., None]) -> None:
    """Add a function as a command; the last paragraph of its docstring is the example."""
    text, _, example = cleandoc(command.__doc__ or "").rpartition("\n\n")
    app.command(help=text, epilog=example)(expanded(command))


def _version(wanted: bool) -> None:
    if wanted:
        from karat import __version__

        print(f"karat {__version__}")
        raise typer.Exit


def karat(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Accurate coresets: a few rows of the data, with weights, on which a model trains to exactly the same answer."""
