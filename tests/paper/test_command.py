"""make reproduce, which is ``python -m paper``, and what became of ``karat reproduce``."""

import subprocess
import sys
from pathlib import Path

import pytest
from cli.conftest import Result, command, environment, refused

ROOT = Path(__file__).parents[2]


def paper(*arguments, **env):
    """Run ``python -m paper`` in the repository, as ``make reproduce`` does."""
    line = [sys.executable, "-m", "paper", *map(str, arguments)]
    done = subprocess.run(
        line,
        cwd=ROOT,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.mark.nightly
def test_tables_without_data_or_network(tmp_path):
    """One line says what is missing, once; the exit code is 0, for nothing failed."""
    env = {"KARAT_DATA": "", "SCIKIT_LEARN_DATA": str(tmp_path / "cache")}
    result = paper("--only", "table1,table2", "--quick", "--offline", "-o", tmp_path / "out", **env)
    assert result.code == 0, result.err
    assert result.err.splitlines() == ["table1 (1 of 2)", "table2 (2 of 2)"]
    assert result.out.count("Glass is left out") == 1
    assert "2 parts left out" in result.out
    assert f"The page: {tmp_path / 'out' / 'index.html'}" in result.out
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "index.html", "table1_rmse.csv", "table1_sizes.csv", "table2_losses.csv",
        "table2_sizes.csv",
    }  # fmt: skip


def test_an_unknown_experiment_and_a_file_for_a_folder(tmp_path):
    wrong = paper("--only", "table9", "-o", tmp_path)
    assert wrong.code == 2
    assert "There is no experiment table9" in wrong.err
    (tmp_path / "file").write_text("")
    wrong = paper("-o", tmp_path / "file")
    assert wrong.code == 2
    assert "is a file; --output names a folder." in wrong.err


def test_the_old_command_says_where_to_go():
    refused(command("reproduce"), "make reproduce", "clone")
