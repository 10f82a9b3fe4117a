"""The fuzzing harness: damaged bytes and hostile files, none of which may be believed or end in a
raw exception.

    python -m storage.fuzz 2000   (in the folder tests) prints what happened, and the peak of memory

A file is *believed* if it loads and differs from what was written.  `make test` runs a small part
(test_damage.py).
"""

from __future__ import annotations

import base64
import io
import json
import multiprocessing
import struct
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import karat
from karat import problems as P
from karat.core.files import described, shown_columns
from karat.storage.archive import content_digest, pack, plain, to_json
from karat.storage.parquet import pack_table

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 3))
Y = X @ [1.0, 2.0, -1.0] + RNG.standard_normal(400)


def picture(core):
    """Everything that a coreset says, for comparison."""
    header, arrays = described(core)
    return json.dumps(header, sort_keys=True, default=str), {
        k: (v.dtype.str, v.shape, v.tobytes()) for k, v in plain(arrays).items()
    }


def sketch_picture(sketch):
    header, arrays = sketch.state()
    return json.dumps(header, sort_keys=True, default=str), {
        k: (v.dtype.str, v.shape, v.tobytes()) for k, v in plain(arrays).items()
    }


def subjects(folder):
    """Files of every kind: name -> (bytes, reader)."""
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": Y, "g": np.arange(400) % 3})
    pq.write_table(table, folder / "data.parquet")
    filed = karat.coreset_files(
        folder / "data.parquet", "y", columns=["a", "b", "c"], groups="g", digest="sha256"
    )
    cores = {
        "files": filed,
        "plain": karat.coreset(X, Y),
        "absorbed": karat.coreset(X, Y, P.Ridge(2.0, absorb="diagonal")),
        "mixture": karat.coreset(np.abs(X), problem=P.GaussianMixture(2)),
        "merged": karat.coreset(X, Y).merge(karat.coreset(X + 1, Y)),
    }
    found = {}
    for name, core in cores.items():
        for suffix in ("npz", "parquet"):
            path = folder / f"{name}.{suffix}"
            core.save(path)
            found[path.name] = (path.read_bytes(), lambda p: picture(karat.load(p)))
    sketch = karat.Sketch(P.LeastSquares()).update(X, Y)
    sketch.save(folder / "sketch.npz")
    found["sketch.npz"] = (
        (folder / "sketch.npz").read_bytes(),
        lambda p: sketch_picture(karat.Sketch.load(p)),
    )
    checkpoint = folder / "run.npz"
    karat.coreset_files(
        folder / "data.parquet", "y", columns=["a", "b", "c"], checkpoint=checkpoint
    )

    def resume(path):
        core = karat.coreset_files(
            folder / "data.parquet", "y", columns=["a", "b", "c"], checkpoint=path
        )
        header, arrays = described(core)
        for volatile in ("created",):
            header["provenance"].pop(volatile)
        header["certificate"].pop("seconds")
        return json.dumps(header, sort_keys=True), {
            k: v.tobytes() for k, v in plain(arrays).items()
        }

    found["run.npz"] = (checkpoint.read_bytes(), resume)
    return found


def damaged(data, rng):
    """One damaged copy of some bytes."""
    data, how = bytearray(data), rng.integers(7)
    at = int(rng.integers(len(data)))
    if how <= 2:
        data[at] ^= 1 << int(rng.integers(8))
    elif how == 3:
        data[at : at + int(rng.integers(1, 64))] = rng.bytes(int(rng.integers(1, 64)))
    elif how == 4:
        del data[at:]
    elif how == 5:
        other = int(rng.integers(len(data)))
        data[at : at + 16], data[other : other + 16] = data[other : other + 16], data[at : at + 16]
    else:
        data[-int(rng.integers(1, 600)) :] = rng.bytes(8)
    return bytes(data)


# What a hostile header may say, each with a valid digest.  A lie of the right type and shape
# (another loss error, other sums) is none of these: whoever writes the digest can tell it, and only
# ``verify`` finds out.
HEADERS = {
    "n_rows": [0, -1, 3, 2**70, 1.5, "400", None, True, [], float("nan")],
    "problem": ["Kernel", "Problem", "Transformed", "os", "__class__", 7, None, "LatentDirichlet"],
    "params": [{"alpha": "x"}, {"nothing": 1}, [1], "x", 3],
    "certificate": [{}, None, [], {"loss_error": 0}, "ok"],
    "containers": [
        {},
        None,
        [],
        {"X": None, "y": None},
        {"X": {"kind": "tuple", "parts": []}, "y": None},
        {"X": {"kind": "sparse", "shape": [2**60, 3]}, "y": None},
        {"X": {"kind": "os", "columns": ["a"], "series": False}, "y": None},
    ],
    "provenance": [
        3,
        [],
        "x",
        {"columns": 3},
        {"source": 5},
        {"merged": 5},
        {"content": {}},
        {"target": [1, 2]},
        {"roles": []},
        {"dropped": {"missing": "many"}},
        {"digest": 5},
        {"merged": [[[]]]},
    ],
    "format_version": [99, -1, 0, "3", None, 3.5, True],
}
CERTIFICATE = {
    "loss_error": ["0", None, [], True], "n_rows": [1.5, None, "9"], "size": [[], 1e9],
    "notes": [3, [3], None], "power": ["2", 2.5], "proof_version": ["2", None, 1.5],
    "condition": ["x"], "refuted": [0, "no", None],
}  # fmt: skip


