"""Rows that come in batches."""
