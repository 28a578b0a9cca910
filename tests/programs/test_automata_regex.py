"""Regular expressions against Python's own, on patterns drawn at random and on what is refused."""

from __future__ import annotations

import itertools
import re
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.programs.automata.automaton import from_table, pad_words
from krogh.programs.automata.languages import distinguishing_word
from krogh.programs.automata.regex import from_regex

ALPHABET = "ab-"
WORDS = ["".join(word) for length in range(6) for word in itertools.product(ALPHABET, repeat=length)]
CODES = pad_words([np.array([ALPHABET.index(symbol) for symbol in word], int) for word in WORDS])


def sequence(parts: list[str]) -> str:
    return "".join(parts)


def repeated(part: str, times: str, lazy: str) -> str:
    return f"(?:{part}){times}{lazy}"


@st.composite
def classes(draw) -> str:
    """A class that matches at least one symbol of the alphabet."""
    members = draw(st.sets(st.sampled_from(["a", "b", r"\-", "a-b", r"\x61", "]"]), min_size=1, max_size=3))
    negated = draw(st.booleans())
    listed = ("]" if "]" in members else "") + "".join(sorted(members - {"]"}))
    text = f"[{'^' if negated else ''}{listed}]"
    usable = any(re.fullmatch(text, symbol) for symbol in ALPHABET)
    return text if usable else "[a-b-]"


def bounds(numbers: tuple[int, int]) -> list[str]:
    low, high = min(numbers), max(numbers)
    return [f"{{{low}}}", f"{{{low},}}", f"{{,{high}}}", f"{{{low},{high}}}"]


TIMES = st.one_of(
    st.sampled_from(["*", "+", "?"]),
    st.tuples(st.integers(0, 2), st.integers(0, 3)).flatmap(lambda both: st.sampled_from(bounds(both))),
)
ITEMS = st.one_of(st.sampled_from(["a", "b", "-", ".", r"\-", r"\x62", r"[^\d]", r"\W", r"[\Wa]"]), classes())
PATTERNS = st.recursive(
    ITEMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(sequence),
        st.lists(inner, min_size=2, max_size=3).map("|".join).map("({})".format),
        st.builds(repeated, inner, TIMES, st.sampled_from(["", "?"])),
    ),
    max_leaves=6,
)


@settings(database=None, deadline=None, max_examples=250)
@given(PATTERNS)
def test_the_same_words_as_python(pattern):
    automaton = from_regex(pattern, ALPHABET)
    judged = re.compile(pattern)
    assert automaton.accept(CODES).tolist() == [judged.fullmatch(word) is not None for word in WORDS]


@settings(database=None, deadline=None, max_examples=25)
@given(PATTERNS, PATTERNS)
def test_laws_of_the_operators(one, other):
    """Both sides of an identity have the same least automaton."""
    laws = [
        (f"(?:{one}|{other})", f"(?:{other}|{one})"),
        (f"(?:(?:{one})*(?:{other})*)*", f"(?:{one}|{other})*"),
        (f"(?:{one})+", f"(?:{one})(?:{one})*"),
        (f"(?:{one}){{2,4}}", f"(?:{one}){{2}}(?:{one}){{0,2}}"),
        (f"(?:{one})?", f"(?:{one}|)"),
    ]
    for left, right in laws:
        assert from_regex(left, ALPHABET) == from_regex(right, ALPHABET)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "()",
        "a|",
        "|",
        "(a|b)*abb",
        "^ab|b$",
        "^$",
        "[]a]",
        "[^]a]",
        "[a-]",
        "[-a]",
        "a{2,3}b{,2}",
        "a{0}b",
        "(a{0}){3}b*",
        "}]a",
        r"\(\)\[\]\{\}\.\*\+\?\|\^\$\\",
        r"[\]\-\\]",
        r"\d\s\w",
        r"[\d\s]+",
        r"[^\d\s]",
        r"[\D1]",
        r"[\D\W]",
        r"[^\D]|[^\W\d]",
        r"[\b]\a\f\v\r\n\t",
        r"[^\w-].?",
        r"[\W\d]|[^\S1]",
        ".",
        r"\u0061\U00000062",
        "äöü",
        "a+?b*?c??d{1,2}?",
        "(?:a(?P<x>b)(c))",
    ],
)
def test_particular_patterns(pattern):
    alphabet = "abcd()[]{}.*+?|^$\\-1 _\n\t\r\f\v\a\bäöü"
    automaton, judged = from_regex(pattern, alphabet), re.compile(pattern)
    words = ["".join(word) for length in range(3) for word in itertools.product(alphabet, repeat=length)]
    words += ["()[]{}.*+?|^$\\", "1 _", "}]a", "äöü", "aabbb", "aaab", "\b\a\f\v\r\n\t", "abc", "abbabb"]
    assert automaton.accept(automaton.encode_words(words)).tolist() == [
        judged.fullmatch(word) is not None for word in words
    ]


