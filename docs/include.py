"""Puts the code of examples/ into docs/extending.md, and the formats of files into docs/formats.md.

`python docs/include.py` writes the pages, tests keep them true.

A line `<!-- examples/new_task.py -->` is followed by the file's classes and functions, without its imports and without
what it does with them; of a file that defines none, by all that comes after its imports. `make examples` executes the
whole file.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE, FORMATS = HERE / "extending.md", HERE / "formats.md"
FORMATS_PART = re.compile(r"(<!-- formats -->\n).*?(<!-- end -->)", re.DOTALL)
INCLUDED = re.compile(r"(<!-- (examples/\w+\.py) -->\n)(?:```python\n.*?```\n)?", re.DOTALL)


def definitions(path: Path) -> str:
    """The classes and functions of a file, with their decorators, as they are written."""
    text = path.read_text(encoding="utf-8")
    lines, body = text.splitlines(), ast.parse(text).body
    found = []
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            first = min(part.lineno for part in (node, *node.decorator_list))
            found.append("\n".join(lines[first - 1 : node.end_lineno]))
    if not found:
        imports = [node.end_lineno or 0 for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
        found.append("\n".join(lines[max(imports, default=0) :]).strip())
    return "\n\n\n".join(found)


def filled(page: str) -> str:
    """The page with the code of the examples it names."""
    return INCLUDED.sub(lambda found: f"{found[1]}```python\n{definitions(HERE.parent / found[2])}\n```\n", page)


def with_formats(page: str) -> str:
    """The page with what the readers of files say of them."""
    from krogh.programs.formats import as_markdown

    return FORMATS_PART.sub(lambda found: f"{found[1]}\n{as_markdown()}\n\n{found[2]}", page)


if __name__ == "__main__":
    FORMATS.write_text(with_formats(FORMATS.read_text(encoding="utf-8")), encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
