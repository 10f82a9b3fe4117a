"""The command line: ``karat build``, ``verify``, ``inspect``, ``merge``, ``plan``, ``train``, ``demo`` and more.

One file per command, each a function whose docstring is its help.  What they share lies beside them: ``_app`` (the list of
commands), ``_errors`` (exit codes and sentences), ``_options`` (options of several commands), ``_problems`` (from ``--problem``
to a Problem), ``_outputs`` (where results may be written), ``_show`` (tables and ``--json``) and ``_progress``.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the ``karat`` command: run it and leave the process with its exit code.

    Parameters
    ----------
    arguments : list of str, optional
        Instead of those of the process.
    """
    if not (find_spec("typer") and find_spec("rich")):
        from karat.errors import MissingExtraError

        print(f"Error: {MissingExtraError('The command line', 'cli')}", file=sys.stderr)
        sys.exit(2)
    from karat.cli._errors import leave, run, stop_on_signals

    stop_on_signals()
    leave(run(sys.argv[1:] if arguments is None else list(arguments)))
