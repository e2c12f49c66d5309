"""Small tokenizers in the styles of the main model families, trained here with the tokenizers library."""

import functools
import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from strings import strings

N = normalizers
P = pre_tokenizers
D = decoders
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|")
O200K = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


@functools.cache
def corpus():
    """Returns texts without NUL, which a piece of a tokenizer.json cannot contain here."""
    return [s.replace("\0", "") for s in strings(1500, seed=99)]


def byte_level(split, add_prefix_space=False, use_regex=False):
    last = P.ByteLevel(add_prefix_space=add_prefix_space, use_regex=use_regex)
    return P.Sequence([*split, last]) if split else last


def train_bpe(tokenizer, special=(), size=1500, alphabet=True, **options):
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special),
        initial_alphabet=P.ByteLevel.alphabet() if alphabet else [],
        show_progress=False,
        **options,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def bytes_bpe(split, special=("<|endoftext|>",), normalizer=None, use_regex=False, prefix=False, **model):
    t = Tokenizer(models.BPE(**model))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = byte_level(split, prefix, use_regex)
    t.decoder = D.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return train_bpe(t, special)


def gpt2():
    return bytes_bpe([], use_regex=True)


def qwen2():
    t = bytes_bpe([P.Split(Regex(QWEN2), "isolated")], ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], N.NFC())
    t.add_tokens([AddedToken("<tool_call>", special=False, normalized=False)])
    return t


def llama3():
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
    t = bytes_bpe([P.Split(Regex(LLAMA3), "isolated")], special, ignore_merges=True)
    template = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))]
    )
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return t


def o200k():
    return bytes_bpe([P.Split(Regex(O200K), "removed", True)])


def deepseek():
    splits = [
        P.Split(Regex(r"\p{N}{1,3}"), "isolated"),
        P.Split(Regex(r"[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
        P.Split(
            Regex(
                r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
                r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            ),
            "isolated",
        ),
    ]
    return bytes_bpe(splits, normalizer=N.Sequence([]))


def smollm():
    return bytes_bpe([P.Digits(individual_digits=True)], use_regex=True)


def roberta():
    t = bytes_bpe([], ["<s>", "<pad>", "</s>", "<unk>"], use_regex=True, prefix=True)
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    return t


def falcon():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = P.Sequence(
        [
            P.Punctuation("contiguous"),
            P.ByteLevel(add_prefix_space=False),
            P.Digits(False),
            P.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    )
    t.decoder = D.ByteLevel()
    return train_bpe(t, [">>TITLE<<", "<|endoftext|>"])


def clip():
    t = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    t.normalizer = N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()])
    t.pre_tokenizer = P.Sequence([P.Split(Regex(CLIP), "removed", True), P.ByteLevel(add_prefix_space=False)])
    t.decoder = D.ByteLevel()
    train_bpe(t, ["<|startoftext|>", "<|endoftext|>"], end_of_word_suffix="</w>")
    t.post_processor = processors.RobertaProcessing(
        ("<|endoftext|>", 1), ("<|startoftext|>", 0), trim_offsets=False, add_prefix_space=False
    )
    return t


BYTES = [f"<0x{b:02X}>" for b in range(256)]


def with_bytes(t, **changes):
    """Makes byte pieces part of the model, as in files converted from SentencePiece."""
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if a["content"] not in BYTES]
    j["model"].update(changes)
    return Tokenizer.from_str(json.dumps(j))


def gemma():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = N.Replace(" ", "▁")
    t.pre_tokenizer = P.Split(" ", "merged_with_previous")
    t.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()])
    train_bpe(t, ["<pad>", "<eos>", "<bos>", "<unk>", *BYTES], alphabet=False, limit_alphabet=300)
    t = with_bytes(t)
    t.post_processor = processors.TemplateProcessing("<bos> $A <eos>", special_tokens=[("<bos>", 2), ("<eos>", 1)])
    return t


def llama2():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])
    t.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    t.pre_tokenizer = P.Metaspace(split=True)  # for training only; otherwise it learns whole lines
    train_bpe(t, ["<unk>", "<s>", "</s>", *BYTES], alphabet=False, limit_alphabet=300)
    j = json.loads(with_bytes(t).to_str())
    j["pre_tokenizer"] = None
    t = Tokenizer.from_str(json.dumps(j))
    t.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    return t


