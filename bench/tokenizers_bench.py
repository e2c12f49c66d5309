"""Compares encoding by clave's tokenizers with the formats' own libraries, alternating, with one thread each."""

import ctypes as C
import io
import itertools
import os
import pathlib
import statistics
import sys
import time
from functools import partial

from process import times_in_turns

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(os.environ.get("CLAVE_TEST_DATA") or ROOT / "examples/data").resolve()
sys.path.insert(0, str(ROOT / "test/tokenizer"))
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("RAYON_NUM_THREADS", "1")


LINES = 40  # lines per document; the libraries are slower on a text of 1 MB


def texts():
    """Returns English text and a mix of all scripts, about 1 MB each, split into documents."""
    import strings

    mix = "\n".join(s for s in strings.strings(20000, seed=9) if len(s) < 1000)
    whole = {"English": (DATA / "text/tinyshakespeare.txt").read_text(), "mixed scripts": mix[:600000]}
    for kind, text in whole.items():
        lines = text.split("\n")
        yield kind, ["\n".join(lines[i : i + LINES]) for i in range(0, len(lines), LINES)]


def unigram_model():
    import sentencepiece

    out, lines = io.BytesIO(), (DATA / "text/tinyshakespeare.txt").read_text().splitlines()
    options = {"vocab_size": 8000, "model_type": "unigram", "byte_fallback": True, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, **options)
    return out.getvalue()


def sentencepiece_pairs():
    import sentencepiece

    for name, source in (
        ("SentencePiece BPE (Llama 2)", (DATA / "tokenizers/llama2/tokenizer.model").read_bytes()),
        ("SentencePiece Unigram, 8,000", unigram_model()),
    ):
        yield name, source, "sentencepiece", sentencepiece.SentencePieceProcessor(model_proto=source).encode


def tiktoken_pairs():
    import tiktoken
    import tiktoken.load

    file = DATA / "tokenizers/cl100k/cl100k_base.tiktoken"
    pattern = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    pattern += r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ranks = tiktoken.load.load_tiktoken_bpe(str(file))
    library = tiktoken.Encoding("cl100k", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    yield "tiktoken (cl100k)", file.read_bytes(), "tiktoken", library.encode_ordinary


def byte_level():
    """Returns GPT-2's tokenizer, as a tokenizer.json."""
    import tokenizers as hf

    folder = DATA / "tokenizers/gpt2"
    out = hf.Tokenizer(hf.models.BPE.from_file(str(folder / "encoder.json"), str(folder / "vocab.bpe")))
    out.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False)
    out.decoder = hf.decoders.ByteLevel()
    return out


def word_pieces():
    """Returns a tokenizer like BERT's, trained on the text."""
    import tokenizers as hf

    out = hf.Tokenizer(hf.models.WordPiece(unk_token="[UNK]"))
    out.normalizer, out.pre_tokenizer = hf.normalizers.BertNormalizer(), hf.pre_tokenizers.BertPreTokenizer()
    trainer = hf.trainers.WordPieceTrainer(vocab_size=8000, special_tokens=["[UNK]"], show_progress=False)
    out.train([str(DATA / "text/tinyshakespeare.txt")], trainer)
    return out


def tokenizers_pairs():
    import tokenizers as hf

    llama = hf.Tokenizer.from_file(str(DATA / "tokenizers/llama2/tokenizer.json"))
    llama.post_processor = hf.processors.Sequence([])
    for name, library in (
        ("tokenizer.json, byte-level BPE (GPT-2)", byte_level()),
        ("tokenizer.json, BPE (Llama 2)", llama),
        ("tokenizer.json, WordPiece, 8,000", word_pieces()),
    ):
        ids = lambda text, library=library: library.encode(text, add_special_tokens=False).ids
        yield name, library.to_str().encode(), "tokenizers", ids


def encode_all(encode, documents):
    for text in documents:
        encode(text)


def encode_only(tokenizer, text):
    """Encodes without converting the ids to a list."""
    from clave import _library as L

    data, ids = text.encode(), L.Ids()
    L.call("clave_tokenizer_encode", tokenizer._handle.pointer, data, len(data), None, C.byref(ids))
    L.library().clave_ids_free(C.byref(ids))


def bench_tokenizers(args):
    from clave import Tokenizer

    if not (DATA / "tokenizers").is_dir():
        return ["Not measured: CLAVE_TEST_DATA names no folder with tokenizers/."]
    rows = []
    for name, source, library, theirs in itertools.chain(sentencepiece_pairs(), tiktoken_pairs(), tokenizers_pairs()):
        ours = Tokenizer(source)
        encode = partial(encode_only, ours)
        for kind, documents in texts():
            assert all(ours.encode(text) == list(theirs(text)) for text in documents), (name, kind)
            calls = [partial(encode_all, f, documents) for f in (encode, theirs)]
            times = times_in_turns(calls, args.rounds, time.perf_counter)
            size = sum(len(text.encode()) for text in documents) / 1e6
            a, b = (size / statistics.median(t) for t in times)
            rows.append(f"| {name} | {kind} | {a:.1f} | {b:.1f} ({library}) | {a / b:.1f} |")
    head = "| text to ids | text | clave, MB/s | the library, MB/s | ratio |"
    return [head, "|---|---|---|---|---|", *rows]
