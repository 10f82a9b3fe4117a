"""Certificates of other versions: older ones ask to be verified again, fields that are not known or
not there do no harm.
"""

import numpy as np
import pytest

import karat
from karat import Certificate
from karat.core.files import described
from karat.errors import DamagedFileError
from karat.storage.archive import pack

AGAIN = "proven by an older version: verify again"
CERTIFICATE = karat.coreset(np.random.default_rng(0).standard_normal((200, 3))).certificate


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_certificate_asks_to_be_verified_again(version):
    found = Certificate.from_dict(CERTIFICATE.to_dict() | {"proof_version": version})
    assert not found.ok
    assert found.proof_version == version
    assert AGAIN in str(found)
    assert "not proven" in str(found)
    again = Certificate.from_dict(found.to_dict())
    assert again == found  # the note is said once
    assert CERTIFICATE.ok
    assert Certificate.from_dict(CERTIFICATE.to_dict()) == CERTIFICATE


def test_a_newer_certificate_is_not_trusted():
    assert not Certificate.from_dict(
        CERTIFICATE.to_dict() | {"proof_version": CERTIFICATE.proof_version + 1}
    ).ok


def test_fields_come_and_go():
    stored = CERTIFICATE.to_dict() | {"of_another_version": 0.5}
    assert Certificate.from_dict(stored) == CERTIFICATE
    del stored["inflation"]
    assert Certificate.from_dict(stored).inflation == 1.0


def test_a_certificate_that_does_not_say_its_version_is_none(tmp_path):
    core = karat.coreset(np.random.default_rng(0).standard_normal((200, 3)))
    header, arrays = described(core)
    del header["certificate"]["proof_version"]
    (tmp_path / "core.npz").write_bytes(pack(header, arrays))
    with pytest.raises(DamagedFileError, match="proof_version"):
        karat.load(tmp_path / "core.npz")
