"""Vocabularies of GGUF files against llama.cpp. Where its ids differ from those of the vocabulary's own library, ours
are the library's (test_gguf_tokenizer.py), and such texts are omitted here. llama.cpp has no NFC for qwen2, its pattern
for gpt-4o and tekken knows only ASCII case, and a text can spell the unknown token. Its \\s for deepseek-coder lacks
Unicode's spaces."""

import functools
import re
import unicodedata

import pytest

pytest.importorskip("llama_cpp", reason="no llama_cpp (ci/venv llama builds it)")

import llama_peer
import sentencepiece
from _spm_models import train
from test_gguf_tokenizer import LIBRARIES, TEXTS, bpe_file, spm_file, tokenizer_of

SAME = {name: functools.partial(unicodedata.is_normalized, "NFC") for name in ("qwen2", "qwen35")}
SAME |= {"gpt-4o": str.isascii, "tekken": str.isascii}
SAME["deepseek-coder"] = lambda t: not re.search(r"[^\S \t\r\n]", t)


def check(path, texts):
    ours = tokenizer_of(path)
    assert len(texts) > 50
    for text, ids in zip(texts, llama_peer.ids_of(path, texts), strict=True):
        assert ours.encode(text, special="match") == ids, text


@pytest.mark.parametrize("name", LIBRARIES)
def test_bpe(name, tmp_path):
    library, texts = LIBRARIES[name](), [t for t in TEXTS if SAME.get(name, bool)(t)]
    check(bpe_file(tmp_path / "v.gguf", library, pre=name), texts)


def test_sentencepiece(tmp_path):
    library = sentencepiece.SentencePieceProcessor(model_proto=train("bpe_bytes"))
    texts = [t for t in TEXTS if "<unk>" not in t]
    check(spm_file(tmp_path / "v.gguf", library), texts)
