"""(placeholder until the branch with source digests is merged)"""


def sources_of(objects):
    return {}


def sources_of_trials(templates):
    list(templates)
    return {}


def changes_in_words(before, after):
    return ""