def test_the_alphabet_is_what_the_pattern_mentions():
    assert from_regex("(10)*").alphabet == ("0", "1")
    assert from_regex("b[ac]|[^x-z]").alphabet == tuple("abcxyz")
    assert from_regex(r"\d*").alphabet == tuple("0123456789")
    assert from_regex("a.", "cab").alphabet == ("c", "a", "b"), "a given order is kept"
    assert from_regex("a", name="one a").name == "one a" and from_regex("a").name == "a"
    assert from_regex("a.", "ab\n").accepts("ab") and not from_regex("a.", "ab\n").accepts("a\n")
    assert from_regex(r"[\W-]", None).alphabet == tuple(sorted("-_" + string.ascii_letters + string.digits))
    assert from_regex(r"\s", None).alphabet == tuple("\t\n\v\f\r\x1c\x1d\x1e\x1f ")
    assert from_regex(r"[é٣-]|\d\w").accepts("٣é"), "of symbols that are mentioned, \\d and \\w have Unicode's"


WORLDLY = "éß٣Ж_\n\x1c1 "
WORLD_ITEMS = [".", *(rf"\{letter}" for letter in "dwsDWS"), *(rf"[{x}\{y}]" for x in "^é_" for y in "dwsDWS"),
               *(rf"[^٣\{letter}Ж]" for letter in "dwsDWS"), "[^\\w-]", "[ß-٣]", *WORLDLY]  # fmt: skip
WORLD_PATTERNS = st.lists(
    st.builds(str.__add__, st.sampled_from(WORLD_ITEMS), st.sampled_from(["", "", "*", "?", "|"])), max_size=4
).map("".join)


@settings(database=None, deadline=None, max_examples=300)
@given(WORLD_PATTERNS, st.lists(st.text(WORLDLY, max_size=4), min_size=1, max_size=20))
def test_symbols_of_the_world_are_those_of_python(pattern, words):
    automaton = from_regex(pattern, WORLDLY)
    assert [automaton.accepts(word) for word in words] == [re.fullmatch(pattern, word) is not None for word in words]


@pytest.mark.parametrize("pattern", [".", *(rf"\{letter}" for letter in "dwsDWS"), r"[^\w-]", r"[\W\d_]", r"[^\S\n]"])
def test_every_character_of_the_first_plane_is_matched_as_by_python(pattern):
    judged, size = re.compile(pattern), 4_096
    for start in range(0, 1 << 16, size):
        alphabet = "".join(map(chr, range(start, start + size)))
        expected = [judged.fullmatch(symbol) is not None for symbol in alphabet]
        if any(expected):
            automaton = from_regex(pattern, alphabet)
            after = automaton.transitions[automaton.start]
            assert [int(state) in automaton.accepting for state in after] == expected


def test_known_automata():
    assert distinguishing_word(from_regex("(10)*"), from_table([[2, 1], [0, 2], [2, 2]], [0])) is None
    assert from_regex("(0*10*1)*0*").size == 2
    assert from_regex("(0|1)*1(0|1){9}").size == 2**10
    assert from_regex("a{1000}").size == 1002


