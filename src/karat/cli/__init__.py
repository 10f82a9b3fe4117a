"""The command line:

``karat build``, ``verify``, ``inspect``, ``merge``, ``plan``, ``train``, ``regress``, ``demo`` and
more.

Each command is a file with one function, whose docstring is the help text.  ``app`` runs them (list
of commands, exit codes, error messages).  They share ``options`` (options of several commands),
``models`` (for ``train`` and ``cube fit``) and ``printing`` (tables, ``--json`` and the progress
bar).
"""

import atexit
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the ``karat`` command, by default with the arguments of the process, and end the process
    with its exit code.
    """
    if not (find_spec("typer") and find_spec("rich")):
        from karat.errors import MissingExtraError

        print(f"Error: {MissingExtraError('The command line', 'cli')}", file=sys.stderr)
        sys.exit(2)
    codes: list[int] = []
    atexit.register(_end, codes)  # before others are registered, so that it runs after them
    from karat.cli.app import run_command, stop_on_signals

    stop_on_signals()
    with suppress(AttributeError):  # Windows may print in a code page without the letters of a name
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    codes.append(run_command(sys.argv[1:] if arguments is None else list(arguments)))
    sys.exit(codes[0])


def _end(codes: Sequence[int]) -> None:
    """End the process at once, after the output is flushed.

    A thread of Arrow that releases a Python object while the interpreter shuts down would abort the
    process.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # it may be closed, or on a full disk
            stream.flush()
    if codes:
        os._exit(codes[0])
