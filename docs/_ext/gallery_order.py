"""The order of the gallery: what most people need first."""

from pathlib import Path

ORDER = [
    "lasso_path",
    "grid_search",
    "categories",
    "polynomial",
    "factories",
    "streams",
    "mixture",
    "cost",
    "new_problem",
    "when_not",
]


class ReadingOrder:
    """A sort key; what is not listed comes last, by name."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> tuple[int, str]:
        name = Path(filename).stem
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
