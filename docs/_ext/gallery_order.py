"""The order of the gallery: the most useful examples first."""

from pathlib import Path

ORDER = [
    "lasso_path",
    "grid_search",
    "wide",
    "categories",
    "polynomial",
    "factories",
    "two_sites",
    "flights",
    "streams",
    "mixture",
    "cost",
    "new_problem",
    "when_not",
]


class ReadingOrder:
    """A sort key; files that are not listed come last, by name."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> tuple[int, str]:
        name = Path(filename).stem
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
