"""What stands in nobody's way: module, pipes, terminals, devices, disks; and `krogh doctor`."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import re
import shlex
import signal
import socket
import stat
import subprocess
import sys
import time
from importlib.metadata import EntryPoint

import pytest

from krogh.cli import doctoring, printing, remembering
from krogh.errors import MOST_LISTED, NEAREST, TooLarge, unknown
from krogh.files import STUDY_SCHEMA


def started(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "krogh", *arguments], capture_output=True, text=True, env=os.environ | environment
    )


def test_the_package_is_the_command_and_completion_can_be_installed():
    shown = started("--help")
    assert shown.returncode == 0 and "--install-completion" in shown.stdout and "doctor" in shown.stdout


def test_in_a_pipe_help_has_neither_boxes_nor_broken_lines_and_a_wrong_option_is_one_line():
    shown = started("run", "--help", COLUMNS="40").stdout
    assert "Run experiments; running again resumes what is unfinished and trains nothing twice.\n" in shown
    assert not set("─│╭╯") & set(shown)
    ended = started("run", "parity/scaling", "--scales", "smoke")
    assert ended.returncode == 2 and ended.stderr == "krogh: Unknown option: --scales. Did you mean --scale?\n"


def test_a_device_that_is_not_there_is_one_line():
    ended = started("doctor", JAX_PLATFORMS="rocm")
    assert ended.returncode == printing.DEVICE and ended.stdout == ""
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("krogh:")]
    assert "JAX_PLATFORMS=rocm" in line and "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "command", ["predict parity/plateau block_size=100 k=3", "list tasks", "show parity", "list --json"]
)
def test_a_closed_pipe_ends_without_a_word(command):
    """Printed by Rich or not."""
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "krogh", *command.split()],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert ended.returncode == printing.PIPE and ended.stderr == ""


def test_a_terminal_without_greek_letters_prints_the_rest():
    shown = started("show", "qstr", PYTHONIOENCODING="ascii")
    assert shown.returncode == 0 and "task" in shown.stdout and "?" in shown.stdout


def test_lines_are_not_broken_in_a_pipe(call):
    code, out, _ = call("list", "predictions")
    assert code == 0 and max(len(line.rstrip()) for line in out.splitlines()) > 100
    assert all(line.split() for line in out.splitlines() if line.strip())
    for kind in ("tasks", "machines", "phenomena"):
        assert not [line for line in call("list", kind)[1].splitlines() if line != line.rstrip()]


@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "runs/x"), printing.FILES, "No space left on device: runs/x"),
        (PermissionError(errno.EACCES, "Permission denied", "a"), printing.FILES, "Permission denied: a"),
        (MemoryError(), printing.MEMORY, "out of memory"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory\nmore"), printing.MEMORY, "RESOURCE_EXHAUSTED"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), printing.PIPE, ""),
    ],
)
def test_faults_from_outside_have_a_line_and_a_code(problem, code, words):
    ended, line = printing.fault(problem)
    assert ended == code and words in line and "\n" not in line


@pytest.mark.parametrize("problem", [ValueError("x"), AssertionError(), RuntimeError("x"), OSError("no number")])
def test_faults_of_our_own_keep_their_traceback(problem):
    assert printing.fault(problem) is None


def test_a_full_disk_says_that_the_study_resumes(call, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "study.json")

    monkeypatch.setattr("krogh.cli.inspecting.predict_numbers", full)
    code, out, err = call("predict", "parity/plateau")
    assert code == printing.FILES and out == "" and "resumes" in err and err.count("\n") == 1


def test_of_many_names_the_nearest_five_are_named():
    few, many = [f"name-{i}" for i in range(MOST_LISTED)], [f"name-{i}" for i in range(MOST_LISTED + 1)]
    assert str(unknown("thing", "name-x", few)).count("name-") == MOST_LISTED + 2  # all, the given, and the guess
    text = str(unknown("thing", "name-x", many))
    assert text.count("name-") == NEAREST + 2 and f"nearest of {len(many)}" in text


def test_the_doctor_says_what_is_here_and_trains_a_little(call, monkeypatch):
    code, out, _ = call("doctor", "--json")
    found = json.loads(out)
    assert code == 0 and found["self-test"]["passed"] is True
    assert {"versions", "devices", "memory", "paths", "caches", "extras"} <= set(found)
    assert found["versions"]["python"].count(".") == 2 and found["devices"]["cores"] >= 1
    monkeypatch.setattr(doctoring, "_self_test", lambda trial: {"passed": False})
    code, out, _ = call("doctor")
    assert code == 1 and "self-test" in out


OWN = """
import dataclasses
import krogh
from krogh.lab import setting
from neighbour import BITS


