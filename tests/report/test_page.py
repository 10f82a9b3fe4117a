"""The page as a text: nothing from the data is markup, nothing comes from elsewhere, and its size
is bounded.
"""

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import karat
from karat import problems as P
from karat.report.page import as_script_data, render

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</script><b>",
    "{{ 7 * 7 }}",
    "<!--",
    "&lt;i&gt;",
    "'",
]


class Elements(HTMLParser):
    """Tags and attributes as a browser would find them."""

    def __init__(self, page):
        super().__init__()
        self.found, self.text = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((500, len(HOSTILE))), columns=HOSTILE)
    groups = np.array(HOSTILE)[rng.integers(2, size=500)]
    core = karat.coreset(X, pd.Series(rng.standard_normal(500), name="<u>y</u>"), groups=groups)
    path = tmp_path_factory.mktemp("page") / "r.html"
    karat.report.write_report(core, path, data=(X, rng.standard_normal(500)), groups=groups)
    return path.read_text(encoding="utf-8")


def test_hostile_names_are_text(hostile_page):
    page = Elements(hostile_page)
    tags = {tag for tag, _ in page.found}
    assert not tags & {"img", "b", "u", "i", "iframe", "object", "link"}
    assert [tag for tag, _ in page.found].count("script") == 2
    assert not any(name.startswith("on") for _, attributes in page.found for name in attributes)
    text = "".join(page.text)
    assert all(name in text for name in HOSTILE)
    assert "49" not in re.findall(r"<th[^>]*>(.*?)</th>", hostile_page)


def test_data_of_scripts_cannot_end_them(hostile_page):
    inside = re.search(
        r'<script type="application/json" id="rows-data">(.*?)</script>', hostile_page, re.S
    ).group(1)
    assert not re.search(r"[<>&]", inside)
    assert [c["name"] for c in json.loads(inside)["columns"]][3:10] == HOSTILE
    assert json.loads(as_script_data({"a": "</script>\u2028&"})) == {"a": "</script>\u2028&"}


def test_nothing_comes_from_elsewhere(hostile_page):
    page = Elements(hostile_page)
    assert not re.search(r"https?://", hostile_page.replace("http://www.w3.org", ""))
    assert not any(
        {"src", "href", "srcset", "action"} & set(attributes) for _, attributes in page.found
    )
    policy = next(
        a["content"]
        for tag, a in page.found
        if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    style, script = (
        re.search(rf"<{tag}>(.*?)</{tag}>", hostile_page, re.S).group(1)
        for tag in ("style", "script")
    )
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    ]
    own = f"style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'"
    assert policy == f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"
    assert "unsafe" not in policy
    assert not any("style" in attributes for _, attributes in page.found)
    assert "url(" not in hostile_page
    assert "@import" not in hostile_page


def test_headline_and_tables_have_structure(core, table, tmp_path):
    karat.report.write_report(core, tmp_path / "r.html", data=table)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    page = Elements(text)
    assert [tag for tag, _ in page.found].count("h1") == 1
    assert all("scope" in attributes for tag, attributes in page.found if tag == "th")
    assert f"5\u202f000 → {len(core)} rows" in text
    assert "verified on the full data" in text
    assert core.certificate.keeps[1:] in text
    assert all(item[1:] in text for item in core.certificate.excludes)


