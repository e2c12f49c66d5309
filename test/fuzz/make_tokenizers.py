"""Writes the committed corpora of fuzz_tokenizer_json and fuzz_tiktoken: a small file for each part. Run by hand."""

import base64
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent / "corpus"
LETTERS = " abcdefghilnorstuvxyABIT.,'<>|0123456789é▁ĠÃ©Ċ"
BPE = {"type": "BPE", "vocab": {c: i for i, c in enumerate(LETTERS)}, "merges": []}
SPECIAL = [{"id": 99, "content": "<s>", "special": True}, {"id": 98, "content": "the", "lstrip": True, "rstrip": True}]
GPT2 = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


def bpe(merges, extra=(), **options):
    vocab = dict(BPE["vocab"])
    for piece in [*(m.replace(" ", "") for m in merges), *extra]:
        vocab.setdefault(piece, len(vocab))
    return {"type": "BPE", "vocab": vocab, "merges": merges, **options}


def split(pattern, behavior="Isolated", **options):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False, **options}


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


SPACE = replace({"String": " "}, "▁")
UNSPACE = replace({"String": "▁"}, " ")
UNIGRAM = {
    "type": "Unigram",
    "unk_id": 0,
    "vocab": [["<unk>", 0.0], ["▁", -1.5], ["a", -2.0], ["ab", -2.5], ["e", -3.0]],
}
WORDPIECE = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 9,
    "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4, "the": 5, "##a": 6},
}
TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
}
BERT = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
FILES = {
    "gpt2": {"model": bpe(["t h", "Ġ th", "a b"]), "pre_tokenizer": GPT2, "decoder": {"type": "ByteLevel"}},
    "llama3": {
        "model": bpe(["a b"], ignore_merges=True),
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                split({"Regex": r"(?i:'s)|\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+"}),
                GPT2 | {"use_regex": False},
            ],
        },
        "decoder": {"type": "ByteLevel"},
        "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, TEMPLATE]},
    },
    "gemma": {
        "model": bpe(["▁ a"], [f"<0x{b:02X}>" for b in range(256)], byte_fallback=True, fuse_unk=True, unk_token="a"),
        "normalizer": SPACE,
        "decoder": {"type": "Sequence", "decoders": [UNSPACE, {"type": "ByteFallback"}, {"type": "Fuse"}]},
    },
    "clip": {
        "model": bpe(["a b</w>"], ["b</w>", "a</w>"], end_of_word_suffix="</w>", unk_token="a"),
        "normalizer": {
            "type": "Sequence",
            "normalizers": [{"type": "NFC"}, replace({"Regex": r"\s+"}, " "), {"type": "Lowercase"}],
        },
        "pre_tokenizer": split({"Regex": r"\w+|[^\s\w]+"}, "Removed", invert=True),
        "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
    },
    "unigram": {
        "model": UNIGRAM,
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "Nmt"}, {"type": "Strip"}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
    },
    "bert": {
        "model": WORDPIECE,
        "normalizer": BERT,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    },
    "words": {
        "model": {"type": "WordLevel", "vocab": {"a": 0, "the": 1, "<pad>": 2}, "unk_token": "a"},
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Whitespace"},
                {"type": "Digits", "individual_digits": True},
                {"type": "Punctuation", "behavior": "MergedWithNext"},
                {"type": "CharDelimiterSplit", "delimiter": "e"},
                {"type": "FixedLength", "length": 3},
            ],
        },
        "decoder": {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
    },
    "falcon": {
        "model": bpe(["t h"]),
        "normalizer": {"type": "Prepend", "prepend": "▁"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, GPT2, split({"String": "1"}, "MergedWithPrevious")],
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [{"type": "ByteLevel"}, {"type": "Strip", "content": " ", "start": 1, "stop": 1}],
        },
    },
    "patterns": {
        "model": BPE,
        "pre_tokenizer": split(
            {"Regex": r"[[:alpha:]&&[^\p{Han}]]+|(?<=a)\b|\h{2}+|(?m:^.$)|[^\d\s]*?x"}, "Contiguous"
        ),
        "decoder": {"type": "Strip", "content": "a", "start": 1, "stop": 0},
    },
    "old": {"model": {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}, "truncation": None, "padding": None},
}


def put(folder, name, data):
    path = ROOT / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def main():
    for name, parts in FILES.items():
        whole = {"version": "1.0", "added_tokens": SPECIAL, **parts}
        put("tokenizer_json", name, json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode())
    tokens = [*(bytes([b]) for b in range(256)), b"ab", b" the", b"\xc3\xa9", b"\n\n"]
    lines = [base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(tokens)]
    put("tiktoken", "small", b"".join(lines))
    put("tiktoken", "bytes", b"".join(lines[:256]))


if __name__ == "__main__":
    main()
