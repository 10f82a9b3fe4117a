"""Tables of several responses, ``y1 + y2 ~ x``, from the same passes.

The rows that are kept have all responses, so their second moments give every table; the pass of the
scores takes the residuals of one response after the other.  Rows whose regressors are discrete are
joined in one pass, too, and each response has cells of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from karat.core.coreset import Coreset
from karat.data import containers
from karat.errors import UnknownLabelError
from karat.formulas.formula import Formula
from karat.inference import habits
from karat.inference.results import FullDataResults


@dataclass(frozen=True, eq=False)
class Tables(Mapping[str, Any]):
    """The tables of several responses, by the text of the response."""

    tables: dict[str, Any]

    def __getitem__(self, response: str) -> Any:
        if response not in self.tables:
            raise UnknownLabelError(
                f"There is no table of {response!r}; the responses are {', '.join(self.tables)}."
            )
        return self.tables[response]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __repr__(self) -> str:
        return f"<Tables of {', '.join(self.tables)}>"

    def __getattr__(self, name: str) -> Any:
        raise habits.no_attribute_of_several(self, FullDataResults, "fit[response]", name)

    def tidy(self, alpha: float = 0.05) -> pd.DataFrame:
        """The coefficients of all tables, one row for each."""
        return self._joined({name: table.tidy(alpha) for name, table in self.tables.items()})

    def glance(self) -> pd.DataFrame:
        """The statistics of the models, one row for each."""
        return self._joined({name: table.glance() for name, table in self.tables.items()})

    @staticmethod
    def _joined(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
        whole = pd.concat([frame.assign(response=name) for name, frame in frames.items()])
        return whole[["response", *whole.columns.drop("response")]].reset_index(drop=True)

    def summary(self, *args: Any, **kwargs: Any) -> str:
        """The tables as text, one below the other."""
        return "\n\n".join(str(table.summary(*args, **kwargs)) for table in self.tables.values())

    def _repr_html_(self) -> str:
        return "".join(table._repr_html_() for table in self.tables.values())


def by_response(core: Coreset, formula: Formula) -> list[Coreset]:
    """The coresets of several responses."""
    _, y = core.arrays()
    assert y is not None
    names = [response.text for response in formula.responses]
    return [
        replace(
            core, y=containers.frame_of("pyarrow", {name: column}, True, None),
            provenance=(core.provenance or {}) | {"target": name},
        )
        for name, column in zip(names, y.T.copy(), strict=True)
    ]  # fmt: skip
