"""Messages say first what was expected, then what was found: `expected ..., got ...`."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = (
    *("api", "backend", "base", "bench", "cli", "compile", "delegate", "examples", "interp", "jinja", "json"),
    *("llm", "ops", "packaging", "python/clave", "serialize", "tokenizer"),
)
LITERALS = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*f?"(?:[^"\\\n]|\\.)*")*')
VALUE = r"(?:'?%[-+0-9.*]*(?:hh|h|ll|l|z|j|t)?[a-zA-Z]'?|'?\{[^{}]*\}'?|\\\"%[^\"]*\\\")"
WRONG_ORDERS = {
    "got before expected": re.compile(r"\bgot\b[^;]*\bexpected\b"),
    "a value before expected": re.compile(r", expected "),
    "a value, not another": re.compile(
        rf"\b(?:it )?(?:is|has|are)(?: an?| rank| of dtype)* {VALUE}[^;:]*, not {VALUE}"
    ),
    "a value, not what was expected": re.compile(rf"\b[A-Za-z_]+ is {VALUE}, not (?:an? |[a-z]+ or |in \[|between )"),
    "a number, not another": re.compile(rf"^\"(?:rank|kind|format|size|dtype) {VALUE}, not "),
    "not one, but another": re.compile(rf"\bnot {VALUE},? but {VALUE}"),
    "should be": re.compile(rf"\bis {VALUE}, (?:but )?(?:should|must) be\b"),
}
# Messages that do not compare a value with an expected one.
OTHERS = (
    "weights are packed for",  # two devices in one note
    "a number is required",  # Python's own words, which templates see
)


def messages():
    """Yields (file:line, text) of each literal that contains a value."""
    for room in ROOMS:
        for path in sorted((ROOT / room).glob("**/*")):
            if path.suffix not in (".c", ".cc", ".h", ".py") or "_generated" in path.parts:
                continue
            text = re.sub(r'"\s*PRI\w+\s*"', "d", path.read_text())
            for m in LITERALS.finditer(text):
                joined = re.sub(r'"\s*f?"', "", m[0])
                if len(joined) > 12:
                    yield f"{path.relative_to(ROOT)}:{text[: m.start()].count(chr(10)) + 1}", joined


def wrong_order(text):
    if any(other in text for other in OTHERS):
        return None
    if "expected once" in text:  # passed both by position and by name
        text = ""
    return next((name for name, pattern in WRONG_ORDERS.items() if pattern.search(text)), None)


def test_messages_say_what_was_expected_first():
    found = [f"{place}: {order}: {text}" for place, text in messages() if (order := wrong_order(text))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        '"it is %s %s, not %s %s"',
        '"state %u has %zu bytes, not %zu"',
        "\"CLAVE_ASM is '%s', not a set\"",
        'f"got {x}, expected {y}"',
        '"rank %d, expected %d"',
        '", expected "',
        'f"seed is {seed}, not in [0, 2)"',
        'f"n is {n}, should be {m}"',
    ],
)
def test_other_orders_are_found(text):
    assert wrong_order(text)
    assert not wrong_order('"expected %s %s, got %s %s"')
