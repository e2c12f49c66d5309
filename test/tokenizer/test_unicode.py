"""Compares every character in the normalizers and in the character classes of splitters with the libraries.

Theirs and ours have different versions of Unicode: tokenizers has 9 in its normal forms, 8 in its categories, 16 in
patterns and lower case; ours has 14, from PCRE2 and utf8proc. The exceptions are printed (pytest -s), and their number
may not grow. They were examined: all were added after Unicode 8, except U+166D and U+111C9, which changed category.
"""

import pytest
from _trained import charsmap
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Reference

from clave import Tokenizer

N, P = normalizers, pre_tokenizers
CHARACTERS = [chr(c) for c in [*range(0xD800), *range(0xE000, 0x30000), *range(0xE0000, 0xE0200)]]
CHUNK = 512


def ranges(characters):
    out = []
    for c in sorted(map(ord, characters)):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return " ".join(f"{a:04X}" if a == b else f"{a:04X}-{b:04X}" for a, b in out)


def check(name, differ, limit):
    """differ(text): True if ours differs from the library; called for chunks, then for each character of a chunk."""
    found = []
    for i in range(0, len(CHARACTERS), CHUNK):
        chunk = CHARACTERS[i : i + CHUNK]
        if differ("a".join(chunk)):
            found += [c for c in chunk if differ(f"a{c}a")]
    print(f"\n{name}: {len(found)} exceptions: {ranges(found)}")
    assert len(found) <= limit, ranges(found)
    assert not [c for c in found if c < "\u0363"]


def bytes_of(normalizer):
    """Returns a tokenizer whose ids are the bytes of the normalized text."""
    t = Reference(models.BPE({c: i for i, c in enumerate(sorted(P.ByteLevel.alphabet()))}, []))
    t.normalizer = normalizer
    t.pre_tokenizer, t.decoder = P.ByteLevel(add_prefix_space=False, use_regex=False), decoders.ByteLevel()
    return Tokenizer(t.to_str().encode())


NORMALIZERS = {  # and the number of exceptions
    "nfc": (N.NFC(), 0),
    "nfd": (N.NFD(), 1),
    "nfkc": (N.NFKC(), 134),
    "nfkd": (N.NFKD(), 135),
    "lowercase": (N.Lowercase(), 55),
    "strip_accents": (N.StripAccents(), 357),
    "bert": (N.BertNormalizer(), 496),
    "nmt": (N.Nmt(), 0),
    "strip": (N.Strip(), 0),
}


@pytest.mark.parametrize("name", NORMALIZERS)
def test_normalizer(name):
    reference, limit = NORMALIZERS[name]
    ours = bytes_of(reference)
    check(name, lambda text: ours.decode(ours.encode(text)) != reference.normalize_str(text), limit)


@pytest.mark.parametrize("model", ["unigram_nfkc", "unigram_bytes"])
def test_precompiled(model):
    reference = N.Precompiled(charsmap(model))
    ours = bytes_of(reference)
    check(model, lambda text: ours.decode(ours.encode(text)) != reference.normalize_str(text), 0)


SPLITTERS = {
    "punctuation": (P.Punctuation(), 129),
    "digits": (P.Digits(False), 93),
    "whitespace": (P.Whitespace(), 5273),
    "whitespace_split": (P.WhitespaceSplit(), 0),
    **{
        f"pattern {p}": (P.Split(Regex(p), "isolated"), n)
        for p, n in {
            r"\p{L}+": 5080,
            r"\p{N}+": 120,
            r"\p{M}+": 93,
            r"\w+": 5273,
            r"\s+": 0,
            r"\d+": 100,
            r"[\p{Lu}\p{Lt}]+": 27,
            r"[[:punct:]]+": 809,
            r"\p{Han}+": 623,
            r"(?i:[sdmt]|ll|ve|re)": 0,
        }.items()
    },
}


@pytest.mark.parametrize("name", SPLITTERS)
def test_splitter(name):
    """Ids show pieces: the first character of a piece has its own prefix."""
    reference, limit = SPLITTERS[name]
    alphabet = sorted(P.ByteLevel.alphabet())
    pieces = models.BPE(
        {c: i for i, c in enumerate([*(f"##{c}" for c in alphabet), *alphabet])}, [], continuing_subword_prefix="##"
    )
    t = Reference(pieces)
    t.pre_tokenizer = P.Sequence([reference, P.ByteLevel(add_prefix_space=False, use_regex=False)])
    ours = Tokenizer(t.to_str().encode())
    check(name, lambda text: ours.encode(text) != t.encode(text).ids, limit)
