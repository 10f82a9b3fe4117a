"""Plan: what a coreset would cost, and by which method, before any data is read.

in memory  one pass over the rows; a few thousand of them are looked at twice
files      one pass at the speed of the disk; every FOLD rows, the rows held are reduced again
cluster    every partition is read where it lies; messages of at most `rows` rows travel and are
           merged in a tree

Latent-variable problems take one more pass, for the maps, and its sums travel too.  Rows that
dominate a moment (heavy tails) are kept in addition to those that are planned: peeled rows, which
only the data can show.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from numbers import Integral

from karat.core.synthetic import KEEP, SYNTHETIC, RowKind, check_rows_argument, made_memory
from karat.core.wording import PAGE, amount, notebook_box
from karat.data.arguments import chosen_problem
from karat.engine.blocked import cores
from karat.engine.kernel import Kernel
from karat.engine.reduce import first_candidates
from karat.engine.rows import block_rows
from karat.engine.stream import FOLD
from karat.errors import InputError, check_integer
from karat.problems import Problem

REDUCTION = 14  # operations of a reduction over the cube of the number of features
MADE = 8  # operations of making and proving rows over the cube of the number of columns
WIDE = 2000  # features from which on synthetic rows are worth a hint
MEMORY = 10**9  # bytes that a run over files takes, unless it is told otherwise
FAN = 8  # messages merged at once
ENTRY = 300  # bytes that an array takes in an archive beside its numbers
SOURCES = ("memory", "files", "cluster")


@dataclass(frozen=True)
class Plan:
    """What to expect.

    Attributes
    ----------
    rows : int
        Most rows the coreset can have (fewer where the features depend on each other); peeled
        rows, which dominate a moment, are kept in addition.
    memory : int
        Bytes in addition to the data; for files and clusters, all bytes of one process.
    passes : int
        Passes over the data on well-behaved data.
    operations : float
        Floating-point operations in all, to an order of magnitude; seconds depend on the machine.
    method : str
        What ``method="auto"`` would try first; "sketch" for files and clusters.
    why : str
        The reason, in words.
    travels : int
        Bytes sent from one machine of a cluster to another; 0 for other sources.
    """

    rows: int
    memory: int
    passes: int
    operations: float
    method: str
    why: str
    travels: int = 0

    def __str__(self) -> str:
        beside = "in addition to the data" if self.method != "sketch" else "in each process"
        travels = f" {self.travels / 1e6:,.3g} MB travel." if self.travels else ""
        return (
            f"At most {self.rows:,} rows, about {self.memory / 1e6:,.0f} MB {beside}, {self.passes}"
            f" pass{'es' if self.passes != 1 else ''}, about {self.operations:.0e} operations, by"
            f" {self.method}.{travels} {self.why}"
        )

    def _repr_html_(self) -> str:
        facts = {
            "rows kept": f"at most {self.rows:,}",
            "memory": f"about {amount(self.memory)}",
            "passes": str(self.passes),
            "operations": f"about {PAGE.error(self.operations)}",
            "method": f"{self.method}. {self.why}",
        }
        return notebook_box(
            "Plan", facts | ({"sent": amount(self.travels)} if self.travels else {})
        )


def plan(
    problem: Problem | None = None,
    n: int | None = None,
    d: int | None = None,
    *,
    targets: int = 1,
    groups: int = 1,
    rows: RowKind = "real",
    source: str = "memory",
    partitions: int = 1,
    workers: int = 1,
) -> Plan:
    """What a coreset of n rows and d columns would cost.

    The number of rows is the bound for data without dominating rows.  With heavy tails, rows that
    hold much of a moment are kept in addition (``Certificate.peeled``), and more passes are needed;
    a plan cannot foresee them.

    Parameters
    ----------
    problem : Problem, optional
        What must not change; :class:`~karat.problems.LeastSquares` by default.
    n, d : int
        Rows and columns (without the target).  Of MultiView, columns of a view; of HiddenMarkov,
        dimensions or symbols.
    targets : int
        Columns of y, for problems that have a target.
    groups : int
        Number of groups (folds).
    rows : {"real", "synthetic"}
        As in :func:`karat.coreset`.
    source : {"memory", "files", "cluster"}
        :func:`karat.coreset`; :func:`karat.coreset_files`; ``karat.dask.coreset`` or
        ``karat.spark.coreset``.
    partitions, workers : int
        Of a cluster: parts of the data, and parts that are read at the same time.

    Examples
    --------
    >>> import karat
    >>> karat.plan(n=1_000_000, d=10).rows
    78
    >>> karat.plan(n=1_000_000, d=300, rows="synthetic").rows
    302
    >>> karat.plan(n=10**12, d=10, source="cluster", partitions=10_000).passes
    1
    """
    if isinstance(problem, Integral) or n is None or d is None:
        raise InputError(
            "plan needs the size of the data by name: karat.plan(n=1_000_000, d=10); the problem,"
            " if there is one, comes first."
        )
    problem = chosen_problem(problem, with_target=True)
    counts = {
        "n": n, "d": d, "targets": targets, "groups": groups, "partitions": partitions,
        "workers": workers,
    }  # fmt: skip
    for name, value in counts.items():
        check_integer(name, value)
    if source not in SOURCES:
        raise InputError(f"source must be one of {', '.join(SOURCES)}, not {source!r}.")
    if source != "cluster" and (partitions, workers) != (1, 1):
        raise InputError("partitions and workers are for source='cluster'.")
    if groups > 1 and "groups" not in problem.takes:
        raise InputError(f"{problem.describe()} does not take groups; plan one coreset per group.")
    check_rows_argument(rows, problem, "auto", KEEP)
    if rows == SYNTHETIC:
        return _synthetic_plan(
            n, d + (targets if problem.needs_target else 0), groups, source, partitions, workers
        )
    kernel = problem.kernel(d, targets if problem.needs_target else 0)
    most = problem.width(d, targets)
    targets = targets if problem.needs_target else 0
    columns = d + targets + 1
    if source != "memory":
        partition_rows = ceil(n / partitions)
        fixed, each = problem.fold_memory(d, targets)
        memory = groups * fixed + each * min(partition_rows, FOLD)
        return _streamed(
            problem, kernel, n, d + targets, groups, memory, source == "cluster", partitions,
            workers,
        )  # fmt: skip
    width, (left, right) = kernel.width, kernel.product_shape
    block, ranges = block_rows(columns, left, right)
    threads = min(ranges, cores())
    share = ceil(n / groups)
    candidates = first_candidates(share, kernel)
    if candidates == share:
        why = (
            f"There are at most {ceil(share / width)} times as many rows as features ({width:,}):"
            " all are candidates."
        )
    else:
        why = (
            f"{candidates:,} of {share:,} rows are candidates enough on well-behaved data. If no"
            " weights on them meet the moments (rare categories, heavy tails), the tree follows:"
            " two more readings. Rows that dominate a moment are kept on top (peeled rows)."
        )
    beside = 8 * (
        4 * candidates * width + 6 * width**2 + 2 * threads * block * (columns + left + right)
    )
    operations = n * 2 * left * right + groups * REDUCTION * width**3
    passes = 1 if problem.mergeable else 2
    if problem.absorb is not None:
        passes += 1
        why += (
            " The regulariser then absorbs what it can: one more pass, and for the box one per"
            " round of pricing; usually fewer rows are kept."
        )
    if not problem.needs_real_rows and width > WIDE:
        made = groups * (d + targets + 1)
        why += f" With rows='synthetic', {made:,} made rows would do, at the price of one pass."
    return Plan(min(n, groups * most), int(beside), passes, float(operations), "onepass", why)


def _synthetic_plan(
    n: int, columns: int, groups: int, source: str, partitions: int, workers: int
) -> Plan:
    """Synthetic rows: one pass, a factorisation, and the proof; sums travel."""
    most = groups * (columns + 1)
    fixed, each = made_memory(columns)
    threads, size = cores(), 8 * (columns + 1) ** 2
    operations = float(n * columns**2 + groups * MADE * columns**3)
    why = (
        "The rows are made, not rows of the data: rank + 1 of them have the second moments of all"
        " rows. Columns whose means are more than about 1e5 times their spread take twice as many;"
        " rows far from all others are kept on top."
    )
    if source == "memory":
        return Plan(most, groups * size + (6 + threads) * size, 1, operations, SYNTHETIC, why)
    partition_rows = ceil(n / partitions)
    waiting = min(each * min(partition_rows, FOLD), max(MEMORY - fixed, 1000 * each))
    memory = groups * fixed + waiting
    if source == "files":
        return Plan(
            most, memory, 1, operations, "sketch", f"One pass at the speed of the disk. {why}"
        )
    messages, level = partitions, partitions
    while level > FAN:
        level = ceil(level / FAN)
        messages += level
    travels = messages * groups * 4 * size
    why = (
        f"{partitions:,} partitions are read where they lie, {min(workers, partitions):,} at a"
        f" time; sums travel. {why}"
    )
    return Plan(most, memory, 1, operations, "sketch", why, travels)


def _streamed(
    problem: Problem, kernel: Kernel, n: int, columns: int, groups: int, memory: int, cluster: bool,
    partitions: int, workers: int,
) -> Plan:  # fmt: skip
    """Files and clusters: read once or twice, folded on the way, messages merged in a tree."""
    most = min(n, groups * kernel.width)
    partition_rows = ceil(n / partitions)
    stored, first, passes = (
        problem.tables * columns + 1,
        problem.sums_size(columns),
        1 + int(problem.needs_sums),
    )
    left, right = kernel.product_shape
    fold = 2 * groups * REDUCTION * kernel.width**3
    folds = partitions * ceil(partition_rows / FOLD)
    operations = n * (2 * first + 2 * left * right) + folds * fold
    if not cluster:
        times = "Two passes (maps, then tensor)" if first else "One pass"
        why = (
            f"{times} at the speed of the disk; after every {FOLD:,} rows those held are reduced to"
            f" {most:,} again. Rows that dominate a moment are kept on top (peeled rows)."
        )
        return Plan(most, memory, passes, float(operations), "sketch", why)
    # A message holds the rows, those on which the coordinates were fitted, and the running sums.
    held, sums = min(partition_rows, most) * (stored + 2), 2 * groups * kernel.statistic_size
    if kernel.adapts:
        held, sums = 2 * held, sums + 2 * groups * stored**2
    message = 8 * (first + held + sums) + (ENTRY * (stored + 8) if first else 0)
    messages, levels, level = partitions, 0, partitions
    while level > FAN:
        level = ceil(level / FAN)
        messages, levels = messages + level, levels + 1
    operations += (messages - partitions + 1) * fold
    why = (
        f"{partitions:,} partitions are read where they lie{', twice' if first else ''},"
        f" {min(workers, partitions):,} at a time; each sends at most {message / 1e3:,.3g} kB,"
        f" merged {FAN} at a time on {levels + 1} level{'s' if levels else ''}."
    )
    return Plan(most, memory, passes, float(operations), "sketch", why, int(messages * message))
