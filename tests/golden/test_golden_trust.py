"""Certificates of karat 0.1.0 are not trusted: they load as not ok, and ``verify`` tells the right coresets from the wrong.

0.1.0 itself fails here, because it trusts its own certificates and accepts most of the wrong coresets.
"""

from __future__ import annotations

import pytest
from golden.recipes import RIGHT, WRONG, contained
from golden.stored import SUFFIXES, names, stored

BOTH = pytest.mark.parametrize("suffix", SUFFIXES)


@BOTH
@pytest.mark.parametrize("name", names())
def test_an_old_certificate_is_not_trusted(name, suffix):
    certificate = stored(name, suffix).certificate
    assert not certificate.ok
    assert any("proven by an older version: verify again" in note for note in certificate.notes)


@BOTH
@pytest.mark.parametrize("name", RIGHT)
def test_verify_accepts_what_is_right(name, suffix):
    case, core = RIGHT[name], stored(name, suffix)
    data = case.data()
    X, y = contained(data, case.container)
    if data.keys is not None:  # the key is no feature
        X = X.drop(columns="id")
    proof = core.verify(X, y, **data.options())
    assert proof.ok, proof


@BOTH
@pytest.mark.parametrize("name", WRONG)
def test_verify_refutes_what_is_wrong(name, suffix):
    case, core = WRONG[name], stored(f"wrong_{name}", suffix)
    data = case.data()
    proof = core.verify(data.X, data.y, **data.options())
    assert not proof.ok, proof
