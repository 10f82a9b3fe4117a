"""Whether a stored table still matches its data."""

from __future__ import annotations

from typing import Any

from karat.core.coreset import Coreset
from karat.core.provenance import Provenance
from karat.data import containers
from karat.engine.rows import Progress
from karat.errors import InputError
from karat.formulas.passes import SourceRows, rows_again
from karat.io.verdict import FileVerification
from karat.io.verify import FileCheck


def verify(
    core: Coreset,
    data: Any = None,
    *,
    on_missing: str | None = None,
    progress: Progress | None = None,
) -> FileVerification:
    """Encode the rows of the data as the formula of a coreset says, and prove or refute it.

    Parameters
    ----------
    core : Coreset
        ``fit.coreset`` of :func:`ols`, or the coreset that was loaded from its file.
    data : optional
        The rows, as in :func:`ols`, but not in partitions; by default the files of the table.
    on_missing : {"error", "drop"}, optional
        As in :func:`ols`; by default as for the table.
    progress : callable, optional
        Called with (bytes read, total bytes) after every batch.

    Returns
    -------
    FileVerification
        Not ``ok`` if the regression of the rows is another one.
    """
    if core.regression is None:
        raise InputError("This coreset has no formula; use core.verify or karat.verify_files.")
    provenance = Provenance.read(core.provenance)
    data = provenance.given if data is None else data
    on_missing = on_missing or provenance.on_missing or "error"
    if isinstance(data, list) and not data:
        raise InputError("The coreset does not store its source; pass the data.", argument="data")
    if containers.partition_library(data) is not None:
        raise InputError("Rows in partitions cannot be verified; write them to files.")
    rows, layout = rows_again(core.regression.facts, data, on_missing, (), progress)
    assert isinstance(rows, SourceRows)
    return FileCheck(core, rows.source, layout, progress=progress).run()
