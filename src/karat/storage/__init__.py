"""Files: atomic writes, archives, Parquet."""
