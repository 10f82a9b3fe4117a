"""No rows count twice, by whatever way they came into a cube."""

import pytest
from cube.conftest import FEATURES, sales

import karat
from karat import InputError


def made(rows):
    return karat.cube(rows, target="y", by=["region", "day"], columns=FEATURES)


@pytest.fixture(scope="module")
def parts():
    return [sales(600, 3, seed=seed) for seed in range(4)]


def nested(parts, depth):
    """A cube of the last rows, merged into others one after the other."""
    found = made(parts[3])
    for rows in parts[:depth]:
        found = made(rows).merge(found)
    return found


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_rows_of_nested_merges(parts, depth):
    cube = nested(parts, depth)
    for again in (cube, karat.Cube.from_bytes(cube.to_bytes())):
        with pytest.raises(InputError, match="count twice"):
            again.update(parts[3])
        with pytest.raises(InputError, match="count twice"):
            again.merge(made(parts[3]))
    with pytest.raises(InputError, match="count twice"):
        made(parts[3]).merge(cube)
    cube = made(sales(600, 3, seed=9)).update(parts[3])
    with pytest.raises(InputError, match="count twice"):
        cube.merge(nested(parts, depth))


def test_rows_that_are_gone_may_come_again(parts):
    other = made(parts[0]).update(parts[1].assign(region="NZ"))
    other.drop(region="NZ")
    cube = made(parts[2]).merge(other)
    cube.update(parts[1].assign(region="NZ"))
    assert cube.select().n_rows == 1800


def test_rows_of_a_rollup(parts):
    cube = made(parts[0]).rollup("region")
    with pytest.raises(InputError, match="count twice"):
        cube.update(parts[0])
    cube.update(parts[1])
    assert cube.select().n_rows == 1200
