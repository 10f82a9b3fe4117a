"""A part of the campaign of ``kills.py``."""

import pytest
from storage import kills


@pytest.mark.nightly
def test_killed_runs_end_with_the_same_coreset():
    done, ended = kills.campaign(4, kinds=("csv", "sequences"), a_run=2)
    assert done >= 4
    assert ended >= 2  # every kind: a run that has been killed twice may end
