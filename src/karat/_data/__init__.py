"""Checked input: containers of rows, batches, arguments."""
