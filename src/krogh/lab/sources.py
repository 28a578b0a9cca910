"""What results are made of: a digest of the source of every module that had a part in them.

A study keeps two such tables {module: digest}: of what its trials are made of (task, model, training, probes, and the
engine that trains them), and of what its experiment measures with. When one of them has changed, old and new records
do not belong together.

Which modules a thing is made of is read from their syntax trees, nothing is imported for it: the module that defines
it, and whatever that imports, at its top or inside a function. Only krogh's modules count, and those of the projects
that the things given come from: a project is the folder with the nearest pyproject.toml, setup.py, setup.cfg or .git,
or else the folder that Python imports from. Packages that merely lie on PYTHONPATH do not count, nor do bases that
krogh itself derives from; the versions of installed packages are kept elsewhere. A package stands for what is taken
from it: `from krogh import Mlp` leads to the module that defines `Mlp`, not to everything in `krogh`. Predictions and
constructions are also found by the names under which they are registered.

A digest is of the syntax tree without docstrings, so that comments and layout do not count.

What else a study says of where its results come from, versions, device and time, is at the end.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib.util
import inspect
import os
import platform
import sys
import sysconfig
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from krogh import registry
from krogh.engine.devices import devices_here

PACKAGES = ("krogh", "jax", "jaxlib", "equinox", "numpy", "scipy", "polars", "matplotlib", "torch")
NO_SOURCE = "no source"
MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")  # of a project's folder
_NAMED = (registry.PREDICTIONS, registry.CONSTRUCTIONS)
_LIBRARIES = tuple({os.path.join(sysconfig.get_path(kind), "") for kind in ("stdlib", "platstdlib")})


def trial_sources(trials: Iterable[Any]) -> dict[str, str]:
    """What trials (or cohorts of them) are made of: their tasks, models, trainings and probes, and the engine."""
    import krogh.engine

    return sources_of(krogh.engine, *(getattr(given, "template", given) for given in trials))


def measure_sources(experiment: Any) -> dict[str, str]:
    """What an experiment chooses its trials, measures, claims and draws with: everything that its class is made of."""
    return sources_of(experiment)


def sources_of(*things: Any) -> dict[str, str]:
    """{module: digest} of all that classes, instances (with all their fields), functions or modules are made of.

    What has no source file is listed by its own name, with the digest of its source if that can be had, and otherwise
    with `no source`.
    """
    search = _Search()
    for thing in things:
        search.add(thing)
    return search.table()


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What differs between two tables, in words; empty if nothing does."""
    both = before.keys() & now.keys()
    parts = (
        ("changed", sorted(name for name in both if before[name] != now[name])),
        ("added", sorted(now.keys() - before.keys())),
        ("removed", sorted(before.keys() - now.keys())),
    )
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in parts if names)


