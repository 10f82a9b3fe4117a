"""Input data: containers of rows, checks of arguments, batches."""
