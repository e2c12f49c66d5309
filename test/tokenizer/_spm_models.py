"""Small SentencePiece models of every kind: trained by the library, and variants that no trainer writes."""

import io
import pathlib
import struct
import tempfile

import sentencepiece
from _protobuf import field, fields, get, message, put

import strings

PIECES, TRAINER, NORMALIZER, DENORMALIZER = 1, 2, 3, 5  # fields of ModelProto
PIECE, SCORE, TYPE = 1, 2, 3  # fields of a piece
NORMAL, USER_DEFINED, UNUSED = 1, 4, 5

ROOT = pathlib.Path(__file__).resolve().parents[2]
USER = ["<sep>", "<cls>", "in the", "▁▁", "&&", "ing ", "#"]
EVERYWHERE = {
    "vocab_size": 500,
    "character_coverage": 0.995,
    "minloglevel": 2,
    "hard_vocab_limit": False,
    "num_threads": 2,
}
TRAINED = {
    "bpe": {},
    "bpe_bytes": {
        "byte_fallback": True,
        "vocab_size": 800,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
    },
    "bpe_spans_spaces": {"split_by_whitespace": False, "remove_extra_whitespaces": False, "add_dummy_prefix": False},
    "bpe_user": {"user_defined_symbols": USER, "control_symbols": ["<ctl>", "q", "|"]},
    "bpe_suffix": {"treat_whitespace_as_suffix": True},
    "bpe_odd_unknown": {"unk_piece": "@", "byte_fallback": True, "vocab_size": 800},
    "unigram": {},
    "unigram_bytes": {"byte_fallback": True, "vocab_size": 800, "normalization_rule_name": "nmt_nfkc_cf"},
    "unigram_identity": {"normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "unigram_user": {"user_defined_symbols": USER, "control_symbols": ["<ctl>"], "unk_surface": "UNK", "bos_id": -1},
    "unigram_nfkc": {
        "user_defined_symbols": USER,
        "normalization_rule_name": "nfkc",
        "allow_whitespace_only_pieces": True,
    },
    "unigram_suffix": {"treat_whitespace_as_suffix": True, "remove_extra_whitespaces": False},
    "bpe_rules": {},
    "unigram_rules": {"remove_extra_whitespaces": False, "user_defined_symbols": USER},
    "word": {"control_symbols": ["▁the"]},
    "word_suffix": {"treat_whitespace_as_suffix": True, "remove_extra_whitespaces": False},
    "char": {"user_defined_symbols": USER},
    "char_bytes": {"byte_fallback": True, "vocab_size": 800, "control_symbols": ["q"]},
}


def corpus():
    """Returns lines of our own documents, and of all scripts."""
    pages = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/explanation/*.md"))]
    lines = [line for page in pages for line in page.read_text().splitlines() if line.strip()]
    return (
        lines * 3 + [s for s in strings.SCRIPTS for _ in range(10)] + strings.CODE * 5 + [" ".join(strings.DIGITS)] * 5
    )


def rules(folder):
    """Writes our own replacement rules: by several characters, by spaces, by nothing, and with common prefixes."""
    table = {"the": "THE", "th": "", "q": " x ", "?": "  ", "!": "▁", "日本": "JP", "日": "", "中": "中 ", "\t": " "}
    table |= {" &": "", "é": "e\u0301", "<unk>": "U"}
    code = lambda text: " ".join(f"{ord(c):X}" for c in text)
    path = pathlib.Path(folder) / "rules.tsv"
    path.write_text("".join(f"{code(k)}\t{code(v)}\n" for k, v in table.items()))
    return str(path)


def train(name):
    out = io.BytesIO()
    options = EVERYWHERE | {"model_type": name.split("_")[0]} | TRAINED[name]
    with tempfile.TemporaryDirectory() as folder:
        if "rules" in name:
            options["normalization_rule_tsv"] = rules(folder)
        _train(options, out)
    return out.getvalue()


def _train(options, out):
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=out, **options)


# ---------------------------------------------------------------- variants


def _pieces(model, change):
    """Replaces each piece; change(id, text, score, type) returns its new (text, score, type)."""
    rows, i = [], 0
    for row in fields(model):
        if row[0] == PIECES:
            score = struct.unpack("<f", get(row[2], SCORE))[0]
            text, score, kind = change(i, get(row[2], PIECE).decode(), score, get(row[2], TYPE, NORMAL))
            row = field(PIECES, message([field(PIECE, text), field(SCORE, float(score)), field(TYPE, kind)]))
            i += 1
        rows.append(row)
    return message(rows)


def unused(model):
    """Marks every third piece of several characters as unused."""
    return _pieces(model, lambda i, t, s, k: (t, s, UNUSED if k == NORMAL and len(t) > 1 and i % 3 == 0 else k))


def equal_scores(model):
    return _pieces(model, lambda i, t, s, k: (t, round(s / 4) * 4, k))


def close_scores(model):
    """Makes sums of scores that only exact arithmetic distinguishes."""
    return _pieces(model, lambda i, t, s, k: (t, round(s) - i % 3 * 1e-6 - len(t) / 3, k))


def late_user_symbols(model):
    """Makes some pieces that merging may produce user-defined."""
    return _pieces(model, lambda i, t, s, k: (t, s, USER_DEFINED if k == NORMAL and i % 17 == 0 else k))


def normalizer(**values):
    return lambda model: put(model, _3=put(get(model, NORMALIZER), **values))


def trainer(**values):
    return lambda model: put(model, _2=put(get(model, TRAINER), **values))


def denormalizer(**values):
    """Uses the normalizer's table for decoding, too."""
    return lambda model: put(
        model,
        _5=message([field(2, get(get(model, NORMALIZER), 2))] + [field(int(k[1:]), v) for k, v in values.items()]),
    )


VARIANTS = {
    "bpe_unused": ("bpe", unused),
    "bpe_bytes_unused": ("bpe_bytes", unused),
    "bpe_equal_scores": ("bpe", equal_scores),
    "bpe_late_user": ("bpe_spans_spaces", late_user_symbols),
    "bpe_plain_spaces": ("bpe_spans_spaces", normalizer(_5=False)),
    "bpe_no_prefix": ("bpe", normalizer(_3=False)),
    "bpe_all_spaces": ("bpe", normalizer(_4=False)),
    "bpe_denormalized": ("bpe", denormalizer()),
    "bpe_no_surface": ("bpe", trainer(_44="")),
    "unigram_unused": ("unigram_bytes", unused),
    "unigram_equal_scores": ("unigram", equal_scores),
    "unigram_close_scores": ("unigram_bytes", close_scores),
    "unigram_close_user": ("unigram_user", close_scores),
    "unigram_late_user": ("unigram", late_user_symbols),
    "unigram_positive": ("unigram_user", lambda m: _pieces(m, lambda i, t, s, k: (t, s + 8 if k == NORMAL else s, k))),
    "unigram_no_trainer": ("unigram", lambda model: message([f for f in fields(model) if f[0] != TRAINER])),
    "unigram_denormalized": ("unigram_nfkc", denormalizer(_3=False, _4=False)),
    "unigram_denormalized_plain": ("unigram_nfkc", denormalizer(_3=False, _5=False)),
}
