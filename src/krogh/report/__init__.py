"""The page that shows what was found: one offline HTML file from a folder of studies.

`read` turns the files of a study into values and refuses damaged ones, `page` puts them on the page. How numbers are
written is in `krogh.numbers`; how figures look in `krogh.lab.figures`, because experiments draw them.
"""

from krogh.report.page import write_report

__all__ = ["write_report"]
