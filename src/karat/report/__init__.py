"""Plots in the convention of scikit-learn's displays, and a self-contained HTML report."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karat.report.alpha0 import Alpha0Display
    from karat.report.certificate import CertificateDisplay
    from karat.report.page import facts, write_report
    from karat.report.projection import ProjectionDisplay
    from karat.report.recovery import RecoveryDisplay, RecoveryErrorDisplay
    from karat.report.scaling import ScalingDisplay
    from karat.report.sizes import SizeDisplay
    from karat.report.spectrum import SpectrumDisplay
    from karat.report.weights import WeightsDisplay

__all__ = [
    "Alpha0Display",
    "CertificateDisplay",
    "ProjectionDisplay",
    "RecoveryDisplay",
    "RecoveryErrorDisplay",
    "ScalingDisplay",
    "SizeDisplay",
    "SpectrumDisplay",
    "WeightsDisplay",
    "facts",
    "write_report",
]

_HOMES = {
    "alpha0": ["Alpha0Display"],
    "certificate": ["CertificateDisplay"],
    "page": ["facts", "write_report"],
    "projection": ["ProjectionDisplay"],
    "recovery": ["RecoveryDisplay", "RecoveryErrorDisplay"],
    "scaling": ["ScalingDisplay"],
    "sizes": ["SizeDisplay"],
    "spectrum": ["SpectrumDisplay"],
    "weights": ["WeightsDisplay"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'karat.report' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"karat.report.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
