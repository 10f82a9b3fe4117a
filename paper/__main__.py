"""The command ``make reproduce``: compute the tables and figures of the paper, and write one page
with its numbers and ours.

    python -m paper                                    everything, into reproduction/index.html
    python -m paper --only table1,figure1 -o folder
    python -m paper --quick --offline

Data is read from the folder in KARAT_DATA, or downloaded.  The exit code is 1 if an experiment
failed, 2 for bad use.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from karat.errors import InputError, MissingExtraError, several
from paper.data import Source
from paper.run import EXPERIMENTS, Outcome, reproduce
from paper.settings import Settings


def main() -> int:
    """Run the experiments that the arguments name, print what came of each, and return the exit
    code.
    """
    parser = argparse.ArgumentParser(
        "python -m paper", description="Compute the paper's tables and figures."
    )
    parser.add_argument("--only", help=f"some of: {', '.join(EXPERIMENTS)}; separated by commas")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("reproduction"),
        help="folder for index.html, CSV and PNG files",
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer points, seeds and rows; faster and less precise"
    )
    parser.add_argument(
        "--offline",
        action="store_true",
        help="download nothing; what has no data is left out, and says so",
    )
    given = parser.parse_args()
    if given.output.exists() and not given.output.is_dir():
        parser.error(f"{given.output} is a file; --output names a folder.")
    names = [name.strip() for name in given.only.split(",") if name.strip()] if given.only else None
    try:
        outcomes = reproduce(
            given.output,
            names,
            settings=Settings(Source(network=not given.offline), given.quick),
            progress=tell,
        )
    except (InputError, MissingExtraError) as error:
        parser.error(str(error))
    for outcome in outcomes:
        print(f"{outcome.name:<12}{outcome.seconds:8.1f} s  {what_came_of(outcome)}")
        if outcome.experiment and outcome.experiment.headline:
            print(f"{'':<24}{outcome.experiment.headline}")
    for message in dict.fromkeys(message for outcome in outcomes for message in left_out(outcome)):
        print(message)
    print(f"The page: {given.output / 'index.html'}")
    return int(any(outcome.error for outcome in outcomes))


def tell(name: str, what: str, done: int, total: int) -> None:
    """Print which experiment begins, and on a terminal each of its steps, on standard error."""
    if not what:
        print(f"{name} ({done + 1} of {total})", file=sys.stderr, flush=True)
    elif sys.stderr.isatty():
        print(f"  {what}", file=sys.stderr, flush=True)


def what_came_of(outcome: Outcome) -> str:
    """The outcome in a few words."""
    if outcome.error:
        return f"failed: {outcome.error}"
    parts = len(left_out(outcome))
    return f"done, {several(parts, 'part')} left out" if parts else "done"


def left_out(outcome: Outcome) -> list[str]:
    """Messages about the parts that were left out."""
    return list(outcome.experiment.missing) if outcome.experiment else []


if __name__ == "__main__":
    sys.exit(main())
