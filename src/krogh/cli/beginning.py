"""`krogh init`: a file of one's own to begin with, which runs as it is and keeps the laws of its kind.

The skeletons are the files of `skeletons/`: valid Python, in which the name of the thing is replaced.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
from pathlib import Path

from krogh.cli.inspecting import known_names
from krogh.errors import require
from krogh.files import destination, write_atomically

SKELETONS = Path(__file__).parent / "skeletons"
TAKEN = ("First", "Settings")  # by the skeletons' other classes


def write_skeleton(kind: str, name: str, out: Path | None) -> int:
    """Write the skeleton of a kind under a name, and say what to do with it."""
    valid = re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*(/[a-z][a-z0-9]*(-[a-z0-9]+)*)?", name)
    words = "mine/digits" if kind == "experiment" else "sparse-majority"
    require(valid, f"a name has lower-case letters, digits and hyphens, such as {words}; got {name!r}")
    require(kind == "experiment" or "/" not in name, f"a {kind} has no slash in its name; got {name!r}")
    article = "an" if kind == "experiment" else "a"
    require(name not in known_names(f"{kind}s"), f"there is {article} {kind} {name!r} already (krogh show {name})")
    file = _default_file(name) if out is None else out
    importable = file.suffix == ".py" and file.stem.isidentifier() and not keyword.iskeyword(file.stem)
    require(importable, f"the file must be one that Python can import, such as my_{kind}.py; got {str(file)!r}")
    require(not file.exists(), f"{file} is there already; choose another --out, or remove it")
    write_atomically(destination(file), skeleton(kind, name, file.name).encode(), parents=False)
    experiment = name if kind == "experiment" else f"{name}/first"
    print(f"{file} has {article} {kind} to begin with; what to change is said at its top. It runs as it is:\n")
    plugin = shlex.quote(str(file))
    print(f"  krogh show {name} --plugin {plugin}")
    print(f"  krogh run {experiment} --plugin {plugin} --scale smoke")
    print("  krogh report runs/smoke")
    return 0


def skeleton(kind: str, name: str, file: str) -> str:
    """The text of the file: everywhere the skeleton's own name, in its spellings, is the one that was given."""
    text = (SKELETONS / f"{kind}.py").read_text(encoding="utf-8")
    class_name = "".join(part.capitalize() for part in re.split("[-/]", name))
    if class_name in TAKEN or keyword.iskeyword(class_name):
        class_name += kind.capitalize()
    own = {
        f"my_{kind}.py": file,
        f"my_{kind}": _identifier(name),
        f"My{kind.capitalize()}": class_name,
        f"my-{kind}": name,
        "my/experiment": name,
    }
    return re.sub("|".join(map(re.escape, own)), lambda found: own[found[0]], text)


def _identifier(name: str) -> str:
    return re.sub("[-/]", "_", name)


def _default_file(name: str) -> Path:
    """A file of that name, unless something else is imported under it."""
    stem = _identifier(name)
    file = Path(f"{stem}.py")
    taken = keyword.iskeyword(stem) or (not file.exists() and importlib.util.find_spec(stem) is not None)
    return Path(f"my_{stem}.py") if taken else file
