"""A study from somebody else: whatever its files hold, the page shows it as text, loads nothing, reads nothing else.

What is not as the study wrote it is said on the page; the command fails, and the page is there.
"""

from __future__ import annotations

import base64
import json
import random
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from pages import Page

from krogh.cli import main
from krogh.errors import KroghError
from krogh.files import destination
from krogh.integrity import DIGESTS, digests, written_files
from krogh.report import write_report
from krogh.report.drawing import THEMES, embed
from krogh.saying import printable

EVIL = "<script>window.hit=1</script>\"'><img src=x onerror=window.hit=1>{{ 7*7 }}${hit}&lt;\u202e</style></title>]]>"
NASTY_SVG = """<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 72 36"
     onload="window.hit=1">
 <script>window.hit=1</script>
 <style>@import url(http://192.0.2.1/a.css); * {fill: url(http://192.0.2.1/b.svg#c)}</style>
 <foreignObject width="10" height="10"><iframe xmlns="http://www.w3.org/1999/xhtml" src="http://192.0.2.1/"/></foreignObject>
 <image xlink:href="http://192.0.2.1/pixel.png" width="1" height="1"/>
 <image href="file:///etc/passwd" width="1" height="1"/>
 <image href="data:image/svg+xml;base64,PHN2Zy8+" width="1" height="1"/>
 <a xlink:href="javascript:window.hit=1"><rect width="9" height="9"/></a>
 <use xlink:href="http://192.0.2.1/other.svg#x"/>
 <use href="#kept"/>
 <animate attributeName="href" to="javascript:window.hit=1"/>
 <set attributeName="onclick" to="window.hit=1"/>
 <path id="kept" d="M 0 0 L 72 36" style="fill: none; stroke: #0072b2; behavior: url(x.htc);
       fill: url( 'http://192.0.2.1/c' )" onclick="window.hit=1" onmouseover="window.hit=1"/>
 <rect width="20" height="10" fill="#ffffff" filter="url(http://192.0.2.1/f.svg#g)" clip-path="url(#c)"/>
</svg>"""


def seal(folder: Path) -> Path:
    """Give a study the digests that its conclusion would have written."""
    path = folder / "study.json"
    about = json.loads(path.read_text())
    about[DIGESTS] = digests(folder, written_files(folder, about["figures"]))
    path.write_text(json.dumps(about))
    return folder


@pytest.fixture
def hostile(make_study: Any, claim: Any, figure: Any) -> Path:
    """A study with HTML in every field and a drawing that tries everything."""
    fields = ("name", "statement", "source", "statistic", "unit", "threshold", "source_value", "reason")
    study = make_study(
        "one",
        [claim(**dict.fromkeys(fields, EVIL))],
        **dict.fromkeys(("title", "question", "source", "scale", "command", "device", "started"), EVIL),
        notes=[EVIL, EVIL],
        settings={EVIL: [EVIL, {EVIL: EVIL}]},
        versions={EVIL: EVIL},
        engine={EVIL: EVIL, "trials": EVIL},
        figures=[figure(EVIL, svg=f"figures/{EVIL[:7]}.svg", pdf="", data="javascript:alert(1)", title=EVIL,
                        caption=EVIL, alt=EVIL)],
    )  # fmt: skip
    about = json.loads((study / "study.json").read_text())
    (study / "study.json").write_text(json.dumps(about | {"name": EVIL}))
    (study / "figures").mkdir()
    (study / "figures" / f"{EVIL[:7]}.svg").write_text(NASTY_SVG)
    (study / "javascript:alert(1)").write_text("x")
    return seal(study)


