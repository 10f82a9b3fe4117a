"""A part of the campaign of ``kills.py``."""

import pytest
from storage import kills


@pytest.mark.slow
def test_killed_runs_end_with_the_same_coreset():
    done, ended = kills.campaign(8, kinds=("groups", "csv", "sequences"))
    assert done >= 8
    assert ended >= 3
