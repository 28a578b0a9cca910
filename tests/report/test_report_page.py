"""The page: verdicts first, every link alive, nothing from outside, and no page at all from damaged input."""

from __future__ import annotations

import base64
import json
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from krogh.errors import KroghError
from krogh.files import STUDY_SCHEMA
from krogh.report import write_report

VOID = {"meta", "link", "img", "col", "wbr", "br", "hr", "input"}


class Page(HTMLParser):
    """The elements of a page in order, with their text, and whether they nest properly."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.source = path.read_text(encoding="utf-8")
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self._open: list[int] = []
        self.feed(self.source)
        self.close()
        assert not self._open, "an element was not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}, []))
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}, []))

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self._open.pop()][0] == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        for index in self._open:
            self.elements[index][2].append(data)

    def all(self, tag: str, **wanted: str) -> list[tuple[dict[str, str], str]]:
        return [
            (attrs, " ".join("".join(text).split()))
            for name, attrs, text in self.elements
            if name == tag and all(attrs.get(key.rstrip("_")) == value for key, value in wanted.items())
        ]

    def position(self, tag: str) -> int:
        return [name for name, _, _ in self.elements].index(tag)


@pytest.fixture
def page(gallery: Path) -> Page:
    return Page(write_report(gallery))


def test_claims_come_before_figures(page: Page) -> None:
    assert page.position("h1") < page.position("table") < page.position("figure")
    rows = [text for attrs, text in page.all("tr")]
    assert len(rows) == 1 + 4
    assert all(word in rows[0] for word in ("Verdict", "Claim", "Measured", "Criterion", "Source", "Study"))


def test_every_claim_shows_its_number_verdict_and_study(page: Page) -> None:
    rows = {text for attrs, text in page.all("tr")}
    (row,) = [text for text in rows if "exponent at most k" in text]
    for part in (
        "1.24 [1.18, 1.31]",
        "upper end at most 3",
        "about 1.3",
        "600 trials",
        "reproduced",
        "parity/scaling",
    ):
        assert part in row
    (row,) = [text for text in rows if "exponential tail" in text]
    assert "∞ [4210, ∞] steps" in row and "inconclusive" in row
    assert len(page.all("span", class_="badge not-reproduced")) == 1


def test_the_summary_counts_the_verdicts(page: Page) -> None:
    ((_, summary),) = page.all("p", class_="summary")
    assert "4 claims in 3 studies: 2 reproduced, 1 not reproduced and 1 inconclusive." in summary
    assert "1 study is not finished" in summary


def test_every_link_leads_somewhere(page: Page, gallery: Path) -> None:
    anchors = [attrs["id"] for _, attrs, _ in page.elements if "id" in attrs]
    assert len(anchors) == len(set(anchors))
    links = [attrs["href"] for attrs, _ in page.all("a")]
    for link in links:
        if link.startswith("#"):
            assert link[1:] in anchors
        else:
            assert (gallery / unquote(link)).is_file(), link
    assert "parity/scaling/figures/scaling.pdf" in links
    assert "parity/scaling/figures/scaling.csv" in links
    assert "parity/scaling/trials.parquet" in links
    for _, attrs, _ in page.elements:
        for reference in ("aria-labelledby", "aria-describedby"):
            assert attrs.get(reference, anchors[0]) in anchors


def test_nothing_comes_from_outside(page: Page) -> None:
    for _, attrs, _ in page.elements:
        for key in ("src", "href", "srcset", "data", "action"):
            assert not attrs.get(key, "").startswith(("http:", "https:", "//", "file:", "javascript:"))
    assert "@import" not in page.source and "url(" not in page.source
    ((policy, _),) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert "default-src 'none'" in policy["content"]


def test_figures_are_embedded_with_alternative_text(page: Page, gallery: Path) -> None:
    images = page.all("img")
    assert len(images) == 2
    for attrs, _ in images:
        assert attrs["alt"] and int(attrs["width"]) > 0 and int(attrs["height"]) > 0
    embedded = {base64.b64decode(attrs["src"].partition(",")[2]) for attrs, _ in images}
    assert (gallery / "parity/scaling/figures/scaling.svg").read_bytes() in embedded


def test_the_page_has_landmarks_headings_and_a_caption(page: Page) -> None:
    for tag in ("header", "main", "nav", "footer", "caption", "h1"):
        assert page.all(tag)
    assert len(page.all("article")) == 3
    assert all(attrs.get("scope") for attrs, _ in page.all("th"))


def test_an_interrupted_study_is_shown_as_such(page: Page) -> None:
    (text,) = [text for attrs, text in page.all("article") if attrs["id"] == "study-retrieval"]
    assert "Interrupted." in text and "Not drawn yet." in text and "figures/samples.svg" in text
    assert "none yet" in text


def test_the_command_is_copied_exactly(make_study: Any) -> None:
    command = "krogh run one --set 'a  <b>' \\\n    --scale laptop"
    page = Page(write_report(make_study("one", command=command)))
    (code,) = ["".join(text) for tag, _, text in page.elements if tag == "code"]
    assert code == command


def test_the_accounting_is_there(page: Page) -> None:
    details = [text for _, text in page.all("details")]
    for part in (
        "2 CPU cores",
        "6 min 12 s",
        "0.4.38",
        "learning_rate0.1",
        "diverged2",
        "trained through XLA1200",
        "trained by the resident kernel600",
        "compilations12",
        "3.5",
    ):
        assert part in details[1]


def test_text_is_escaped_everywhere(make_study: Any, claim: Any, figure: Any) -> None:
    evil = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>"
    words = {key: evil for key in ("statement", "source", "statistic", "unit", "threshold", "source_value", "reason")}
    study = make_study(
        "one",
        [claim(**words)],
        title=evil, question=evil, source=evil, scale=evil, command=evil, device=evil, started=evil,
        notes=[evil], settings={evil: evil}, versions={evil: evil}, engine={evil: evil},
        figures=[figure("x", title=evil, caption=evil, alt=evil, svg=f"{evil[:5]}.svg")],
    )  # fmt: skip
    page = Page(write_report(study))
    assert len(page.all("script")) == 1 and not page.all("img")
    assert not any(key.startswith("on") for _, attrs, _ in page.elements for key in attrs)
    assert page.all("h1")[0][1] == evil


def test_missing_numbers_are_dashes(make_study: Any, claim: Any) -> None:
    study = make_study("one", [claim(value=None, low=None, high=None, trials=None)], seconds=None, engine={})
    page = Page(write_report(study))
    assert page.all("span", class_="value")[0][1] == "—"
    assert "600 trials" not in page.source and "nan" not in page.all("details")[0][1].lower()


def test_what_trains_nothing_counts_cases_and_an_exact_number_has_no_interval(make_study: Any, claim: Any) -> None:
    study = make_study("one", [claim(value=0.25, low=0.25, high=0.25, trials=600)], engine={"trials": 0})
    page = Page(write_report(study))
    assert page.all("span", class_="value")[0][1].startswith("0.250") and "[0.250" not in page.source
    assert "600 cases" in page.source and "600 trials" not in page.source


def test_one_study_is_its_own_report(gallery: Path) -> None:
    path = write_report(gallery / "parity" / "scaling")
    assert path == gallery / "parity" / "scaling" / "index.html"
    page = Page(path)
    assert page.all("h1")[0][1] == "How convergence time scales with the input length"
    assert not page.all("nav")
    assert "figures/scaling.pdf" in [attrs["href"] for attrs, _ in page.all("a")]


def test_links_follow_the_page_when_it_is_written_elsewhere(gallery: Path, tmp_path: Path) -> None:
    path = write_report(gallery, tmp_path / "pages" / "all.html")
    links = [attrs["href"] for attrs, _ in Page(path).all("a") if not attrs["href"].startswith("#")]
    assert links and all((path.parent / unquote(link)).is_file() for link in links)
    assert not (gallery / "index.html").exists()


def test_the_same_studies_give_the_same_page(gallery: Path) -> None:
    first = write_report(gallery).read_bytes()
    assert write_report(gallery).read_bytes() == first


def test_a_folder_without_studies_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(KroghError, match=str(folder)):
            write_report(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ('{"schema": 99}', "schema is 99"),
        (f'{{"schema": {STUDY_SCHEMA}}}', "'name'"),
        ({"status": "done"}, "'status'"),
        ({"seconds": "long"}, "'seconds'"),
        ({"settings": [1]}, "'settings'"),
        ({"notes": [1]}, "'notes'"),
        ({"figures": [{"name": "x"}]}, "names no svg"),
        ({"figures": [{"name": "x", "svg": "../../secret.svg"}]}, "outside"),
        ({"figures": [{"name": "x", "svg": "/etc/passwd"}]}, "outside"),
    ],
)
def test_a_damaged_study_is_refused_and_nothing_is_written(content: Any, reason: str, gallery: Path) -> None:
    path = gallery / "parity" / "scaling" / "study.json"
    if isinstance(content, dict):
        content = json.dumps(json.loads(path.read_text()) | content)
    path.write_text(content)
    with pytest.raises(KroghError) as caught:
        write_report(gallery)
    message = str(caught.value)
    assert str(path) in message and reason in message and "run the study again" in message
    assert not (gallery / "index.html").exists()


@pytest.mark.parametrize("change", [{"verdict": "maybe"}, {"value": "big"}, {"value": True}, {"statement": None}])
def test_damaged_claims_are_refused(change: dict[str, Any], make_study: Any, claim: Any) -> None:
    study = make_study("one", [claim(**change)])
    with pytest.raises(KroghError, match=r"claims\.json is damaged"):
        write_report(study)
    assert not (study / "index.html").exists()


def test_a_folder_as_the_page_is_refused(gallery: Path) -> None:
    with pytest.raises(KroghError, match=r"index\.html"):
        write_report(gallery, gallery / "parity")


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_that_leads_out_of_the_study_is_refused(what: str, gallery: Path, tmp_path: Path) -> None:
    """A page would otherwise show any file of whoever makes it."""
    figures, hidden = gallery / "parity" / "scaling" / "figures", tmp_path / "elsewhere"
    shutil.copytree(figures, hidden)
    drawing = next(iter(sorted(figures.glob("*.svg"))))
    if what == "file":
        drawing.unlink()
        drawing.symlink_to(hidden / drawing.name)
    else:
        shutil.rmtree(figures)
        figures.symlink_to(hidden)
    with pytest.raises(KroghError, match="leads out of the study's folder by a link"):
        write_report(gallery)
    assert not (gallery / "index.html").exists()
