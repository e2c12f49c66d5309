"""Text to ids: clave's tokenizers against the libraries the formats come from, turn by turn, one thread each."""

import io
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(os.environ.get("CLAVE_TEST_DATA") or ROOT / "../shared/data").resolve()
sys.path.insert(0, str(ROOT / "test/llm"))


def texts():
    """English, and a mix of all scripts: about 1 MB each."""
    import strings

    mix = "\n".join(s for s in strings.strings(20000, seed=9) if len(s) < 1000)
    return {"English": (DATA / "text/tinyshakespeare.txt").read_text(), "mixed scripts": mix[:600000]}


def unigram_model():
    import sentencepiece

    out, lines = io.BytesIO(), (DATA / "text/tinyshakespeare.txt").read_text().splitlines()
    options = {"vocab_size": 8000, "model_type": "unigram", "byte_fallback": True, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, **options)
    return out.getvalue()


def pairs():
    """What is compared: name, the file for clave, the library's name, its text -> ids."""
    import sentencepiece
    import tiktoken
    import tiktoken.load

    llama = DATA / "tokenizers/llama2/tokenizer.model"
    library = sentencepiece.SentencePieceProcessor(model_file=str(llama))
    yield "SentencePiece BPE (Llama 2)", llama, "sentencepiece", library.encode
    unigram = unigram_model()
    library = sentencepiece.SentencePieceProcessor(model_proto=unigram)
    yield "SentencePiece Unigram, 8,000", unigram, "sentencepiece", library.encode
    ranks = DATA / "tokenizers/cl100k/cl100k_base.tiktoken"
    pattern = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    pattern += r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    library = tiktoken.Encoding(
        "cl100k", pat_str=pattern, mergeable_ranks=tiktoken.load.load_tiktoken_bpe(str(ranks)), special_tokens={}
    )
    yield "tiktoken (cl100k)", ranks, "tiktoken", library.encode_ordinary


def seconds(encode, text):
    begin = time.perf_counter()
    encode(text)
    return time.perf_counter() - begin


def bench_tokenizers(args):
    from _tokenizer import Tokenizer

    if not DATA.is_dir():
        return [f"Not measured: no {DATA}."]
    rows = []
    for name, source, library, theirs in pairs():
        ours = Tokenizer(source)
        for kind, text in texts().items():
            assert ours.encode(text) == list(theirs(text)), (name, kind)
            times = [(seconds(ours.encode_only, text), seconds(theirs, text)) for _ in range(args.rounds)]
            size = len(text.encode()) / 1e6
            a, b = (size / statistics.median(t) for t in zip(*times, strict=True))
            rows.append(f"| {name} | {kind} | {a:.1f} | {b:.1f} ({library}) | {a / b:.1f} |")
    head = "| text to ids | text | clave, MB/s | the library, MB/s | ratio |"
    return [head, "|---|---|---|---|---|", *rows]
