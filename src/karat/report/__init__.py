"""Plots in the convention of scikit-learn's displays, and a self-contained HTML report."""

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
