"""How claims are printed: a line for each, or JSON, and the exit code that they ask for."""

from __future__ import annotations

import json
import sys

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from krogh.cli.printing import MARKS
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, Claim
from krogh.lab.study import Study
from krogh.numbers import estimate


def answer(studies: list[Study], *, as_json: bool, strict: bool) -> int:
    """Print JSON if asked to; the exit code."""
    if as_json:
        answers = {study.summary["name"]: [claim.as_json() for claim in study.claims] for study in studies}
        print(json.dumps(answers, indent=2, ensure_ascii=False))
    missed = any(claim.verdict == NOT_REPRODUCED for study in studies for claim in study.claims)
    return 1 if strict and missed else 0


def print_claims(console: Console, study: Study) -> None:
    """What was trained, and what the claims came to."""
    claims: list[Claim] = study.claims
    name, summary, engine = study.summary["name"], study.summary, study.summary["engine"]
    counts = f"{engine['trials']:,} trials, {engine['converged']:,} converged, {engine['diverged']:,} diverged"
    waste = f"{engine['wasted_share']:.1%} of steps wasted"
    done = f"{counts}, {waste}" if engine["trials"] else "nothing trained"
    console.print(f"[bold]{name}[/bold]  {done}, {summary['seconds']:.1f} s", highlight=False)
    table = Table(box=None, show_header=False, padding=(0, 1))
    for claim in claims:
        measured = estimate(claim.value, claim.low, claim.high, claim.unit)
        table.add_row(MARKS[claim.verdict], claim.verdict, claim.name, f"{measured} (wanted {claim.threshold})")
        if claim.verdict == INCONCLUSIVE and claim.reason:
            table.add_row("", "", "", f"[dim]{escape(claim.reason)}[/dim]")
    console.print(table, highlight=False)
    sys.stdout.flush()
