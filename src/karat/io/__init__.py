"""Rows in files and databases: one pass over data that need not fit in memory."""

from karat.errors import MissingExtraError

try:
    import pyarrow  # noqa: F401
except ImportError:
    raise MissingExtraError("karat.io", "io") from None

from karat.io.build import coreset_files
from karat.io.csv_source import csv_files
from karat.io.database import query
from karat.io.sample import sample_rows
from karat.io.verdict import FileVerification
from karat.io.verify import verify_files

__all__ = ["FileVerification", "coreset_files", "csv_files", "query", "sample_rows", "verify_files"]
