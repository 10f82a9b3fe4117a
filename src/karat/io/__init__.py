"""Rows in files: one pass over Parquet, CSV or Arrow data that need not fit in memory."""

from karat.errors import MissingExtraError

try:
    import pyarrow  # noqa: F401
except ImportError:
    raise MissingExtraError("karat.io", "io") from None

from karat.io.build import coreset_files
from karat.io.sample import sample_rows
from karat.io.verdict import FileVerification
from karat.io.verify import verify_files

__all__ = ["FileVerification", "coreset_files", "sample_rows", "verify_files"]
