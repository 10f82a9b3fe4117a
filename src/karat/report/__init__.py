"""Plots in the convention of scikit-learn's displays, and a self-contained HTML report."""

from karat.report.latent import (
    Alpha0Display,
    RecoveryDisplay,
    RecoveryErrorDisplay,
    SpectrumDisplay,
)
from karat.report.one_coreset import CertificateDisplay, ProjectionDisplay, WeightsDisplay
from karat.report.page import facts, write_report
from karat.report.sweeps import ScalingDisplay, SizeDisplay

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
