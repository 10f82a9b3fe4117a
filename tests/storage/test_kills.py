"""A part of the campaign of ``kills.py``."""

import pytest
from storage import kills


@pytest.mark.slow
def test_killed_runs_end_with_the_same_coreset():
    done, ended = kills.campaign(8, kinds=("groups", "csv", "sequences"), a_run=3)
    assert done >= 8
    assert ended >= 3  # every kind: a run that has been killed three times may end