@pytest.mark.parametrize(
    ("svg", "linked"),
    [
        ('<path d="M 0 0 L 72 36"/><style>*{stroke-linejoin: round}</style>', True),
        ("<script>window.hit=1</script>", False),
        ('<metadata><x xmlns="http://www.w3.org/1999/xhtml" onclick="1"/></metadata>', False),
        ('<g onload="window.hit=1"/>', False),
        ('<rect fill="url(http://192.0.2.1/a.svg#p)" width="1" height="1"/>', False),
        ('<style> <title/>@import "http://192.0.2.1/a.css";</style>', False),
        ('<?xml-stylesheet type="text/css" href="http://192.0.2.1/a.css"?>', False),
        ("<style>@import url(http://192.0.2.1/a.css)</style>", False),
        ('<image href="http://192.0.2.1/a.png" width="1" height="1"/>', False),
    ],
)
def test_only_files_that_run_nothing_are_linked(make_study: Any, figure: Any, svg: str, linked: bool) -> None:
    """Opened by a click, a page or a drawing is no longer under the page's rules."""
    study = make_study(
        "one", figures=[figure("curve", svg="figures/a.svg", pdf="figures/a.html", data="figures/b.csv")]
    )
    (study / "figures").mkdir(exist_ok=True)
    (study / "figures" / "a.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 72 36">{svg}</svg>')
    (study / "figures" / "a.html").write_text("<script>window.hit=1</script>")
    (study / "figures" / "b.csv").write_text("x\n1\n")
    links = {
        attrs["href"] for attrs, _ in Page(write_report(seal(study))).all("a") if "figures/" in attrs.get("href", "")
    }
    assert links == ({"figures/a.svg"} if linked else set()) | {"figures/b.csv"}


def test_what_a_study_says_is_text_and_nothing_of_it_runs_or_loads(hostile: Path) -> None:
    page = Page(write_report(hostile))
    assert len(page.all("script")) == 1 and len(page.all("img")) == 1 and not page.all("iframe")
    for tag, attrs, _ in page.elements:
        assert not any(key.startswith("on") for key in attrs)
        assert tag not in ("object", "embed", "base", "form", "foreignobject", "style") or tag == "style"
        for key in ("href", "src"):
            assert attrs.get(key, "#").startswith(("#", "data:", "figures/", "trials.parquet", "javascript%3A"))
    assert page.all("h1")[0][1].startswith("<script>window.hit=1</script>")
    assert "{{ 7*7 }}" in page.all("h1")[0][1] and page.all("img")[0][0]["alt"] == printable(EVIL) != EVIL
    ((policy, _),) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert "default-src 'none'" in policy["content"] and "img-src data:" in policy["content"]
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:|//|file:)", page.source)


def test_a_drawing_keeps_its_shapes_and_loses_the_rest() -> None:
    drawing = embed(NASTY_SVG.encode())
    assert drawing is not None and (drawing.width, drawing.height) == (96, 48)
    text = base64.b64decode(drawing.address.partition(",")[2]).decode()
    for word in ("script", "onload", "onclick", "foreignObject", "iframe", "192.0.2.1", "file:", "@import", "behavior",
                 "javascript", "animate", "<set", "filter", "image/svg"):  # fmt: skip
        assert word not in text.replace("image/svg+xml", ""), word
    assert (
        'href="#kept"' in text and "M 0 0 L 72 36" in text and "stroke: var(--blue)" in text and "var(--paper)" in text
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GIF89a",
        b"<html/>",
        b"<svg/>",
        b'<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>',
        b'<!DOCTYPE svg SYSTEM "x"><!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
        b'<svg xmlns="http://www.w3.org/2000/svg"/>',
        b'<svg xmlns="http://www.w3.org/2000/svg">' + b"<g>" * 300 + b"</g>" * 300 + b"</svg>",
        NASTY_SVG.encode()[:700],
    ],
)
def test_what_is_no_drawing_is_left_out_with_a_word(content: bytes, gallery: Path) -> None:
    assert embed(content) is None
    (gallery / "parity/scaling/figures/scaling.svg").write_bytes(content)
    with pytest.raises(KroghError, match=r"index\.html is written .*scaling\.svg is no drawing"):
        write_report(gallery)
    page = Page(gallery / "index.html")
    assert len(page.all("img")) == 1, "the other study's"
    assert "is no drawing" in page.source


def test_ours_look_the_same_in_light_and_have_a_dark_side(gallery: Path) -> None:
    content = (gallery / "parity/scaling/figures/scaling.svg").read_text()
    drawing = embed(content.encode())
    assert drawing is not None
    text = base64.b64decode(drawing.address.partition(",")[2]).decode()
    assert text.count("<path") == content.count("<path") and text.count("<use") == content.count("<use")
    back = text
    for color, (name, _) in THEMES.items():
        back = back.replace(f"var(--{name})", color)
    styles = lambda words: sorted(re.findall(r'style="([^"]+)"', words))  # noqa: E731
    assert styles(back) == sorted([*styles(content), "fill: #000000"])