REFUSED = {
    "a(b": (2, "this group is not closed"),
    "a)": (2, "closes no group"),
    "x[ab": (2, "this class is not closed"),
    "[]": (1, "this class is not closed"),
    "a**": (3, "two repetitions"),
    "a{2}{3}": (5, "two repetitions"),
    "a*+": (3, "a possessive repetition is not supported"),
    "*a": (1, "'*' repeats nothing"),
    "a|+": (3, "'+' repeats nothing"),
    "(?:{2})": (4, "'{' repeats nothing"),
    "a{3,2}": (2, "{3,2} asks for at least 3 and at most 2 times"),
    "a{": (2, "{m}, {m,}, {,n} or {m,n}"),
    "a{x}": (2, "{m}, {m,}, {,n} or {m,n}"),
    "a{,}": (2, "{,} has no bound"),
    "a{1,99999999999999999999999}": (2, "repeats more often"),
    "a^b": (2, "the anchor '^' is not supported"),
    "a$b": (2, "the anchor '$' is not supported"),
    "(a$)": (3, "the anchor '$' is not supported"),
    "a(?=b)": (2, "look-ahead, (?=…), is not supported"),
    "a(?!b)": (2, "look-ahead"),
    "(?<=a)b": (1, "look-behind, (?<=…), is not supported"),
    "(?<!a)b": (1, "look-behind"),
    r"(a)\1": (4, r"a back-reference, \1, is not supported: it is not regular"),
    "(?P<x>a)(?P=x)": (9, "a back-reference"),
    "(?>a)": (1, "an atomic group"),
    "(?i)a": (1, "a flag, (?i…), is not supported"),
    "(?-i:a)": (1, "a flag"),
    "(?#a)": (1, "a comment"),
    "(a)?(?(1)b|c)": (5, "a conditional group"),
    "(?": (1, "is not supported"),
    r"a\b": (2, r"a word boundary, \b, is not supported"),
    r"\Aa\Z": (1, r"an anchor, \A, is not supported"),
    "a\\": (2, "nothing follows the backslash"),
    r"\q": (1, r"the escape \q is not supported"),
    r"\x1": (1, r"\x is followed by 2 hexadecimal digits"),
    r"\Uffffffff": (1, r"\U is followed by 8 hexadecimal digits of a character"),
    "[b-a]": (2, "the range b-a runs backwards"),
    r"[a-\d]": (2, "a range lies between two characters"),
    "[[:alpha:]]": (2, "a POSIX class"),
    "(" * 51 + ")" * 51: (51, "at most 50 deep"),
}


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_refused_and_where(pattern):
    column, problem = REFUSED[pattern]
    with pytest.raises(KroghError) as refused:
        from_regex(pattern)
    assert f"regular expression '{pattern}', column {column}: " in str(refused.value)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "alphabet", "message"),
    [
        ("abc", "ab", "regular expression 'abc', column 3: 'c' is no symbol of the alphabet 'ab'"),
        ("ac{0}", "ab", "column 2: 'c' is no symbol"),
        ("a[c-e]", "ab", "column 2: this matches no symbol of the alphabet 'ab'; give an alphabet that has one"),
        ("a[^a]", None, "column 2: this matches no symbol of the alphabet 'a'"),
        ("a\n\n(", "a", r"regular expression 'a\n\n(', column 4"),
        (".*", None, "regular expression '.*' mentions no symbol; give an alphabet"),
        ("a", "aba", "the symbols of an alphabet differ; 'a' is twice in 'aba'"),
        ("a", ["a", "bc"], "the symbols of a regular expression are single characters; got 'bc'"),
        ("a", "", "an alphabet has at least one symbol"),
        ("(a{100}){100}", None, "has 10,000 characters and classes; at most 2,048 are allowed (its repetitions"),
        ("((a{1000}){1000}){1000}", None, "has 1,000,000,000 characters and classes; at most 2,048 are allowed"),
        (
            r"[\u0000-\uffff]",
            None,
            "has 65,536 symbols in its alphabet; at most 4,096 are allowed (list fewer, or give",
        ),
        ("[a-z][b-y]" * 1001, None, "the regular expression has 10,010 characters; at most 10,000 are allowed"),
        ("(((a{999999999}){999999999}){999999999})", None, "at most 2,048 are allowed (its repetitions"),
        (".*a.{14}", "ab", "has more than 20,000 states; at most 20,000 are allowed, while its automaton is built"),
    ],
)
def test_what_an_alphabet_or_a_size_makes_impossible(pattern, alphabet, message):
    with pytest.raises(KroghError, match=re.escape(message)):
        from_regex(pattern, alphabet)


def test_a_range_is_as_wide_as_its_alphabet():
    """Symbols in the same classes share a column while the automaton is built; given an alphabet, any range will do."""
    assert from_regex(r"[\u0000-\U0010ffff]*b", "ab") == from_regex("[ab]*b")
    wide = from_regex(r"[\u0000-\u03ff]{3}|[^a]")
    assert len(wide.alphabet) == 1024 and wide.size == 6
    assert wide.accepts("\u0000a\u03ff") and wide.accepts("b") and not wide.accepts("a")


def test_ranges_that_overlap_count_once():
    """2,050 symbols, and 4,096, though the ranges list more in all."""
    assert len(from_regex("[\\u0100-\\u0900]|[\\u0100-\\u0901]").alphabet) == 2_050
    assert len(from_regex("[\\u0000-\\u0fff]|[\\u0000-\\u0ffe]").alphabet) == 4_096
    with pytest.raises(KroghError, match="has 4,097 symbols in its alphabet; at most 4,096"):
        from_regex("[\\u0000-\\u0fff]|[\\u0800-\\u1000]")


def test_nothing_repeated_without_end_is_nothing():
    assert from_regex("(){999999999}(a{0}|){999999999,}", "a").accepts("")
