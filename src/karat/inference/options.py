"""What a table may be asked for: kinds of covariances, columns of clusters, and small-sample
corrections, the conventions by which packages scale one covariance.

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

from karat.core.regression import ADJUSTED, BY_CLUSTER
from karat.data.arguments import shown_value
from karat.errors import InputError, NotExactError, check_choice

KINDS = ("nonrobust", "HC0", "HC1", "HC2", "HC3", *BY_CLUSTER)  # of cov_type
KNOWN_AS = {  # names of statsmodels, pyfixest, fixest, linearmodels and Stata
    "nonrobust": ("iid", "unadjusted", "homoskedastic", "standard", "classical"),
    "HC1": ("robust", "hetero", "heteroskedastic", "heteroskedasticity", "white"),
    "cluster": ("clustered", "CRV1", "CR1", "cluster-robust"),
    "CR2": ("CRV2",),
    "CR3": ("CRV3", "jackknife"),
}
MOST_COLUMNS = 2**12  # a batch of rows then has 2 GiB
MOST_WAYS = 4  # of clustering: all 15 combinations are summed
CHOICES: dict[str, tuple[Any, ...]] = {
    "k_adj": (True, False),
    "g_adj": (True, False),
    "g_df": ("conventional", "min"),
    "k_fixef": ("nonnested", "full", "none"),
    "k_fixef_exact": (True, False),
    "jackknife": (True, False),
}


def check_cov_type(cov_type: str) -> None:
    """Raise for an unknown covariance type."""
    if cov_type not in KINDS:
        meant = next((kind for kind, names in KNOWN_AS.items() if cov_type in names), None)
        raise InputError(
            f"cov_type must be one of {', '.join(KINDS)}, not {cov_type!r}"
            f"{'.' if meant is None else f'; karat calls it {meant!r}.'}",
            argument="cov_type",
        )


def check_options(options: dict[str, Any], full: Any) -> None:
    """Raise if a covariance is asked for with options of statsmodels."""
    if options:
        raise NotExactError(
            f"This fit stores the covariances {', '.join(full.kinds)}, without options such as"
            f" {', '.join(options)}=. Pass cluster=, ssc= and use_t= to karat.inference.ols."
        )


def cluster_columns(cluster: Any) -> tuple[str, ...]:
    """The names of the columns of cluster labels."""
    columns = () if cluster is None else (cluster,) if isinstance(cluster, str) else cluster
    if (
        not isinstance(columns, list | tuple)
        or not all(isinstance(name, str) for name in columns)
        or len(set(columns)) < len(columns)
        or len(columns) > MOST_WAYS
    ):
        raise InputError(
            f"cluster must be the name of a column of the data, or a list of up to {MOST_WAYS}"
            f" different ones, not {shown_value(cluster)}.",
            argument="cluster",
        )
    return tuple(columns)


def covariance_kinds(
    cov_type: str | Sequence[str], clusters: Sequence[str], submodels: bool = False
) -> tuple[str, ...]:
    """The kinds of covariances that are asked for."""
    if not isinstance(cov_type, str | list | tuple):
        raise InputError(
            f"cov_type must be one of {', '.join(KINDS)}, or a list of them, not {cov_type!r}.",
            argument="cov_type",
        )
    kinds = (cov_type,) if isinstance(cov_type, str) else tuple(cov_type)
    for kind in kinds:
        check_cov_type(kind)
    if not kinds:
        raise InputError("cov_type must name at least one covariance.", argument="cov_type")
    if clusters and not {*BY_CLUSTER} & set(kinds):
        raise InputError(
            "cluster= is for cov_type='cluster', 'CR2' or 'CR3'; pass both.", argument="cov_type"
        )
    alone = next((kind for kind in kinds if kind in ADJUSTED), None)
    if alone and len(clusters) > 1:
        raise NotExactError(
            f"{alone} leaves out one cluster at a time, so it is for one column of clusters; use"
            " cov_type='cluster' for several."
        )
    if submodels and not {"HC0", "HC1", *BY_CLUSTER} & set(kinds):
        raise InputError(
            "submodels=True stores the sums of HC0, HC1 or clustered errors; name one of them in"
            " cov_type=. Classical errors of submodels need nothing stored.",
            argument="submodels",
        )
    return kinds


def check_labels(kinds: Sequence[str], clusters: Sequence[str]) -> None:
    """Raise if a clustered covariance has no labels of clusters."""
    by_cluster = next((kind for kind in kinds if kind in BY_CLUSTER), None)
    if by_cluster and not clusters:
        raise InputError(
            f"cov_type={by_cluster!r} needs a column that labels the clusters.",
            argument="cluster",
            remedy="Pass its name as cluster=.",
        )


def check_design(design: Any) -> None:
    """Raise if a batch of dense rows would not fit in memory, and name the widest term."""
    width = len(design.names)
    if width > MOST_COLUMNS:
        widest = max(design.terms, key=lambda term: len(term.columns))
        text = ":".join(factor for factor, _ in widest.factors)
        raise InputError(
            f"The formula has {width:,} columns, {len(widest.columns):,} of them of the term"
            f" {text!r}; a table has at most {MOST_COLUMNS:,}. Join levels, remove the term, or use"
            " it as cluster=."
        )


def check_switches(**switches: Any) -> None:
    """Raise for a switch that is no boolean; None is its default."""
    for name, switch in switches.items():
        if switch not in (None, True, False):
            raise InputError(f"{name} must be True or False, not {switch!r}.", argument=name)


def drops_collinear(on_collinear: Any) -> bool:
    """Whether columns that are combinations of others are left out."""
    check_choice("on_collinear", on_collinear, "error", "drop")
    return bool(on_collinear == "drop")


def weight_column(weight: Any, frequencies: Any, quantiles: bool) -> str | None:
    """The column of the weights, which are either inverse variances or frequencies."""
    for name, given in (("weights", weight), ("frequencies", frequencies)):
        if given is not None and not isinstance(given, str):
            raise InputError(
                f"{name} must be the name of a column of the data, not {shown_value(given)}.",
                argument=name,
            )
    if frequencies is not None and (weight is not None or quantiles):
        raise InputError(
            "frequencies= cannot be combined with weights= or residual_quantiles=; repeat the rows,"
            " or leave one of them out.",
            argument="frequencies",
        )
    return frequencies if weight is None else str(weight)


def check_formula(formula: Any, data: Any) -> None:
    """Raise if there is no formula, or no data for it."""
    if not isinstance(formula, str):
        raise InputError(
            f"The first argument must be a formula or a coreset, not {type(formula).__name__}; the"
            " data comes second: ols('y ~ x1 + x2', frame_or_path).",
            argument="formula",
        )
    if data is None:
        raise InputError("A formula needs data: ols('y ~ x', frame_or_path).", argument="data")


def check_responses(formula: Any, on_missing: str) -> None:
    """Refuse to drop rows where there are several responses."""
    if len(formula.responses) > 1 and on_missing == "drop":
        raise InputError(
            "With several responses, rows that lack one of them would be left out of the tables of"
            " the others, too. Call ols for each response, or drop rows in the data first.",
            argument="on_missing",
        )


def check_effects(no_data: bool, frequencies: Any, quantiles: bool, submodels: bool) -> None:
    """Refuse what does not go with absorbed effects."""
    if no_data:
        raise InputError(
            "Fixed effects behind '|' need the data: ols('y ~ x | firm', frame_or_path).",
            argument="data",
        )
    if frequencies is not None or quantiles or submodels:
        raise InputError(
            "frequencies=, residual_quantiles= and submodels= cannot be combined with fixed effects"
            " behind '|'; leave them out.",
            argument="frequencies",
        )


FOR_EFFECTS = {  # what arguments are for that only tables with fixed effects take
    "memory": "the pairs of levels of fixed effects, as in 'y ~ x | firm + year'",
    "split": "tables with fixed effects, as in 'y ~ x | firm'; karat.cube fits the same formula in"
    " every cell of a column",
    "checkpoint": "tables with fixed effects, as in 'y ~ x | firm + year'",
}
FOR_EFFECTS["fsplit"] = FOR_EFFECTS["split"]


def refuse_without_effects(**given: Any) -> None:
    """Raise for an argument that only tables with fixed effects take."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name}= is for {FOR_EFFECTS[name]}.", argument=name)


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
