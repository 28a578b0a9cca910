"""The command line, called in this process."""

from __future__ import annotations

import sys

import pytest

from krogh import cli, interrupting


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Run the command in an empty folder: its exit code and what was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(interrupting, "leave", lambda: None)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["krogh", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return run
