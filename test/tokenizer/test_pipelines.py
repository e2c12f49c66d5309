"""Random sequences of normalizers, pre-tokenizers and added tokens, against the tokenizers library."""

import random

import pytest
from _trained import charsmap
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Reference

from clave import Tokenizer
from strings import strings

N, P = normalizers, pre_tokenizers
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
TOKENS = ["<s>", "New York", "<mask>"]
# Characters newer than the library's Unicode (test_unicode.py), in scripts and as letters.
NEW = {"\U0001f9d1", "\u312f", *map(chr, range(0x363, 0x370))}
TEXTS = [
    t
    for t in strings(1500, seed=21, extra=[*TOKENS, " <s> x", "a<s>", "<s>a", "in New York"])
    if len(t) < 300 and not NEW.intersection(t)
]


def normalizer(r):
    return r.choice(
        [
            N.NFC,
            N.NFD,
            N.NFKC,
            N.Lowercase,
            N.Nmt,
            N.StripAccents,
            N.BertNormalizer,
            lambda: N.Strip(r.random() < 0.5, r.random() < 0.5),
            lambda: N.Replace(r.choice([" ", "a", "<", "e"]), r.choice(["▁", "", "xy"])),
            lambda: N.Replace(Regex(r.choice([r"\s+", r" {2,}", r"[aeiou]", r"^\s+"])), r.choice(["▁", "", " "])),
            lambda: N.Prepend(r.choice(["▁", " ", "x"])),
            lambda: N.Precompiled(charsmap("unigram_nfkc")),
        ]
    )()


def splitter(r):
    behavior, invert = r.choice(BEHAVIORS), r.random() < 0.3
    return r.choice(
        [
            P.Whitespace,
            P.WhitespaceSplit,
            P.BertPreTokenizer,
            P.UnicodeScripts,
            lambda: P.ByteLevel(r.random() < 0.5, use_regex=r.random() < 0.5),
            lambda: P.Metaspace(prepend_scheme=r.choice(["always", "never"]), split=r.random() < 0.7),
            lambda: P.Split(Regex(r.choice([r"\p{N}{1,3}", r"\s+", r"\w+|[^\w\s]+", r"\p{L}+"])), behavior, invert),
            lambda: P.Split(r.choice([" ", "a", "th"]), behavior, invert),
            lambda: P.Digits(r.random() < 0.5),
            lambda: P.Punctuation(behavior),
            lambda: P.CharDelimiterSplit(r.choice("e a▁")),
            lambda: P.FixedLength(r.randint(1, 5)),
        ]
    )()


def characters(reference, texts):
    """Returns all characters that occur in pieces."""
    found = set()
    for text in texts:
        if reference.normalizer:
            text = reference.normalizer.normalize_str(text)
        found.update(text)
        if reference.pre_tokenizer:
            found.update(c for piece, _ in reference.pre_tokenizer.pre_tokenize_str(text) for c in piece)
    return sorted(found - {"\0"})


@pytest.mark.parametrize("seed", range(60))
def test_pipeline(seed):
    r = random.Random(seed)
    reference = Reference(models.BPE())
    reference.normalizer = N.Sequence([normalizer(r) for _ in range(r.choice([0, 1, 1, 2, 3]))])
    reference.pre_tokenizer = P.Sequence([splitter(r) for _ in range(r.choice([0, 1, 1, 2, 3]))])
    texts = r.sample(TEXTS, 100)
    letters = characters(reference, [*texts, *TOKENS])
    vocab = {c: i for i, c in enumerate([*letters, *(f"##{c}" for c in letters)])}  # shows where pieces begin
    reference.model = models.BPE(vocab, [], continuing_subword_prefix="##")
    for token in TOKENS:
        flags = {k: r.random() < 0.3 for k in ("lstrip", "rstrip", "single_word", "normalized", "special")}
        reference.add_tokens([AddedToken(token, **flags)])
    data = reference.to_str()
    reference = Reference.from_str(data)
    ours = Tokenizer(data.encode())
    for text in texts:
        ids = reference.encode(text, add_special_tokens=False).ids
        assert ours.encode(text) == ids, (ascii(text), data[:3000])
        assert ours.decode(ids) == reference.decode(ids, skip_special_tokens=False)