class _Search:
    """The modules found so far; a module is looked into once."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self._projects: set[Path] = set()  # of the things that were given
        self._opened: set[str] = set()
        self._seen: set[int] = set()
        self._kept: list[Any] = []  # so that no two of the things seen have the same id

    def table(self) -> dict[str, str]:
        return dict(sorted(self._found.items()))

    def add(self, thing: Any) -> None:
        """A class, an instance with its fields, a function or a module."""
        if id(thing) in self._seen or thing is None or isinstance(thing, bool | int | float | str | bytes):
            return
        self._seen.add(id(thing))
        self._kept.append(thing)
        if isinstance(thing, types.ModuleType):
            self._belong(thing.__name__)
            self.open(thing.__name__)
        elif isinstance(thing, type):
            under = {base for kind in thing.__mro__ if _is_krogh(kind.__module__) for base in kind.__mro__}
            for kind in thing.__mro__:
                if kind not in under:  # what krogh derives from is krogh's choice, and a package
                    self._belong(kind.__module__)
            for kind in thing.__mro__:
                self._define(kind)
        elif isinstance(thing, functools.partial):
            self.add((thing.func, thing.args, thing.keywords))
        elif isinstance(thing, types.FunctionType | types.MethodType):
            self._belong(inspect.unwrap(thing).__module__)
            self._define(inspect.unwrap(thing))
        elif isinstance(thing, Mapping):
            self.add(tuple(thing.values()))
        elif isinstance(thing, list | tuple | set | frozenset):
            self.add(type(thing))
            for part in thing:
                self.add(part)
        else:
            self.add(type(thing))
            for field in dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ():
                self.add(getattr(thing, field.name, None))

    def _belong(self, name: str | None) -> None:
        """The project of a module counts from now on."""
        path = _file(name or "__main__")
        if path is not None and not _is_krogh(name):
            self._projects.add(_project(_import_folder(name or "__main__", path)))

    def _counts(self, name: str, path: Path) -> bool:
        return _is_krogh(name) or any(path.is_relative_to(folder) for folder in self._projects)

    def _define(self, thing: Any) -> None:
        """The module in which a class or function is defined, or its own source if there is no file."""
        name = getattr(thing, "__module__", None) or "__main__"
        module = sys.modules.get(name)
        if _file(name) is not None:
            self.open(name)
        elif module is None or not hasattr(module, "__spec__") or module.__spec__ is None:  # typed in, or executed
            self._typed_in(thing, f"{name}.{thing.__qualname__}", vars(module) if module else {})

    def _typed_in(self, thing: Any, name: str, known: Mapping[str, Any]) -> None:
        tree = _tree_of(thing)
        self._found[name] = NO_SOURCE if tree is None else _digest(tree)
        if tree is None:
            return
        for node in ast.walk(tree):
            used = known.get(node.id) if isinstance(node, ast.Name) else None
            if isinstance(used, type | types.FunctionType | types.ModuleType):
                self.add(used)

    def open(self, name: str) -> None:
        """A module and everything that it imports."""
        path = _file(name)
        if path is None or name in self._opened or not self._counts(name, path):
            return
        self._opened.add(name)
        source = _read(path)
        self._list(name, source)
        package = name if _is_package(name) else name.rpartition(".")[0]
        for statement in source.imports:
            self._follow(statement, package, source)
        for table in _NAMED:
            for text in source.texts:
                if text in table:
                    self.add(getattr(table[text], "function", table[text]))

    def _list(self, name: str, source: _Source) -> None:
        if not source.empty:
            self._found[_public_name(name)] = source.digest
        for parent in _parents(name):
            path = _file(parent)
            above = _read(path) if path is not None else None
            if above is not None and not above.empty and "__getattr__" not in above.defined:
                self._found[parent] = above.digest

    def _follow(self, statement: _Import, package: str, source: _Source) -> None:
        origin = _absolute(statement, package)
        if statement.name is None:  # import a.b.c
            if not _is_package(origin):
                self.open(origin)
            bound = statement.bound or origin.partition(".")[0]
            self._use_module(origin if statement.bound else bound, bound, source)
        elif statement.name == "*":
            self.open(origin)
        else:
            self._take(origin, statement.name, (), statement.bound or statement.name, source)

    def _use_module(self, module: str, bound: str, source: _Source) -> None:
        """A module that goes by the name `bound` in `source`: whole, or if it is a package what is taken from it."""
        if not _is_package(module) or bound in source.bare:
            self.open(module)
            return
        for first, *rest in source.chains:
            if first == bound and rest:
                self._take(module, rest[0], tuple(rest[1:]), None, source)

    def _take(self, origin: str, name: str, rest: tuple[str, ...], bound: str | None, source: _Source) -> None:
        """`origin.name`, and where that is a package `origin.name.rest`."""
        home = _home(origin, name)
        if home is None:
            return
        if not _is_package(home) or home == origin:
            self.open(home)
        elif bound is not None:
            self._use_module(home, bound, source)
        elif rest:
            self._take(home, rest[0], rest[1:], None, source)


@dataclasses.dataclass(frozen=True)
class _Import:
    """`import origin as bound`, or `from origin import name as bound`; `level` counts the leading dots."""

    origin: str
    name: str | None
    bound: str | None
    level: int = 0


@dataclasses.dataclass(frozen=True)
class _Source:
    """What a file says, as far as it matters here."""

    digest: str
    empty: bool
    imports: tuple[_Import, ...]
    defined: frozenset[str]
    chains: frozenset[tuple[str, ...]]
    bare: frozenset[str]
    texts: frozenset[str]


_READ: dict[Path, tuple[tuple[int, int], _Source]] = {}


def _read(path: Path) -> _Source:
    """The file as it is now; parsed again only when it has changed."""
    stat = path.stat()
    stamp = (stat.st_mtime_ns, stat.st_size)
    if path not in _READ or _READ[path][0] != stamp:
        _READ[path] = stamp, _parsed(path)
    return _READ[path][1]


def _parsed(path: Path) -> _Source:
    content = path.read_bytes()
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):  # it could not have been imported as it is
        digest = hashlib.blake2b(content, digest_size=8).hexdigest()
        return _Source(digest, False, (), frozenset(), frozenset(), frozenset(), frozenset())
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = [part for part in node.body if not _said_of_itself(part)] or [ast.Pass()]
    reading = _Reading()
    reading.visit(tree)
    defined = frozenset(_defined(tree.body))
    if path.name == "__init__.py":  # what a package only hands on is not part of what it is
        tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom) and not _all(node)]
    digest = _digest(tree)
    used = frozenset(reading.chains), frozenset(reading.bare), frozenset(reading.texts)
    return _Source(digest, not tree.body and path.name == "__init__.py", tuple(reading.imports), defined, *used)


class _Reading(ast.NodeVisitor):
    """Collects imports, dotted names, names by themselves and short texts."""

    def __init__(self) -> None:
        self.imports: list[_Import] = []
        self.chains: set[tuple[str, ...]] = set()
        self.bare: set[str] = set()
        self.texts: set[str] = set()

    def visit_Import(self, node: ast.Import) -> None:
        self.imports += [_Import(alias.name, None, alias.asname) for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.imports += [_Import(node.module or "", alias.name, alias.asname, node.level) for alias in node.names]

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in (getattr(node.test, "id", ""), getattr(node.test, "attr", "")):  # never executed
            for part in node.orelse:
                self.visit(part)
        else:
            self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        names: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            names.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            self.chains.add((inner.id, *reversed(names)))
        else:
            self.visit(inner)

    def visit_Name(self, node: ast.Name) -> None:
        self.bare.add(node.id)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and len(node.value) < 80:
            self.texts.add(node.value)


def _said_of_itself(node: ast.stmt) -> bool:
    """`system = System(...)`: words, as a docstring is. The theory that a task names trains nothing."""
    call = node.value if isinstance(node, ast.Assign) else None
    return isinstance(call, ast.Call) and "System" in (getattr(call.func, "id", ""), getattr(call.func, "attr", ""))


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    """Names that a module binds at its top, other than by importing them."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For | ast.With):
            yield from (part.id for part in ast.walk(node) if isinstance(part, ast.Name) and _stored(part))
        elif isinstance(node, ast.If | ast.Try):
            yield from _defined([part for part in ast.iter_child_nodes(node) if isinstance(part, ast.stmt)])


