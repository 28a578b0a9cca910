"""Mathematics in the words of a figure, set as mathematics: `typeset("Q8, t_c ≤ n")` is `$Q_8$, $t_c \\leq n$`.

Labels are written in plain text, for they also stand in tables, captions and alternative texts, where nothing sets
them. What counts as mathematics:

    n, T, k'           single letters that are no word of their own (a, A at the start of a sentence, I)
    λ, ω_i, ‖W_Q‖_F    Greek, with subscripts x_c, x_{2,3}, x_(j≠2), and letters with accents
    Q8, D4, Z_12, L2   a capital letter (or ℓ) with a number: groups, norms
    n^2, m^(−1/3), H³  powers; 1e-07
    √(2L/m), C(n,k)    roots and binomials; log2, ln and exp before any of these
    γ*, w*             a star after a letter

and what is tied to it by operators, relations and brackets: `γ = 0.5` is one formula, `S_3 (18 neurons)` is not. Text
that has a `$` is left as it was given, and so are regular expressions such as `(ab)*`.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

_GREEK = {
    **{"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta"},
    **{"ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma"},
    **{"τ": "tau", "υ": "upsilon", "φ": "varphi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta"},
    **{"Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "prod", "Σ": "sum", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega"},
    "ℓ": "ell",
}
_SIGNS = {
    **{"=": "=", "<": "<", ">": ">", "≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "≈": r"\approx", "∝": r"\propto"},
    **{
        "→": r"\to",
        "↦": r"\mapsto",
        "+": "+",
        "-": "-",
        "−": "-",
        "±": r"\pm",
        "×": r"\times",
        "·": r"\cdot",
        "/": "/",
    },
}
_BRACKETS = {
    **{
        "(": "(",
        ")": ")",
        "[": "[",
        "]": "]",
        "⟨": r"\langle",
        "⟩": r"\rangle",
        "‖": r"\|",
        "|": "|",
        ",": ",",
        "…": r"\ldots",
    },
    **{"½": r"\frac{1}{2}", "∞": r"\infty", "...": r"\ldots"},
}
_ACCENTS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar", "\u0307": "dot"}
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ᵀ", "0123456789-+T", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_FUNCTIONS = {
    **{"log": r"\log", "ln": r"\ln", "exp": r"\exp", "cos": r"\cos", "sin": r"\sin"},
    **{"relu": r"\mathrm{relu}", "vec": r"\mathrm{vec}\,"},
}
_NAMED = "|".join(_FUNCTIONS)

# The first that fits at a place is the token there.
_TOKENS = re.compile(
    r"(?P<word>^\([a-z]{1,5}\)(?=\s|$)"  # (a), (xiv): an enumeration
    r"|(?<!\w)'[^'\s]*'(?!\w)"  # what is quoted
    r"|\#\w+"
    r"|[A-Z]\.\d+(?:\.\d+)*"  # Lemma D.14
    r"|(?:[A-Za-z]\.){2,}"  # r.m.s.
    rf"|\d+(?=[A-Za-z]{{2}})(?!(?:{_NAMED})(?![A-Za-z]))\w+)"  # 1STR, 10th
    rf"|(?P<function>(?<![A-Za-z])(?:log(?:2|10)|{_NAMED})(?![A-Za-z_]))"
    r"|(?P<variable>(?<![A-Za-z])(?<!\S')[A-Za-z](?![A-Za-z])|[α-ωΑ-Ωℓ])"
    r"|(?P<number>\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?![\d%])|[½∞])"
    r"|(?P<letters>[A-Za-z][A-Za-z_]+\d*)"
    r"|(?P<root>√)"
    r"|(?P<sign>[=<>≤≥≠≈∝→↦+\-−±×·/])"
    r"|(?P<bracket>[()\[\]⟨⟩‖|,…]|\.\.\.)"
    r"|(?P<line>\n)"
    r"|(?P<space>[ \t]+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_DECORATION = re.compile(
    r"(?P<accent>[\u0302\u0303\u0304\u0307])"
    r"|(?P<prime>'(?!\w))"
    r"|(?P<star>\*(?![A-Za-z0-9(]))"
    r"|(?P<number>(?<=[A-Zℓ])(?:\d+(?![\w.])|∞))"
    r"|_(?:\{(?P<braced>[^{}]*)\}|\((?P<bracketed>[^()]*)\)|(?P<below>[A-Za-z0-9]+|[α-ω]))"
    r"|(?P<lowered>[₀-₉]+(?:,[₀-₉]+)*)"
    r"|\^(?:\{(?P<upbraced>[^{}]*)\}|\((?P<up>[^()]*)\)|(?P<plain>[A-Z]\([^()]*\)|[-−]?\d+/\d+|[-−]?\d+(?:\.\d+)?|[A-Za-zα-ω>*]))"
    r"|(?P<raised>[⁰¹²³⁴-⁹⁻⁺ᵀ]+)"
)

_EXPRESSION = re.compile(r"\)\*|[A-Za-z0-9]\*[A-Za-z0-9]")
"""A star that repeats: the text is a regular expression."""


@dataclass
class _Token:
    kind: str
    text: str  # as it was given
    math: str = ""  # as mathematics, where it can be
    strong: bool = False  # whether it makes its surroundings a formula


def typeset(text: str, *, bold: bool = False) -> str:
    """Plain text with its mathematics between dollar signs, for Matplotlib; `bold` for what stands in a headline.

    >>> typeset("input bits n")
    'input bits $n$'
    >>> typeset("S_3: γ* = 0.0236")
    '$S_{3}$: $\\\\gamma^{*} = 0.0236$'
    """
    if "$" in text or "\\" in text or _EXPRESSION.search(text):
        return text
    tokens = _tokens(text)
    out, at = "", 0
    while at < len(tokens):
        end = _formula_end(tokens, at)
        if end == at:
            out += tokens[at].text
            at += 1
        else:
            formula = _joined(tokens[at:end])
            out += f"${_bold(formula) if bold else formula}$"
            at = end
    return out


def _bold(formula: str) -> str:
    """A formula in bold, letter by letter: Matplotlib's \\boldsymbol does not reach into subscripts."""
    greek = {rf"\{name}" for name in _GREEK.values()} - {r"\sum", r"\prod"}

    def heavy(found: re.Match[str]) -> str:
        part = found.group()
        if part.startswith(r"\mathrm"):
            return part.replace(r"\mathrm", r"\mathbf")
        if part.startswith("\\"):
            return rf"\boldsymbol{{{part}}}" if part in greek else part
        return rf"\mathbfit{{{part}}}" if part.isalpha() else rf"\mathbf{{{part}}}"

    return re.sub(r"\\mathrm\{[^{}]*\}|\\[A-Za-z]+|[A-Za-z]|\d+(?:\.\d+)?", heavy, formula)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKENS.match(text, at)
        assert match is not None  # anything is at least "other"
        kind, raw = str(match.lastgroup), match.group()
        at = match.end()
        token = _Token(kind, raw, *_meaning(kind, raw, text, match.start()))
        if kind in ("variable", "number", "function") or raw in (")", "]", "‖", "⟩", "|"):
            token, at = _decorated(token, text, match.start(), at)
        found.append(token)
    return _with_roots(_with_binomials(found))


