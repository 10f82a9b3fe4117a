"""The page and the files: complete, self-contained, escaped, and there whatever fails."""

import base64
import csv
import re
import sys
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure as Drawing

from karat.errors import InputError, MissingExtraError
from paper import EXPERIMENTS, Experiment, Figure, Settings, Source, Table, reproduce
from paper.result import readable

EVIL = "<script>alert('x')</script> & more"


def small(title):
    drawing = Drawing()
    drawing.subplots().plot([1, 2], [3, 4])
    table = Table(
        "numbers",
        f"Numbers {EVIL}",
        ["name", EVIL, "value"],
        [["a", EVIL, 1 / 3], ["b, c", "", None]],
    )
    return Experiment(
        title, [EVIL], [table], [Figure("curve", f"A curve {EVIL}", drawing)], [EVIL], [EVIL]
    )


@pytest.fixture
def three(monkeypatch):
    """Names and modules of three experiments, of which the second fails."""

    def fails(settings):
        settings.say("dividing")
        return 1 / 0

    for name, function in {
        "one": lambda settings: small("One"),
        "two": fails,
        "three": lambda settings: small("Three"),
    }.items():
        monkeypatch.setitem(sys.modules, f"paper.fake_{name}", SimpleNamespace(run=function))
    return {name: f"fake_{name}" for name in ("one", "two", "three")}


@pytest.fixture
def outcomes(three, tmp_path):
    return reproduce(tmp_path / "out", settings=Settings(Source(network=False)), experiments=three)


@pytest.fixture
def page(outcomes, tmp_path):
    return (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_a_failure_does_not_lose_the_others(outcomes, page):
    assert [outcome.name for outcome in outcomes] == ["one", "two", "three"]
    assert [bool(outcome.error) for outcome in outcomes] == [False, True, False]
    assert outcomes[1].error.startswith("ZeroDivisionError: division by zero (test_page.py, line ")
    assert "This experiment failed after" in page
    assert page.index(">One</h2>") < page.index("ZeroDivisionError") < page.index(">Three</h2>")


def test_text_is_escaped(page):
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") >= 10


def test_pictures_are_inside_and_are_those_of_the_folder(page, tmp_path):
    sources = re.findall(r'<img src="([^"]*)"', page)
    assert len(sources) == 2
    for source in sources:
        head, _, body = source.partition(",")
        assert head == "data:image/png;base64"
        assert base64.b64decode(body) == (tmp_path / "out" / "curve.png").read_bytes()


def test_nothing_is_loaded_from_elsewhere(page):
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page)
    assert "url(" not in page
    assert "<link" not in page


def test_links_go_to_files_and_sections_that_exist(page, tmp_path):
    links = re.findall(r'href="([^"]*)"', page)
    assert links
    for link in links:
        assert (
            f'id="{link[1:]}"' in page
            if link.startswith("#")
            else (tmp_path / "out" / link).exists()
        )


def test_csv_files_have_all_digits(outcomes, tmp_path):
    with (tmp_path / "out" / "numbers.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["name", EVIL, "value"]
    assert float(rows[1][2]) == 1 / 3
    assert rows[2] == ["b, c", "", ""]


def test_progress_and_choice(three, tmp_path):
    told = []
    outcomes = reproduce(
        tmp_path, ["three", "two"], progress=lambda *what: told.append(what), experiments=three
    )
    assert [outcome.name for outcome in outcomes] == ["two", "three"]  # in the order of the list
    assert told == [("two", "", 0, 2), ("two", "dividing", 0, 2), ("three", "", 1, 2)]


def test_unknown_experiments_are_named(tmp_path):
    with pytest.raises(
        InputError, match="There is no experiment table9; choose from printed, table1"
    ):
        reproduce(tmp_path, ["table9"])


def test_a_package_that_is_not_installed_is_named_before_anything_runs(
    three, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"karat\[models,report\]"):
        reproduce(tmp_path / "out", experiments=three)
    assert not (tmp_path / "out").exists()


def test_every_experiment_of_the_list_can_be_run():
    from importlib import import_module

    for module in EXPERIMENTS.values():
        assert callable(import_module(f"paper.{module}").run)


def test_a_table_of_the_wrong_width_is_refused():
    with pytest.raises(ValueError, match="a row has 1 cells for 2 columns"):
        Table("t", "t", ["a", "b"], [["only"]])


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, ""),
        ("text", "text"),
        (12, "12"),
        (0.0, "0"),
        (16.0, "16"),
        (0.33933, "0.3393"),
        (3.14e-15, "3.1 × 10⁻¹⁵"),
    ],
)
def test_cells_are_short(cell, shown):
    assert readable(cell) == shown


def test_missing_data_stand_on_the_page(nothing, tmp_path):
    outcome = reproduce(tmp_path, ["table1", "table3"], settings=nothing)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert not any(o.error for o in outcome)
    assert "Glass is left out: glass is not in KARAT_DATA (not set)" in page
    assert "documents, which are missing" in page
    assert "<td>Iris</td>" in page
