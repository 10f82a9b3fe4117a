"""Coresets and their certificates: construction, verification, merging, files."""
