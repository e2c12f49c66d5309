"""tiktoken rank files against the tiktoken library: the published cl100k ranks, and small ones made here."""

import base64

import pytest
import tiktoken
from _compare import same
from _trained import trained
from tiktoken.load import load_tiktoken_bpe

from clave import Error, Tokenizer
from strings import strings

PATTERNS = {  # tiktoken_ext.openai_public, and Meta's llama3
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
}
SPECIAL = {
    "gpt2": {"<|endoftext|>": 50256},
    "cl100k": {
        "<|endoftext|>": 100257,
        "<|fim_prefix|>": 100258,
        "<|fim_middle|>": 100259,
        "<|fim_suffix|>": 100260,
        "<|endofprompt|>": 100276,
    },
    "o200k": {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
}


def llama3_special(n_ranks):
    """Returns the special tokens of Meta's code for Llama 3.1 and later."""
    names = "begin_of_text end_of_text reserved_special_token_0 reserved_special_token_1 finetune_right_pad_id step_id"
    names = f"{names} start_header_id end_header_id eom_id eot_id python_tag".split()
    names += [f"reserved_special_token_{2 + i}" for i in range(256 - len(names))]
    return {f"<|{name}|>": n_ranks + i for i, name in enumerate(names)}


def write(ranks):
    return b"".join(base64.b64encode(t) + b" %d\n" % r for t, r in sorted(ranks.items(), key=lambda x: x[1]))


def small_ranks():
    """Returns bytes, then the merges that a small byte-level tokenizer learnt, in its order."""
    tokenizer = trained("o200k")
    vocab = sorted(tokenizer.get_vocab(with_added_tokens=False).items(), key=lambda x: x[1])
    letters = {c: i for i, c in enumerate(tiktoken_alphabet())}
    ranks = {bytes([b]): b for b in range(256)}
    for token, _ in vocab:
        if all(c in letters for c in token):
            ranks.setdefault(bytes(letters[c] for c in token), len(ranks))
    return ranks


def tiktoken_alphabet():
    """Returns GPT-2's character of each byte."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    rest = iter(range(256, 512))
    return [chr(b if b in plain else next(rest)) for b in range(256)]


def compare(ranks, name, texts, file=None):
    special = llama3_special(len(ranks)) if name == "llama3" else SPECIAL[name]
    special = {k: v for k, v in special.items() if v not in set(ranks.values())}
    library = tiktoken.Encoding(name, pat_str=PATTERNS[name], mergeable_ranks=ranks, special_tokens=special)
    ours = Tokenizer(file or write(ranks), name)
    texts = [*texts, *special, *(f"a{s} {s}\n" for s in list(special)[:30])]

    def decode(ids, skip):
        return library.decode([i for i in ids if not (skip and i in special.values())])

    same(ours, texts, library.encode_ordinary, decode)
    same(ours, texts, lambda t: library.encode(t, allowed_special="all"), decode, special="match")
    assert ours.format == f"tiktoken {name}"
    assert ours.n_ids == max([*special.values(), *ranks.values()]) + 1
    return ours, special


@pytest.mark.parametrize("name", PATTERNS)
def test_small_ranks(name):
    ours, special = compare(small_ranks(), name, strings(2000, seed=11))
    eos = "<|end_of_text|>" if name == "llama3" else "<|endoftext|>"
    assert ours.eos == special[eos] and ours.find(eos) == special[eos]
    bos = [special["<|begin_of_text|>"]] if name == "llama3" else []
    assert ours.encode("a", bos=True, eos=True) == [*bos, 97, special[eos]]
    assert ours.encode(eos, special="text") != [special[eos]] == ours.encode(eos, special="match")


@pytest.mark.parametrize("name", PATTERNS)
def test_published_ranks(test_data, name):
    path = test_data / "tokenizers/cl100k/cl100k_base.tiktoken"
    compare(load_tiktoken_bpe(str(path)), name, strings(1000, seed=12), path)


def test_default_is_cl100k():
    assert Tokenizer(write(small_ranks())).format == "tiktoken cl100k"


RANKS = {bytes([b]): b for b in range(256)}


@pytest.mark.parametrize(
    "data, expected",
    [
        (write(RANKS) + b"YWI= 5\n", "line 257"),
        (write(RANKS) + b"YQ== 256\n", "line 257"),
        (write(RANKS) + b"YWI=\n", "line 257"),
        (write(RANKS) + b"YWI= x\n", "line 257"),
        (write(RANKS) + b"YWI= 99999999999\n", "line 257"),
        (write(RANKS) + b"YWI= 500000000\n", "line 257"),
        (write(RANKS) + b"!!!! 256\n", "line 257"),
        (write(RANKS)[:-300], "line|0x"),
        (write({k: v for k, v in RANKS.items() if v != 200}), "0xc8"),
    ],
)
def test_refused(data, expected):
    with pytest.raises(Error, match=expected):
        Tokenizer(data)


def test_unknown_pattern():
    with pytest.raises(Error, match="p50k"):
        Tokenizer(write(RANKS), "p50k")


def test_windows_lines():
    ours = Tokenizer(write(RANKS).replace(b"\n", b"\r\n") + b"\r\n"[:0])
    assert ours.encode("é") == [0xC3, 0xA9]


def test_stream_gives_whole_characters():
    ours = Tokenizer(write(RANKS))
    assert list(ours.stream(list("aé😀".encode()))) == ["a", "", "é", "", "", "", "😀", ""]
    assert list(ours.stream(list(b"\xf0\x9fz\xc3"))) == ["", "", "\ufffdz", "", "\ufffd"]


def test_ids_that_are_not_there():
    ours = Tokenizer(write(RANKS))
    with pytest.raises(Error, match=r"id 300 .*id 2 of 2"):
        ours.decode([5, 300])


@pytest.mark.parametrize("name", PATTERNS)
def test_runs_of_two_million(name):
    """A pattern backtracks over a whole run once."""
    ours = Tokenizer(write(RANKS), name)
    for c in "Aa 1":
        assert len(ours.encode(c * 2_000_000)) == 2_000_000
