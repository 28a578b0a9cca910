"""The README's Python runs as it stands, with fewer seeds."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_python_of_the_readme_runs():
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert "range(100)" in code
    code = code.replace("range(100)", "range(2)").replace("n=20", "n=8").replace("width=100", "width=16")
    *lines, last = code.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(lines), names)
    ratio = eval(last, names)
    assert ratio.trials == 4 and names["by_rate"].x.tolist() == [0.1, 1.0]
