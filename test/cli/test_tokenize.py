"""clave tokenize: lines of JSON in and out."""

import base64
import json

import pytest

TEXTS = ["Once upon a time", "", '  "two"\\  spaces\n', "naïve 日本 😀", "a\0b\x1f\x7f"]


@pytest.fixture
def ranks(tool):
    """Writes a tokenizer of all bytes; "th" is 256."""
    lines = [base64.b64encode(t).decode() + f" {i}\n" for i, t in enumerate([*(bytes([b]) for b in range(256)), b"th"])]
    (tool.folder / "ranks.tiktoken").write_text("".join(lines))
    return ["--tokenizer", "ranks.tiktoken"]


def lines(values):
    return "".join(json.dumps(v) + "\n" for v in values)


def test_both_ways(tool, ranks):
    out = tool.good("tokenize", *ranks, "--encode", stdin=None, input=lines(TEXTS))
    ids = [json.loads(x) for x in out.splitlines()]
    assert ids == [list(t.encode()) for t in TEXTS]
    out = tool.good("tokenize", *ranks, "--decode", stdin=None, input=lines(ids))
    assert [json.loads(x) for x in out.splitlines()] == TEXTS
    assert tool.good("tokenize", *ranks, "--encode", stdin=None, input="") == ""
    assert tool.good("tokenize", *ranks, "--encode", stdin=None, input=' "the" \r\n"\\u00e9\\ud83d\\ude00"') == (
        "[256, 101]\n[195, 169, 240, 159, 152, 128]\n"
    )


def test_special_and_frame(tool, ranks):
    text = lines(["<|begin_of_text|>"])
    plain = json.loads(tool.good("tokenize", *ranks, "--encode", "--pattern", "llama3", stdin=None, input=text))
    assert len(plain) == len("<|begin_of_text|>")
    flags = ["--encode", "--pattern", "llama3", "--special", "--bos", "--eos"]
    ids = tool.good("tokenize", *ranks, *flags, stdin=None, input=text)
    assert ids == "[257, 257, 258]\n"
    back = tool.good("tokenize", *ranks, "--pattern", "llama3", "--decode", stdin=None, input=ids)
    assert json.loads(back) == "<|begin_of_text|><|begin_of_text|><|end_of_text|>"
    back = tool.good("tokenize", *ranks, "--pattern", "llama3", "--decode", "--skip-special", stdin=None, input=ids)
    assert json.loads(back) == ""


@pytest.mark.parametrize(
    "direction, line, expected",
    [
        ("--encode", "hello", "expected a string"),
        ("--encode", "", "expected a string"),
        ("--encode", '"a', "closing quote"),
        ("--encode", '"a" b', "after the value"),
        ("--encode", '"\\x"', "escape"),
        ("--encode", '"\\ud800"', "surrogate"),
        ("--encode", '"\t"', "control character"),
        ("--encode", "[1]", "expected a string"),
        ("--decode", '"a"', "array of integers"),
        ("--decode", '["1"]', "from 0 to 4294967295"),
        ("--decode", "[1", "]"),
        ("--decode", "[1 2]", "]"),
        ("--decode", "[-1]", "column 2: expected an integer from 0 to 4294967295"),
        ("--decode", "[1.5]", "]"),
        ("--decode", "[01]", "from 0 to 4294967295"),
        ("--decode", "[1] 2", "after the value"),
        ("--decode", "[4294967296]", "from 0 to 4294967295"),
        ("--decode", "[99999999999]", "from 0 to 4294967295"),
        ("--decode", "[1,]", "expected an integer"),
        ("--decode", "[7, 999]", "id 999"),
    ],
)
def test_bad_lines(tool, ranks, direction, line, expected):
    good = '"a"' if direction == "--encode" else "[97]"
    error = tool.bad(1, "tokenize", *ranks, direction, stdin=None, input=f"{good}\n{line}\n{good}\n")
    assert "line 2" in error and expected in error


def test_flags(tool, ranks):
    assert "--tokenizer" in tool.bad(2, "tokenize", "--encode")
    assert "--decode" in tool.bad(2, "tokenize", *ranks)
    assert "--decode" in tool.bad(2, "tokenize", *ranks, "--encode", "--decode")
    assert "--bos" in tool.bad(2, "tokenize", *ranks, "--decode", "--bos")
    assert "none.json" in tool.bad(1, "tokenize", "--tokenizer", "none.json", "--encode")
    assert "o200k" in tool.bad(1, "tokenize", *ranks, "--pattern", "x", "--encode")
    assert "tokenize" in tool.good("tokenize", "--help")
    (tool.folder / "bad.json").write_text('{"model": 5}')
    assert '"model"' in tool.bad(1, "tokenize", "--tokenizer", "bad.json", "--encode")


def test_a_program_carries_its_tokenizer(tool, root):
    tinylm = root / "examples/tinylm"
    text = lines(["To be, or not", "<|begin_of_text|>"])
    out = tool.good("tokenize", "--tokenizer", tinylm / "tinylm.clv", "--encode", stdin=None, input=text)
    ids = [json.loads(x) for x in out.splitlines()]
    back = tool.good("tokenize", "--tokenizer", tinylm / "tinylm.clv", "--decode", stdin=None, input=lines(ids))
    assert back == text and len(ids[1]) == 1
    mnist = ["--tokenizer", root / "examples/mnist/mnist.clv"]
    assert tool.bad(1, "tokenize", *mnist, "--encode").endswith("mnist.clv: the program contains no tokenizer")
    assert "--pattern applies to rank files" in tool.bad(2, "tokenize", *mnist, "--encode", "--pattern", "gpt2")
