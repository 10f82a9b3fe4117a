"""Signals, terminals, narrow and otherwise, help and start-up."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.conftest import KARAT, command, environment, leftovers

import karat

pty = pytest.importorskip("pty", reason="Windows has no such terminals")
termios = pytest.importorskip("termios")

COMMANDS = [
    "build",
    "train",
    "regress",
    "verify",
    "report",
    "inspect",
    "merge",
    "plan",
    "demo",
    "reproduce",
]


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A build that takes some seconds: rows that are folded a thousand at a time."""
    home = tmp_path_factory.mktemp("slow")
    rng = np.random.default_rng(3)
    names = [f"x{i}" for i in range(6)]
    columns = {name: rng.standard_normal(2_000_000) for name in names}
    pq.write_table(pa.table(columns), home / "rows.parquet", row_group_size=20_000)
    return [
        "build",
        home / "rows.parquet",
        "--problem",
        "moments",
        "--degree",
        "3",
        "--memory",
        "3MB",
    ]


@pytest.mark.nightly
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_nothing_half_written_and_a_checkpoint_resumes(
    number, code, slow, tmp_path
):
    line = [*slow, "-o", tmp_path / "core.parquet", "--checkpoint", tmp_path / "run.npz"]
    process = subprocess.Popen(
        [KARAT, *map(str, line)], env=environment(), stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while (
        not (tmp_path / "run.npz").exists()
        and process.poll() is None
        and time.monotonic() < deadline
    ):
        time.sleep(0.01)
    assert process.poll() is None, "it ended before it could be stopped"
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert errors == "Stopped; no file was left half-written.\n"
    assert not (tmp_path / "core.parquet").exists()
    assert not leftovers(tmp_path)
    if number == signal.SIGINT:
        assert command(*line).code == 0
        core = karat.load(tmp_path / "core.parquet")
        assert core.n_rows == 2_000_000
        assert np.isclose(core.weights.sum(), 2_000_000)


def on_terminal(*arguments, **env):
    """Run with both outputs on a terminal of 80 columns; the exit code and all that appeared."""
    main, side = pty.openpty()
    termios.tcsetwinsize(side, (24, 80))
    found = []

    def read():
        try:
            while block := os.read(main, 4096):
                found.append(block)
        except OSError:  # the other side is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    settings = environment(TERM="xterm-256color", **env)
    process = subprocess.run(
        [KARAT, *map(str, arguments)], stdout=side, stderr=side, env=settings, check=False
    )
    os.close(side)
    reader.join()
    os.close(main)
    return process.returncode, b"".join(found).decode()


@pytest.mark.nightly
def test_a_terminal_shows_progress_and_colour_and_respects_no_color(slow, core, tmp_path):
    code, shown = on_terminal(*slow, "-o", tmp_path / "core.parquet")
    assert code == 0
    for words in ("Reading", "/2.00M", "rows/s", "00:0"):
        assert words in shown
    colour = re.compile(r"\x1b\[(?:\d+;)*(?:3|9)\d")
    assert colour.search(shown)
    code, shown = on_terminal("verify", core, NO_COLOR="1")
    assert code == 0
    assert "proven" in shown
    assert not colour.search(shown)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_tables_and_help_fit_the_width(width, core, inside, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = inside("inspect", core).out
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= width
    for word in ("worst", "weight", "privacy"):
        assert word in shown


def test_help_on_a_narrow_terminal_names_every_option():
    shown = command("build", "--help", env={"COLUMNS": "40"})
    for option in ("--drop-columns", "--on-missing", "--no-total-weight", "--checkpoint"):
        assert option in shown.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name, inside):
    shown = inside(name, "--help")
    assert shown.code == 0
    assert f"Example:  karat {name}" in shown.out
    assert "--json" in shown.out


def test_help_imports_little():
    code = (
        "import sys; from karat.cli.app import run_command\nassert run_command(['--help']) =="
        " 0\nprint('LOADED', *[m for m in ('numpy', 'scipy', 'pyarrow', 'sklearn', 'pandas') if m"
        " in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.stdout.splitlines()[-1].strip() == "LOADED"


def test_version_and_no_arguments():
    assert command("--version").out == f"karat {karat.__version__}\n"
    assert "Commands" in command().out


def test_completion_knows_commands_and_problems():
    def complete(line, word):
        settings = {"_KARAT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(word)}
        return command(env=settings).out.split()

    assert complete("karat tr", 1) == ["train"]
    assert complete("karat build x.csv --problem la", 4) == ["latent-dirichlet"]


def test_the_demo_keeps_its_promise(inside):
    found = inside("demo", "--rows", "20000", "--json").json
    _, path, kept, drawn = found["ways"]
    assert found["solver_tolerance"] == 1e-12
    assert path["error"] < 1e-10
    assert found["verified"]
    assert kept["error"] < 1e-10
    assert drawn["error"] > 1e-3
    assert "Huber" in found["refusal"]
    shown = inside("demo", "--rows", "20000").out
    assert "20,000 rows" in shown
    assert "at random" in shown
    assert "tolerance of 1e-12" in shown
    assert "lasso_path" in shown
