"""karat.io.csv_files: CSV files that are not read as they look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from karat.errors import InputError
from karat.io.csv import CsvFiles
from karat.io.find import open_source


def csv_files(
    source: Any,
    *,
    header: bool | Sequence[str] | None = None,
    dtype: Mapping[str, Any] | None = None,
) -> CsvFiles:
    """CSV files as a source for :func:`karat.coreset_files`, :func:`karat.verify_files`,
    :func:`karat.cube` and others, where these should not be read as they look.

    Parameters
    ----------
    source : path or list of paths
        As in :func:`karat.coreset_files`.
    header : bool or list of str, optional
        True: the first line of each file holds the names of the columns.  False: it is a row, and
        the columns are called 0, 1, 2, ...; a list of names: it is a row, and these are the names.
        By default it holds names, and a line that looks like a row is an error.
    dtype : dict of column to type, optional
        'str' (or ``str``), 'int', 'float', 'date' or 'datetime'.  By default labels (groups, keys,
        categories) are text, or dates in ISO form.  A label that is not written as a number of
        its type would be (007) is an error.
    """
    opened = open_source(source)
    if not isinstance(opened, CsvFiles):
        raise InputError("karat.io.csv_files is for CSV files; pass other sources as they are.")
    return opened.read_with(dtype, header)
