"""Files are written whole or not at all, and what a killed process leaves is removed by the next
one.
"""

import os
import signal
import subprocess
import sys

import pytest

from karat.storage.archive import remove_leftovers, write_atomically

WRITER = """
import sys, time
from pathlib import Path
from karat.storage.archive import write_atomically

def write(file):
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
    file.write(b" and half")

write_atomically(Path(sys.argv[1]), write)
"""


@pytest.fixture
def writer(tmp_path):
    """A process that has written the half of a file and waits."""
    pytest.importorskip("fcntl")
    path = tmp_path / "core[1].npz"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WRITER, path], **pipes) as process:
        assert process.stdout.readline() == b"writing\n"
        yield process, path


def names(folder):
    return sorted(os.listdir(folder))


def test_a_part_that_is_being_written_stays(writer):
    process, path = writer
    write_atomically(path, lambda file: file.write(b"other"))
    assert path.read_bytes() == b"other"
    assert len(names(path.parent)) == 2
    process.communicate(b"\n")
    assert process.returncode == 0
    assert path.read_bytes() == b"half and half"
    assert names(path.parent) == [path.name]


def test_what_a_killed_process_leaves_is_removed(writer):
    process, path = writer
    process.send_signal(signal.SIGKILL)
    process.wait()
    (left,) = names(path.parent)
    assert left.endswith(".part")
    other = path.with_name("other.npz")
    write_atomically(other, lambda file: file.write(b"other"))
    assert names(path.parent) == [left, other.name]  # it belongs to another path
    write_atomically(path, lambda file: file.write(b"whole"))
    assert names(path.parent) == sorted([path.name, other.name])


def test_files_of_others_stay(tmp_path):
    for name in (".core.npz.mine.part", ".core.npz.part", "core.npz.0123456789abcdef.part"):
        (tmp_path / name).write_text("mine")
    before = names(tmp_path)
    remove_leftovers(tmp_path / "core.npz")
    assert names(tmp_path) == before


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "core.npz"
    path.write_bytes(b"old")

    def fail(file):
        file.write(b"new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fail)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["core.npz"]
