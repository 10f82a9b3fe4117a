"""Rows in files: one pass over Parquet, CSV or Arrow data that need not fit in memory."""

from karat.io._run import coreset_files

__all__ = ["coreset_files"]
