"""The command line: what it prints, what it exits with, and that bad input changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from cyclopts import App
from polars.testing import assert_frame_equal

from krogh import cli
from krogh.registry import EXPERIMENTS

PLUGIN = Path(__file__).parents[1] / "plugin"
SMALL = ("--set", "widths=8", "--set", "seeds=4", "--set", "budget=40")


@pytest.fixture
def krogh(monkeypatch, call):
    """Run the command in this process, in an empty folder, with the little plug-in installed.

    Returns the exit code and what was printed.
    """
    EXPERIMENTS.load()
    filed = dict(EXPERIMENTS._things)
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setattr(EXPERIMENTS, "_plugged", False)

    yield call
    EXPERIMENTS._things.clear()
    EXPERIMENTS._things.update(filed)
    sys.modules.pop("tiny_lab", None)


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Path:
    """The --out of a small finished study, for tests that copy it."""
    out = tmp_path_factory.mktemp("done")
    run = [*command("run", "tiny/parity", "--scale", "smoke", "--out", out), *SMALL]
    subprocess.run(run, env=environment(), check=True, capture_output=True)
    return out


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", "from krogh.cli import main; main()", *map(str, arguments)]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(PLUGIN)}


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


# --- start-up -----------------------------------------------------------------------------------------------


def test_an_experiment_says_how_it_is_run(krogh):
    assert krogh("show", "parity/scaling", "--json")[1].count("krogh run parity/scaling --scale smoke") == 1


def test_help_names_the_commands():
    shown = subprocess.run(command("--help"), capture_output=True, text=True, check=True)
    assert all(word in shown.stdout for word in ("list", "show", "run", "report", "predict", "construct", "bench"))


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_help_imports_neither_jax_nor_tables_nor_figures(arguments):
    script = (
        f"import sys; sys.argv = ['krogh', *{arguments!r}]\n"
        "from krogh.cli import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "print('loaded:', *sorted({'jax', 'numpy', 'polars', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1].strip() == "loaded:"


# --- looking ------------------------------------------------------------------------------------------------


def test_list_everything_as_json(krogh):
    code, out, _ = krogh("list", "--json")
    found = json.loads(out)
    assert code == 0
    assert list(found) == ["tasks", "models", "probes", "views", "experiments", "predictions", "constructions"]
    assert all(things and all(text for text in things.values()) for things in found.values()), "each says what it is"
    assert "tiny/parity" in found["experiments"]


@pytest.mark.parametrize("kind", ["tasks", "models", "probes", "views", "experiments", "predictions", "constructions"])
def test_list_one_kind(krogh, kind):
    code, out, _ = krogh("list", kind, "--json")
    assert code == 0 and list(json.loads(out)) == [kind]
    code, out, _ = krogh("list", kind)
    assert code == 0 and out.strip()


@pytest.mark.slow
def test_show_everything_there_is(krogh):
    for kind, things in json.loads(krogh("list", "--json")[1]).items():
        for name in things:
            code, out, _ = krogh("show", name, "--json")
            page = json.loads(out)
            pages = page if isinstance(page, list) else [page]
            assert code == 0 and kind[:-1] in [one["kind"] for one in pages]
            assert krogh("show", name)[0] == 0


def test_show_a_task_says_what_it_is_a_model_system_of(krogh):
    page = json.loads(krogh("show", "composition", "--json")[1])
    assert page["exact baselines"] == ["guessing_accuracy"] and "algebra/max-margin" in page["computable theory"]
    assert "algebra/cyclic" in page["phenomena"]["harmonic features by maximum margin"]
    assert "table" in page["knobs"]
    assert "algebra/norms, algebra/regularisation" in krogh("show", "composition")[1]


def test_list_phenomena_with_their_tasks_and_experiments(krogh):
    found = json.loads(krogh("list", "phenomena", "--json")[1])["phenomena"]
    assert found["grokking"] == {"tasks": ["parity"], "experiments": ["parity/grokking", "frontiers/curves"]}
    assert {"parity", "disjoint-parity", "sparse-boolean"} <= set(found["a plateau, then a sudden drop"]["tasks"])
    code, out, _ = krogh("list", "phenomena")
    assert code == 0 and all(phenomenon.split()[0] in out for phenomenon in found)


def test_show_an_experiment_lists_its_settings_with_help(krogh):
    page = json.loads(krogh("show", "tiny/parity", "--json")[1])
    assert page["settings, smoke"]["seeds"] == {"value": 24, "help": "trials per width"}
    assert page["settings, smoke"]["widths"]["value"] == [8, 12], "numbers stay numbers, and lists lists"
    assert page["source"] == "nobody, Figure 0"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("parity/histogram", "the resident kernel on a GPU of capability 8.0 or more, XLA otherwise"),
        ("attention/parity", "XLA (its task is no parity of at most 319 bits)"),
        ("parity/training-curves", "1 of 3 structures: the resident kernel"),
        ("attention/capacity", "nothing is trained"),
    ],
)
def test_show_an_experiment_says_what_trains_it(krogh, name, words):
    assert json.loads(krogh("show", name, "--json")[1])["path"].startswith(words)


def test_predict(krogh):
    code, out, _ = krogh("predict", "parity/random-search", "n=10", "k=3", "--json")
    found = json.loads(out)
    assert code == 0 and found["prediction"] == "parity/random-search" and 120 in found.values()
    code, out, _ = krogh("predict", "parity/random-search", "n=10", "k=3")
    assert code == 0 and out.startswith("parity/random-search: ") and "120" in out


def test_construct(krogh, tmp_path):
    code, out, _ = krogh("construct", "parity/relu", "n=6", "support=1,4", "--json", "--out", "relu.safetensors")
    found = json.loads(out)
    assert code == 0 and found["check"]["holds"] is True and found["check"]["inputs"] == 64
    assert [path.name for path in tmp_path.iterdir()] == ["relu.safetensors"]
    assert (found["kind"], found["name"]) == ("construction", "parity/relu") and found["size"]["width"] == 3
    code, out, _ = krogh("construct", "parity/relu", "n=6", "support=1,4", "--out", "relu.safetensors")
    lines = dict(line.split(None, 1) for line in out.splitlines())
    assert code == 0 and list(lines) == ["construction", "statement", "size", "check", "written"]
    assert lines["check"] == "holds: outputs on all 64 inputs, largest error 0"


def test_a_construction_that_does_not_hold_exits_with_1(krogh):
    code, out, _ = krogh("construct", "parity/relu", "n=6", "k=2", "variant=printed", "multiple=2")
    assert code == 1 and "FAILS: " in out


# --- running ------------------------------------------------------------------------------------------------


def test_run_report_and_run_again(krogh, done, tmp_path):
    shutil.copytree(done, tmp_path / "out")
    code, out, err = krogh("run", "tiny/parity", "--scale", "smoke", "--out", "out", *SMALL, "--json")
    (found,) = json.loads(out)["tiny/parity"]
    assert code == 0 and found["verdict"] == "reproduced" and found["trials"] == 4
    assert "4 trials" in err, "people's lines go to the error stream when the answer is JSON"
    study = json.loads((tmp_path / "out" / "tiny" / "parity" / "study.json").read_text())
    asked = study["command"]
    assert asked == "krogh run tiny/parity --scale smoke --out out " + " ".join(SMALL)
    code, out, _ = krogh("report", "out")
    assert code == 0 and out.strip() == "out/index.html"
    assert "Small networks learn a small parity" in Path("out/index.html").read_text()
    assert krogh("report", "out/tiny/parity", "--out", "page.html")[0] == 0


def test_judging_again_answers_the_same_from_the_folder_alone(krogh, done, tmp_path):
    shutil.copytree(done, tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "tiny" / "parity" / "cohorts")
    before = json.loads((tmp_path / "out" / "tiny" / "parity" / "claims.json").read_text())["claims"]
    code, out, _ = krogh("judge", "out", "--json")
    assert code == 0 and json.loads(out) == {"tiny/parity": before}
    code, _, err = krogh("judge", "nowhere")
    assert code == 2 and "no study found under nowhere" in err
    code, _, err = krogh("run", "tiny/parity", "--scale", "smoke", "--out", "out", *SMALL, "--stale", "retain")
    assert code == 2 and "did you mean 'retrain'" in err


def test_run_chooses_by_pattern_and_writes_to_runs(krogh, tmp_path):
    code, out, _ = krogh(
        "run", "--set", "seeds=4", "--set", "budget=20", "tiny/i*", "tiny/impossible", "--scale", "smoke"
    )
    assert code == 0 and out.count("not reproduced") == 1
    assert (tmp_path / "runs" / "smoke" / "tiny" / "impossible" / "claims.json").exists()


@pytest.mark.slow
def test_strict_exits_with_1_when_a_claim_is_not_reproduced(krogh):
    code, out, _ = krogh("run", "tiny/impossible", "--scale", "smoke", "--out", "a", "--strict", "--json")
    assert code == 1 and json.loads(out)["tiny/impossible"][0]["verdict"] == "not reproduced"
    assert krogh("run", "tiny/impossible", "--scale", "smoke", "--out", "a")[0] == 0
    possible = ("--set", "wanted=0", "--out", "b")
    assert krogh("run", "tiny/impossible", "--scale", "smoke", "--strict", *possible)[0] == 0


# --- bad input: exit code 2, one line, nothing written -------------------------------------------------------

RUN = ("run", "parity/histogram", "--scale", "smoke")
TINY = ("run", "tiny/parity", "--scale", "smoke")

BAD = {
    "k > n": ((*RUN, "--set", "k=13"), "k must be at most n=12; got k=13 (try k=12)"),
    "k < 1": ((*RUN, "--set", "k=0"), "k must be at least 1; got k=0"),
    "k < 0": ((*RUN, "--set", "k=-1"), "got k=-1"),
    "n < k in a sweep": (("run", "parity/scaling", "--scale", "smoke", "--set", "ns=1,8"), "n=1, k=3"),
    "batch 0": ((*RUN, "--set", "batch_size=0"), "batch_size"),
    "no trials": ((*RUN, "--set", "trials=0"), "trials must be at least 1"),
    "rate 0": ((*RUN, "--set", "rate=-1"), "rate"),
    "budget 0": ((*RUN, "--set", "budget=0"), "budget"),
    "budget off the grid": ((*RUN, "--set", "budget=15"), "try budget=20"),
    "validation 0": ((*RUN, "--set", "validation=0"), "validation"),
    "width below k": ((*RUN, "--set", "configuration=i", "--set", "k=11"), "width must be at least k=11"),
    "width of the plug-in": ((*TINY, "--set", "widths=8,1"), "got width=1 (try width=2)"),
    "support twice": ((*TINY, "--set", "support=1,1"), "support must not repeat an index; got [1, 1]"),
    "support outside": ((*TINY, "--set", "support=1,8"), "support must lie in 0..7; got [1, 8]"),
    "support of another size": ((*TINY, "--set", "support=1,2,3"), "support must have k=2 indices"),
    "noise 1/2": ((*TINY, "--set", "noise=0.5"), "noise must be in [0, 1/2); got noise=0.5"),
    "noise < 0": ((*TINY, "--set", "noise=-0.1"), "noise must be in [0, 1/2)"),
    "noise nan": ((*TINY, "--set", "noise=nan"), "noise must be float; got noise='nan'"),
    "configuration": ((*RUN, "--set", "configuration=xvii"), "xvii"),
    "panel": (("run", "parity/training-curves", "--scale", "smoke", "--set", "panels=relu-11"), "mean 'relu-10'"),
    "choice": (("run", "parity/training-curves", "--scale", "smoke", "--set", "transformer=tiny"), "paper|small"),
    "setting": ((*RUN, "--set", "trails=3"), "unknown setting 'trails'; did you mean 'trials'?"),
    "setting without a value": ((*RUN, "--set", "trials"), "settings are given as key=value; got 'trials'"),
    "setting without a key": ((*RUN, "--set", "=3"), "settings are given as key=value; got '=3'"),
    "type": ((*RUN, "--set", "n=twelve"), "n must be int; got n='twelve'"),
    "type of a list": (("run", "parity/scaling", "--scale", "smoke", "--set", "ns=8,x"), "ns must be ints separated"),
    "scale": (("run", "parity/histogram", "--scale", "smoek"), "unknown scale 'smoek'; did you mean 'smoke'?"),
    "scale of one": (("run", "tiny/impossible", "--scale", "paper"), "unknown scale 'paper' (known: smoke)"),
    "experiment": (("run", "parity/histgram"), "'parity/histgram'; did you mean 'parity/histogram'?"),
    "pattern": (("run", "parety/*"), "unknown experiment 'parety/*'"),
    "no experiment": (("run",), "which experiment?"),
    "a group": (("run", "parity", "--scale", "smoke"), "'parity' is a group of"),
    "second experiment": (("run", "tiny/parity", "tiny/impossible", "--scale", "laptop"), "unknown scale 'laptop'"),
    "setting of the second": (("run", "parity/*", "--scale", "smoke", "--set", "trials=4"), "unknown setting 'trials'"),
    "value of the second": (("run", "tiny/*", "--scale", "smoke", "--set", "k=9"), "k must be at most n=8"),
    "name to show": (("show", "parity/histgram"), "unknown name 'parity/histgram'; did you mean 'parity/histogram'?"),
    "prediction": (("predict", "parity/random-serch", "n=3"), "did you mean 'parity/random-search'?"),
    "prediction's setting": (("predict", "parity/random-search", "n=9", "kk=3"), "'kk'; did you mean 'k'?"),
    "prediction's k > n": (("predict", "parity/random-search", "n=3", "k=9"), "k=9"),
    "prediction without k": (("predict", "parity/random-search", "n=3"), "needs k"),
    "prediction's noise": (("predict", "parity/noise-attenuation", "noise=0.7"), "noise"),
    "construction": (("construct", "parity/rely", "n=5"), "did you mean 'parity/relu'?"),
    "construction's support": (("construct", "parity/relu", "n=5", "support=1,1", "--out", "w"), "repeat"),
    "construction's range": (("construct", "parity/relu", "n=5", "support=1,5", "--out", "w"), "5"),
    "construction's k": (("construct", "parity/relu", "n=5", "k=6", "--out", "w"), "k=6"),
    "construction's file": (("construct", "parity/relu", "n=5", "k=2", "--out", "no/w"), "cannot be written to 'no/w'"),
    "report of nothing": (("report", "nowhere"), "nowhere is not there"),
    "kind": (("list", "tusks"), "tasks"),
    "command": (("lsit",), "lsit"),
    "option": (("run", "tiny/parity", "--scal", "smoke"), "--scal"),
    "missing": (("show",), "name"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_clear_error(krogh, tmp_path, case):
    arguments, expected = BAD[case]
    code, out, err = krogh(*arguments)
    assert code == 2
    assert expected.lower() in " ".join(err.split()).lower()
    assert out == "" and "Traceback" not in err
    assert not list(tmp_path.iterdir()), "nothing is written"


@pytest.mark.parametrize(
    "case", ["another study", "no study", "not a folder", "below a file", "damaged", "flipped", "foreign", "study.json"]
)
def test_a_folder_that_cannot_be_used(krogh, done, tmp_path, case):
    shutil.copytree(done, tmp_path / "out")
    store = tmp_path / "out" / "tiny" / "parity" / "cohorts"
    (record,) = store.iterdir()
    content, out, settings = bytearray(record.read_bytes()), "out", list(SMALL)
    if case == "another study":
        settings += ["--set", "noise=0.1"]
    elif case == "no study":
        (store.parent / "study.json").unlink()
    elif case == "not a folder":
        out = str(record)
    elif case == "below a file":
        out = str(record / "deeper")
    elif case == "damaged":
        record.write_bytes(content[:-9])
    elif case == "flipped":
        content[len(content) // 3] ^= 1
        record.write_bytes(content)
    elif case == "foreign":
        pl.DataFrame({"id": [3]}).write_parquet(store / "mine.parquet")
    else:
        (store.parent / "study.json").write_text('{"schema": 1,')
    before = contents(tmp_path)
    code, printed, err = krogh("run", "tiny/parity", "--scale", "smoke", "--out", out, *settings)
    expected = 3 if case in ("not a folder", "below a file") else 2
    assert (code, printed) == (expected, "") and err.startswith("krogh: ") and err.count("\n") == 1
    assert contents(tmp_path) == before


def test_the_second_study_is_checked_before_the_first_trains(krogh, tmp_path):
    """Hours of training must not end in a refusal that could have come at once."""
    (tmp_path / "out" / "tiny" / "parity").mkdir(parents=True)
    (tmp_path / "out" / "tiny" / "parity" / "thesis.tex").write_text("mine")
    before = contents(tmp_path)
    code, _, err = krogh("run", "tiny/impossible", "tiny/parity", "--scale", "smoke", "--out", "out")
    assert code == 2 and "holds no study" in err
    assert contents(tmp_path) == before


# --- interruption -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_interrupt_exits_with_130_and_the_same_command_goes_on(tmp_path, krogh):
    """Ctrl-C in another process, at whatever moment it hits; then the same command here, to the same table."""
    settings = ("--set", "widths=8,12", "--set", "seeds=40", "--set", "budget=100000", "--set", "rate=0.000001")
    study = tmp_path / "out" / "tiny" / "parity"
    running = subprocess.Popen(
        command(*TINY, "--out", tmp_path / "out", *settings),
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    waited = time.monotonic()
    while not (study / "study.json").exists():
        assert running.poll() is None and time.monotonic() - waited < 60
        time.sleep(0.05)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    printed = running.communicate(timeout=60)[0]
    assert running.returncode == 130 and "Traceback" not in printed
    assert "can be resumed by the same command" in " ".join(printed.split())
    assert json.loads((study / "study.json").read_text())["status"] == "interrupted"


def test_an_interrupted_study_resumes_to_the_same_table(krogh, done, tmp_path, monkeypatch):
    from krogh.cli import running

    def interrupt(self, progress):
        raise KeyboardInterrupt

    arguments = (*TINY, "--out", "out", *SMALL)
    with monkeypatch.context() as patch:
        patch.setattr(running.Display, "show", interrupt)
        code, out, _ = krogh(*arguments, "--json")
    assert code == 130 and out == ""
    assert krogh("report", "out")[0] == 0, "an interrupted study can be looked at"
    assert krogh(*arguments)[0] == 0
    tables = [pl.read_parquet(place / "tiny" / "parity" / "trials.parquet") for place in (done, tmp_path / "out")]
    assert_frame_equal(*tables)


def commands(app: App) -> list[App]:
    """The commands that do something, of all depths."""
    below = [app[name] for name in app if not name.startswith("-")]
    return [command for one in below for command in commands(one)] or [app]


def test_help_says_what_every_option_does():
    every = commands(cli.app)
    assert {command.name[0] for command in every} >= {"run", "verify", "compile-regex", "trace-machine"}
    for command in every:
        for argument in command.assemble_argument_collection(parse_docstring=True):
            shown = argument.parse and not argument.children
            assert not shown or argument.parameter.help, f"{command.name} {argument.name}"


def test_replay_of_a_study_without_snapshots_is_one_clear_error(krogh, tmp_path):
    code, _, err = krogh("replay", str(tmp_path))
    assert code == 2 and "no study found under" in err
