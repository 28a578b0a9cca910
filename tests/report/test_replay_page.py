"""The page that replays training, in a real browser: everything moves together, by mouse and by keys, on any screen.

The browser is Debian's chromium (`make browser`), or any that is found; without one, or without Playwright, only what
can be read in the file is tested.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from krogh.cli.judging import replay_study
from krogh.errors import KroghError
from krogh.files import STUDY_SCHEMA
from krogh.lab import run_study
from krogh.lab.frames import _encoded
from krogh.probes.views import Bars, HeatMap, Lines, Numbers
from krogh.registry import EXPERIMENTS
from krogh.report import write_replay
from krogh.report.replay import inert

KINDS = ("chains", "parity", "group")
MOMENTS = 7
NASTY = "</script><script>alert(1)</script><!-- <b>&amp; ' \" \u2028"
WIDTHS = {"phone": (390, 844), "desktop": (1280, 800)}


def some_trial(label: str, panels: list[list[Any]], strategies: tuple[str, ...] = ()) -> dict[str, Any]:
    """A trial as `write_frames` writes it: panels by place, each with a frame for every moment."""
    phases = [place * len(strategies) // MOMENTS for place in range(MOMENTS)] if strategies else []
    references = {name: 0.9 - 0.3 * place for place, name in enumerate(strategies)} or {"guessing": 0.5}
    return {
        "label": f"{label} {NASTY}", "task": "a-task", "model": "a-model", "outcome": "failed", "convergence": None,
        "steps": [10 * place for place in range(MOMENTS)],
        "batch": 64, "unit": "sequences" if strategies else "examples",
        "error": {"name": "loss", "values": [1 / (1 + place) for place in range(MOMENTS)], "references": references},
        "phases": phases, "strategies": list(strategies), "panels": [_encoded(frames) for frames in panels],
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Frames with panels of every kind and shape; names are hostile."""
    random = np.random.default_rng(0)

    def heat(name, rows, columns, **options):
        values = random.normal(size=(MOMENTS, rows, columns))
        values = values if options.get("signed") else np.abs(values) * np.tri(rows, columns)[None]
        return [HeatMap(name, one, "position", "looks at", NASTY, **options) for one in values]

    def bars(name, names, **options):
        return [
            Bars(name, dict(zip(names, row, strict=True)), "place", "about it", **options)
            for row in random.normal(size=(MOMENTS, len(names)))
        ]

    def numbers(name, names, **options):
        return [
            Numbers(name, dict(zip(names, row, strict=True)), "about", **options)
            for row in random.uniform(0.01, 1, (MOMENTS, len(names)))
        ]

    places = [str(place) for place in range(60)]
    waves = [Lines("waves", {"u": row, "v": -row}, "element", "two lines") for row in random.normal(size=(MOMENTS, 11))]
    strategies = ("uniform", "unigram", "bigram")
    films = [
        some_trial(
            "chains",
            [
                heat("layer 1", 40, 40, root=True),
                heat("layer 2", 40, 40),
                bars("looks", places, marked=("3",)),
                bars("offsets", places[:16], free=True),
                numbers("distances", strategies, log=True),
            ],
            strategies,
        ),
        some_trial(
            "parity",
            [
                heat("weights", 20, 12, signed=True, marked=(2, 5)),
                heat("one neuron", 1, 12, signed=True),
                bars("sets", ["{1}", "{1, 2}", f"all {NASTY}"], marked=("{1, 2}",)),
                numbers("movement", ["on", "off"]),
            ],
        ),
        some_trial("group", [heat("powers", 10, 80, root=True), waves, numbers("margin", ["margin"])]),
    ]
    head = {"name": "test/replay", "title": f"Replayed {NASTY}", "question": NASTY, "source": NASTY, "scale": "smoke"}
    place = tmp_path_factory.mktemp("replay")
    (place / "replay.json").write_text(
        json.dumps({"schema": STUDY_SCHEMA, **head, "command": "krogh run x", "trials": films})
    )
    return place


@pytest.fixture(scope="module")
def page(folder):
    return write_replay(folder)


# --- the file -------------------------------------------------------------------------------------------------------


def test_the_page_is_whole_and_asks_for_nothing(page):
    text = page.read_text()
    assert "default-src 'none'" in text and not re.search(r"(src|href)=[\"']?(https?:)?//", text)
    assert text.count("<script") == 2, "the frames, which are not run, and the page's own"


def test_what_a_study_says_cannot_end_the_element_it_stands_in(page):
    text = page.read_text()
    assert "alert(1)</script>" not in text and "<b>&amp; '" not in text
    assert json.loads(inert({NASTY: [NASTY, 1.5, None]})) == {NASTY: [NASTY, 1.5, None]}
    assert not set("<>&\u2028\u2029") & set(inert({NASTY: NASTY}))


