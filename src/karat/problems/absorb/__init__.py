"""Coresets of which a regulariser carries a part."""
