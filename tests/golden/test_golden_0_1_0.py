"""Files of karat 0.1.0 have no digest and are refused; the message names the version that reads
them.
"""

from pathlib import Path

import pytest
from latent_data import make_mixture

import karat
from karat.core.files import described
from karat.storage.archive import pack

FILES = Path(__file__).parent / "files_0_1_0"
READS = {
    "mean.npz": karat.load,
    "mean.parquet": karat.load,
    "mean.sketch.npz": karat.Sketch.load,
    "mean.run.npz": lambda path: karat.coreset_files(
        Path(__file__).parent / "files_0_2_0" / "mixture_weights.data.parquet",
        problem=karat.problems.Mean(),
        checkpoint=path,
    ),
}


@pytest.mark.parametrize("name", READS)
def test_a_file_without_a_digest_names_the_version_that_reads_it(name):
    with pytest.raises(
        karat.InputError,
        match=r"format version 1, which has no digest\. .* karat 0\.2\.0, the last to support it",
    ):
        READS[name](FILES / name)


def test_maps_about_the_origin_that_0_2_0_saved_again(tmp_path):
    """0.2.0 reads mixtures of 0.1.0, and says in its own files that they were learned about the
    origin.
    """
    core = karat.coreset(make_mixture(500, 4, 3).X, problem=karat.problems.GaussianMixture(3))
    header, arrays = described(core)
    for centred in (True, False):
        (tmp_path / f"{centred}.npz").write_bytes(
            pack(header | {"params": header["params"] | {"centred": centred}}, arrays)
        )
    assert karat.load(tmp_path / "True.npz").problem == core.problem
    with pytest.raises(karat.StorageError, match=r"about the origin.*build it again"):
        karat.load(tmp_path / "False.npz")
