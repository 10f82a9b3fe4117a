"""Rows in files: one pass over Parquet, CSV or Arrow data that need not fit in memory."""

from karat.io._run import coreset_files
from karat.io._sample import sample_rows
from karat.io._verdict import FileVerification
from karat.io._verify import verify_files

__all__ = ["FileVerification", "coreset_files", "sample_rows", "verify_files"]
