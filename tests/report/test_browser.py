"""The page in a real browser: quiet, offline, usable, and inert whatever the data is called."""

import re

import numpy as np
import pandas as pd
import pytest
from report.browser import chromium, programs

import karat
from karat.core.wording import number

pytestmark = pytest.mark.skipif(
    None in programs(), reason="Chromium and chromedriver are not installed"
)

HOSTILE = [
    "<script>window.hacked = 1</script>", '"><img src=x onerror="window.hacked = 2">',
    "</script><b id=injected>", "a > b", "${window.hacked = 3}", "javascript:window.hacked = 4",
]  # fmt: skip
CELL = "</td><img src=x onerror='window.hacked = 5'>"


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """One report with hostile names and cells and the data, one large report without."""
    folder, rng = tmp_path_factory.mktemp("pages"), np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((3000, len(HOSTILE))), columns=HOSTILE)
    y = pd.Series(X.sum(axis=1) + rng.standard_normal(3000), name="price")
    groups = np.array(["plain", CELL])[rng.integers(2, size=3000)]
    core = karat.coreset(X, y, groups=groups)
    karat.report.write_report(core, folder / "small.html", data=(X, y), groups=groups)
    Z = pd.DataFrame(
        rng.standard_normal((2000, 62)), columns=[f"measurement_{i}" for i in range(62)]
    )
    large = karat.coreset(Z)  # no more rows than features: all are kept
    karat.report.write_report(large, folder / "large.html", data=Z)
    W = rng.standard_normal((900, 300)) * 10.0 ** rng.integers(-30, 31, size=300)
    karat.report.write_report(
        karat.coreset(W, problem=karat.problems.Moments(1)), folder / "wide.html", data=W
    )
    tiny = pd.DataFrame(rng.standard_normal((400, 3)) * [1e-17, 1e-120, 1e120], columns=list("abc"))
    karat.report.write_report(
        karat.coreset(tiny, problem=karat.problems.Moments(1)), folder / "tiny.html", data=tiny
    )
    return {"wide": folder / "wide.html", "tiny": folder / "tiny.html"} | {
        "core": core,
        "small": folder / "small.html",
        "large": folder / "large.html",
        "large core": large,
    }


def numbers(texts):
    return [float(t.replace("\u202f", "").replace("\u2212", "-")) for t in texts]


def sort_by(browser, name):
    browser.run(
        "[...document.querySelectorAll('#table th button')].find((b) => b.textContent ==="
        " arguments[0]).click()",
        name,
    )


