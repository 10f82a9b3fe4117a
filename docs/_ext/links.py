"""Check that every link inside the built pages works, and that no page fetches anything from a network.

Run it with ``python docs/_ext/links.py docs/_build/html``.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
}
HARMLESS = {
    "canonical",
    "author",
    "license",
    "prev",
    "next",
    "search",
    "index",
    "help",
    "top",
}  # relations that are not fetched


class Page(HTMLParser):
    """The anchors and links of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.twice: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        for anchor in {
            found.get("id", ""),
            found.get("name", "") if tag == "a" else "",
        } - {""}:
            (self.twice if anchor in self.anchors else self.anchors).add(anchor)
        for name in ("href", "src"):
            if name in found:
                self.links.append(found[name])
                if (tag, name) in FETCHED and found.get("rel") not in HARMLESS:
                    self.fetched.append(found[name])


def problems(root: Path) -> list[str]:
    """A message for each broken link, double anchor, or address that would be fetched."""
    pages = {
        path.resolve(): Page(path)
        for path in sorted(root.rglob("*.html"))
        if "_static" not in path.parts
    }
    said = []
    for path, page in pages.items():
        name = path.relative_to(root.resolve())
        said += [
            f"{name}: {address} would be fetched from a network."
            for address in page.fetched
            if urlsplit(address).netloc
        ]
        said += [
            f"{name}: the anchor #{anchor} occurs twice."
            for anchor in sorted(page.twice)
        ]
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = (
                (path.parent / unquote(parts.path)).resolve() if parts.path else path
            )
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                said.append(f"{name}: {link} does not exist.")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors
            ):
                said.append(f"{name}: {link} has no such anchor.")
    if not pages:
        said.append(f"{root} has no pages.")
    return said


if __name__ == "__main__":
    found = problems(Path(sys.argv[1]))
    print("\n".join(found) or "Every link inside works, and nothing is fetched.")
    sys.exit(bool(found))
