"""Small-sample corrections: the conventions by which packages scale one covariance.

With n observations, K estimated parameters and G clusters (K counts absorbed effects, too):

    classical   RSS / (n - 1) times (n - 1) / (n - K)              the second factor if k_adj
    HC1         HC0 times n / (n - K)                              the factor if k_adj
    cluster     sum over clusters times (n - 1) / (n - K)          the factor if k_adj
                times G / (G - 1)                                  if g_adj
    CR2         sum over clusters, without a factor
    CR3         sum over clusters times (G - 1) / G                if jackknife, as in textbooks
                times the factors of clusters                      otherwise, as in pyfixest
    several ways of clustering: G of each sum (g_df="conventional"), or the smallest ("min")
    absorbed effects in K: all ("full"), those not nested in clusters ("nonnested"), or "none"

Names and meanings are those of ``ssc()`` in fixest and pyfixest.  Each way of writing a regression
has the convention of the package whose users write it so: without ``|`` statsmodels, with ``|``
pyfixest.  The table prints which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from karat.errors import InputError

CHOICES: dict[str, tuple[Any, ...]] = {
    "k_adj": (True, False),
    "g_adj": (True, False),
    "g_df": ("conventional", "min"),
    "k_fixef": ("nonnested", "full", "none"),
    "k_fixef_exact": (True, False),
    "jackknife": (True, False),
}


@dataclass(frozen=True)
class SmallSample:
    """Switches of the corrections.

    Attributes
    ----------
    k_adj : bool
        Whether parameters count: the factor (n - 1) / (n - K), or n / (n - K) for HC1.
    g_adj : bool
        Whether clusters count: the factor G / (G - 1).
    g_df : {"conventional", "min"}
        Which G, with several ways of clustering.
    k_fixef : {"nonnested", "full", "none"}
        Which absorbed effects are parameters.
    k_fixef_exact : bool
        Whether redundant absorbed effects are found, and not counted.
    jackknife : bool
        Whether CR3 has the factor of the jackknife.
    """

    k_adj: bool = True
    g_adj: bool = True
    g_df: str = "conventional"
    k_fixef: str = "nonnested"
    k_fixef_exact: bool = False
    jackknife: bool = True

    def classical(self, rss: float, observations: float, parameters: float) -> float:
        """The residual variance."""
        return rss / (observations - (parameters if self.k_adj else 1))

    def heteroscedastic(self, observations: float, parameters: float) -> float:
        """The factor of HC1."""
        return observations / (observations - parameters) if self.k_adj else 1.0

    def parameters(self, observations: float, parameters: float) -> float:
        """The factor of clustered covariances for the number of parameters."""
        return (observations - 1) / (observations - parameters) if self.k_adj else 1.0

    def clusters(self, count: int, ways: Sequence[int]) -> float:
        """The factor of one sum over clusters, of which there are ``count``; ``ways`` are the
        numbers of clusters of each way.
        """
        groups = min(ways) if self.g_df == "min" else count
        return groups / max(groups - 1, 1) if self.g_adj else 1.0

    def leaving_out(self, count: int, observations: float, parameters: float) -> float:
        """The factor of CR3."""
        if not self.jackknife:
            return self.parameters(observations, parameters) * self.clusters(count, (count,))
        if not (self.k_adj and self.g_adj):
            raise InputError(
                "CR3 has the factor (G - 1) / G of the jackknife, without k_adj and g_adj; add"
                " 'jackknife': False to ssc= for the factors of clusters.",
                argument="ssc",
            )
        return (count - 1) / count

    def __str__(self) -> str:
        name = next((name for name, preset in PRESETS.items() if preset == self), None)
        if name is not None:
            return name
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        changed = {
            key: value for key, value in values.items() if value != getattr(STATSMODELS, key)
        }
        return ", ".join(f"{key}={value!r}" for key, value in changed.items())


STATSMODELS = SmallSample()
PYFIXEST = SmallSample(g_df="min", jackknife=False)
UNCORRECTED = SmallSample(k_adj=False, g_adj=False, jackknife=False)
PRESETS = {"statsmodels": STATSMODELS, "pyfixest": PYFIXEST, "none": UNCORRECTED}


def small_sample(given: Any, default: SmallSample = STATSMODELS) -> SmallSample:
    """The corrections that ``ssc=`` asks for: a name, or switches that differ from the default."""
    if given is None:
        return default
    if isinstance(given, SmallSample):
        return given
    if isinstance(given, str) and given in PRESETS:
        return PRESETS[given]
    if not isinstance(given, Mapping):
        raise InputError(
            f"ssc must be {', '.join(map(repr, PRESETS))} or a dictionary such as"
            f" {{'g_adj': False}}, not {given!r}.",
            argument="ssc",
        )
    for switch, value in given.items():
        if switch not in CHOICES:
            raise InputError(
                f"ssc has the switches {', '.join(CHOICES)}, not {switch!r}.", argument="ssc"
            )
        if not any(value is choice or value == choice for choice in CHOICES[switch]):
            choices = " or ".join(map(repr, CHOICES[switch]))
            raise InputError(
                f"ssc={{{switch!r}: ...}} must be {choices}, not {value!r}.", argument="ssc"
            )
    return replace(default, **given)
