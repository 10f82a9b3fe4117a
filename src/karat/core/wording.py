"""The words and number formats that people read: on a terminal, on the HTML page and in a notebook.

The functions below turn the dictionary of :func:`karat.core.export.coreset_facts` into rows of
text.  A :class:`Style` formats the numbers: ``PAGE`` uses typographic signs, ``TERMINAL`` plain
ASCII.  :func:`certificate_text` writes a certificate in sentences, :func:`notebook_box` any result
as HTML.  Programs read the facts (JSON, files), never these texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, isfinite, isnan, log10
from re import compile as pattern
from typing import TYPE_CHECKING, Any

from karat.engine.tolerances import EPS, PROOF_VERSION, WILD
from karat.errors import plural, several

if TYPE_CHECKING:
    from karat.core.certify import Certificate

THIN = "\u202f"  # narrow no-break space
TIMES = "\u00d7"
MINUS = "\u2212"
MISSING = "\u2013"
# most digits before the point of integers and of other numbers; longer ones are scientific
WHOLE, WRITTEN = 15, 7
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
PLAIN = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
GROUPED = pattern(r"(?<![\w.,])\d{1,3}(,\d{3})+(?![\w]|,\d)")
POWERS = pattern(r"(?<![\w.,])-?\d(\.\d+)?e[+-]?\d+(?!\w)")
MADE = "They are made, not rows of the data."
CORRECTION = (
    "the regulariser has absorbed a part of the data; use the rows with the stored correction"
)

LINES = 20  # of a table in a notebook
STYLE = "border-collapse:collapse;font-size:90%"
CELL = "text-align:left;padding:2px 10px 2px 0;vertical-align:top"
HEAD = "border-left:3px solid #b8860b;padding-left:10px"


def grouped_digits(value: int) -> str:
    """Format an integer in groups of three digits."""
    return f"{value:,}".replace(",", THIN).replace("-", MINUS)


def number(value: float, digits: int = 3, longest: int | None = None) -> str:
    """Format a number to some significant digits; the script of the page (``page.js``) does the
    same.

    Integers below 1e15 are written out in full.  Other numbers from 1e-3 to 1e7 are written
    out to the digits asked for. The rest is in scientific notation, as is everything of more than
    ``longest`` digits before the point.

    >>> number(3.04e-15, 2), number(0.25), number(2.5e6), number(2.5e7), number(float("nan"))
    ('3 × 10⁻¹⁵', '0.25', '2\u202f500\u202f000', '25\u202f000\u202f000', '–')
    """
    if not isfinite(value):
        return MISSING if isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    if value == int(value) and abs(value) < 10.0 ** (WHOLE if longest is None else longest):
        return grouped_digits(int(value))
    rounded = float(f"{value:.{digits - 1}e}")
    if rounded == 0:
        return "0"
    exponent = floor(log10(abs(rounded)))
    if -3 <= exponent < (WRITTEN if longest is None else longest):
        places = max(0, digits - 1 - exponent)
        text = f"{rounded:,.{places}f}".replace(",", THIN)
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        digits_of, _, power = f"{rounded:.{digits - 1}e}".partition("e")
        if "." in digits_of:
            digits_of = digits_of.rstrip("0").rstrip(".")
        text = f"{digits_of} {TIMES} 10{str(int(power)).translate(SUPERSCRIPTS)}"
    return text.replace("-", MINUS)


def plain_number(value: float, digits: int = 3) -> str:
    """The same in ASCII, for a terminal.

    >>> plain_number(3.04e-15, 2), plain_number(20412.7), plain_number(-0.25)
    ('3e-15', '20,400', '-0.25')
    """
    if not isfinite(value):
        return f"{value:g}"
    digits_of, times, power = number(value, digits).partition(f" {TIMES} 10")
    exponent = f"e{int(power.translate(PLAIN)):+03d}" if times else ""
    return digits_of.replace(THIN, ",").replace(MINUS, "-") + exponent


def typeset(text: str) -> str:
    """The text with its numbers as on the page: thin spaces between thousands, powers of ten.

    >>> typeset("12,345 rows, off by 1.5e-13 (a,b.csv row 7)")
    '12\u202f345 rows, off by 1.5 × 10⁻¹³ (a,b.csv row 7)'
    """
    grouped = GROUPED.sub(lambda match: match[0].replace(",", THIN), text)
    return POWERS.sub(lambda match: number(float(match[0]), len(match[1] or ".")), grouped)


@dataclass(frozen=True)
class Style:
    """How numbers are written: functions for integers, and for numbers to some significant
    digits.
    """

    count: Callable[[int], str]
    number: Callable[[float, int], str]

    def error(self, value: float) -> str:
        """Format a relative error: two digits."""
        return self.number(value, 2)

    def several(self, value: int, noun: str) -> str:
        """Write a number with its noun: 1 row, 2 rows."""
        return f"{self.count(value)} {noun if value == 1 else plural(noun)}"

    def duration(self, seconds: float) -> str:
        """Format a time in milliseconds, seconds, minutes or hours."""
        if seconds < 1:
            return f"{self.number(seconds * 1e3, 3)} ms"
        if seconds < 120:
            return f"{self.number(seconds, 3)} s"
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


PAGE = Style(grouped_digits, number)
TERMINAL = Style(lambda value: f"{value:,}", plain_number)


def amount(size: float) -> str:
    """Format a number of bytes, with the unit that leaves at most three digits."""
    units, power = ("B", "kB", "MB", "GB", "TB"), 0
    while size >= 999.5 and power < len(units) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {units[power]}" if power else f"{size:.0f} {units[0]}"


def plain_claim(kept: int, rows: int, left_out: int, target: str | None, made: bool) -> str:
    """One sentence for a reader who has never heard of coresets."""
    these = PAGE.several(kept, "weighted synthetic row" if made else "weighted row")
    whole = f"all {PAGE.count(rows)} rows" + (
        f" (of {PAGE.count(rows + left_out)}, {PAGE.count(left_out)} were left out)"
        if left_out
        else ""
    )
    if target is None:
        return f"Computed from {these}, what is kept is the same as from {whole}."
    return f"A linear model of {target}, fitted to {these}, is the same as one fitted to {whole}."


def claim(facts: Mapping[str, Any]) -> str:
    """Say what the kept rows keep: what the problem keeps, and no more."""
    subject = (
        "This row, with its weight, keeps"
        if facts["kept"] == 1
        else "These rows, with their weights, keep"
    )
    made = f" {MADE}" if facts.get("made") else ""
    return f"{subject} {facts['keeps']}.{made}"


def verdict(ok: bool) -> str:
    """Say whether a certificate is that of an exact coreset."""
    return "exact" if ok else "NOT exact"


def check_verdict(ok: bool) -> str:
    """Say whether a coreset passed a fresh measurement on its data."""
    return "proven" if ok else "REFUTED"


def data_verdict(data: str, columns: int) -> str:
    """Say how data compares with the hashes of the rows that a coreset was made from, in its
    ``columns`` columns.
    """
    used = f"{columns:,} columns" if columns > 1 else "column"
    return {
        "identical": f"identical in the {used} used to what the coreset was made from",
        "reordered": "the same rows that the coreset was made from, in another order",
        "changed": "CHANGED since the coreset was made",
        "unknown": "not compared: the coreset has no hashes of these columns",
    }[data]


def worst_error(certificate: Mapping[str, Any], style: Style) -> str:
    """The loss error of a certificate, and the largest that counts as exact."""
    error, limit = style.error(certificate["loss_error"]), style.error(certificate["tolerance"])
    return f"{error} relative, over every query (limit {limit})"


def of_which(left_out: int, style: Style = TERMINAL) -> str:
    """How many rows were left out, after the number of all."""
    return f", of which {style.count(left_out)} were left out" if left_out else ""


def rows_for(size: int, n_rows: int, left_out: int, made: bool) -> str:
    """How many rows there are, and for which."""
    used = f"{n_rows - left_out:,}"
    beside = f" (of {n_rows:,}, {left_out:,} were left out)" if left_out else ""
    return f"{size:,} made rows for {used}{beside}" if made else f"{size:,} of {used} rows{beside}"


def summary_rows(facts: Mapping[str, Any], style: Style) -> dict[str, str]:
    """Rows of a summary: problem, sizes, error, what is kept and what is not."""
    certificate = facts["certificate"]
    rank, bound, peeled = (style.count(certificate[name]) for name in ("rank", "bound", "peeled"))
    beside = f" and {peeled} peeled" if certificate["peeled"] else ""
    verbatim = certificate.get("verbatim", 0)
    if verbatim:
        beside += f", of which {style.several(verbatim, 'row')} of the data as they are"
    rows = {
        "problem": facts["problem"],
        "rows in": (
            style.count(facts["rows"] + facts["left_out"]) + of_which(facts["left_out"], style)
        ),
        (
            "rows made" if facts.get("made") else "rows kept"
        ): f"{style.count(facts['kept'])} (rank {rank}, bound {bound}{beside})",
        "worst error": f"{worst_error(certificate, style)}: {verdict(facts['exact'])}",
        "kept": facts["keeps"],
        "not kept": "; ".join(facts["excludes"]),
    }
    return rows | ({"note": " ".join(facts["notes"])} if facts["notes"] else {})


def details(facts: Mapping[str, Any], style: Style) -> dict[str, str]:
    """Further rows: weights, construction, groups and correction."""
    certificate, weights = facts["certificate"], facts["weights"]
    low, high, total = (
        style.number(weights["min"], 3),
        style.number(weights["max"], 3),
        style.number(weights["sum"], 10),
    )
    rows = {
        "weights": f"{low} to {high}, sum {total}",
        "made by": (
            f"{certificate['method']}, {style.duration(certificate['seconds'])}, passes:"
            f" {certificate['passes']}"
        ),
    }
    rows |= {} if facts["groups"] is None else {"groups": style.count(facts["groups"])}
    return rows | ({"correction": CORRECTION} if facts["absorbed"] else {})


def certificate_facts(certificate: Certificate) -> dict[str, str]:
    """The certificate as rows of a table."""
    proof, made = certificate, certificate.rows != "real"
    facts = {
        "rows in": PAGE.count(proof.n_rows) + of_which(proof.left_out, PAGE),
        "rows made" if made else "rows kept": PAGE.count(proof.size),
        "worst error": worst_error(proof.to_dict(), PAGE),
    }
    if proof.ok:
        facts |= {"kept": proof.keeps, "not kept": "; ".join(proof.excludes)}
    return facts | ({"note": " ".join(proof.notes)} if proof.notes else {})


def certificate_text(certificate: Certificate) -> str:
    """The certificate in sentences: the claim, how it was reached, what is kept and what is not."""
    proof, made = certificate, certificate.rows != "real"
    head = rows_for(proof.size, proof.n_rows, proof.left_out, made)
    if not proof.ok:
        conclusion = "NOT exact" if proof.proof_version == PROOF_VERSION else "not proven"
        reason = _failed_limit(proof) or ("" if proof.notes else "It was refuted on other data.")
        return " ".join(part for part in (f"{head}, {conclusion}.", reason, *proof.notes) if part)
    limit = f"{proof.rounding / EPS:.2g} eps"
    second_term = (
        f"what a change of every column by at most {limit} of its own size could do to it"
        if proof.in_columns
        else f"at most {limit} of the sums of absolute values of the features"
    )
    peeled = f" and {proof.peeled:,} peeled" if proof.peeled else ""
    levels = f", {proof.levels} levels" if proof.levels > 1 else ""
    text = (
        f"{head}, exact: at every query the loss of the {'made' if made else 'kept'} rows differs"
        f" from that of all rows by at most {proof.loss_error:.1e} of it (up to"
        f" {proof.tolerance:.0e} counts as exact), plus {second_term} (rank {proof.rank}, bound"
        f" {proof.bound}{peeled}{levels}, condition {proof.condition:.1e}, {proof.method},"
        f" {several(proof.passes, 'pass')}, {proof.seconds:.3g} s). Kept: {proof.keeps}. Not kept:"
        f" {', '.join(proof.excludes)}."
    )
    if made:
        verbatim = f", but for {proof.verbatim:,} that are kept as they are"
        text += f" The rows are made, not rows of the data{verbatim if proof.verbatim else ''}."
    if proof.standard_errors is not None:
        undetermined = ": near-copies of columns leave them undetermined"
        text += (
            f" Coefficients move by at most {proof.standard_errors:.0e} standard"
            f" errors{undetermined if proof.standard_errors > 1 else ''}."
        )
    if proof.excluded_directions:
        count = len(proof.excluded_directions)
        sizes = ", ".join(
            f"{size:.0e}" for size in sorted(proof.excluded_directions, reverse=True)[:5]
        )
        vanish, them = (
            ("directions of the columns vanish", "them")
            if count > 1
            else ("direction of the columns vanishes", "it")
        )
        text += (
            f" {count} {vanish} up to rounding (relative size {sizes}"
            f"{', ...' if count > 5 else ''}); coefficients along {them} are rounding."
        )
    if proof.spread > WILD:
        text += (
            f" Some rows are far larger than others: they make a column {proof.spread:.0e} times"
            " its typical size, and the claim is relative to that."
        )
    return " ".join([text, *proof.notes])


def _failed_limit(certificate: Certificate) -> str:
    """Which limit of the proof is exceeded; empty if none is."""
    if not certificate.loss_error <= certificate.tolerance:
        error = readable(certificate.loss_error, certificate.tolerance)
        return (
            f"The loss of the kept rows may differ from that of all rows by {error} of it; up to"
            f" {certificate.tolerance:.0e} counts as exact."
        )
    if not certificate.proven and certificate.proof_version == PROOF_VERSION:
        return (
            "The loss would be kept only for columns that differ from the given ones by"
            f" {readable(certificate.remainder, 1.0, 'g')} times the rounding that counts as exact."
        )
    return ""


def readable(value: float, limit: float, kind: str = "e") -> str:
    """A value to two digits, or to as many as it takes to read that it is beyond a limit.

    >>> readable(1.04e-10, 1e-10), readable(1.001, 1.0, "g"), readable(9.96e-11, 1e-10)
    ('1.04e-10', '1.001', '1.0e-10')
    """
    least = 1 if kind == "e" else 2
    texts = (f"{value:.{digits}{kind}}" for digits in range(least, 18))
    return next(
        (text for text in texts if not value > limit or float(text) > limit),
        f"{value:.{least}{kind}}",
    )


def notebook_box(
    title: str,
    facts: Mapping[str, Any] | None = None,
    *,
    ok: bool | None = None,
    columns: Mapping[str, Any] | None = None,
) -> str:
    """The HTML of a result in a notebook, with text of the data escaped.

    A title (with a mark where something is ``ok`` or not), a line for each of the ``facts``, and
    the first lines of a table, given by its ``columns`` (sequences or arrays).
    """
    mark = "" if ok is None else f" {'&#10003;' if ok else '&#10007;'} {verdict(ok)}"
    lines = [[("th", name), ("td", value)] for name, value in (facts or {}).items()]
    html = _html_table(lines)
    if columns:
        length = min(map(len, columns.values()))
        lines = [[("th", name) for name in columns]]
        lines += [
            [("td", _cell_text(values[i])) for values in columns.values()]
            for i in range(min(length, LINES))
        ]
        rest = f"<small>and {PAGE.count(length - LINES)} more</small>" if length > LINES else ""
        html += _html_table(lines) + rest
    return f'<div style="{HEAD}"><b>{escape(title)}</b>{mark}{html}</div>'


def _cell_text(value: Any) -> str:
    return PAGE.number(float(value), 6) if isinstance(value, float) else str(value)


def _html_table(lines: Sequence[Sequence[tuple[str, Any]]]) -> str:
    if not lines:
        return ""
    rows = "".join(
        "<tr>"
        + "".join(f'<{tag} style="{CELL}">{escape(str(text))}</{tag}>' for tag, text in line)
        + "</tr>"
        for line in lines
    )
    return f'<table style="{STYLE}">{rows}</table>'
