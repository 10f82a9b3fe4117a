"""Exit codes and error messages.

    0   success
    1   a verification failed
    2   bad use, bad data, or a file that cannot be read or written
    130, 143   stopped by Ctrl-C or SIGTERM; no file is left half-written
    141        the reader of the output closed the pipe

An error message is one line on standard error.  With ``--json`` it is also printed as ``{"error": "..."}`` on standard
output; with ``--debug`` the traceback is shown too.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

from karat.errors import InputError, MissingExtraError, NotExactError, StorageError

FAILED, WRONG, UNREAD = 1, 2, 141
COMPLETING = "_KARAT_COMPLETE"  # the shell sets it when it asks for completions
AS_OPTIONS = {  # texts of the library about its arguments, and the same about options
    "on_missing='drop'": "--on-missing drop",
    "choose columns=, or encode it by a fitted pipeline=": "leave it out with --drop-columns, or encode it first",
    "name some in columns=": "leave fewer out",
    "leave it out of columns=": "leave it out of --columns",
    "name it in target=": "add --target",
    "name them in columns=": "add --columns",
    "memory=": "--memory ",
    "MultiView takes columns as three lists of names, one per view": "--problem multi-view needs --view three times",
    "sequence is for HiddenMarkov only": "--sequence is for hidden-markov only",
    "allow more": "allow more with --memory",
}


class Stopped(BaseException):
    """A signal asked the process to end.  It is an exception, so that files being written are cleaned up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def stop_on_signals() -> None:
    """Turn Ctrl-C and SIGTERM into :class:`Stopped`."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    debug = "--debug" in arguments  # searched by hand, because a line that cannot be parsed is an error too
    try:
        from karat.cli._app import application

        code = application(arguments)(args=arguments, prog_name="karat", standalone_mode=False, obj=arguments)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except Stopped as stop:
        _say("Stopped; no file was left half-written.")
        return stop.exit_code
    except SystemExit as left:  # raised by completion, and by typer and rich when the pipe is closed
        return left.code if isinstance(left.code, int) and COMPLETING in os.environ else UNREAD
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except Exception as error:
        if debug:
            traceback.print_exc()
        message = _message(error)
        _say(f"Error: {message}")
        if "--json" in arguments and not _output_is_full(error):
            print(json.dumps({"error": message}))
        return WRONG


def leave(code: int) -> NoReturn:
    """End the process at once, after the output is flushed.

    A thread of Arrow that releases a Python object while the interpreter shuts down would abort the process.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _output_is_full(error: Exception) -> bool:
    """Whether standard output is on a full disk; if so, the output that waits is thrown away."""
    full = isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None
    if full and not isinstance(error, StorageError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _message(error: Exception) -> str:
    """The error message: that of karat with options for arguments, or one for an error of the parser or the system."""
    if isinstance(error, InputError | MissingExtraError | NotExactError | StorageError):
        message = str(error)
        for argument, option in AS_OPTIONS.items():
            message = message.replace(argument, option)
        return message
    if hasattr(error, "format_message"):  # the command line could not be parsed
        return _usage_message(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'The output'}: {error.strerror}."
    if isinstance(error, ImportError) and error.name:
        return f"This needs {error.name}, which is not installed: pip install 'karat[cli]'."
    if isinstance(error, MemoryError):
        return "There is not enough memory; lower --memory, or use a larger machine."
    return f"Unexpected {type(error).__name__} ({error}). Run again with --debug to see where, and report it."


def _usage_message(error: Any) -> str:
    context = error.ctx.command_path if getattr(error, "ctx", None) is not None else "karat"
    message = error.format_message().replace("Value error, ", "").rstrip(". ")
    return f"{message}{'' if message.endswith('?') else '.'} See '{context} --help'."
