"""The page: verdicts first, every link alive, nothing from outside, and no page at all from damaged input."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pages import Page

from krogh.errors import KroghError
from krogh.files import STUDY_SCHEMA
from krogh.report import write_report
from krogh.report.mathematics import mathematics


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


def test_two_studies_of_one_experiment_are_told_apart(write, tmp_path: Path) -> None:
    """By scale, settings that differ and folder: in the index, beside every claim, in headings and anchors."""
    write(tmp_path / "laptop", "parity/x", [{}], settings={"k": 3, "ns": list(range(50))})
    write(tmp_path / "paper", "parity/x", [{}], settings={"k": 4, "ns": list(range(60))}, scale="paper")
    write(tmp_path / "paper", "parity/y", [{}])
    page = Page(write_report(tmp_path))
    heads = [text for attrs, text in page.all("p", class_="kicker mono")]
    assert heads[0].startswith("parity/x · laptop · k = 3 · ns = 0, 1, 2") and heads[0].endswith("… · laptop/parity/x")
    assert heads[1].startswith("parity/x · paper · k = 4") and heads[2] == "parity/y"
    anchors = [attrs["id"] for attrs, _ in page.all("article")]
    assert anchors == ["study-laptop-parity-x", "study-paper-parity-x", "study-parity-y"]
    assert all(
        len({text for text in found if "parity/x" in text}) == 2 for found in (texts(page, "li"), texts(page, "td"))
    )


def texts(page: Page, tag: str) -> list[str]:
    return [text for _, text in page.all(tag)]


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
    for attrs, _ in images:
        drawing = base64.b64decode(attrs["src"].partition(",")[2]).decode()
        assert "<path" in drawing and "prefers-color-scheme: dark" in drawing and "<metadata" not in drawing


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


def test_claims_headings_and_captions_set_simple_mathematics(make_study: Any, claim: Any, figure: Any) -> None:
    words = "S_3: Σ‖ω_i‖³ at λ = 1e-07"
    entry = figure("x", title=words, caption=words)
    study = make_study(
        "one", [claim(statement=words, threshold="≤ 1e-09")], title=words, figures=[entry], command="S_3"
    )
    page = Page(write_report(study))
    assert page.source.count("S<sub>3</sub>: Σ‖ω<sub>i</sub>‖³ at λ = 10⁻⁷") >= 4 and "≤ 10⁻⁹" in page.source
    assert [text for _, text in page.all("code")] == ["figures/x.svg", "S_3"] and "<code><sub>" not in page.source


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("x_{ij}^2 <b>", "x<sub>ij</sub><sup>2</sup> &lt;b&gt;"),
        ("10^-7 and n^O(k)", "10<sup>−7</sup> and n<sup>O(k)</sup>"),
        ("D_4xD_4, ‖θ‖³_(2,3)", "D<sub>4</sub>xD<sub>4</sub>, ‖θ‖³<sub>2,3</sub>"),
        ("Σ_(i<j), F*_j", "Σ<sub>i&lt;j</sub>, F*<sub>j</sub>"),
        ("from 1.004e+04 to 2.5e-07", "from 10,040 to 2.5×10⁻⁷"),
    ]
    + [
        (text, text)
        for text in ("n_heads", "x_train_2", "S_3.csv", "runs/S_3/a", "--set group=S_3", "`S_3`", "3f1e-05ab")
    ],
)
def test_mathematics_of_the_page(text: str, page: str) -> None:
    assert str(mathematics(text)) == page


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
def test_damaged_claims_are_left_out_with_a_word(change: dict[str, Any], make_study: Any, claim: Any) -> None:
    study = make_study("one", [claim(), claim(name="other", **change)])
    with pytest.raises(KroghError, match=r"index\.html is written .*claims\.json is damaged"):
        write_report(study)
    page = Page(study / "index.html")
    (notice,) = [text for attrs, text in page.all("p") if "damaged" in attrs.get("class", "")]
    assert "claims.json is damaged" in notice and "its claims are left out" in notice
    assert not page.all("table") and "600 trials" not in page.source


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
