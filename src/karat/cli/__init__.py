"""The command line: ``karat build``, ``verify``, ``inspect``, ``merge``, ``plan``, ``train``,
``regress``, ``demo`` and more.

Each command is a file with one function, whose docstring is the help text.  They share ``_app`` (the list of commands),
``_errors`` (exit codes and error messages), ``_options`` (options of several commands), ``_problems`` (from ``--problem`` to a
Problem), ``_columns`` (roles of the columns), ``_database`` (rows of a query), ``_models`` (for ``train``), ``_cores`` (a
coreset as text), ``_outputs`` (checks of ``--output``), ``_show`` (tables and ``--json``) and ``_progress``.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the ``karat`` command, by default with the arguments of the process, and end the process with its exit code."""
    if not (find_spec("typer") and find_spec("rich")):
        from karat.errors import MissingExtraError

        print(f"Error: {MissingExtraError('The command line', 'cli')}", file=sys.stderr)
        sys.exit(2)
    from karat.cli._errors import leave, run, stop_on_signals

    stop_on_signals()
    leave(run(sys.argv[1:] if arguments is None else list(arguments)))