@pytest.mark.parametrize(
    "problem",
    [
        P.Moments(1),
        P.Moments(3),
        P.Mean(),
        P.LeastSquares(),
        P.Ridge(1.0),
        P.GaussianMixture(2),
        P.Kernel(lambda A: A, 2),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_the_page_claims_what_the_problem_keeps(problem, table, tmp_path):
    X, y = table[0][:200, :2], table[1][:200]
    core = karat.coreset(X, y if problem.needs_target else None, problem)
    text = html.unescape(render(karat.report.facts(core)))
    assert f"with their weights, keep {problem.keeps}." in text
    assert "model of all rows" not in text


def test_one_row_is_one_row(tmp_path):
    """Numbers and nouns agree, down to a single row, column, group, moment and pass."""
    X = np.full((7, 1), 2.0)
    core = karat.coreset(X, problem=P.Moments(1), groups=np.zeros(7, dtype=int))
    text = re.sub(
        r"<[^>]+>", "", render(karat.report.facts(core, X, groups=np.zeros(7, dtype=int)))
    )
    assert len(core) == 1
    assert "1 row is kept" in text
    assert "This row, with its weight, keeps" in text
    assert not re.search(
        r"(?<![\d\u202f.])1 (?:kept |more )?(rows|columns|groups|moments|passes|blocks|entries)\b",
        text,
    )
    many = re.sub(
        r"<[^>]+>",
        "",
        render(
            karat.report.facts(karat.coreset(np.random.default_rng(0).standard_normal((50, 3))))
        ),
    )
    assert re.search(r"\d+ rows are kept", many)


def test_a_report_without_data_says_so(core, tmp_path):
    karat.report.write_report(core, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "No data was given, so there is no background." in text
    assert "nothing was compared with it" in text


def test_refuted_data_is_named(core, table, tmp_path):
    karat.report.write_report(core, tmp_path / "r.html", data=(table[0], table[1][::-1].copy()))
    found = karat.report.facts(core, (table[0], table[1][::-1].copy()))
    assert not found["verified"]["ok"]
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "REFUTED" in text
    assert "verified on the full data" not in text


def test_provenance_is_shown_and_escaped(core):
    known = karat.report.facts(core)
    known["provenance"] = {
        "source": {"given": ["<i>a</i>.parquet"]},
        "blocks": ["0f"] * 1000,
        "dropped": {"missing": 3},
    }
    known["reproduce"]["command"] = "karat build 'a && b' --target '<y>'"
    page = Elements(render(known))
    text = "".join(page.text)
    assert "<i>a</i>.parquet" in text
    assert "karat build 'a && b' --target '<y>'" in text
    assert "1\u202f000 entries" in text
    assert "i" not in {tag for tag, _ in page.found}


def test_the_notebook_says_the_same(core):
    box = core._repr_html_()
    assert f"<b>5\u202f000 → {len(core)} rows</b>" in box
    assert karat.report.facts(core)["keeps"] in box


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-3.7, 12.2), (0, 2.1), (1e-13, 4e-13), (1e6, 1e6 + 1), (0, 1e9)]
)
def test_ticks_are_round_and_inside(low, high):
    from karat.report.charts import Scale

    scale = Scale(low, high, 50, 450)
    values = [scale.low + (tick["at"] - 50) / 400 * (high - low) for tick in scale.ticks()]
    assert 2 <= len(values) <= 8
    assert all(low - 1e-3 * (high - low) <= value <= high + 1e-3 * (high - low) for value in values)
    steps = np.diff(values)
    np.testing.assert_allclose(steps, steps[0], rtol=0.01)
    logarithmic = Scale(3e-17, 2e-9, 50, 450, logarithmic=True)
    assert [tick["label"] for tick in logarithmic.ticks()] == ["10⁻¹⁶", "10⁻¹⁴", "10⁻¹²", "10⁻¹⁰"]


def test_missing_extras_are_named(core, table, tmp_path, monkeypatch):
    import sys

    from karat.report.page import _template

    _template.cache_clear()
    for module in ("jinja2", "matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(karat.MissingExtraError, match=r"karat\[report\]"):
        karat.report.write_report(core, tmp_path / "r.html")
    assert not list(tmp_path.iterdir())
    with pytest.raises(karat.MissingExtraError, match=r"WeightsDisplay needs .*karat\[report\]"):
        karat.report.WeightsDisplay.from_coreset(core).plot()
    assert karat.report.facts(core, table)["kept"] == len(core)  # facts need neither


def test_a_regression_has_its_coefficients_on_the_page():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.standard_normal((3000, 2)), columns=["age", "size"])
    frame["price"] = 2 + frame["age"] - 3 * frame["size"] + rng.standard_normal(3000)
    fit = karat.ols("price ~ age + size", frame)
    page_facts = karat.report.facts(fit.coreset)
    full = smf.ols("price ~ age + size", frame).fit()
    rows = page_facts["coefficients"]["rows"]
    assert [row["term"] for row in rows] == list(full.params.index)
    np.testing.assert_allclose([row["estimate"] for row in rows], full.params, rtol=1e-10)
    ends = [[row["conf_low"], row["conf_high"]] for row in rows]
    np.testing.assert_allclose(ends, full.conf_int(), rtol=1e-8)
    text = render(page_facts)
    assert "A linear model of price, fitted to" in text
    assert "is the same as one fitted to all 3\u202f000 rows" in text
    assert text.index('id="coefficients"') < text.index('id="certificate"')


def test_a_coreset_of_no_regression_has_no_coefficients(core):
    assert karat.report.facts(core)["coefficients"] is None