def filter_by(browser, text):
    browser.run(
        "const f = document.getElementById('filter'); f.value = arguments[0]; f.dispatchEvent(new"
        " Event('input'))",
        text,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_quiet_and_offline(browser, pages, scheme):
    browser.open(pages["small"], scheme=scheme)
    browser.pointer(".rows circle")
    assert browser.logs("browser") == []
    assert browser.requests() == [pages["small"].as_uri()]


def test_the_policy_forbids_the_network(browser, pages):
    """Even a script on the page could not load or send anything."""
    browser.open(pages["small"])
    outcome = (
        "fetch('data:text/plain,x').then(() => arguments[0]('sent'), () => arguments[0]('refused'))"
    )
    assert browser.driver.execute_async_script(outcome) == "refused"


def test_hostile_names_and_cells_are_inert(browser, pages):
    browser.open(pages["small"])
    for name in HOSTILE:
        sort_by(browser, name)
    filter_by(browser, "<img")
    browser.pointer(".rows circle")
    assert browser.run("return window.hacked") is None
    assert browser.run("return document.querySelectorAll('img, b, #injected').length") == 0
    assert browser.run("return document.scripts.length") == 2
    assert browser.text("#table th button")[3:9] == HOSTILE
    assert set(browser.column(3)) == {CELL}
    assert set(browser.text("#tip th")) >= {HOSTILE[0], HOSTILE[1]}


def test_other_scripts_and_styles_do_not_count(browser, pages, tmp_path):
    """Whatever else gets into the page, only the style and the script with the hashes of the policy
    run.
    """
    page = pages["small"].read_text(encoding="utf-8")
    more = (
        "<script>window.hacked = 9</script><p style='color: red' onclick='window.hacked = 8'"
        " id='more'>x</p></body>"
    )
    (tmp_path / "changed.html").write_text(page.replace("</body>", more), encoding="utf-8")
    browser.open(tmp_path / "changed.html")
    browser.run("document.getElementById('more').click()")
    assert browser.run("return window.hacked") is None
    assert (
        browser.run("return getComputedStyle(document.getElementById('more')).color")
        != "rgb(255, 0, 0)"
    )
    assert len(browser.column(1)) == 25  # the page's own script runs
    assert any("Content Security Policy" in entry["message"] for entry in browser.logs("browser"))


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("page", ["small", "wide"])
def test_targets_are_large_enough(browser, pages, page, width):
    """At least 24 x 24 px (WCAG 2.2, 2.5.8)."""
    browser.open(pages[page], width=width)
    small = browser.run(
        "return [...document.querySelectorAll('button, input, summary')].map((e) => [e,"
        " e.getBoundingClientRect()]).filter(([e, b]) => b.width && (b.width < 24 || b.height <"
        " 24)).map(([e, b]) => [e.outerHTML, b.width, b.height])"
    )
    assert small == []


def press(browser, *names):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    ActionChains(browser.driver).send_keys(*(getattr(Keys, name) for name in names)).perform()


def test_few_tab_stops_however_many_columns(browser, pages):
    """The 302 headers are one stop; the arrow keys, Home and End reach every column."""
    browser.open(pages["wide"])
    stops = (
        "return [...document.querySelectorAll('*')].filter((e) => e.tabIndex >= 0 && !e.disabled &&"
        " e.getClientRects().length)"
    )
    assert len(browser.run(stops)) <= 14
    browser.run("document.querySelector('#table th button').focus()")
    name = "return document.activeElement.textContent"
    press(browser, "ARROW_RIGHT", "ARROW_RIGHT")
    assert browser.run(name) == "x0"
    press(browser, "END")
    assert browser.run(name) == "x299"
    assert browser.run("return document.activeElement.getBoundingClientRect().right") <= 1440
    press(browser, "ENTER")
    assert browser.run("return document.activeElement.closest('th').ariaSort") == "ascending"
    press(browser, "HOME", "ARROW_LEFT")
    assert browser.run(name) == "row"
    assert len(browser.run(stops)) <= 14


def test_chart_points_by_keyboard(browser, pages):
    core = pages["core"]
    browser.open(pages["small"])
    browser.run("document.getElementById('plane').focus()")
    hidden = "return document.getElementById('tip').hidden"
    assert browser.run(hidden)
    seen = set()
    for _ in range(len(core)):
        press(browser, "ARROW_RIGHT")
        seen.add(int(numbers(browser.text("#tip td")[:1])[0]))
    assert seen == set(core.indices.tolist())  # every point
    assert not browser.run(hidden)
    press(browser, "ENTER")
    assert [int(n) for n in numbers(browser.column(1))] == [
        int(numbers(browser.text("#tip td")[:1])[0])
    ]
    press(browser, "ESCAPE")
    assert browser.run(hidden)
    browser.run("document.getElementById('histogram').focus()")
    press(browser, "HOME")
    assert re.fullmatch(r"[\d\u202f]+ rows? of weight .*", browser.text("#tip")[0])
    assert (
        browser.run("return document.getElementById('tip').getBoundingClientRect().right") <= 1440
    )
    press(browser, "TAB")
    assert browser.run(hidden)


@pytest.mark.parametrize("page", ["small", "wide", "tiny"])
def test_no_number_is_cut_on_paper(browser, pages, page):
    browser.open(pages[page], width=688)  # A4 without its margins
    browser.command("Emulation.setEmulatedMedia", {"media": "print"})
    browser.run("dispatchEvent(new Event('beforeprint'))")
    cut = (
        "return [...document.querySelectorAll('td.num, dd')].filter((e) =>"
        " e.getClientRects().length && (e.scrollWidth > e.clientWidth + 1 ||"
        " e.getBoundingClientRect().right > innerWidth + 1)).map((e) => e.textContent)"
    )
    try:
        assert browser.run(cut) == []
        assert any("10\u207b" in text for text in browser.text("td.num")) or page == "small"
    finally:
        browser.run("dispatchEvent(new Event('afterprint'))")
        browser.command("Emulation.setEmulatedMedia", {"media": ""})


def test_sorting(browser, pages):
    core = pages["core"]
    browser.open(pages["small"])
    assert numbers(browser.column(1)) == core.indices[:25].tolist()
    sort_by(browser, "weight")
    assert browser.run("return document.querySelector('th.weight').ariaSort") == "ascending"
    np.testing.assert_allclose(numbers(browser.column(2)), np.sort(core.weights)[:25], rtol=1e-5)
    sort_by(browser, "weight")
    assert browser.run("return document.querySelector('th.weight').ariaSort") == "descending"
    np.testing.assert_allclose(
        numbers(browser.column(2)), np.sort(core.weights)[::-1][:25], rtol=1e-5
    )
    sort_by(browser, "weight")
    assert numbers(browser.column(1)) == core.indices[:25].tolist()


def test_sorting_by_keyboard(browser, pages):
    from selenium.webdriver.common.keys import Keys

    browser.open(pages["small"])
    button = browser.driver.find_element("css selector", "th.weight button")
    button.send_keys(Keys.ENTER)
    np.testing.assert_allclose(
        numbers(browser.column(2)), np.sort(pages["core"].weights)[:25], rtol=1e-5
    )


def test_filtering_and_paging(browser, pages):
    core = pages["core"]
    browser.open(pages["small"])
    filter_by(browser, "weight > 60")
    heavy = core.indices[core.weights > 60]
    assert browser.text("#found") == [f"{len(heavy)} of {len(core)} rows match"]
    assert numbers(browser.column(1)) == heavy[:25].tolist()
    filter_by(browser, "PLAIN")
    assert browser.text("#found") == [f"{(core.groups == 'plain').sum()} of {len(core)} rows match"]
    filter_by(browser, "no such thing")
    assert browser.column(1) == []
    filter_by(browser, "")
    browser.run("document.getElementById('forward').click()")
    assert numbers(browser.column(1)) == core.indices[25:50].tolist()
    assert browser.text("#place") == [f"26–50 of {len(core)}"]


def test_hover_names_the_row(browser, pages):
    core = pages["core"]
    browser.open(pages["small"])
    assert browser.run("return document.getElementById('tip').hidden")
    # the circle farthest from any other, so that no other is nearer to its middle
    lone = browser.run(
        "const all = [...document.querySelectorAll('.rows circle')].map((c) =>"
        " [+c.getAttribute('cx'), +c.getAttribute('cy')]);const gap = all.map((a) =>"
        " Math.min(...all.filter((b) => b !== a).map((b) => Math.hypot(a[0] - b[0], a[1] -"
        " b[1]))));return gap.indexOf(Math.max(...gap)) + 1"
    )
    circle = f".rows circle:nth-child({lone})"
    browser.pointer(circle)
    row = int(browser.run("return document.querySelector(arguments[0]).dataset.row", circle))
    assert not browser.run("return document.getElementById('tip').hidden")
    shown = dict(zip(browser.text("#tip th"), browser.text("#tip td"), strict=True))
    assert numbers([shown["row"]]) == [core.indices[row]]
    assert numbers([shown["weight"]]) == pytest.approx([core.weights[row]], rel=1e-5)
    browser.command("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 2, "y": 2})
    assert browser.run("return document.getElementById('tip').hidden")


def luminance(colour):
    channels = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_in_both_schemes(browser, pages, scheme):
    browser.open(pages["small"], scheme=scheme)
    style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    paper = luminance(browser.run(style, "body", "backgroundColor"))
    assert (paper > 0.8) == (scheme == "light")
    for selector in (
        "body",
        ".lead",
        "h1 .gold",
        ".mark",
        ".tiles dt",
        "figcaption",
        "footer",
        "th.target",
    ):
        ink = luminance(browser.run(style, selector, "color"))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, selector


def test_the_switch_turns_the_scheme(browser, pages):
    browser.open(pages["small"], scheme="light")
    style = "return getComputedStyle(document.body).backgroundColor"
    shades = [luminance(browser.run(style))]
    for _ in range(2):
        browser.run("document.getElementById('theme').click()")
        shades.append(luminance(browser.run(style)))
    assert shades[1] < 0.05 < shades[0] == shades[2]


@pytest.mark.parametrize("width", [360, 768, 1440])
@pytest.mark.parametrize("page", ["small", "large"])
def test_no_sideways_scrolling(browser, pages, page, width):
    browser.open(pages[page], width=width)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return window.innerWidth") == width
    beyond = (
        "return [...document.querySelectorAll('body *')].filter((e) => !e.closest('.scroll, pre')"
        " && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80))"
    )
    assert browser.run(beyond) == []


def test_print_layout(browser, pages):
    """On paper: light, no controls, all rows of a small coreset, the first columns of a wide
    one.
    """
    browser.open(pages["small"], scheme="dark")
    browser.command(
        "Emulation.setEmulatedMedia",
        {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    display = "return getComputedStyle(document.querySelector(arguments[0])).display"
    assert [browser.run(display, s) for s in ("#theme", ".tools", "#tip")] == ["none"] * 3
    assert (
        luminance(browser.run("return getComputedStyle(document.querySelector('h1')).color")) < 0.05
    )
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert len(browser.column(1)) == len(pages["core"])
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert len(browser.column(1)) == 25
    assert browser.printed().startswith(b"%PDF")
    browser.command("Emulation.setEmulatedMedia", {"media": ""})


def test_without_scripts_the_rows_are_there(browser, pages):
    browser.command("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(pages["small"])
        shown = browser.driver.find_elements("css selector", "#table tbody tr")
        assert len(shown) == len(pages["core"])
        assert not browser.driver.find_element("id", "filter").is_displayed()
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_large_report_is_light(browser, pages):
    """Few elements however many rows: the table is drawn a page at a time, so opening, sorting and
    filtering stay fast.
    """
    assert len(pages["large core"]) == 2000
    assert pages["large"].stat().st_size < 5e6
    browser.open(pages["large"])
    assert len(browser.driver.find_elements("css selector", "#table tbody tr")) == 25
    sort_by(browser, "measurement_61")
    filter_by(browser, "measurement_0 > 1")
    assert len(browser.driver.find_elements("css selector", "#table tbody tr")) == 25
    assert browser.driver.execute_script("return document.querySelectorAll('*').length") < 20_000
    assert browser.text("#found") == [
        f"{(pages['large core'].X.iloc[:, 0] > 1).sum()} of 2\u202f000 rows match"
    ]
    assert numbers(browser.column(3))[:1] > [1.0]


def test_on_a_phone_tables_scroll_in_their_frame_and_rows_are_tapped(browser, pages):
    visible = (
        "return [...document.querySelectorAll(arguments[0])].map((e) => getComputedStyle(e).display"
        " !== 'none')"
    )
    for width, touch in ((390, True), (1280, False)):
        browser.command("Emulation.setTouchEmulationEnabled", {"enabled": touch})
        browser.open(pages["small"], width)
        assert set(browser.run(visible, ".for-touch")) == {touch}
        assert set(browser.run(visible, ".for-mouse")) == {not touch}
    browser.open(pages["small"], 390)
    frames = browser.run(
        "return [...document.querySelectorAll('.scroll')].map((e) => [e.scrollWidth >"
        " e.clientWidth, e.getBoundingClientRect().right <= innerWidth,"
        " getComputedStyle(e).borderTopWidth])"
    )
    assert frames == [[True, True, "1px"]] * 2
    left = browser.run(
        "const f = document.querySelector('.named').parentElement; f.scrollLeft = 200; const h ="
        " f.querySelector('tbody th');return [h.getBoundingClientRect().left -"
        " f.getBoundingClientRect().left, f.scrollLeft]"
    )
    assert left[1] > 0
    assert 0 <= left[0] <= 2  # the names of the columns stay in sight


def test_the_script_writes_numbers_as_the_page_does(browser, tmp_path):
    values = [
        0.0,
        7.0,
        -1234.0,
        2_181_234.0,
        2_181_234.56,
        21_812_345.6,
        1e14,
        1e16,
        0.001,
        0.00099,
        -3.04e-15,
        999_999.96,
        1 / 3,
    ]
    X = pd.DataFrame({"v": values})
    core = karat.coreset(X)
    karat.report.write_report(core, tmp_path / "numbers.html")
    browser.open(tmp_path / "numbers.html")
    assert browser.column(3) == [number(value, 6) for value in core.X["v"]]
