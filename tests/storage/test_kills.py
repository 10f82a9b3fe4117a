"""A part of the campaign of ``kills.py``."""

import pytest
from storage import kills


@pytest.mark.nightly
def test_killed_runs_end_with_the_same_coreset():
    done, ended = kills.campaign(4, kinds=("csv", "sequences"), a_run=2)
    assert done >= 4
    assert ended >= 2  # every kind: a run that has been killed twice may end


@pytest.mark.nightly
def test_killed_runs_end_with_the_same_made_rows():
    made = tuple(kind for kind in kills.KINDS if kind.startswith("synthetic"))
    done, ended = kills.campaign(60, kinds=made)
    assert done >= 60
    assert ended >= len(made)
