"""Table C.1: what the tables are, read from their sources, beside what is printed.

The printed number of features counts the target.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, setting
from krogh.lab.estimate import exact
from krogh.lab.experiment import Measures
from krogh.tasks import find_tables
from krogh.tasks.table_sources import OFFLINE, suite_task

BALANCED = 0.01


@dataclass(frozen=True)
class Settings:
    data: tuple[str, ...] = setting((OFFLINE,), "tables: CSV files, folders of them, names", distinct=True)
    target: str = setting("", "the target column of CSV files; the last one unless given")


@experiment("tabular/sets")
class Sets(Experiment[Settings]):
    """What the tables are, beside Table C.1."""

    title = "The tables, and what is printed about them"
    question = "Do the tables have the rows and features that the source says, and is guessing wrong half of the time?"
    source = "dissertation, Table C.1"
    scales = {
        "smoke": Settings(data=("synthetic",)),
        "laptop": Settings(),
        "paper": Settings(),
    }
    notes = (
        "The printed feature counts include the target: a row of MagicTelescope has 10 numbers, and 11 are printed.",
        "data=openml-337 asks OpenML for the source's 16 tables, once; they are kept with a checksum.",
    )

    def measure(self, results: Results[Settings]) -> Measures:
        found = []
        for rows in find_tables(results.settings.data, target=results.settings.target or None):
            task = suite_task(rows.title)
            found.append(
                {
                    "set": rows.title,
                    "source": rows.source,
                    "checksum": rows.checksum,
                    "rows": len(rows),
                    "features": rows.d,
                    "majority": rows.majority,
                    "number": None if task is None else task.number,
                    "printed_rows": None if task is None else task.rows,
                    "printed_features": None if task is None else task.features,
                }
            )
        whole = dict.fromkeys(("number", "printed_rows", "printed_features"), pl.Int64)
        return {"sets": pl.DataFrame(found, schema_overrides=whole)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        for row in tables["sets"].iter_rows(named=True):
            about = say.about(f"{row['set']}-", f"{row['set']} ({row['source']}): ")
            count = row["rows"]
            about(
                "balanced",
                "guessing is wrong half of the time.",
                exact(row["majority"] - 0.5, count, sample=row["set"], rule="counted"),
                "share of the more frequent label - 1/2",
                at_most=BALANCED,
                source_value="class-balanced",
            )
            if row["printed_rows"] is None:
                continue
            for word, found, wanted in (
                ("rows", count, row["printed_rows"]),
                ("features", row["features"], row["printed_features"] - 1),
            ):
                about(
                    word,
                    f"it has the {wanted:,} {word} of the benchmark.",
                    exact(found - wanted, count, sample=row["set"], rule="counted"),
                    f"{word} - {word} of the benchmark",
                    between=(-0.5, 0.5),
                    source_value=f"{row[f'printed_{word}']:,}{' with the target' if word == 'features' else ''}",
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        known = tables["sets"]
        chart = self.chart("sets", "Rows and features of the tables")
        panel = chart.panel(x="rows", y="features", log="xy")
        for row in known.iter_rows(named=True):
            panel.dots([row["rows"]], [row["features"]], f"{row['set']} ({row['source']})")
        yield chart.figure(
            "Rows and features (without the target) of each table, by the source it was read from.", known
        )