def _meaning(kind: str, raw: str, text: str, at: int) -> tuple[str, bool]:
    """A token as mathematics, and whether it is so by itself."""
    if kind == "variable":
        if raw in _GREEK:
            return rf"\{_GREEK[raw]}", True
        before = text[:at].rstrip(" ")
        begins = not before or before[-1] in ".:;?!\n"
        article = raw == "a" or (raw in "AI" and begins)
        return raw, not (article and text.strip() != raw)
    if kind == "number":
        if raw in _BRACKETS:
            return _BRACKETS[raw], False
        mantissa, _, exponent = raw.partition("e")
        if not exponent:
            return raw.replace(",", "{,}"), False
        power = f"10^{{{int(exponent)}}}"
        return (power if mantissa == "1" else rf"{mantissa} \times {power}"), True
    if kind == "function":
        base = raw.removeprefix("log")
        return (rf"\log_{{{base}}}", True) if base.isdigit() else (_FUNCTIONS[raw], False)
    if kind == "sign":
        return _SIGNS[raw], raw == "∝"
    return _BRACKETS.get(raw, ""), False


def _decorated(token: _Token, text: str, start: int, at: int) -> tuple[_Token, int]:
    """The token with the accents, primes, stars, subscripts and powers that follow it."""
    below, above, head = "", "", token.math
    while at < len(text) and (found := _DECORATION.match(text, at)):
        parts = {name: part for name, part in found.groupdict().items() if part is not None}
        name, part = next(iter(parts.items()))
        letter = token.kind == "variable"
        if name in ("accent", "prime", "number", "star") and not letter:
            break
        if token.kind == "number" and name not in ("up", "upbraced", "plain", "raised"):
            break
        if name == "accent":
            head = rf"\{_ACCENTS[part]}{{{head}}}"
        elif name == "prime":
            above += r"\prime"
        elif name == "star":
            above += "*"
        elif name in ("number", "braced", "bracketed", "below", "lowered"):
            below += _inside("".join(_LOWERED.get(letter, letter) for letter in part))
        else:
            above += _inside("".join(_RAISED.get(letter, letter) for letter in part))
        at = found.end()
    if not (below or above or head != token.math):
        return token, at
    written = head + (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")
    return _Token(token.kind, text[start:at], written, True), at


def _inside(part: str) -> str:
    """What stands in a subscript or a power: words upright, the rest as mathematics."""
    pieces = []
    for piece in re.findall(r"[A-Za-z]{2,}|[^A-Za-z]|[A-Za-z]", part):
        if piece in _GREEK:
            pieces.append(rf"\{_GREEK[piece]} ")
        elif piece in _SIGNS:
            pieces.append(_SIGNS[piece] + (" " if _SIGNS[piece].startswith("\\") else ""))
        else:
            pieces.append(rf"\mathrm{{{piece}}}" if len(piece) > 1 else piece)
    return "".join(pieces)


def _with_binomials(tokens: list[_Token]) -> list[_Token]:
    """C(n,k) as a binomial coefficient."""
    out, at = [], 0
    while at < len(tokens):
        end = next((end for end in range(at + 5, min(at + 8, len(tokens))) if tokens[end].text == ")"), 0) + 1
        six = [token for token in tokens[at:end] if token.kind != "space"]
        marks = [token.text for token in six]
        shaped = len(six) == 6 and tokens[at].text == "C" and (marks[1], marks[3]) == ("(", ",")
        if shaped and six[2].math and six[4].math:
            math = rf"\binom{{{six[2].math}}}{{{six[4].math}}}"
            out.append(_Token("variable", "".join(token.text for token in tokens[at:end]), math, True))
            at = end
        else:
            out.append(tokens[at])
            at += 1
    return out


def _with_roots(tokens: list[_Token]) -> list[_Token]:
    """√ with what it is taken of: a bracket, or one letter or number."""
    out: list[_Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token.kind != "root" or at == len(tokens) or tokens[at].kind in ("space", "line"):
            out.append(token)
            continue
        end = _closing(tokens, at) if tokens[at].text == "(" else at + 1
        inner = tokens[at:end]
        whole = len(inner) > 2 if inner[0].text == "(" else inner[0].kind in ("variable", "number")
        if not whole or not all(part.math or part.kind == "space" for part in inner):
            out.append(token)
            continue
        body = _joined(inner[1:-1] if inner[0].text == "(" else inner)
        text = token.text + "".join(part.text for part in inner)
        out.append(_Token("variable", text, rf"\sqrt{{{body}}}", True))
        at = end
    return out


def _closing(tokens: list[_Token], at: int) -> int:
    """Past the bracket that closes the one at `at`; past it alone where none does."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[place].text[:1], 0) if tokens[place].kind == "bracket" else 0
        if depth == 0:
            return place + 1
    return at + 1


def _formula_end(tokens: list[_Token], at: int) -> int:
    """Past the formula that begins at a token; `at` where none does."""
    end, open_norm, depth = at, False, 0
    while end < len(tokens):
        token = tokens[end]
        if token.kind == "space":
            if not (open_norm or depth or _ties(tokens, at, end)):
                break
        elif not token.math or (token.text == "," and not _tight(tokens, end, depth or open_norm)):
            break
        open_norm ^= token.text.startswith("‖")
        depth += {"⟨": 1, "⟩": -1}.get(token.text[:1], 0)
        end += 1
    while end > at:
        part = tokens[at:end]
        if part[-1].kind not in ("space", "sign", "function") and part[-1].text != "," and _balanced(part):
            break
        end -= 1
    part = tokens[at:end]
    starts = bool(part) and part[0].kind != "space" and (part[0].kind != "sign" or part[0].text in "-−∝")
    return end if starts and (any(token.strong for token in part) or _applied(part)) else at


def _ties(tokens: list[_Token], start: int, at: int) -> bool:
    """Whether a space stands inside a formula: beside an operator, after a function, or between two letters."""
    if at == start or at + 1 >= len(tokens):
        return False
    left, right = tokens[at - 1], tokens[at + 1]
    if not right.math:
        return False
    if left.kind == "sign":
        return True
    if right.kind == "sign":  # a dash before a number is a sign of its own
        return right.text not in "-−" or (at + 2 < len(tokens) and tokens[at + 2].kind == "space")
    if left.kind == "function" or left.math in (r"\sum", r"\prod") or left.math.startswith((r"\sum_", r"\prod_")):
        return True
    return left.strong and (right.strong or right.kind == "function")


def _tight(tokens: list[_Token], at: int, inside: bool | int) -> bool:
    """Whether a comma belongs to a formula: between two entries of a tuple."""
    return bool(inside) or (at + 1 < len(tokens) and bool(tokens[at + 1].math))


def _applied(part: list[_Token]) -> bool:
    """A function of a number, such as ln 6."""
    return len(part) > 1 and part[0].kind == "function" and part[-1].kind == "number"


def _balanced(part: list[_Token]) -> bool:
    depth = {"(": 0, "[": 0, "⟨": 0}
    pairs = {")": "(", "]": "[", "⟩": "⟨"}
    for token in part:
        sign = token.text[:1] if token.kind == "bracket" else ""
        if sign in depth:
            depth[sign] += 1
        elif sign in pairs:
            depth[pairs[sign]] -= 1
            if depth[pairs[sign]] < 0:
                return False
    bars = (sum(token.text.startswith(bar) for token in part if token.kind == "bracket") for bar in "‖|")
    return not any(depth.values()) and all(count % 2 == 0 for count in bars)


def _joined(part: list[_Token]) -> str:
    """Tokens as mathematics; a space that was written between two factors is a thin one."""
    out = ""
    for place, token in enumerate(part):
        if token.kind == "space":
            beside = {part[place - 1].kind, part[place + 1].kind if place + 1 < len(part) else ""}
            out += " " if beside & {"sign", "function"} else r"\, "
        else:
            out += token.math + (" " if re.search(r"\\[A-Za-z]+$", token.math) else "")
    return unicodedata.normalize("NFC", re.sub(r" {2,}", " ", out)).strip()