# --- files that are not what was written ----------------------------------------------------------------------------


def damaged_page(folder: Path) -> Page:
    with pytest.raises(KroghError, match="is written and says what is wrong"):
        write_report(folder)
    return Page(folder / "index.html")


@pytest.fixture
def sealed(gallery: Path) -> Path:
    """A study of which every file is known."""
    folder = gallery / "parity" / "scaling"
    (folder / "measures").mkdir()
    (folder / "measures" / "medians.parquet").write_bytes(b"PAR1" + bytes(range(256)) + b"PAR1")
    (folder / "trials.parquet").write_bytes(b"PAR1" + bytes(range(256)) * 4 + b"PAR1")
    return seal(folder)


NAMES = ("trials.parquet", "measures/medians.parquet", "claims.json", "figures/scaling.svg", "figures/scaling.csv")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_cut_short_or_gone_is_noticed(name: str, sealed: Path) -> None:
    assert "damaged" not in Page(write_report(sealed)).all("p", class_="summary")[0][1]
    path = sealed / name
    kept = path.read_bytes()
    for size in (0, 1, len(kept) // 2, len(kept) - 1):
        path.write_bytes(kept[:size])
        page = damaged_page(sealed)
        assert any(name in text and "damaged" in text for _, text in page.all("p", class_="notice damaged"))
        assert "1 study has damaged files" in page.all("p", class_="summary")[0][1]
    path.unlink()
    assert "is not there" in damaged_page(sealed).source


@pytest.mark.slow
def test_a_bit_that_changed_anywhere_is_noticed(sealed: Path) -> None:
    """At places drawn with a fixed seed, in every file; and what is damaged is not shown as a result."""
    draw = random.Random(0)
    for name in NAMES:
        path = sealed / name
        kept = path.read_bytes()
        for _ in range(6):
            changed = bytearray(kept)
            changed[draw.randrange(len(kept))] ^= 1 << draw.randrange(8)
            path.write_bytes(bytes(changed))
            page = damaged_page(sealed)
            assert (len(page.all("img")) == 0) == (name == "figures/scaling.svg")
            assert bool(page.all("table")) == (name != "claims.json"), (
                "claims that are not what was written are left out"
            )
        path.write_bytes(kept)
    assert write_report(sealed)


def test_a_bit_that_changed_in_the_summary_never_runs_and_never_reads_elsewhere(sealed: Path) -> None:
    path, draw = sealed / "study.json", random.Random(1)
    kept = path.read_bytes()
    for _ in range(30):
        changed = bytearray(kept)
        changed[draw.randrange(len(kept))] ^= 1 << draw.randrange(8)
        path.write_bytes(bytes(changed))
        (sealed / "index.html").unlink(missing_ok=True)
        try:
            write_report(sealed)
        except KroghError as problem:
            assert len(str(problem).splitlines()) == 1
        if (sealed / "index.html").exists():
            assert len(Page(sealed / "index.html").all("script")) == 1


def test_the_command_fails_with_the_page_written(sealed: Path, monkeypatch: Any, capsys: Any) -> None:
    path = sealed / "trials.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    monkeypatch.setattr(sys, "argv", ["krogh", "report", str(sealed)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and (sealed / "index.html").is_file()
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and "trials.parquet is damaged" in said


# --- links and crafted names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["claims.json", "trials.parquet"])
def test_links_that_go_round_are_one_line(name: str, sealed: Path) -> None:
    (sealed / name).unlink()
    (sealed / name).symlink_to(name)
    with pytest.raises(KroghError, match=f"{name}.* is no file") as problem:
        write_report(sealed)
    assert len(str(problem.value).splitlines()) == 1
    assert destination(sealed / name) == sealed / name  # one of the user's own is replaced


@pytest.mark.parametrize("what", ["study.json", "claims.json", "trials.parquet", "study"])
def test_nothing_is_read_through_a_link_that_leads_out(what: str, gallery: Path, tmp_path: Path) -> None:
    study, hidden = gallery / "parity" / "scaling", tmp_path / "hidden"
    shutil.copytree(study, hidden)
    secret = json.loads((hidden / "claims.json").read_text())
    secret["claims"][0]["statement"] = "SECRET"
    (hidden / "claims.json").write_text(json.dumps(secret))
    about = json.loads((hidden / "study.json").read_text()) | {"title": "SECRET"}
    (hidden / "study.json").write_text(json.dumps(about))
    if what == "study":
        shutil.rmtree(study)
        study.symlink_to(hidden)
    else:
        (study / what).unlink()
        (study / what).symlink_to(hidden / what)
    with pytest.raises(KroghError, match="by a link"):
        write_report(gallery)
    page = gallery / "index.html"
    assert not page.exists() or ("SECRET" not in page.read_text() and str(hidden) not in page.read_text())


def test_digests_may_not_name_files_elsewhere(sealed: Path) -> None:
    path = sealed / "study.json"
    about = json.loads(path.read_text())
    about[DIGESTS] |= {"../hidden-progress/claims.json": "0" * 32, "/etc/passwd": "0" * 32}
    path.write_text(json.dumps(about))
    notices = " ".join(text for _, text in damaged_page(sealed).all("p", class_="notice damaged"))
    assert notices.count("names a file outside the study's folder") == 2


def test_a_drawing_that_is_too_large_is_not_read(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("krogh.report.page.LARGEST_DRAWING", 1000)
    assert "at most 1,000 are read" in damaged_page(sealed).source


# --- in a browser ----------------------------------------------------------------------------------------------------


def visit(browser: Any, page: Path, **options: Any) -> tuple[Any, list[str], list[str]]:
    tab, said, asked = browser.new_context(**options).new_page(), [], []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(page.as_uri())
    tab.evaluate("Promise.all([...document.images].map((image) => image.decode().catch(() => 0)))")
    return tab, said, asked


def test_in_a_browser_nothing_of_a_hostile_study_runs_or_loads(browser: Any, hostile: Path) -> None:
    page = write_report(hostile)
    tab, said, asked = visit(browser, page)
    assert tab.evaluate("window.hit") is None and not said
    assert [url for url in asked if not url.startswith("data:")] == [page.as_uri()]
    assert tab.evaluate("document.images[0].naturalWidth") > 0


@pytest.mark.slow
def test_in_a_browser_figures_follow_the_theme_and_stay_readable_on_a_phone(browser: Any, gallery: Path) -> None:
    page = write_report(gallery)
    means = {}
    for scheme in ("light", "dark"):
        tab, said, _ = visit(browser, page, color_scheme=scheme, viewport={"width": 1000, "height": 800})
        picture = tab.locator(".card img").first.screenshot()
        means[scheme] = brightness(picture)
        assert not said
    assert means["light"] > 200 and means["dark"] < 80
    tab, _, _ = visit(browser, page, viewport={"width": 390, "height": 844})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390, "the page itself does not scroll sideways"
    for shown, natural in tab.evaluate(
        "[...document.images].map((one) => [one.clientWidth, +one.getAttribute('width')])"
    ):
        assert shown >= 0.8 * natural - 1, "the smallest words of a figure stay at ten pixels"


def brightness(picture: bytes) -> float:
    import io

    from matplotlib.image import imread

    return 255 * float(imread(io.BytesIO(picture))[..., :3].mean())


def test_a_link_in_a_study_is_replaced_and_one_that_is_named_is_followed(make_study, tmp_path):
    """Whoever wrote the study chose where the former leads."""
    folder = make_study()
    for name in ("index.html", "replay.html"):
        (tmp_path / "victim").write_text("mine")
        (folder / name).symlink_to(tmp_path / "victim")
    assert not write_report(folder).is_symlink() and (tmp_path / "victim").read_text() == "mine"
    (tmp_path / "named.html").symlink_to("victim")
    assert write_report(folder, tmp_path / "named.html").is_symlink()
    assert (tmp_path / "victim").read_text().startswith("<!doctype html>")
