"""Vocabularies of GGUF files: the ids are those of the tokenizer from which the vocabulary comes."""

import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from _compare import same
from _spm_models import train
from _trained import trained
from tokenizers import Regex, pre_tokenizers
from tokenizers import Tokenizer as Library

import clave
from clave import Error, Tokenizer
from strings import strings

gguf = pytest.importorskip("gguf", reason="needs gguf (ci/requirements.txt)")

NORMAL, CONTROL, USER = 1, 3, 4
TEXTS = strings(700, seed=43, extra=["<|endoftext|>", "<|im_start|>a", "<tool_call>"])


SIZE = 4  # elements of each vector of the models below
MERGED = {"attn_qkv.weight": 3, "ffn_up.weight": 2}
APART = dict.fromkeys((f"{n}.weight" for n in ("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up")), 1)


def write(path, model, tokens, architecture="llama", n_vocab=None, **keys):
    """Writes a model of one small layer with a vocabulary. keys: texts, numbers, flags or arrays. n_vocab: rows of the
    embedding, if there are not as many as tokens."""
    writer = gguf.GGUFWriter(path, architecture)
    for add in ("block_count", "head_count"):
        getattr(writer, f"add_{add}")(1)
    writer.add_context_length(8)
    writer.add_embedding_length(SIZE)
    writer.add_feed_forward_length(SIZE)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    for key, value in keys.items():
        if isinstance(value, list):
            writer.add_array(f"tokenizer.ggml.{key}", value)
        else:
            how = {bool: "bool", int: "uint32", str: "string"}[type(value)]
            getattr(writer, f"add_{how}")(
                key if "." in key else f"tokenizer.{key}" if key == "chat_template" else f"tokenizer.ggml.{key}", value
            )
    matrices = (MERGED if architecture == "phi3" else APART) | {"attn_output.weight": 1, "ffn_down.weight": 1}
    tensors = {f"blk.0.{name}": (rows * SIZE, SIZE) for name, rows in matrices.items()}
    tensors |= dict.fromkeys(("blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"), (SIZE,))
    for name, shape in ({"token_embd.weight": (n_vocab or len(tokens), SIZE)} | tensors).items():
        writer.add_tensor(name, np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tokenizer_of(path):
    return clave.from_gguf(path).tokenizer


def said_of(path, **options):
    """Returns what a program says of its tokens."""
    said = clave.from_gguf(path, **options).metadata["llm"]
    assert said.pop("max_context") == 8 and said.pop("source") == {"architecture": "llama"}
    return said


def bpe_keys(library):
    """Returns the keys of a tokenizer.json's vocabulary, as llama.cpp's converter writes them."""
    j = json.loads(library.to_str())
    tokens = [library.id_to_token(i) for i in range(library.get_vocab_size())]
    types = [NORMAL] * len(tokens)
    for a in j["added_tokens"]:
        types[a["id"]] = CONTROL if a["special"] else USER
    merges = [" ".join(m) for m in j["model"]["merges"]]
    return {"tokens": tokens, "merges": merges, "token_type": types}


def bpe_file(path, library, **keys):
    return write(path, "gpt2", **bpe_keys(library), **keys)


def with_tekken():
    """Returns a tokenizer with Mistral's pattern: GPT-4o's without contractions, and each digit alone."""
    import _trained

    pattern = _trained.O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")
    j = json.loads(trained("o200k").to_str())
    j["model"]["ignore_merges"] = True
    library = Library.from_str(json.dumps(j))
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    library.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    return library


# The patterns of models' own tokenizer.json files, in turns.
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SYMBOLS = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SENTENCES = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
PATTERNS = {
    "glm4": [QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)],
    "stablelm2": [QWEN2],
    "qwen35": [QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "deepseek-coder": [
        r"[\r\n]",
        r"\s?\p{L}+",
        r"\s?\p{P}+",
        "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
        r"\p{N}",
    ],
    "deepseek-v3": [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", SYMBOLS],
    "bloom": [SENTENCES],
    "viking": [SENTENCES, r"\p{N}"],
    "bailingmoe": [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    ],
    "seed-coder": [QWEN2.replace(r"[^\s\p{L}\p{N}]+[\r\n]*", r"[^\s\p{L}\p{N}\r\n]+")],
}


def split_by(name):
    """Returns a tokenizer that splits texts by these patterns."""
    j = json.loads(trained("o200k").to_str())
    j["model"]["ignore_merges"] = name == "glm4"
    j["normalizer"] = {"type": "NFC"} if name == "qwen35" else None
    library = Library.from_str(json.dumps(j))
    splits = [pre_tokenizers.Split(Regex(p), "isolated") for p in PATTERNS[name]]
    library.pre_tokenizer = pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(False, use_regex=False)])
    return library


