"""The command line."""


def main() -> None:
    """Entry point of the ``karat`` command."""
    raise SystemExit("The command line is being built.")