def test_the_same_frames_give_the_same_bytes(folder, page, tmp_path):
    assert write_replay(folder, tmp_path / "again.html").read_bytes() == page.read_bytes()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "holds no replay.json; `krogh replay"),
        ("{", "is damaged"),
        ('{"schema": 1}', "has schema 1"),
        (json.dumps({"schema": STUDY_SCHEMA}), "holds no trials"),
    ],
)
def test_damaged_frames_give_no_page(tmp_path, content, reason):
    if content is not None:
        (tmp_path / "replay.json").write_text(content)
    with pytest.raises(KroghError, match=reason):
        write_replay(tmp_path)
    assert not (tmp_path / "replay.html").exists()
    with pytest.raises(KroghError, match=r"holds no replay\.json|is damaged|has schema|holds no trials|must be a file"):
        write_replay(tmp_path, tmp_path)


# --- in a browser ---------------------------------------------------------------------------------------------------


@contextmanager
def opened(browser, page, size="desktop", **options) -> Iterator[Any]:
    """The page in a window; anything that it says on the console or asks the network for is a failure."""
    width, height = WIDTHS[size]
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    tab, said, asked = context.new_page(), [], []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(page.as_uri())
    ready(tab)
    yield tab
    assert not said
    assert asked == [page.as_uri()]
    context.close()


def until(tab, holds: str) -> None:
    """Wait for something; Playwright's own waiting would evaluate text on the page, which its policy forbids."""
    for _ in range(500):
        if tab.evaluate(holds):
            return
        tab.wait_for_timeout(20)
    raise AssertionError(f"not within ten seconds: {holds}")


def ready(tab) -> None:
    """Wait until all matrices are there."""
    until(tab, "film.trials[state.trial].panels.every((p) => p.kind !== 'heat' || p.levels)")
    tab.evaluate("new Promise(requestAnimationFrame)")


SEEN = """() => {
  const tiles = [...document.querySelectorAll("[data-panel]"), document.querySelector(".timeline")];
  const drawn = (tile) => [
    ...[...tile.querySelectorAll(".heat-frame canvas")].map((canvas) => canvas.toDataURL()),
    ...[...tile.querySelectorAll("svg")].map((svg) => svg.innerHTML),
    tile.querySelector(".legend")?.textContent,
  ].join();
  return Object.fromEntries(tiles.map((tile) => [tile.dataset.panel ?? "timeline", drawn(tile)]));
}"""


def frame(tab) -> int:
    return int(tab.input_value("#frame"))


def slide(tab, to: int) -> None:
    tab.evaluate("(to) => { const s = $('frame'); s.value = to; s.dispatchEvent(new Event('input')); }", to)


@pytest.mark.parametrize("kind", KINDS)
def test_the_slider_moves_everything(browser, page, kind):
    with opened(browser, page) as tab:
        tab.select_option("#trial", index=KINDS.index(kind))
        ready(tab)
        before, first = tab.evaluate(SEEN), tab.inner_text("#when")
        slide(tab, 6)
        after = tab.evaluate(SEEN)
        assert len(before) == 1 + len(tab.evaluate("film.trials[state.trial].panels")) >= 4
        assert all(before[name] != after[name] for name in before), "every panel moves"
        assert first.startswith("step 0") and tab.inner_text("#when").startswith("step 60")
        slide(tab, 0)
        assert tab.evaluate(SEEN) == before, "and back"


def test_keys_step_play_and_go_to_the_ends(browser, page):
    with opened(browser, page) as tab:
        for key, place in (
            ("ArrowRight", 1),
            ("ArrowRight", 2),
            ("ArrowLeft", 1),
            ("End", 6),
            ("ArrowRight", 6),
            ("Home", 0),
        ):
            tab.keyboard.press(key)
            assert frame(tab) == place, key
        tab.focus("#frame")
        tab.keyboard.press("ArrowRight")
        assert frame(tab) == 1, "one step, not two, where the slider has the focus"
        tab.select_option("#speed", "4")
        tab.evaluate("document.activeElement.blur()")
        tab.keyboard.press("Space")
        assert tab.get_attribute("#play", "aria-label") == "Pause"
        until(tab, "state.frame > 2")
        tab.keyboard.press("Space")
        assert tab.get_attribute("#play", "aria-label") == "Play" and tab.evaluate("scrollY") == 0
        stopped = frame(tab)
        tab.wait_for_timeout(150)
        assert frame(tab) == stopped
        tab.click("#play")
        until(tab, "state.frame === 6 && !state.playing")
        tab.focus("#play")
        tab.keyboard.press("Space")
        until(tab, "state.playing && state.frame < 6")


@pytest.mark.slow
def test_a_click_on_the_curve_goes_there(browser, page):
    with opened(browser, page) as tab:
        box = tab.locator("#timeline").bounding_box()
        tab.mouse.click(box["x"] + 0.97 * box["width"], box["y"] + box["height"] / 2)
        assert frame(tab) == 6
        tab.mouse.click(box["x"] + 2, box["y"] + box["height"] / 2)
        assert frame(tab) == 0