@dataclasses.dataclass(frozen=True)
class Settings:
    seeds: int = setting(4, "trials", least=1)


@krogh.experiment("mine/one")
class One(krogh.Experiment[Settings]):
    '''What a user wrote.'''

    title, question, source = "Mine", "Does it run?", "nobody"
    scales = {scale: Settings() for scale in ("smoke", "laptop", "paper")}

    def trials(self, settings):
        stopping = krogh.Stopping(budget=200, validation=64)
        trial = krogh.Trial(krogh.Parity(n=BITS, k=1), krogh.Mlp(8), krogh.Training(stopping=stopping))
        return krogh.sweep(trial, seed=range(settings.seeds))

    def claims(self, tables, say):
        say("all", "All learn.", krogh.lab.estimate.share_of([True] * 4, sample="x"), "share", at_least=0.1)

    def figures(self, tables):
        return ()
"""


@pytest.mark.slow
def test_a_file_of_ones_own_is_run_shown_and_repeated_by_the_command_that_the_page_prints(tmp_path, call):
    (tmp_path / "neighbour.py").write_text("BITS = 6\n")
    file = tmp_path / "own_lab.py"
    file.write_text(OWN)
    ended = started("run", "mine/one", "--plugin", str(file), "--scale", "smoke", "--out", str(tmp_path / "runs"))
    assert ended.returncode == 0, ended.stderr
    command = json.loads((tmp_path / "runs" / "mine" / "one" / "study.json").read_text())["command"]
    asked = shlex.split(command)
    assert asked[:4] == ["krogh", "run", "mine/one", "--plugin"]
    again = started(*asked[1:])
    assert again.returncode == 0 and "4 trials" in again.stdout
    shown = started("show", "mine/one", "--plugin", str(file), "--json")
    assert json.loads(shown.stdout)["title"] == "Mine" and f"--plugin {file}" in json.loads(shown.stdout)["command"]
    for command in ("judge", "replay"):
        code, _, err = call(command, tmp_path / "runs")
        assert code == 2 and err == f"krogh: mine/one is an experiment of a file of its own: add --plugin {file}\n"
    page = started("report", str(tmp_path / "runs"), "--plugin", str(file))
    text = re.sub("<[^>]*>", "", (tmp_path / "runs" / "index.html").read_text())
    assert page.returncode == 0 and shlex.join(asked) in text


def test_trials_of_krogh_run_have_a_page_and_nothing_to_judge(call, tmp_path):
    import krogh

    training = krogh.Training(stopping=krogh.Stopping(budget=20, validation=16))
    krogh.run(krogh.Trial(krogh.Parity(n=6, k=1), krogh.Mlp(8), training), out=tmp_path / "runs" / "given")
    code = call("report", tmp_path / "runs")[0]
    page = (tmp_path / "runs" / "index.html").read_text()
    assert code == 0 and "Trials given to krogh.run" in page and "<h3>Command</h3>" not in page
    for command, words in (("judge", "nothing to judge"), ("replay", "given is no experiment")):
        code, _, err = call(command, tmp_path / "runs")
        assert code == 2 and words in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("not_there.py", None, "a Python file that is there"),
        ("words.txt", "x", "a Python file that is there"),
        ("json.py", "x = 1", "a module of that name is there already"),
        ("my-lab.py", "x = 1", "rename it, to my_lab.py say"),
        ("my lab.py", "x = 1", "rename it, to my_lab.py say"),
        ("class.py", "x = 1", "rename it, to my_class.py say"),
        ("2nd.py", "x = 1", "rename it, to my_2nd.py say"),
        ("faulty_lab.py", "1/0", "faulty_lab.py, line 1: ZeroDivisionError: division by zero"),
        ("faulty_lab.py", "x = 1\n\ny = 1 1", "faulty_lab.py, line 3: invalid syntax"),
        ("faulty_lab.py", "import json\njson.loads('')", "faulty_lab.py, line 2: JSONDecodeError: Expecting value"),
        ("faulty_lab.py", "import faulty_neighbour", "faulty_neighbour.py, line 2: KeyError: 'a'"),
        ("faulty_lab.py", "import krogh\nkrogh.Parity(n=1, k=2)", "faulty_lab.py, line 2: k must be at most n=1"),
        ("faulty_lab.py", "x = 1\nraise SystemExit('enough')", "faulty_lab.py, line 2: SystemExit: enough"),
        ("faulty_lab.py", "assert False", "faulty_lab.py, line 1: AssertionError\n"),
    ],
)
def test_a_file_that_is_no_plug_in_is_refused(call, tmp_path, monkeypatch, name, text, words):
    monkeypatch.setattr(sys, "path", [*sys.path])
    if text is not None:
        (tmp_path / name).write_text(text)
    (tmp_path / "faulty_neighbour.py").write_text("x = {}\nx['a']\n")
    code, out, err = call("list", "tasks", "--plugin", tmp_path / name)
    assert code == 2 and out == "" and words in err and err.count("\n") == 1


def test_no_file_beside_a_plug_in_stands_in_the_place_of_a_module(tmp_path):
    """Of Python's own or of an installed one, whoever imports it; the file that is named is the one that is loaded."""
    for name in ("logging", "numpy", "json", "html", "polars"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not this one')\n")
    (tmp_path / "my_neighbour.py").write_text("BITS = 6\n")
    file = tmp_path / "wave.py"  # as one of Python's own, which nobody has imported
    file.write_text(
        "import html, krogh, logging\nimport numpy as np\nfrom my_neighbour import BITS\n"
        "html.escape, logging.getLogger, np.zeros\n"
        "@krogh.prediction('mine/bits', source='nobody', constants='exact')\n"
        "def bits() -> dict[str, float]:\n    'Six.'\n    return {'bits': BITS}\n"
    )
    ended = started("predict", "mine/bits", "--plugin", str(file), "--json")
    assert ended.returncode == 0 and json.loads(ended.stdout)["bits"] == 6, ended.stderr


def test_an_unknown_experiment_may_be_in_a_file_of_ones_own(call, tmp_path):
    words = "; is it in a file of your own? add --plugin FILE\n"
    for command in ("run", "plan", "show"):
        code, out, err = call(command, "mine/one")
        assert code == 2 and out == "" and err.endswith(words) and err.count("\n") == 1, command
    study = tmp_path / "runs" / "smoke" / "mine" / "one"
    study.mkdir(parents=True)
    (study / "study.json").write_text(
        json.dumps({"command": "krogh run mine/one --plugin '/a b/own.py' --scale smoke"})
    )
    told = "krogh: mine/one is an experiment of a file of its own: add --plugin '/a b/own.py'\n"
    for command in ("run mine/one --scale smoke", "plan mine/one --scale smoke", "show mine/one"):
        assert call(*command.split()) == (2, "", told), command
    (tmp_path / "runs").rename(tmp_path / "others")
    assert call("run", "mine/one", "--out", "others/smoke") == (2, "", told)
    assert "(known: algebra/*, " in call("run", "nogroup/*")[2]


TO_A_FILE = {
    "report": ("report", "nowhere", "--out"),
    "replay": ("replay", "nowhere", "--out"),
    "compare": ("compare", "nowhere", "there", "--out"),
    "construct": ("construct", "parity/relu", "n=5", "k=2", "--out"),
    "compile": ("compile", "regex", "0*1", "--out"),
    "trace": ("trace", "regex", "0*1", "01", "--svg"),
    "bench": ("bench", "--out"),
}


@pytest.mark.parametrize("command", TO_A_FILE)
def test_what_is_no_file_is_not_replaced_by_one(call, tmp_path, command):
    """Refused before any work, and left as it is."""
    os.mkfifo(tmp_path / "pipe.svg")
    (tmp_path / "link.svg").symlink_to("pipe.svg")
    kinds = {"pipe.svg": "a named pipe", "link.svg": "a named pipe"}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.svg")
    kinds["socket.svg"] = "a socket"
    with contextlib.suppress(PermissionError):  # for root alone
        os.mknod(tmp_path / "device.svg", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        kinds["device.svg"] = "a device"
    before = what_stands_in(tmp_path)
    for name, kind in kinds.items():
        said = call(*TO_A_FILE[command], name)
        assert said == (2, "", f"krogh: what is written must be a file, and {name} is {kind}\n")
    assert what_stands_in(tmp_path) == before


def what_stands_in(folder):
    return {path.name: (path.lstat().st_ino, path.lstat().st_mode) for path in folder.iterdir()}


def test_what_is_written_goes_where_a_link_leads(call, tmp_path):
    """That of a file that the user names; whether something is there already or not."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "old.safetensors").write_text("before")
    for link in ("old.safetensors", "new.safetensors", "new.svg", "mine.py"):
        (tmp_path / link).symlink_to(f"there/{link}")
    for command, link in (
        ("construct parity/relu n=5 k=2 --out", "old.safetensors"),
        ("compile regex 0*1 --out", "new.safetensors"),
        ("trace regex 0*1 01 --svg", "new.svg"),
        ("init task mine --out", "mine.py"),
    ):
        code, _, err = call(*command.split(), link)
        assert code == 0 and (tmp_path / link).is_symlink(), err
        assert (tmp_path / "there" / link).stat().st_size > 100


def test_weights_that_cannot_be_written_have_the_exit_code_of_a_fault_of_files(call, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "w")

    monkeypatch.setattr("krogh.networks.weight_files.write_atomically", refused)
    code, out, err = call("construct", "parity/relu", "n=5", "k=2", "--out", "w")
    assert code == printing.FILES and out == "" and err.endswith("'w': Permission denied\n") and err.count("\n") == 1


def test_a_study_that_may_not_be_read_is_not_called_damaged(call, monkeypatch, tmp_path):
    study = tmp_path / "a"
    study.mkdir()
    (study / "study.json").write_text("{}")
    monkeypatch.setattr("krogh.integrity.read_bytes", lambda folder, name, largest: denied(folder / name))
    for command in (("report", "a"), ("judge", "a"), ("compare", "a", "a")):
        assert call(*command) == (printing.FILES, "", "krogh: Permission denied: a/study.json\n"), command


def denied(path):
    raise PermissionError(errno.EACCES, "Permission denied", str(path))


def test_what_does_not_fit_is_said_of_the_parameters_that_were_given(call, monkeypatch):
    def too_large(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 745 GiB")

    monkeypatch.setattr(importlib.import_module("krogh.networks.handmade"), "construct", too_large)
    code, _, err = call("construct", "parity/relu", "n=100000000000", "k=4")
    assert code == printing.MEMORY
    assert err == "krogh: out of memory: Unable to allocate 745 GiB (try a smaller n or k)\n"


@pytest.mark.parametrize("command", ["predict parity/plateau k=3 k=4", "construct parity/relu n=5 k=3 k=4"])
def test_a_parameter_is_given_once(call, command):
    assert call(*command.split()) == (2, "", "krogh: k is given twice: k=3 and k=4\n")
    code, _, err = call("run", "parity/scaling", "--scale", "smoke", "--set", "ns=8", "--set", "ns=9")
    assert code == 2 and err == "krogh: ns is given twice: ns=8 and ns=9\n"


def test_a_setting_that_is_no_number_of_its_kind_is_named(call):
    code, _, err = call("run", "parity/histogram", "--scale", "smoke", "--set", "budget=100000000000")
    assert code == 2 and err.startswith("krogh: budget: expected an int32 number") and err.count("\n") == 1


def test_what_is_there_is_found_out_once(call, monkeypatch, tmp_path):
    """The second time nothing is described anew; another package, plug-in or file of one's own is."""
    monkeypatch.setenv("KROGH_CACHE", str(tmp_path / "cache"))
    first = call("list", "phenomena", "--json")
    page = call("show", "parity", "--json")
    with monkeypatch.context() as patch:
        patch.setattr("krogh.cli.describing.phenomena", lambda: pytest.fail("found out twice"))
        patch.setattr("krogh.cli.describing.pages", lambda name: pytest.fail("found out twice"))
        assert call("list", "phenomena", "--json") == first and call("show", "parity", "--json") == page
        patch.setattr("krogh.cli.remembering._state", lambda: "another package")
        patch.setattr("krogh.cli.describing.phenomena", lambda: {"new": {"tasks": [], "experiments": []}})
        assert list(json.loads(call("list", "phenomena", "--json")[1])["phenomena"]) == ["new"]
    for kept in (tmp_path / "cache" / "answers").glob("*.json"):
        kept.write_text("{ damaged")
    assert call("list", "phenomena", "--json") == first
    assert call("show", "no-such-name")[0] == 2


def test_what_is_remembered_of_an_installed_plug_in_is_of_its_present_files(call, monkeypatch, tmp_path):
    """One that is installed as it is edited keeps its version."""
    module = tmp_path / "edited_lab"
    module.mkdir()
    (module / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    points = [EntryPoint("edited", "edited_lab", "krogh.plugins")]
    monkeypatch.setattr("krogh.cli.remembering.entry_points", lambda *, group: points)
    before = remembering._state()
    (module / "tasks.py").write_text("mine = 1")
    after = remembering._state()
    (module / "tasks.py").write_text("mine = 12")
    assert len({before, after, remembering._state()}) == 3


@pytest.mark.slow
def test_a_broken_plug_in_is_told_of_and_stands_in_nobodys_way(tmp_path):
    """But for whoever asks for what may be its own."""
    (tmp_path / "broken_lab.py").write_text("1 / 0")
    (tmp_path / "broken-1.0.dist-info").mkdir()
    (tmp_path / "broken-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (tmp_path / "broken-1.0.dist-info" / "entry_points.txt").write_text("[krogh.plugins]\nbroken = broken_lab\n")
    path, cache = os.pathsep.join([str(tmp_path), *sys.path]), str(tmp_path / "cache")
    said = "the plug-in 'broken' (broken_lab) cannot be loaded: ZeroDivisionError('division by zero')"
    listed = started("list", "tasks", PYTHONPATH=path, KROGH_CACHE=cache)
    assert listed.returncode == 0 and "parity" in listed.stdout and listed.stderr == f"krogh: {said}\n"
    shown = started("show", "parity", PYTHONPATH=path, KROGH_CACHE=cache)
    assert shown.returncode == 0 and shown.stderr == f"krogh: {said}\n"
    unknown = started("show", "mine", PYTHONPATH=path, KROGH_CACHE=cache)
    assert unknown.returncode == 2 and said in unknown.stderr.splitlines()[-1]
    examined = json.loads(started("doctor", "--json", PYTHONPATH=path, KROGH_CACHE=cache).stdout)
    assert examined["plug-ins"] == {"broken": said} and examined["self-test"]["passed"]


def test_a_setting_of_a_prediction_has_its_type_and_its_default_as_a_value(call):
    page = json.loads(call("show", "parity/plateau", "--json")[1])
    assert page["parameters"]["block_size"] == {"type": "int"}
    assert page["parameters"]["k"] == {"type": "int", "default": 3}
    assert page["parameters"]["init"] == {"type": "ones|signs|gaussian", "default": "ones"}
    out = call("show", "parity/plateau")[1]
    assert "block_size: int  (required)" in out and "init: ones|signs|gaussian = ones" in out


def test_no_text_of_a_study_moves_the_cursor(call, tmp_path):
    """Of its names, of its settings and of its claims; also where it is refused."""
    nasty = "\x1b]0;pwned\x07\x1b[2J\ud800"
    for side in "ab":
        study = tmp_path / side
        study.mkdir()
        about = {"schema": STUDY_SCHEMA, "name": f"mine{nasty}", "title": nasty, "status": "complete", "scale": nasty}
        about |= {"settings": {f"{nasty}{side}": 1}, "engine": {"trials": [3]}, "seconds": 1.0, "started": nasty}
        (study / "study.json").write_text(json.dumps(about))
    for command in (("compare", "a", "b", "--out", "page.html"), ("report", "a"), ("judge", "a")):
        code, out, err = call(*command)
        assert not {"\x1b", "\x07", "\ud800"} & {*out, *err}, command
        assert code == (2 if command[0] == "judge" else 0) and "Traceback" not in err, err
    assert not {"\x1b", "\x07"} & {*(tmp_path / "page.html").read_text(), *(tmp_path / "a" / "index.html").read_text()}


def test_nothing_is_remembered_of_a_file_of_ones_own(call, monkeypatch, tmp_path):
    monkeypatch.setenv("KROGH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("krogh.registry.OWN_FILES", [tmp_path / "mine.py"])
    assert call("show", "parity", "--json")[0] == 0 and not (tmp_path / "cache" / "answers").exists()


SLOW = """
import dataclasses
import time
import krogh
from krogh.lab import setting


@krogh.model("sleeper")
class Sleeper(krogh.Learner):
    '''Learns nothing, for a long time.'''

    def fit(self, x, y, seed):
        print("asleep\\n", end="", flush=True)  # in one piece: learners train side by side
        time.sleep(600)

    def check(self, task):
        pass

    @classmethod
    def example(cls):
        return cls(), krogh.Parity(n=6, k=2)


@dataclasses.dataclass(frozen=True)
class Settings:
    seeds: int = setting(4, "trials", least=1)


@krogh.experiment("mine/slow")
class Slow(krogh.Experiment[Settings]):
    '''What takes long.'''

    title, question, source = "Slow", "When does it end?", "nobody"
    scales = {scale: Settings() for scale in ("smoke", "laptop", "paper")}

    def trials(self, settings):
        training = krogh.Training(regime=krogh.Offline(m=8), stopping=krogh.Stopping(budget=10, validation=16))
        return krogh.sweep(krogh.Trial(krogh.Parity(n=6, k=2), Sleeper(), training), seed=range(settings.seeds))

    def claims(self, tables, say):
        pass

    def figures(self, tables):
        return ()
"""


@pytest.mark.parametrize("sign", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_study_ends_soon_wherever_it_stands_and_can_be_resumed(tmp_path, sign):
    file = tmp_path / "slow_lab.py"
    file.write_text(SLOW)
    command = [sys.executable, "-m", "krogh", "run", "mine/slow", "--plugin", str(file), "--scale", "smoke"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--out", str(tmp_path / "runs")], **pipes) as running:
        try:
            assert running.stdout.readline().strip() == "asleep"
            begun = time.monotonic()
            running.send_signal(sign)
            out, err = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 130 and "can be resumed" in out and "Traceback" not in err
    assert time.monotonic() - begun < 20  # seconds on a free machine: three of grace
    assert json.loads((tmp_path / "runs" / "mine" / "slow" / "study.json").read_text())["status"] == "interrupted"


def test_a_study_too_large_for_this_machine_has_its_own_exit_code_and_leaves_nothing(call, tmp_path):
    code, out, err = call("run", "parity/histogram", "--scale", "smoke", "--set", "batch_size=1000000000")
    assert code == printing.MEMORY == TooLarge.code and out == "" and not list(tmp_path.iterdir())
    assert err.startswith("krogh: one trial alone does not fit") and err.count("\n") == 1
    code, _, err = call("run", "parity/histogram", "--scale", "smoke", "--set", "batch_size=100000000000")
    assert code == 2 and "batch_size=100000000000" in err and err.count("\n") == 1 and not list(tmp_path.iterdir())


def test_devices_are_not_chosen_for_a_cluster(call, tmp_path, monkeypatch):
    monkeypatch.setenv("KROGH_DEVICES", "")
    code, out, err = call("run", "parity/histogram", "--scale", "smoke", "--devices", "0", "--executor", "ray")
    assert code == 2 and out == "" and "--devices 0 chooses among the devices of this machine" in err
    assert "CUDA_VISIBLE_DEVICES" in err and err.count("\n") == 1 and not list(tmp_path.iterdir())


def test_a_device_that_is_not_here_is_refused_with_those_that_are(call, tmp_path, monkeypatch):
    monkeypatch.setenv("KROGH_DEVICES", "")
    code, out, err = call("run", "parity/histogram", "--scale", "smoke", "--devices", "99")
    assert code == 2 and out == "" and "no device 99 here: there " in err and not list(tmp_path.iterdir())
