"""Bad data, bad files, bad places: one error message, exit code 2, nothing half-written."""

import ctypes
import gzip
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.conftest import KARAT, command, environment, leftovers, refused

import karat

resource = pytest.importorskip("resource", reason="Windows has no such limits")


def cut_parquet(path, data):
    path.write_bytes((data / "rows.parquet").read_bytes()[:20_000])


def huge_line(path, data):
    path.write_bytes(b"a,b,c,y\n1,2,3,4\n" + b"7" * (2**24 + 10) + b",1,1,1\n")


SOURCES = {
    "missing.parquet": (lambda path, data: None, "The file or folder"),
    "empty.csv": (lambda path, data: path.touch(), "empty.csv"),
    "header.csv": (lambda path, data: path.write_text("a,b,c,y\n"), "no rows"),
    "empty.parquet": (lambda path, data: path.touch(), "cannot be read as Parquet"),
    "cut.parquet": (cut_parquet, "cannot be read as Parquet"),
    "rows.xlsx": (lambda path, data: path.write_bytes(b"PK"), "no known format"),
    "wide.csv": (huge_line, "a line of more than 16 MB"),
    "latin.csv": (
        lambda path, data: path.write_bytes("a,b,größe,y\n1,2,3,4\n".encode("latin-1")),
        "utf-8",
    ),
    "damaged.csv.gz": (
        lambda path, data: path.write_bytes(gzip.compress(b"a,y\n" + b"1,2\n" * 9999)[:-30]),
        "cannot be read",
    ),
    "ragged.csv": (
        lambda path, data: path.write_text("a,b,c,y\n1,2,3,4\n1,2,3\n"),
        "line 3",
        "--on-missing drop",
    ),
    "text.csv": (
        lambda path, data: path.write_text("a,b,c,y\n" + "1,2,3,4\n" * 200 + "1,oops,3,4\n"),
        "line 202",
        "'b'",
        "oops",
    ),
    "twins.csv": (lambda path, data: path.write_text("a,a,y\n1,2,3\n"), "two columns named 'a'"),
    "gap.csv": (
        lambda path, data: path.write_text("a,b,c,y\n1,2,3,4\n1,2,,4\n"),
        "line 3",
        "'c' has no value",
        "--on-missing drop",
    ),
    "broken-disk.csv": (lambda path, data: path.symlink_to("/proc/self/mem"), "broken-disk.csv"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_bad_data(name, inside, data, tmp_path):
    make, *words = SOURCES[name]
    make(tmp_path / name, data)
    refused(inside("build", tmp_path / name, "-t", "y", "-o", tmp_path / "core.parquet"), *words)
    assert not (tmp_path / "core.parquet").exists()
    assert not leftovers(tmp_path)


def without_privileges():
    """Let the permissions of files hold for root, too: drop CAP_DAC_OVERRIDE (1) and
    CAP_DAC_READ_SEARCH (2).
    """
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.nightly
def test_permissions(data, tmp_path):
    closed, secret = tmp_path / "closed", tmp_path / "secret.parquet"
    closed.mkdir()
    closed.chmod(0o500)
    secret.write_bytes((data / "rows.parquet").read_bytes())
    secret.chmod(0)
    line = ["-t", "y", "-o"]
    refused(
        command("build", secret, *line, tmp_path / "core.npz", preexec_fn=without_privileges),
        "secret.parquet",
        "ermission",
    )
    rows = data / "rows.parquet"
    refused(
        command("build", rows, *line, closed / "core.npz", preexec_fn=without_privileges),
        "closed is not writable",
    )


def test_columns_that_do_not_fit(data, tmp_path, inside):
    rest = ["-o", tmp_path / "core.parquet"]
    refused(
        command("build", data / "all.parquet", "-t", "hue", "--columns", "a", *rest),
        "The target 'hue' is text",
        "numeric target",
    )
    refused(
        inside("build", data / "all.parquet", "-t", "y", *rest),
        "'hue'",
        "not numeric",
        "--drop-columns",
    )
    refused(
        inside("build", data / "all.parquet", "-t", "why", *rest), "--target why", "no such column"
    )
    refused(
        inside("build", data / "all.parquet", "-t", "y", "--columns", "a,bb", *rest), "--columns bb"
    )
    refused(
        inside("build", data / "all.parquet", "-t", "y", "--columns", "a,y", *rest),
        "'y' is the target",
        "out of the features.",
    )
    refused(
        inside("build", data / "all.parquet", "-t", "y", "--weight", "ww", *rest),
        "--weight ww",
        "did you mean w?",
    )
    refused(
        inside("build", data / "all.parquet", "--columns", "a", "--drop-columns", "b", *rest),
        "Use only one of",
    )
    refused(
        inside("build", data / "rows.parquet", data / "rows.csv", "-t", "y", *rest),
        "mixes csv and parquet",
    )


OPTIONS = {
    "an option of another problem": (
        ["--problem", "moments", "--alpha", "1"],
        "--alpha does not apply to --problem moments",
    ),
    "a flag of another problem": (
        ["--problem", "mean", "--no-intercept"],
        "--no-intercept does not apply to --problem mean",
    ),
    "a missing option": (["--target", "y", "--problem", "lp"], "--problem lp needs --p"),
    "a wrong value": (["--target", "y", "--problem", "lp", "--p", "3"], "even p"),
    "a missing target": (["--problem", "ridge"], "--problem ridge needs --target"),
    "a target too many": (["--problem", "mean", "--target", "y"], "has no target"),
    "an unknown problem": (
        ["--problem", "rigde"],
        "'rigde' is not one of",
        "See 'karat build --help'",
    ),
    "an unknown option": (["--aplha", "1"], "No such option"),
    "not a number": (["--alpha", "many"], "--alpha", "valid"),
    "too little memory": (["--target", "y", "--memory", "3kB"], "too small"),
    "not an amount of memory": (["--memory", "lots"], "500MB"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_use(name, data, tmp_path, inside):
    options, *words = OPTIONS[name]
    refused(
        inside("build", data / "rows.parquet", *options, "-o", tmp_path / "core.parquet"), *words
    )
    assert not list(tmp_path.iterdir())


def test_places_that_cannot_be_written(data, tmp_path, inside):
    source = ["build", data / "rows.parquet", "-t", "y", "-o"]
    refused(inside(*source, tmp_path / "no" / "core.parquet"), "does not exist")
    refused(inside(*source, "/proc/core.parquet"), "/proc")
    refused(inside(*source, tmp_path / "core.txt"), ".parquet or .npz")
    refused(inside(*source, data / "rows.parquet"), "is the data itself")
    link = tmp_path / "link.parquet"
    link.symlink_to(data / "rows.parquet")
    refused(inside(*source, link), "is the data itself")
    refused(
        inside("build", data / "parts", "-t", "y", "-o", data / "parts" / "core.parquet"),
        "is in the folder",
    )
    (tmp_path / "mine.parquet").write_text("not a coreset")
    refused(inside(*source, tmp_path / "mine.parquet"), "is not a coreset", "--force")
    assert (tmp_path / "mine.parquet").read_text() == "not a coreset"
    assert inside(*source, tmp_path / "mine.parquet", "--force").code == 0
    assert len(karat.load(tmp_path / "mine.parquet")) == 15


@pytest.mark.nightly
def test_a_full_disk_leaves_what_was_there(core, data, tmp_path):
    before = core.read_bytes()
    (tmp_path / "core.parquet").write_bytes(before)

    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    result = command(
        "build",
        data / "rows.parquet",
        "-t",
        "y",
        "--seed",
        "3",
        "-o",
        tmp_path / "core.parquet",
        preexec_fn=small_disk,
    )
    refused(result, "could not be written", "unchanged")
    assert (tmp_path / "core.parquet").read_bytes() == before
    assert not leftovers(tmp_path)


@pytest.mark.nightly
def test_standard_output_on_a_full_disk(core):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [KARAT, "inspect", core, "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_early(core):
    done = subprocess.run(
        f"'{KARAT}' inspect '{core}' | true; echo ${{PIPESTATUS[0]}}", shell=True,
        executable="/bin/bash", env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    # 128 + SIGPIPE, as of any tool; never 0, which a failed verification might hide behind
    assert done.stdout.strip() == "141"
    assert done.stderr == ""


def other_version(core, path):
    """The coreset as a later karat might write it."""
    rows = pq.ParquetFile(core)
    header = json.loads(rows.metadata.metadata[b"karat"])
    header["format_version"] = 99
    table = rows.read()
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({b"karat": json.dumps(header).encode()})


def test_files_that_are_no_coresets(core, data, tmp_path, inside):
    other_version(core, tmp_path / "later.parquet")
    refused(inside("inspect", tmp_path / "later.parquet"), "version 99", "Update karat")
    refused(inside("inspect", data / "rows.parquet"), "not a coreset")
    for name in ("inspect", "train"):
        refused(
            inside(name, data / "rows.csv"),
            "rows.csv is a data file (CSV), not a coreset",
            "karat build",
        )
    (tmp_path / "notes.npz").write_text("not an archive")
    refused(inside("inspect", tmp_path / "notes.npz"), "not a coreset file")
    refused(inside("train", tmp_path / "nowhere.parquet"), "There is no file")
    (tmp_path / "half.parquet").write_bytes(core.read_bytes()[:500])
    refused(
        inside("merge", core, tmp_path / "half.parquet", "-o", tmp_path / "m.npz"),
        "half.parquet",
        "damaged",
    )
    refused(inside("merge", core, "-o", tmp_path / "m.npz"), "at least two coresets")
    refused(inside("merge", core, core, "-o", core), "is the data itself")
    assert not (tmp_path / "m.npz").exists()


def test_an_error_is_a_json_document_for_scripts_and_a_traceback_for_debugging(tmp_path):
    script = command("inspect", tmp_path / "no.npz", "--json")
    assert script.code == 2
    assert "There is no file" in script.json["error"]
    debug = command("inspect", tmp_path / "no.npz", "--debug")
    assert debug.code == 2
    assert "Traceback" in debug.err


WITHOUT = """
import sys
sys.modules[{package!r}] = None
from karat.cli import main
main({arguments!r})
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("package", "arguments", "words"),
    [
        ("typer", ["--help"], "karat[cli]"),
        ("sklearn", ["train", "CORE", "--model", "lasso", "--alpha", "1"], "karat[sklearn]"),
        ("pyarrow", ["build", "DATA", "-o", "x.npz"], "karat[io]"),
        ("jinja2", ["report", "CORE", "-o", "x.html"], "karat[report]"),
    ],
)
def test_a_package_that_is_not_installed(package, arguments, words, core, data, tmp_path):
    np.savez(tmp_path / "x.npz")
    karat.load(core).save(tmp_path / "core.npz")
    paths = {"CORE": str(tmp_path / "core.npz"), "DATA": str(data / "rows.parquet")}
    code = WITHOUT.format(package=package, arguments=[paths.get(a, a) for a in arguments])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=data,
        check=False,
    )
    assert done.returncode == 2
    assert f"pip install '{words}'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_report_draws_without_matplotlib(core, data, tmp_path):
    """The extra ``cli`` does without it: it brings 80 MB."""
    code = WITHOUT.format(
        package="matplotlib", arguments=["report", str(core), "-o", str(tmp_path / "x.html")]
    )
    subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=environment(), cwd=data, check=True
    )
    assert "<svg" in (tmp_path / "x.html").read_text()


def test_data_are_not_overwritten_by_any_spelling(tmp_path, inside):
    path = tmp_path / "e[1].parquet"
    pq.write_table(pa.table({"x": np.arange(50.0) ** 2, "y": np.arange(50.0)}), path)
    before = path.read_bytes()
    for source in (str(path), f"file://{path}", f"file://{tmp_path}"):
        refused(inside("build", source, "-t", "y", "-o", str(path), "--force"), "choose another")
    refused(
        inside(
            "build",
            str(path),
            "-t",
            "y",
            "-o",
            f"{tmp_path}/c.npz",
            "--checkpoint",
            f"{tmp_path}/c.npz",
        ),
        "are the same file",
    )
    assert path.read_bytes() == before
