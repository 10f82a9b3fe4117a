"""Certificates of other versions: older ones ask to be verified again, fields that are not known or not there do no harm."""

import numpy as np
import pytest

import karat
from karat import Certificate
from karat.errors import DamagedFileError

AGAIN = "proven by an older version: verify again"
CERTIFICATE = karat.coreset(np.random.default_rng(0).standard_normal((200, 3))).certificate


@pytest.mark.parametrize("version", [None, 1, 2])
def test_an_older_certificate_asks_to_be_verified_again(version):
    stored = {name: value for name, value in CERTIFICATE.to_dict().items() if name not in ("proof_version", "rounding")}
    found = Certificate.from_dict(stored if version is None else stored | {"proof_version": version})
    assert not found.ok
    assert found.proof_version == (version or 1)
    assert AGAIN in str(found)
    assert "not proven" in str(found)
    again = Certificate.from_dict(found.to_dict())
    assert again == found  # the note is said once
    assert CERTIFICATE.ok
    assert Certificate.from_dict(CERTIFICATE.to_dict()) == CERTIFICATE


def test_a_newer_certificate_is_not_trusted():
    assert not Certificate.from_dict(CERTIFICATE.to_dict() | {"proof_version": CERTIFICATE.proof_version + 1}).ok


def test_fields_come_and_go():
    stored = CERTIFICATE.to_dict() | {"of_another_version": 0.5}
    assert Certificate.from_dict(stored) == CERTIFICATE
    del stored["inflation"]
    assert Certificate.from_dict(stored).inflation == 1.0


@pytest.mark.parametrize("name", ["loss_error", "rounding", "seconds", "rank"])
def test_no_number_of_a_certificate_is_negative(name, tmp_path):
    core = karat.coreset(np.random.default_rng(0).standard_normal((200, 3)))
    object.__setattr__(core.certificate, name, -1)
    core.save(tmp_path / "core.npz")
    with pytest.raises(DamagedFileError, match=f"negative {name}"):
        karat.load(tmp_path / "core.npz")
