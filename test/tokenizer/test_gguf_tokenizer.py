"""Vocabularies of GGUF files: the ids are those of the tokenizer from which the vocabulary comes."""

import json
import re

import pytest
import sentencepiece
from _compare import same
from _spm_models import train
from _trained import trained
from tokenizers import Regex, pre_tokenizers
from tokenizers import Tokenizer as Library

from clave import Error, Tokenizer
from strings import strings

gguf = pytest.importorskip("gguf", reason="needs gguf (ci/requirements.txt)")
pytest.importorskip("torch", reason="needs torch")

from clave.gguf import Given, read_metadata, read_tokenizer
from clave.gguf.file import File

NORMAL, CONTROL, USER = 1, 3, 4
TEXTS = strings(700, seed=43, extra=["<|endoftext|>", "<|im_start|>a", "<tool_call>"])


def write(path, model, tokens, architecture="llama", **keys):
    """Writes a file with only a vocabulary. keys: (value, how GGUFWriter adds it), or a text, number or flag."""
    writer = gguf.GGUFWriter(path, architecture)
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
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return File(path)


def bpe_file(path, library, **keys):
    """Writes a tokenizer.json as llama.cpp's converter does."""
    j = json.loads(library.to_str())
    tokens = [library.id_to_token(i) for i in range(library.get_vocab_size())]
    types = [NORMAL] * len(tokens)
    for a in j["added_tokens"]:
        types[a["id"]] = CONTROL if a["special"] else USER
    merges = [" ".join(m) for m in j["model"]["merges"]]
    return write(path, "gpt2", tokens, merges=merges, token_type=types, **keys)


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


LIBRARIES = {
    "gpt-2": lambda: trained("gpt2"),
    "qwen2": lambda: trained("qwen2"),
    "llama-bpe": lambda: trained("llama3"),
    "gpt-4o": lambda: trained("o200k"),
    "smollm": lambda: trained("smollm"),
    "tekken": with_tekken,
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_pre_tokenizers(name, tmp_path):
    library = LIBRARIES[name]()
    more = {"bos_token_id": library.token_to_id("<|begin_of_text|>")} if name == "llama-bpe" else {}
    file = bpe_file(tmp_path / "v.gguf", library, pre=name, **more)
    ours = Tokenizer(read_tokenizer(file, library.get_vocab_size()))

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
    ours = Tokenizer(read_tokenizer(spm_file(tmp_path / "v.gguf", library, **keys), library.vocab_size()))
    assert (ours.bos, ours.eos) == (library.bos_id(), library.eos_id())
    texts = [t for t in TEXTS if name == "bpe_bytes" or library.normalize(t) == t.replace(" ", "\u2581")]
    assert len(texts) > 50
    for text in texts:
        ids = library.encode(text)
        assert ours.encode(text) == ids and ours.decode(ids) == library.decode(ids), text


def test_llama2(test_data, tmp_path):
    folder = test_data / "tokenizers" / "llama2"
    library = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    ours = Tokenizer(read_tokenizer(spm_file(tmp_path / "v.gguf", library), library.vocab_size()))
    for text in TEXTS:
        assert ours.encode(text, bos=True) == library.encode(text, add_bos=True), text


def test_what_a_program_says_of_tokens(tmp_path):
    """Every token that ends an answer is a stop token. BOS depends on the file, or on the kind of its vocabulary."""
    library = trained("qwen2")
    n, ids = library.get_vocab_size(), {t: library.token_to_id(t) for t in ("<|endoftext|>", "<|im_end|>")}
    keys = {"pre": "qwen2", "bos_token_id": 0, "eos_token_id": ids["<|im_end|>"], "chat_template": "{{ messages }}"}
    said = read_metadata(bpe_file(tmp_path / "q.gguf", library, **keys), n)
    assert said == {
        "bos": None,
        "eos": ids["<|im_end|>"],
        "stop_ids": [ids["<|im_end|>"], ids["<|endoftext|>"]],
        "chat_template": "{{ messages }}",
    }
    said = read_metadata(bpe_file(tmp_path / "b.gguf", library, **keys, add_bos_token=True, eot_token_id=7), n)
    assert said["bos"] == 0 and said["stop_ids"] == [ids["<|im_end|>"], 7, ids["<|endoftext|>"]]
    spm = sentencepiece.SentencePieceProcessor(model_proto=train("bpe_bytes"))
    said = read_metadata(spm_file(tmp_path / "s.gguf", spm), spm.vocab_size())
    assert said == {"bos": 1, "eos": 2, "stop_ids": [2]}
    said = read_metadata(spm_file(tmp_path / "n.gguf", spm, add_bos_token=False), spm.vocab_size())
    assert said["bos"] is None


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
    ],
)
def test_what_is_refused(model, tokens, keys, said, tmp_path):
    file = write(tmp_path / "v.gguf", model, tokens, **keys)
    with pytest.raises(Error) as e:
        read_tokenizer(file, 3)
    assert all(part in str(e.value) for part in said.split("..."))
    assert str(e.value).startswith(file.path) and "\n" not in str(e.value)


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
        assert Given(path).data == data
    with pytest.raises(Error, match=r"the folder has no tokenizer\.json or tokenizer\.model"):
        Given(tmp_path)
    file = write(tmp_path / "v.gguf", "gpt2", ABC, pre="what")
    with pytest.raises(Error) as e:
        Given(folder).check(file, 3)
    n = library.get_vocab_size()
    assert str(e.value) == f"{file.path}: {folder} has {n} tokens, and token_embd.weight has rows for 3"
    Given(folder).check(file, n)