def changed_arrays(arrays):
    """Hostile arrays, each beside an honest header."""
    n = len(arrays["weights"])
    for name, bad in (
        ("weights", -arrays["weights"]), ("weights", arrays["weights"] * np.nan),
        ("weights", arrays["weights"] * 0), ("weights", arrays["weights"] * np.inf),
        ("weights", arrays["weights"].astype("f4")), ("weights", arrays["weights"][:-1]),
        ("weights", arrays["weights"][None]), ("weights", np.array(["1"] * n)),
        ("weights", np.float64(1)), ("indices", arrays["indices"][::-1]),
        ("indices", arrays["indices"] + 10**6), ("indices", arrays["indices"] - 10**6),
        ("indices", arrays["indices"] * 0), ("indices", arrays["indices"].astype(float)),
        ("indices", arrays["indices"][:3]), ("X", arrays["X"][:2]),
        ("X", arrays["X"][None, None, None, None]), ("y", arrays["y"][:-1]),
        ("groups", np.zeros(n + 1)), ("keys", np.zeros((n, 2))),
        ("correction_sets", np.zeros((3, 2))), ("correction_delta", np.zeros(3)),
        ("map_x", np.array(["a"])), ("unknown", np.zeros(9)), ("X/0", np.zeros(n)),
    ):  # fmt: skip
        yield arrays | {name: bad}
    for sets in (np.full((3, 2), 10**6), np.full((3, 2), -1), np.array([[0, 9], [0, 1], [1, 1]])):
        yield arrays | {"correction_sets": sets, "correction_delta": np.zeros(3)}
    for name in ("weights", "indices", "X"):
        yield {k: v for k, v in arrays.items() if k != name}


def hostile():
    """Hand-made files with valid digests: name -> bytes."""
    header, arrays = described(karat.coreset(X, Y))
    arrays = plain(arrays)
    headers = [header | {name: value} for name, values in HEADERS.items() for value in values]
    headers += [
        header | {"certificate": header["certificate"] | {n: v}}
        for n, values in CERTIFICATE.items()
        for v in values
    ]
    headers += [
        {k: v for k, v in header.items() if k != name} for name in header if name != "provenance"
    ]
    for i, bad in enumerate(headers):
        yield f"header{i}.npz", pack(bad, arrays)
        try:
            yield f"header{i}.parquet", pack_table(bad, arrays, shown_columns(header, arrays))
        except Exception:  # what cannot be written is no test
            continue
    for i, bad in enumerate(changed_arrays(arrays)):
        yield f"arrays{i}.npz", pack(header, bad)
    sketch = karat.Sketch(P.LeastSquares()).update(X, Y)
    state, held = sketch.state()
    held = plain(held)
    for name, values in {
        "n_rows": [-1, "9", 3, None],
        "_columns": [7, -1, "a"],
        "running": [[], None, 3],
        "parts": [9, -1, "x", 0],
        "buffer_rows": [0, "x", 2**80],
        "_like": [3, {}, []],
        "sources": [3, [4]],
        "mass": [-1, "x", float("nan")],
        "key": [[1]],
        "random_state": [-1, 1.5],
        "offsets": [3, {"x": 1}],
    }.items():
        for i, value in enumerate(values):
            yield f"sketch-{name}{i}.npz", pack(state | {name: value}, held)
    for name, array in held.items():
        for i, bad in enumerate(
            (
                array[:-1] if array.ndim else array,
                np.array(["x"]),
                np.zeros((2, 2, 2)),
                array.astype(complex),
            )
        ):
            yield f"sketch-{name}-{i}.npz", pack(state, held | {name: bad})
        yield (
            f"sketch-without-{name}.npz",
            pack(state, {k: v for k, v in held.items() if k != name}),
        )
    yield from bombs(header, arrays)


