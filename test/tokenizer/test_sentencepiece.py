"""SentencePiece models: ids and texts are those of the sentencepiece library."""

import functools
import json
import random

import pytest
import sentencepiece
from _spm_models import TRAINED, USER, VARIANTS, train

import strings
from clave import Tokenizer

N = 2000


@functools.cache
def model(name):
    if name in TRAINED:
        return train(name)
    base, change = VARIANTS[name]
    return change(model(base))


def expect_equal(ours, library, texts, seed=1):
    r = random.Random(seed)
    for i, text in enumerate(texts):
        want = library.encode(text)
        assert ours.encode(text) == want, repr(text)
        random_ids = [r.randrange(library.vocab_size()) for _ in range(i % 12)]
        for ids in (want, random_ids):
            assert ours.decode(ids) == library.decode(ids), ids
        if i % 10 == 0:
            assert "".join(ours.stream(random_ids)) == library.decode(random_ids), random_ids


@pytest.mark.parametrize("name", [*TRAINED, *VARIANTS])
def test_equals_the_library(name):
    library = sentencepiece.SentencePieceProcessor(model_proto=model(name))
    ours = Tokenizer(model(name))
    ends = [i if i >= 0 else None for i in (library.bos_id(), library.eos_id())]
    assert (ours.n_ids, [ours.bos, ours.eos]) == (library.vocab_size(), ends)
    expect_equal(ours, library, strings.strings(N, seed=len(name), extra=[*USER, "<ctl>", "q", "|", "@"]))


def test_frame():
    library = sentencepiece.SentencePieceProcessor(model_proto=model("unigram_bytes"))
    ours = Tokenizer(model("unigram_bytes"))
    assert ours.encode("a b", bos=True, eos=True) == library.encode("a b", add_bos=True, add_eos=True)
    assert Tokenizer(model("unigram_user")).encode("", bos=True, eos=True) == [2]  # there is no BOS


def test_special_tokens_are_texts_end():
    """Special tokens are matched on request; the texts between them are encoded separately."""
    library = sentencepiece.SentencePieceProcessor(model_proto=model("bpe"))
    ours = Tokenizer(model("bpe"))
    want = [1, *library.encode("to be"), 2, *library.encode(" or")]
    assert ours.encode("<s>to be</s> or", special="match") == want
    assert ours.decode(want, skip_special=True) == library.decode(want)


def test_bytes_are_repaired():
    ours = Tokenizer(model("bpe_bytes"))
    assert ours.encode(b"a\xff\xe2\x82b") == ours.encode("a\ufffd\ufffdb")


def test_long_texts():
    """Scores are summed over a whole text: rounding them to floats would decide near ties."""
    text = "\n".join(s for s in strings.strings(8000, seed=4) if len(s) < 1000) * 2
    for name in ("unigram", "unigram_close_scores", "unigram_positive", "bpe", "bpe_bytes"):
        library = sentencepiece.SentencePieceProcessor(model_proto=model(name))
        assert Tokenizer(model(name)).encode(text) == library.encode(text), name


@pytest.mark.parametrize("path", ["tokenizers/llama2/tokenizer.model", "stories260K/tok512.model"])
def test_published_models(path, test_data):
    library = sentencepiece.SentencePieceProcessor(model_file=str(test_data / path))
    ours = Tokenizer(test_data / path)
    expect_equal(ours, library, strings.strings(N, seed=3))
    text = (test_data / "text/tinyshakespeare.txt").read_text()
    expect_equal(ours, library, [text[:300000]])


def test_vectors_of_llama2(test_data):
    ours = Tokenizer(test_data / "tokenizers/llama2/tokenizer.model")
    lines = (test_data / "tokenizers/llama2/hf46_llama-spm.jsonl").read_text().splitlines()
    for row in map(json.loads, lines):
        assert ours.encode(row["text"]) == row["ids"], row["text"]
    assert len(lines) == 46


@pytest.mark.parametrize("name", ["bpe", "bpe_bytes", "unigram", "unigram_bytes", "char"])
def test_long_words(name):
    """100,000 characters without a space take linear time or nearly so."""
    library = sentencepiece.SentencePieceProcessor(model_proto=model(name))
    for text in ("a" * 100000, "the" * 33333, "ñ中" * 50000):
        assert Tokenizer(model(name)).encode(text) == library.encode(text)
