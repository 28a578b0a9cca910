"""The pages that show what was found, each one offline HTML file.

`read` turns the files of a study into values and refuses damaged ones, `page` puts them on the report, `mathematics`
sets S_3 and 1e-07 there, `comparing` puts two studies side by side, `replay` makes a page of a study's frames on which
training can be watched. How numbers are written is in `krogh.numbers`; how figures look in `krogh.lab.figures`, because
experiments draw them.
"""

from krogh.report.page import write_report
from krogh.report.replay import write_replay

__all__ = ["write_replay", "write_report"]