def bombs(header, arrays):
    """Files that claim, or unpack to, far more than they hold."""
    zeros = io.BytesIO()
    np.save(zeros, np.zeros(100_000_000, dtype="u1"))

    def archive(**extra):
        file, text = io.BytesIO(), to_json(header)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
            members = arrays | {
                "header": np.frombuffer(text, "u1"),
                "digest": np.frombuffer(bytes.fromhex(content_digest(text, arrays)), "u1"),
            }
            for name, array in members.items():
                one = io.BytesIO()
                np.save(one, array)
                out.writestr(f"{name}.npy", one.getvalue())
            for name, data in extra.items():
                out.writestr(f"{name}.npy", data)
        return file.getvalue()

    yield "bomb-unused.npz", archive(unused=zeros.getvalue())
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118)
    for i, claim in enumerate(("(10**12,)", "(1000000000000,)", "(-5,)", "(2, 10**9, 10**9)")):
        text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {claim}, }}".ljust(117) + "\n"
        yield f"bomb-claim{i}.npz", archive(groups=head + text.encode())
    for i, kind in enumerate(("|O", "[('a', '<f8')]", "|V8", "<U0")):
        descr = kind if kind.startswith("[") else repr(kind)
        text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (3,), }}".ljust(117) + "\n"
        yield f"bomb-type{i}.npz", archive(groups=head + text.encode() + b"\0" * 24)
    for i, text in enumerate(
        (
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b"[" + b"[]," * 3_000_000 + b"[]]",
            b'{"n":' + b"9" * 10**6 + b"}",
            b"\xff\xfe",
            b"",
        )
    ):
        file = io.BytesIO()
        np.savez_compressed(
            file, header=np.frombuffer(text, "u1"), digest=np.zeros(32, "u1"), **arrays
        )
        yield f"bomb-json{i}.npz", file.getvalue()
        table = pa.table({"weight": arrays["weights"]}).replace_schema_metadata({b"karat": text})
        sink = io.BytesIO()
        pq.write_table(table, sink)
        yield f"bomb-json{i}.parquet", sink.getvalue()
    for i, text in enumerate((b"", b"\x00", b"AAAA", zeros.getvalue()[:100])):
        beside = {
            "columns": {},
            "arrays": {"weights": base64.b64encode(text).decode(), "indices": "!"},
        }
        sink = io.BytesIO()
        pq.write_table(
            pa.table({"a": [1.0]}).replace_schema_metadata({b"karat": to_json(header | beside)}),
            sink,
        )
        yield f"bomb-base64-{i}.parquet", sink.getvalue()
    many = pa.table({"weight": pa.array(np.ones(40_000_000)).dictionary_encode()})
    place = {"weights": {"dtype": "<f8", "shape": [40_000_000], "columns": ["weight"]}}
    sink = io.BytesIO()
    pq.write_table(
        many.replace_schema_metadata(
            {b"karat": to_json(header | {"columns": place, "arrays": {}, "n_rows": 10**9})}
        ),
        sink,
    )
    yield "bomb-rows.parquet", sink.getvalue()


def write_hostile(folder):
    for name, data in hostile():
        (folder / name).write_bytes(data)


def outcome(path, read, truth):
    """refused, unchanged, or what must never happen: believed, a raw exception or a warning."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = read(path)
        except karat.StorageError:
            said = "refused"
        except karat.InputError:
            said = "refused (InputError)"
        except Exception as error:
            return f"RAW {type(error).__name__}: {error}"[:150]
        else:
            said = "unchanged" if found == truth else "BELIEVED"
    return f"RAW warning: {warned[0].message}" if warned else said


def campaign(count, seed=0):
    """Damage files ``count`` times, and try all hostile ones; the outcomes."""
    rng, results = np.random.default_rng(seed), Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = subjects(folder)
        truths = {}
        for file, (data, read) in files.items():
            (folder / file).write_bytes(data)
            truths[file] = read(folder / file)
        names = list(files)
        for i in range(count):
            file = names[i % len(names)]
            data, read = files[file]
            path = folder / f"bad-{file}"
            path.write_bytes(damaged(data, rng))
            results[f"damaged: {outcome(path, read, truths[file])}"] += 1
            path.unlink(missing_ok=True)
        place = folder / "hostile"
        place.mkdir()
        # its memory is not ours
        writer = multiprocessing.get_context("spawn").Process(target=write_hostile, args=(place,))
        writer.start()
        writer.join()
        for path in sorted(place.iterdir()):
            file = path.name
            read = (
                (lambda p: sketch_picture(karat.Sketch.load(p)))
                if file.startswith("sketch")
                else lambda p: picture(karat.load(p))
            )
            found = outcome(path, read, None)
            results[f"hostile: {found}" + (f" {file}" if "refused" not in found else "")] += 1
            path.unlink()
    return results


def peak():
    import resource  # Windows has none

    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB"


if __name__ == "__main__":
    print(f"memory before {peak()}")
    for name, number in sorted(campaign(int(sys.argv[1]) if len(sys.argv) > 1 else 2000).items()):
        print(f"{number:6,}  {name}")
    print(f"peak of memory {peak()}")
