"""karat reproduce: say where the experiments of the paper are."""

from __future__ import annotations

from karat.cli.options import Common
from karat.errors import InputError


def reproduce(shown: Common) -> None:
    """Say where the paper's tables and figures are computed: in a clone of the repository, by make
    reproduce.

    Example:  karat reproduce
    """
    raise InputError(
        "The paper's tables and figures are computed from a clone of"
        " https://github.com/karat-coresets/karat, with `make reproduce`."
    )