def _stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _all(node: ast.stmt) -> bool:
    named = isinstance(node, ast.Assign) and [part.id for part in node.targets if isinstance(part, ast.Name)]
    return named == ["__all__"] or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _digest(tree: ast.AST) -> str:
    """Of the syntax alone, the same in every version of Python that reads it the same way."""
    pieces: list[str] = []
    _write(tree, pieces)
    return hashlib.blake2b("".join(pieces).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _write(node: Any, pieces: list[str]) -> None:
    if isinstance(node, ast.AST):
        pieces.append(f"({type(node).__name__}")
        for name in node._fields:
            part = getattr(node, name, None)
            if part is None and not isinstance(node, ast.Constant):
                continue
            if name == "body" and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                part = part[1:] if part and ast.get_docstring(node, clean=False) is not None else part
            if part != [] and name not in ("ctx", "kind", "type_comment"):
                pieces.append(f" {name}=")
                _write(part, pieces)
        pieces.append(")")
    elif isinstance(node, list):
        pieces.append("[")
        for part in node:
            _write(part, pieces)
        pieces.append("]")
    else:
        pieces.append(f"{type(node).__name__}:{node!r}")


def _tree_of(thing: Any) -> ast.Module | None:
    """The syntax of a class or function without a file, if Python remembers what was typed; of a class it may remember
    the methods alone."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError):
        own = [part for part in vars(thing).values() if inspect.isfunction(part)] if isinstance(thing, type) else []
        known = [tree for tree in map(_tree_of, own) if tree is not None]
        return ast.Module([node for tree in known for node in tree.body], []) if known else None


def _absolute(statement: _Import, package: str) -> str:
    if not statement.level:
        return statement.origin
    parts = package.split(".")
    base = parts[: len(parts) - statement.level + 1]
    return ".".join([*base, statement.origin] if statement.origin else base)


def _home(origin: str, name: str) -> str | None:
    """The module that `origin.name` is or is defined in; None if that is neither krogh's nor the user's."""
    if not _is_package(origin):
        return origin if _file(origin) is not None else None
    path = _file(origin)
    source = _read(path) if path is not None else None
    if source is not None and name in source.defined:
        return origin
    for statement in source.imports if source is not None else ():
        if statement.name is not None and (statement.bound or statement.name) == name:
            before = _absolute(statement, origin)
            if before != origin:
                return _home(before, statement.name)
    inner = f"{origin}.{name}"
    if _file(inner) is not None or _is_package(inner):
        return inner
    if source is not None and "__getattr__" in source.defined:
        return _lazy_home(origin, name)
    return origin if source is not None else None


def _lazy_home(origin: str, name: str) -> str | None:
    """Where a package's `__getattr__` finds a name."""
    package = sys.modules.get(origin)
    try:
        thing = getattr(package, name)
    except AttributeError:
        return origin
    if isinstance(thing, types.ModuleType):
        return thing.__name__
    if isinstance(thing, type | types.FunctionType):
        return thing.__module__ if _file(thing.__module__) is not None else None
    for module in [inner for inner in list(sys.modules) if inner.startswith(f"{origin}.")]:
        if vars(sys.modules[module]).get(name) is thing:  # a constant does not say where it is from
            return _home(module, name)
    return origin


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _public_name(name: str) -> str:
    """A script goes by the name under which it would be imported."""
    if name != "__main__":
        return name
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    path = _file(name)
    return spec.name if spec is not None else path.stem if path is not None else name


def _file(name: str) -> Path | None:
    """The source of a module, if it is krogh's or nobody has installed it."""
    module = sys.modules.get(name)
    given = getattr(module, "__file__", None)
    if given is None:
        spec = _spec(name)
        given = spec.origin if spec is not None and spec.has_location else None
    if given is None or not given.endswith(".py"):
        return None
    path = Path(os.path.abspath(given))
    return path if path.is_file() and _own(name, str(path)) else None


def _own(name: str, path: str) -> bool:
    if _is_krogh(name):
        return True
    installed = "site-packages" in path.split(os.sep) or "dist-packages" in path.split(os.sep)
    top = name.partition(".")[0]
    if installed or path.startswith(_LIBRARIES) or top in PACKAGES:
        return False
    return top not in _installed(_import_folder(name, Path(path)))


def _is_krogh(name: str | None) -> bool:
    return (name or "").partition(".")[0] == "krogh"


def _import_folder(name: str, path: Path) -> Path:
    """The folder on Python's path in which a module was found."""
    if name == "__main__":
        return path.parent
    return path.parents[name.count(".") + (path.name == "__init__.py")]


@functools.cache
def _project(folder: Path) -> Path:
    """The folder of the project that an import folder belongs to."""
    for one in (folder, *folder.parents):
        if one in (Path.home(), Path(one.anchor)):
            break
        if any((one / mark).exists() for mark in MARKS):
            return one
    return folder


@functools.cache
def _installed(folder: Path) -> frozenset[str]:
    """Packages and modules that an installer has put into a folder (`pip install --target`), by its own records."""
    names = set()
    for record in folder.glob("*.dist-info/RECORD"):
        for line in record.read_text(encoding="utf-8", errors="replace").splitlines():
            names.add(line.partition(",")[0].partition("/")[0].removesuffix(".py"))
    return frozenset(names)


def _is_package(name: str) -> bool:
    module = sys.modules.get(name)
    if module is not None:
        return hasattr(module, "__path__")
    spec = _spec(name)
    return spec is not None and spec.submodule_search_locations is not None


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is, without importing it or what it is in."""
    top = name.partition(".")[0]
    if not name or top in sys.stdlib_module_names:
        return None
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__spec__", None)
    parent = name.rpartition(".")[0]
    try:
        if not parent:
            return importlib.util.find_spec(name)
        if not _is_package(parent):
            return None
        above = sys.modules.get(parent)
        spec = None if above is not None else _spec(parent)
        places = above.__path__ if above is not None else spec.submodule_search_locations if spec is not None else None
        return PathFinder.find_spec(name, places)
    except (ImportError, ValueError, AttributeError):
        return None


# --- versions, device, time ---------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """Versions of what computed the results."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def device_in_words() -> str:
    devices = devices_here()
    kind = devices[0].device_kind if devices[0].platform != "cpu" else f"CPU, {os.cpu_count()} cores"
    return kind if len(devices) == 1 else f"{len(devices)} × {kind}"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
