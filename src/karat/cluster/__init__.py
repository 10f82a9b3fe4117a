"""Sketches of partitions, merged in a tree."""