LIBRARIES = {
    "gpt-2": lambda: trained("gpt2"),
    "qwen2": lambda: trained("qwen2"),
    "llama-bpe": lambda: trained("llama3"),
    "gpt-4o": lambda: trained("o200k"),
    "smollm": lambda: trained("smollm"),
    "tekken": with_tekken,
    **{name: functools.partial(split_by, name) for name in PATTERNS},
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_pre_tokenizers(name, tmp_path):
    library = LIBRARIES[name]()
    more = {"bos_token_id": library.token_to_id("<|begin_of_text|>")} if name == "llama-bpe" else {}
    ours = tokenizer_of(bpe_file(tmp_path / "v.gguf", library, pre=name, **more))

    def decode(ids, skip):
        return library.decode(ids, skip_special_tokens=skip)

    for frame in (False, True):
        encode = lambda text, frame=frame: library.encode(text, add_special_tokens=frame).ids
        same(ours, TEXTS[frame * 400 :], encode, decode, bos=frame)


def spm_file(path, library, **keys):
    n = library.vocab_size()
    kinds = ((library.is_unknown, 2), (library.is_control, 3), (library.is_unused, 5), (library.is_byte, 6))
    types = [next((t for is_kind, t in kinds if is_kind(i)), NORMAL) for i in range(n)]
    tokens, scores = [library.id_to_piece(i) for i in range(n)], [float(library.get_score(i)) for i in range(n)]
    ids = {"bos_token_id": library.bos_id(), "eos_token_id": library.eos_id()}
    return write(path, "llama", tokens, scores=scores, token_type=types, **ids, **keys)


@pytest.mark.parametrize("name, keys", [("bpe_bytes", {}), ("bpe_spans_spaces", {"add_space_prefix": False})])
def test_sentencepiece(name, keys, tmp_path):
    """bpe_spans_spaces also normalizes, which llama.cpp's vocabularies do not: the texts are those it keeps."""
    library = sentencepiece.SentencePieceProcessor(model_proto=train(name))
    ours = tokenizer_of(spm_file(tmp_path / "v.gguf", library, **keys))
    assert (ours.bos, ours.eos) == (library.bos_id(), library.eos_id())
    texts = [t for t in TEXTS if name == "bpe_bytes" or library.normalize(t) == t.replace(" ", "\u2581")]
    assert len(texts) > 50
    for text in texts:
        ids = library.encode(text)
        assert ours.encode(text) == ids and ours.decode(ids) == library.decode(ids), text


def test_llama2(test_data, tmp_path):
    folder = test_data / "tokenizers" / "llama2"
    library = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    ours = tokenizer_of(spm_file(tmp_path / "v.gguf", library))
    for text in TEXTS:
        assert ours.encode(text, bos=True) == library.encode(text, add_bos=True), text


def test_what_a_program_says_of_tokens(tmp_path):
    """Every token that ends an answer is a stop token. BOS depends on the file, or on the kind of its vocabulary."""
    library = trained("qwen2")
    end, text_end = (library.token_to_id(t) for t in ("<|im_end|>", "<|endoftext|>"))
    keys = {"pre": "qwen2", "bos_token_id": 5, "eos_token_id": end, "chat_template": "{{ messages }}\u2581"}
    path = bpe_file(tmp_path / "q.gguf", library, **keys)
    template = {"chat_template": "{{ messages }}\u2581"}
    assert said_of(path) == {"bos": None, "eos": end, "stop_ids": [end, text_end]} | template
    assert tokenizer_of(path).encode("ab", bos=True) == library.encode("ab").ids
    more = {"add_bos_token": True, "eot_token_id": 7, "eom_token_id": end}
    path = bpe_file(tmp_path / "b.gguf", library, **keys, **more)
    assert said_of(path) == {"bos": 5, "eos": end, "stop_ids": [end, 7, text_end]} | template
    assert tokenizer_of(path).encode("ab", bos=True) == [5, *library.encode("ab").ids]
    spm = sentencepiece.SentencePieceProcessor(model_proto=train("bpe_bytes"))
    assert said_of(spm_file(tmp_path / "s.gguf", spm)) == {"bos": 1, "eos": 2, "stop_ids": [2]}
    assert said_of(spm_file(tmp_path / "n.gguf", spm, add_bos_token=False)) == {"bos": None, "eos": 2, "stop_ids": [2]}


@pytest.mark.parametrize(
    "ends, stops",
    [
        (["<|end|>"], ["<|end|>"]),
        (["<|end|>", "<|return|>"], ["<|end|>", "<|return|>"]),
        (["<|call|>", "<|end|>", "<|return|>"], ["<|return|>", "<|call|>"]),
        (["<|flush|>", "<|calls|>", "<|end|>"], ["<|calls|>", "<|flush|>"]),
    ],
)
def test_answers_of_several_messages(ends, stops, tmp_path):
    """In gpt-oss and Solar Open, "<|end|>" ends a message, and other tokens end the answer."""
    library = Library.from_str(trained("qwen2").to_str())
    library.add_special_tokens(ends)
    want = {library.token_to_id(t) for t in (*stops, "<|im_end|>", "<|endoftext|>")}
    own = bpe_file(tmp_path / "a.gguf", library, pre="qwen2")
    assert set(said_of(own)["stop_ids"]) == want
    assert set(said_of(own, tokenizer=folder_of(tmp_path / "hf", library))["stop_ids"]) == want


def test_message_ends_are_those_of_the_library():
    header = (Path(__file__).resolve().parents[2] / "base/message_ends.h").read_bytes()
    table = re.search(rb"message_ends\[\] = \{(.*?)\};", header, re.DOTALL)[1]
    texts = [t.decode("unicode_escape").encode("latin-1").decode() for t in re.findall(rb'"(.*?)"', table)]
    assert texts == clave.tokenizer._MESSAGE_ENDS


ABC = ["a", "b", "ab"]


@pytest.mark.parametrize(
    "model, tokens, keys, said",
    [
        ("rwkv", ABC, {}, "tokenizer: expected one of llama, gpt2, got 'rwkv'"),
        (
            "gpt2",
            ABC,
            {"pre": "what", "merges": ["a b"]},
            "pre-tokenizer: expected one of gpt-2, ..., got 'what'",
        ),
        ("gpt2", ABC, {"merges": ["a b"]}, "pre-tokenizer: expected one of gpt-2, ..., got 'default'"),
        ("gpt2", ABC, {"pre": "gpt-2"}, "has no key 'tokenizer.ggml.merges'"),
        ("gpt2", ["a", "b", "a"], {"pre": "gpt-2", "merges": ["a b"]}, "token 'a' is in the vocabulary twice"),
        ("gpt2", ABC, {"pre": "gpt-2", "merges": ["a c"]}, "its tokenizer: "),
        ("gpt2", ABC, {"pre": "gpt-2", "merges": [1, 2]}, "merges': expected an array of kind text, got one of int32"),
        ("gpt2", ABC[:2], {"pre": "gpt-2", "merges": ["a b"]}, "has 2 tokens, and token_embd.weight has rows for 3"),
        ("llama", ABC, {"scores": [0.0]}, "key 'tokenizer.ggml.scores': expected 3 elements, got 1"),
        ("llama", ABC, {}, "its tokenizer: the model has no unknown piece; SentencePiece model"),
        ("llama", ABC, {"token_type": [2, 1, 1], "bos_token_id": 3}, "bos_token_id': expected 0 to 2, got 3"),
        (
            "llama",
            ABC,
            {"token_type": ["x", "y", "z"]},
            "token_type': expected an array of kind integer, got one of string",
        ),
        ("llama", ABC, {"scores": [1.0, 2.0, float("nan")]}, "scores' has elements that are not finite"),
        ("llama", ABC, {"token_type": [1, 7, 1]}, "token 1: expected type 1 to 6, got 7"),
        ("llama", ["a", "\0", "b"], {}, "key 'tokenizer.ggml.tokens', element 1 contains NUL"),
    ],
)
def test_what_is_refused(model, tokens, keys, said, tmp_path):
    path = write(tmp_path / "v.gguf", model, tokens, n_vocab=3, **keys)
    with pytest.raises(Error) as e:
        clave.from_gguf(path)
    message = str(e.value)
    assert all(part in message for part in said.split("...")) and "\n" not in message
    assert message.startswith(f"{path}: its tokenizer: ") or message.endswith(f"; {path}")


def folder_of(path, library, **config):
    """Writes a Hugging Face folder."""
    path.mkdir()
    library.save(str(path / "tokenizer.json"))
    if config:
        (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def test_another_in_its_place(tmp_path):
    """The program contains the tokenizer.json or SentencePiece .model that is given, or is in a given folder."""
    library, spm = trained("qwen2"), train("bpe_bytes")
    folder, models = folder_of(tmp_path / "hf", library), tmp_path / "spm"
    models.mkdir()
    (models / "tokenizer.model").write_bytes(spm)
    for path, data in [
        (folder, (folder / "tokenizer.json").read_bytes()),
        (folder / "tokenizer.json", (folder / "tokenizer.json").read_bytes()),
        (models, spm),
        (models / "tokenizer.model", spm),
    ]:
        n = Tokenizer(path).n_ids
        file = write(tmp_path / "v.gguf", "gpt2", ABC, pre="what", n_vocab=n)
        assert clave.from_gguf(file, tokenizer=path).tokenizer_file == data
        write(file, "gpt2", ABC, pre="what", n_vocab=n - 1)
        with pytest.raises(Error) as e:
            clave.from_gguf(file, tokenizer=path)
        assert str(e.value) == f"{file}: {path} has {n} tokens, and token_embd.weight has rows for {n - 1}"
    with pytest.raises(Error, match=r"the folder has no tokenizer\.json or tokenizer\.model"):
        clave.from_gguf(file, tokenizer=tmp_path)


def test_what_is_said_with_another_in_its_place(tmp_path):
    """The file's keys take precedence over the tokenizer's; an unknown pre-tokenizer in the file does not matter."""
    library = trained("llama3")
    n, id_of = library.get_vocab_size(), library.token_to_id
    begin, end, turn = (id_of(f"<|{t}|>") for t in ("begin_of_text", "end_of_text", "eot_id"))
    assert None not in (begin, end, turn)
    config = {"bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|end_of_text|>"}}
    folder = folder_of(tmp_path / "hf", library, **config)
    keys = {"pre": "what", "eos_token_id": 7, "bos_token_id": 5, "chat_template": "{{ x }}"}
    file = bpe_file(tmp_path / "a.gguf", library, **keys)
    with pytest.raises(
        Error,
        match=r"pre-tokenizer: expected one of .*, got 'what'; another tokenizer can be given .*tokenizer=, --tok",
    ):
        clave.from_gguf(file)
    said = {"bos": begin, "eos": 7, "stop_ids": [7, turn, end], "chat_template": "{{ x }}"}
    assert said_of(file, tokenizer=folder) == said
    file = bpe_file(tmp_path / "b.gguf", library, pre="what", add_bos_token=True, bos_token_id=5)
    assert said_of(file, tokenizer=folder) == {"bos": 5, "eos": end, "stop_ids": [end, turn]}
    file = bpe_file(tmp_path / "c.gguf", library, pre="what", add_bos_token=False)
    assert said_of(file, tokenizer=folder)["bos"] is None
    file = write(tmp_path / "d.gguf", "rwkv", ABC, n_vocab=n)
    assert said_of(file, tokenizer=folder) == {"bos": begin, "eos": end, "stop_ids": [end, turn]}
    alone = folder / "tokenizer.json"
    assert said_of(file, tokenizer=alone)["bos"] == Tokenizer(alone).bos


PHI3 = ["<|endoftext|>", "<|assistant|>", "<|end|>", "<|user|>", "<|system|>"]


def phi3_file(path, library, name, architecture="llama", kind=CONTROL, **more):
    """Writes a vocabulary of SentencePiece followed by Phi-3's tokens."""
    n = library.vocab_size()
    kinds = ((library.is_unknown, 2), (library.is_control, 3), (library.is_unused, 5), (library.is_byte, 6))
    types = [next((t for is_kind, t in kinds if is_kind(i)), NORMAL) for i in range(n)] + [kind] * len(PHI3)
    tokens = [library.id_to_piece(i) for i in range(n)] + PHI3
    scores = [float(library.get_score(i)) for i in range(n)] + [0.0] * len(PHI3)
    keys = {"scores": scores, "token_type": types, "architecture": architecture}
    return write(path, "llama", tokens, **keys, **more, **({} if name is None else {"general.name": name}))


def stripped(library, text):
    """Returns SentencePiece's ids: text is split at special tokens; white space after most of them is dropped."""
    specials = {**{t: library.vocab_size() + i for i, t in enumerate(PHI3)}, "</s>": 2, "<s>": 1, "<unk>": 0}
    found = []
    for part in re.split("(" + "|".join(map(re.escape, specials)) + ")", text):
        if part in specials:
            found.append(specials[part])
            continue
        if found and found[-1] not in (specials[t] for t in ("<|endoftext|>", "<s>", "<unk>")):
            part = part.lstrip()
        found += library.encode(part) if part else []
    return found


@pytest.mark.parametrize(
    ("name", "architecture", "kind", "strips"),
    [
        ("Phi3", "llama", CONTROL, True),
        ("my Phi-3 mini", "phi3", USER, True),
        ("Phi 3.5 Mini Instruct", "phi3", CONTROL, True),
        (None, "phi3", CONTROL, True),
        ("Phi 3.5 Mini Instruct", "llama", CONTROL, False),
        (None, "llama", USER, False),
    ],
)
def test_special_tokens_of_phi3_take_the_white_space_behind_them(name, architecture, kind, strips, tmp_path):
    library = sentencepiece.SentencePieceProcessor(model_proto=train("bpe_bytes"))
    ours = tokenizer_of(phi3_file(tmp_path / "v.gguf", library, name, architecture, kind))
    for space in ("", " ", "\n", "\n\n \t", "\u00a0", "\u3000\n"):
        for a in (*PHI3, "</s>", "<s>", "<unk>"):
            text = f"{a}{space}Hi there{space}<|end|>{space}{a}{space}ok"
            assert not strips or ours.encode(text) == stripped(library, text), text
    text = "<|user|>\nHi<|end|>"
    assert (ours.encode(text) == stripped(library, text)) == strips
    assert ours.decode(ours.encode("Hi there")) == "Hi there"


@pytest.mark.parametrize("prefix", [True, False])
def test_merges_of_phi3_are_those_of_its_pieces(prefix, tmp_path):
    """Without the prefix, a text is encoded like one after a token."""
    library = sentencepiece.SentencePieceProcessor(model_proto=train("bpe_bytes"))
    ours = tokenizer_of(phi3_file(tmp_path / "v.gguf", library, "Phi3", add_space_prefix=prefix))
    space = "" if prefix else " "
    for text in filter(None, TEXTS):
        if "<" not in text:
            ids = library.encode(text)
            assert ours.encode(space + text) == ids and ours.decode(ids) == space + library.decode(ids), text
