"""Arrays of other libraries for tests: where they are not on an accelerator, they are treated as if
they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from karat.compat import array_api

STRICT, TORCH, CUDA = "array-api-strict", "torch", "cuda"
LIBRARIES = [STRICT, TORCH, pytest.param(CUDA, marks=pytest.mark.cuda)]


def maker(library: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """A function that makes arrays of a library, on a device that NumPy cannot read."""
    pytest.importorskip("array_api_compat")
    if library == STRICT:
        strict = pytest.importorskip("array_api_strict")
        device = strict.Device("device1")
        return lambda values: strict.asarray(np.asarray(values), device=device)
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if library == CUDA:
        if not torch.cuda.is_available():
            pytest.skip("there is no CUDA device")
        return lambda values: torch.tensor(np.asarray(values), device="cuda")
    monkeypatch.setattr(array_api, "on_host", lambda array: False)
    return lambda values: torch.tensor(np.asarray(values))


class Travels:
    """Counts the numbers that come from the device to the host."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.numbers = 0
        original = array_api.to_host

        def counted(array: Any) -> np.ndarray:
            values = original(array)
            self.numbers += values.size
            return values

        monkeypatch.setattr(array_api, "to_host", counted)
