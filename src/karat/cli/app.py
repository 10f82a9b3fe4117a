"""The application: its commands, exit codes and error messages.

    0   success
    1   a verification failed
    2   bad use, bad data, or a file that cannot be read or written
    130, 143   stopped by Ctrl-C or SIGTERM; no file is left half-written
    141        the reader of the output closed the pipe

An error message is one line on standard error.  With ``--json`` it is also printed as ``{"error":
"..."}`` on standard output; with ``--debug`` the traceback is shown too.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from inspect import cleandoc
from types import FrameType, ModuleType
from typing import Annotated, Any

import typer

from karat.cli.options import expanded
from karat.errors import InputError, MissingExtraError, NotExactError, StorageError

NARROW = 70  # terminal columns below which help in frames would cut the names of options
COMMANDS = (
    "build",
    "train",
    "regress",
    "verify",
    "report",
    "inspect",
    "merge",
    "cube",
    "plan",
    "demo",
    "reproduce",
)
USAGE_ERROR, CLOSED_PIPE = 2, 141  # exit codes
COMPLETING = "_KARAT_COMPLETE"  # set by the shell that asks for completions
# what to do, in options of the command line, by the argument of the library that would help
REMEDIES = {
    "on_missing": (
        "Correct the data, drop such rows with --on-missing drop, or fill features with"
        " --on-missing mean."
    ),
    "pipeline": "Drop it with --drop-columns, or encode it with --one-hot.",
    "target": "Add --target.",
    "header": "Say what it is: --header if these are names, --no-header if they are values.",
    "dtype": "Read the column as text: --dtype COLUMN=str.",
    "cluster": "Pass its name: --cov cluster:COLUMN.",
    "sql": "Give the query with --sql, and its --database.",
    "sequence": "--sequence is for hidden-markov only.",
    "columns": "Name them with --columns; --problem multi-view needs --view three times.",
    "cube": "For cubes there are karat cube show, fit, update and verify.",
    "coreset": "For coresets there are karat inspect, train, verify and report.",
}
# of commands that cannot encode or fill columns
FILL = "Correct the data, or drop such rows with --on-missing drop."
PLAINER = {
    "regress": {"on_missing": FILL},
    "cube": {
        "on_missing": FILL,
        "pipeline": "Drop it with --drop-columns, or label cells by it with --by.",
    },
}
# commands that read the data of an existing coreset
READ_AGAIN = ("verify", "report", "train")
OTHER_DATA = "The coreset was made from data without this; correct the data, or build it again."


class Stopped(BaseException):
    """A signal asked the process to end.

    It is an exception, so that files being written are cleaned up.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def stop_on_signals() -> None:
    """Turn Ctrl-C and SIGTERM into :class:`Stopped`."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)


def run_command(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    # not parsed: a command line that cannot be parsed is an error, too
    debug = "--debug" in arguments
    try:
        if sys.stdout is None:
            raise InputError(
                "Standard output is closed, so nothing can be printed; redirect it to a file or to"
                " /dev/null."
            )
        if not arguments:
            arguments = ["--help"]
        code = application(arguments)(
            args=arguments, prog_name="karat", standalone_mode=False, obj=arguments
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except Stopped as stop:
        _say("Stopped; no file was left half-written.")
        return stop.exit_code
    # raised by completion, and by typer and rich when the pipe is closed
    except SystemExit as left:
        return left.code if isinstance(left.code, int) and COMPLETING in os.environ else CLOSED_PIPE
    except BrokenPipeError:
        return CLOSED_PIPE
    except Exception as error:
        if debug:
            traceback.print_exc()
        message = _message(error, next(iter(arguments), ""))
        _say(f"Error: {message}")
        if "--json" in arguments:
            with suppress(OSError):  # if nobody can read it, the exit code remains
                print(json.dumps({"error": message}), flush=True)
        return USAGE_ERROR


def application(arguments: list[str]) -> typer.Typer:
    """Make the application; it imports only the command that the arguments name, or all of them for
    the help.
    """
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
            app.add_typer(_command_group(name, module), name=name)
        else:
            _add(app, getattr(module, name))
    return app


def _command_group(name: str, module: ModuleType) -> typer.Typer:
    """A command with subcommands; its help is the docstring of the module."""
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
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Accurate coresets: a few rows of the data, with weights, on which a model trains to exactly
    the same answer.
    """


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def _say(text: str) -> None:
    with suppress(OSError, AttributeError):  # standard error may be closed as well
        print(text, file=sys.stderr)


def _message(error: Exception, command: str) -> str:
    """The message of an error: karat's own with options instead of arguments, or one for an error
    of the parser or the system.
    """
    if isinstance(error, InputError | MissingExtraError | NotExactError | StorageError):
        if (
            isinstance(error, InputError)
            and command in READ_AGAIN
            and error.argument in ("on_missing", "pipeline")
        ):
            return f"{error.message} {OTHER_DATA}"
        if isinstance(error, InputError) and error.remedy and error.argument in REMEDIES:
            remedies = REMEDIES | PLAINER.get(command, {})
            return f"{error.message} {remedies[error.argument]}"
        return str(error)
    if hasattr(error, "format_message"):  # the command line could not be parsed
        return _usage_message(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'The output'}: {error.strerror}."
    if isinstance(error, ImportError) and error.name:
        return f"This needs {error.name}, which is not installed: pip install 'karat[cli]'."
    if isinstance(error, MemoryError):
        return "There is not enough memory; lower --memory, or use a larger machine."
    return (
        f"Unexpected {type(error).__name__} ({error}). Run again with --debug to see where, and"
        " report it."
    )


def _usage_message(error: Any) -> str:
    context = error.ctx.command_path if getattr(error, "ctx", None) is not None else "karat"
    message = error.format_message().replace("Value error, ", "").rstrip(". ")
    return f"{message}{'' if message.endswith('?') else '.'} See '{context} --help'."