CUT = """() => {
  const whole = [...document.querySelectorAll(".tile, .timeline, .timeline text, .play, #frame, #speed, #trial")];
  const beyond = ({ left, right }) => left < 0 || right > innerWidth + 0.5;
  return whole.filter((node) => beyond(node.getBoundingClientRect())).map((node) => node.outerHTML.slice(0, 99));
}"""


@pytest.mark.parametrize("size", WIDTHS)
def test_nothing_is_wider_than_the_screen(browser, page, size):
    with opened(browser, page, size) as tab:
        for kind in range(len(KINDS)):
            tab.select_option("#trial", index=kind)
            ready(tab)
            assert tab.evaluate("document.documentElement.scrollWidth") <= WIDTHS[size][0]
            assert tab.evaluate(CUT) == []
        if size == "phone":
            least = tab.locator("#play").bounding_box()
            assert least["width"] >= 44 and least["height"] >= 44, "a thumb hits it"


@pytest.mark.slow
def test_another_width_is_drawn_anew(browser, page):
    with opened(browser, page) as tab:
        slide(tab, 3)
        tab.set_viewport_size({"width": 390, "height": 844})
        until(tab, "document.querySelector('#timeline svg').getBoundingClientRect().width < 390")
        assert frame(tab) == 3 and tab.evaluate("document.documentElement.scrollWidth") <= 390


CONTRAST = """() => {
  const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const found = parts(getComputedStyle(node).backgroundColor);
      if (found.length < 4 || found[3] > 0.9) return found.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const shown = "h1, h2, h3, .question, .about, .legend, .legend b, .facts-line, .hint, output, select, .plot text";
  return Object.fromEntries([...document.querySelectorAll(shown)].filter((node) => node.textContent).map((node) => {
    const style = getComputedStyle(node), own = parts(node.closest("svg") ? style.fill : style.color).slice(0, 3);
    const [high, low] = [light(own), light(behind(node))].sort((a, b) => b - a);
    return [`${node.tagName} ${node.textContent.slice(0, 20)}`, (high + 0.05) / (low + 0.05)];
  }).filter(([, contrast]) => contrast < 3.5));
}"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read_by_day_and_by_night(browser, page, scheme):
    with opened(browser, page, color_scheme=scheme) as tab:
        assert tab.evaluate(CONTRAST) == {}
        ink = tab.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (max(ink) < 60) == (scheme == "dark")


@pytest.mark.slow
def test_matrices_have_other_colours_at_night(browser, page):
    corner = """async () => {
      const image = await createImageBitmap(document.querySelector(".heat-frame canvas"));
      const copy = new OffscreenCanvas(1, 1);
      copy.getContext("2d").drawImage(image, -5, 0);
      return [...copy.getContext("2d", { willReadFrequently: true }).getImageData(0, 0, 1, 1).data];
    }"""
    with opened(browser, page, color_scheme="light") as tab:
        day = tab.evaluate(corner)
        tab.emulate_media(color_scheme="dark")
        tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        night = tab.evaluate(corner)
    assert min(day[:3]) > 200 and max(night[:3]) < 60, "nothing is light by day and dark by night"


@pytest.mark.slow
def test_a_reader_who_cannot_see_it_is_told(browser, page):
    with opened(browser, page, reduced_motion="reduce") as tab:
        slide(tab, 4)
        told = tab.get_attribute("#frame", "aria-valuetext")
        assert "step" in told and "loss" in told and "nearest strategy" in told
        pictures = tab.locator("svg[role=img], canvas[role=img]")
        assert pictures.count() >= 6
        assert all(pictures.nth(place).get_attribute("aria-label") for place in range(pictures.count()))
        nameless = """() => [...document.querySelectorAll("button, select, input")].filter(
            (n) => !n.getAttribute("aria-label") && !n.labels?.length).length"""
        assert tab.evaluate(nameless) == 0


def test_names_from_a_study_are_text(browser, page):
    with opened(browser, page) as tab:
        assert tab.inner_text("h1").startswith("Replayed </script>") and tab.locator("b b").count() == 0
        assert "</script>" in tab.locator("#trial option").first.inner_text()


# --- from a study to the screen -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["parity/hidden-progress", "algebra/cyclic"])
def test_experiments_that_keep_snapshots_are_replayed(browser, tmp_path, name):
    ready_made = Path(os.environ.get("KROGH_SMOKE", "")) / name
    if os.environ.get("KROGH_SMOKE") and (ready_made / "study.json").exists():
        shutil.copytree(ready_made, tmp_path / name)
    else:
        run_study(EXPERIMENTS[name](), "smoke", tmp_path)
    written = replay_study(tmp_path, None, trials=2, frames=20)
    assert written == tmp_path / name / "replay.html"
    with opened(browser, written, "phone") as tab:
        before = tab.evaluate(SEEN)
        tab.keyboard.press("End")
        after = tab.evaluate(SEEN)
        assert len(before) >= 5 and all(before[panel] != after[panel] for panel in before)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
