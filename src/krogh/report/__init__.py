"""The page that shows what was found: one offline HTML file from a folder of studies.

`read` turns the files of a study into values and refuses damaged ones, `numbers` writes numbers for people,
`page` puts them on the page. How figures look is in `krogh.lab.figures`, because experiments draw them.
"""

from krogh.report.page import write_report

__all__ = ["write_report"]