def test_what_is_said_with_another_in_its_place(tmp_path):
    """The file's keys take precedence over the tokenizer's; an unknown pre-tokenizer in the file does not matter."""
    library = trained("llama3")
    n, id_of = library.get_vocab_size(), library.token_to_id
    begin, end, turn = (id_of(f"<|{t}|>") for t in ("begin_of_text", "end_of_text", "eot_id"))
    assert None not in (begin, end, turn)
    config = {"bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|end_of_text|>"}}
    folder = folder_of(tmp_path / "hf", library, **config)
    given, alone = Given(folder), Given(folder / "tokenizer.json")
    keys = {"pre": "what", "eos_token_id": 7, "bos_token_id": 5, "chat_template": "{{ x }}"}
    file = bpe_file(tmp_path / "a.gguf", library, **keys)
    with pytest.raises(
        Error,
        match=r"pre-tokenizer: expected one of .*, got 'what'; another tokenizer can be given .*tokenizer=, --tok",
    ):
        read_tokenizer(file, n)
    with pytest.raises(Error, match=r"pre-tokenizer: expected one of .*, got 'what'"):
        read_metadata(file, n)
    said = {"bos": begin, "eos": 7, "stop_ids": [7, turn, end], "chat_template": "{{ x }}"}
    assert read_metadata(file, n, given) == said
    file = bpe_file(tmp_path / "b.gguf", library, pre="what", add_bos_token=True, bos_token_id=5)
    assert read_metadata(file, n, given) == {"bos": 5, "eos": end, "stop_ids": [end, turn]}
    file = bpe_file(tmp_path / "c.gguf", library, pre="what", add_bos_token=False)
    assert read_metadata(file, n, given)["bos"] is None
    file = write(tmp_path / "d.gguf", "rwkv", ABC)
    assert read_metadata(file, n, given) == {"bos": begin, "eos": end, "stop_ids": [end, turn]}
    assert read_metadata(file, n, alone)["bos"] == alone.tokenizer.bos


PHI3 = ["<|endoftext|>", "<|assistant|>", "<|end|>", "<|user|>", "<|system|>"]


def phi3_file(path, library, name, architecture="llama", kind=CONTROL):
    """Writes a vocabulary of SentencePiece followed by Phi-3's tokens."""
    n = library.vocab_size()
    kinds = ((library.is_unknown, 2), (library.is_control, 3), (library.is_unused, 5), (library.is_byte, 6))
    types = [next((t for is_kind, t in kinds if is_kind(i)), NORMAL) for i in range(n)] + [kind] * len(PHI3)
    tokens = [library.id_to_piece(i) for i in range(n)] + PHI3
    scores = [float(library.get_score(i)) for i in range(n)] + [0.0] * len(PHI3)
    keys = {"scores": scores, "token_type": types, "architecture": architecture}
    return write(path, "llama", tokens, **keys, **({} if name is None else {"general.name": name})), n + len(PHI3)


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
    file, n = phi3_file(tmp_path / "v.gguf", library, name, architecture, kind)
    ours = Tokenizer(read_tokenizer(file, n))
    for space in ("", " ", "\n", "\n\n \t", "\u00a0", "\u3000\n"):
        for a in (*PHI3, "</s>", "<s>", "<unk>"):
            text = f"{a}{space}Hi there{space}<|end|>{space}{a}{space}ok"
            assert not strips or ours.encode(text) == stripped(library, text), text
    text = "<|user|>\nHi<|end|>"
    assert (ours.encode(text) == stripped(library, text)) == strips
    assert ours.decode(ours.encode("Hi there")) == "Hi there"


def test_merges_of_phi3_are_those_of_its_pieces(tmp_path):
    library = sentencepiece.SentencePieceProcessor(model_proto=train("bpe_bytes"))
    file, n = phi3_file(tmp_path / "v.gguf", library, "Phi3")
    ours = Tokenizer(read_tokenizer(file, n))
    for text in TEXTS:
        if "<" not in text:
            assert ours.encode(text) == library.encode(text), text