def metaspace_bpe(scheme="always", split=True):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    t.pre_tokenizer = P.Metaspace(prepend_scheme=scheme, split=split)
    t.decoder = D.Metaspace(prepend_scheme=scheme, split=split)
    train_bpe(t, ["<unk>", "<s>", "</s>"], alphabet=False, limit_alphabet=200)
    return t


def continuing_bpe():
    t = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    t.pre_tokenizer = P.WhitespaceSplit()
    t.decoder = D.BPEDecoder("</w>")
    return train_bpe(
        t, ["[UNK]"], alphabet=False, limit_alphabet=250, continuing_subword_prefix="##", end_of_word_suffix="</w>"
    )


def bert(lowercase=True, strip_accents=None, cleanup=True):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = N.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    t.pre_tokenizer = P.BertPreTokenizer()
    t.decoder = D.WordPiece("##", cleanup)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=1500, special_tokens=special, limit_alphabet=400, show_progress=False
    )
    t.train_from_iterator(corpus(), trainer)
    t.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    return t


def unigram(normalizer, split, decoder=None, byte_fallback=False):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizer
    t.pre_tokenizer = split
    t.decoder = decoder or D.Metaspace()
    special = ["<pad>", "</s>", "<unk>", *(BYTES if byte_fallback else [])]
    trainer = trainers.UnigramTrainer(vocab_size=1500, special_tokens=special, unk_token="<unk>", show_progress=False)
    t.train_from_iterator(corpus(), trainer)
    if byte_fallback:
        t = with_bytes(t, byte_fallback=True)
    t.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    return t


@functools.cache
def charsmap(name):
    """Returns a SentencePiece model's table of replacements (normalizer_spec.precompiled_charsmap)."""
    import _protobuf
    from _spm_models import train

    return _protobuf.get(_protobuf.get(train(name), 3), 2)


def t5(name="unigram_nfkc"):
    precompiled = N.Sequence([N.Precompiled(charsmap(name)), N.Replace(Regex(" {2,}"), "▁")])
    return unigram(precompiled, P.Sequence([P.WhitespaceSplit(), P.Metaspace(prepend_scheme="always")]))


def word_level():
    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.normalizer = N.Sequence([N.NFD(), N.StripAccents(), N.Nmt(), N.Strip()])
    t.pre_tokenizer = P.Whitespace()
    t.train_from_iterator(corpus(), trainers.WordLevelTrainer(special_tokens=["[UNK]"], show_progress=False))
    t.add_tokens(["New York", AddedToken("ing", single_word=True), AddedToken("x", lstrip=True, rstrip=True)])
    return t


def ctc():
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ'.,?!"]
    t = Tokenizer(models.WordLevel({c: i for i, c in enumerate(letters)}, unk_token="<unk>"))
    t.normalizer = N.Replace(" ", "|")
    t.pre_tokenizer = P.FixedLength(1)
    t.decoder = D.CTC()
    return t


FAMILIES = {
    "gpt2": gpt2,
    "qwen2": qwen2,
    "llama3": llama3,
    "o200k": o200k,
    "deepseek": deepseek,
    "smollm": smollm,
    "roberta": roberta,
    "falcon": falcon,
    "clip": clip,
    "gemma": gemma,
    "llama2": llama2,
    "metaspace_always": metaspace_bpe,
    "metaspace_first": lambda: metaspace_bpe("first"),
    "metaspace_never_unsplit": lambda: metaspace_bpe("never", False),
    "continuing_bpe": continuing_bpe,
    "bert_uncased": bert,
    "bert_cased": lambda: bert(False, None, False),
    "bert_accents": lambda: bert(True, False),
    "unigram": lambda: unigram(N.Sequence([N.NFKC(), N.Replace(Regex(" {2,}"), " ")]), P.Metaspace()),
    "unigram_bytes": lambda: unigram(
        N.NFKD(), P.Metaspace(), D.Sequence([D.ByteFallback(), D.Metaspace()]), byte_fallback=True
    ),
    "t5": t5,
    "t5_rules": lambda: t5("unigram_rules"),
    "word_level": word_level,
    "ctc": ctc,
}


@functools.cache
def trained(name):
    return FAMILIES[name]()
