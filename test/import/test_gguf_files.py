"""GGUF files in C: the logits, tokenizers and metadata of clave.from_gguf, and its refusals."""

import ctypes
import json
import random
import subprocess

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

import sentencepiece
import test_gguf_mutated as hostile
import test_gguf_refused as refused_by_python
import test_gguf_tokenizer as vocabularies
from _gguf import MODELS, VOCAB, Written
from _spm_models import train
from _trained import trained

import clave
from clave import _library as L
from clave.gguf.weights import _BLOCKS

PIECES = (11, 1, 1, 5, 1, 17)  # together longer than windows, and than the original context of 32
IDS = torch.randint(3, VOCAB, (1, sum(PIECES)), generator=torch.Generator().manual_seed(0))


def logits_of(program, device):
    """Returns the logits of the last token of each piece: (pieces, VOCAB)."""
    session, found, at = clave.Session(program, device), [], 0
    for n in PIECES:
        out = session(IDS[:, at : at + n], torch.tensor(at))
        found.append(torch.as_tensor(out[0] if isinstance(out, (list, tuple)) else out).reshape(-1))
        at += n
    return torch.stack(found)


def tokenizer_of(program):
    """Returns the tokenizer file that a program contains: a document, or a ModelProto; None if there is none."""
    size = ctypes.c_size_t()
    section = L.library().clave_program_section
    section.restype, section.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    at = section(program.handle.pointer, b"TOKN", ctypes.byref(size))
    data = ctypes.string_at(at, size.value) if at else None
    return {"normalizer": None} | json.loads(data) if data and data[:1] == b"{" else data


def check(path, device="cpu"):
    python, c = clave.from_gguf(path), clave.load(path)
    assert c.metadata == python.metadata and tokenizer_of(c) == tokenizer_of(python)
    assert torch.equal(logits_of(c, device), logits_of(python, device))


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("name", MODELS)
def test_every_architecture(name, tmp_path):
    check(Written(name).write(tmp_path / "m.gguf"))


@pytest.mark.by_turn(9)
@pytest.mark.parametrize("name", ["llama3", "gemma3", "phi3_window"])
def test_opencl(name, tmp_path):
    check(Written(name, "Q8_0").write(tmp_path / "m.gguf"), "opencl")


WIDE = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2, "initializer_range": 0.1}


@pytest.mark.by_turn(6)
@pytest.mark.parametrize("kind", ["F16", "BF16", *_BLOCKS])
def test_types_of_weights(kind, tmp_path):
    """The embedding and the output have another type than the other matrices."""
    check(Written("llama", kind, "Q8_0" if kind != "Q8_0" else "F16", **WIDE).write(tmp_path / "m.gguf"))


# ---- vocabularies

TINY = refused_by_python.TINY


def with_vocabulary(architecture, model, tokens, **keys):
    """Returns a tiny model with this vocabulary. keys: (value, how GGUFWriter adds it)."""
    written = Written(architecture, **TINY | {"vocab_size": len(tokens)})
    keys |= {"model": (model, "string"), "tokens": (tokens, "array")}
    written.keys |= {k if "." in k else f"tokenizer.ggml.{k}": v for k, v in keys.items()}
    written.keys["tokenizer.chat_template"] = ("{{ messages }}\u2581", "string")
    return written


def bpe(library, **keys):
    document = json.loads(library.to_str())
    tokens = [library.id_to_token(i) for i in range(library.get_vocab_size())]
    types = [1] * len(tokens)
    for added in document["added_tokens"]:
        types[added["id"]] = 3 if added["special"] else 4
    merges = [" ".join(m) for m in document["model"]["merges"]]
    return with_vocabulary("qwen2", "gpt2", tokens, token_type=(types, "array"), merges=(merges, "array"), **keys)


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("name", vocabularies.LIBRARIES)
@pytest.mark.parametrize("keys", [{}, {"bos_token_id": (7, "uint32"), "add_bos_token": (True, "bool")}])
def test_bpe(name, keys, tmp_path):
    ends = {"eos_token_id": (2, "uint32"), "eot_token_id": (3, "uint32"), "eom_token_id": (2, "uint32")}
    check(bpe(vocabularies.LIBRARIES[name](), pre=(name, "string"), **ends | keys).write(tmp_path / "m.gguf"))


@pytest.mark.parametrize("architecture", ["llama", "phi3"])
@pytest.mark.parametrize(
    "keys", [{}, {"add_space_prefix": (False, "bool"), "add_bos_token": (False, "bool")}, {"general.name": "my Phi-3"}]
)
def test_sentencepiece(architecture, keys, tmp_path):
    """Special tokens of Phi-3 strip the white space after them, as only a tokenizer.json can say."""
    library = sentencepiece.SentencePieceProcessor(model_proto=train("bpe_bytes"))
    n = library.vocab_size()
    kinds = ((library.is_unknown, 2), (library.is_control, 3), (library.is_unused, 5), (library.is_byte, 6))
    types = [next((t for is_kind, t in kinds if is_kind(i)), 1) for i in range(n)] + [3, 4, 3, 3, 3]
    tokens = [library.id_to_piece(i) for i in range(n)] + vocabularies.PHI3
    scores = [float(library.get_score(i)) for i in range(n)] + [0.0] * len(vocabularies.PHI3)
    own = {"scores": (scores, "array"), "token_type": (types, "array"), "bos_token_id": (1, "uint32")}
    keys = {k: (v, "string") if isinstance(v, str) else v for k, v in keys.items()}
    check(with_vocabulary(architecture, "llama", tokens, **own | keys).write(tmp_path / "m.gguf"))


def generated(build, path, *options):
    command = [build / "clave", "generate", path, "--prompt", "Hello there", "-n", "12", "--device", "cpu", *options]
    p = subprocess.run(command, capture_output=True, text=True)
    assert p.returncode == 0 and p.stdout, p.stderr
    return p.stdout


def test_generates_without_python(build, tmp_path):
    """`clave generate` answers like the program that Python makes."""
    path, saved = tmp_path / "m.gguf", tmp_path / "m.clv"
    clave.from_gguf(bpe(trained("qwen2"), pre=("qwen2", "string")).write(path)).save(saved)
    assert generated(build, path) == generated(build, saved)


def test_another_tokenizer(build, tmp_path):
    """It replaces one of an unknown kind, and supplies what the file's keys do not say."""
    library, path, saved = trained("qwen2"), tmp_path / "m.gguf", tmp_path / "m.clv"
    bpe(library, pre=("what", "string")).write(path)
    library.save(str(tmp_path / "tokenizer.json"))
    clave.from_gguf(path, tokenizer=tmp_path / "tokenizer.json").save(saved)
    given = ("--tokenizer", tmp_path / "tokenizer.json")
    assert generated(build, path, *given) == generated(build, saved)
    assert "another tokenizer can be given in its place" in refused(path)


def test_context(build, tmp_path):
    """The context is the model's own unless the caller chooses another one."""
    path = bpe(trained("qwen2"), pre=("qwen2", "string")).write(tmp_path / "m.gguf")
    for options, limit in [({}, 128), ({"max_context": 40}, 40), ({"max_context": 1000}, 1000)]:
        assert clave.LLM(path, device="cpu", **options).max_context == limit
    assert generated(build, path, "-c", "500") == generated(build, path)


# ---- files that are refused


def refused(path):
    """Returns the error: one line that ends with the file's name."""
    with pytest.raises(clave.Error) as e:
        clave.load(path)
    said = str(e.value)
    assert said.endswith(f"; {path}") and "\n" not in said and len(said) < 700, said
    return said.removesuffix(f"; {path}")


@pytest.mark.parametrize("name, key, value, said", refused_by_python.KEYS)
def test_keys(name, key, value, said, tmp_path):
    written = refused_by_python.tiny(name)
    written.keys[key] = value
    if value is None:
        del written.keys[key]
    refused_by_python.check(refused(written.write(tmp_path / "m.gguf")), said)


@pytest.mark.parametrize("name, change, said", refused_by_python.TENSORS)
def test_tensors(name, change, said, tmp_path):
    written = refused_by_python.tiny(name)
    change(written.tensors)
    refused_by_python.check(refused(written.write(tmp_path / "m.gguf")), said)


@pytest.mark.parametrize("change, said", refused_by_python.BYTES)
def test_bytes(change, said, tmp_path):
    path = refused_by_python.tiny().write(tmp_path / "m.gguf")
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    refused_by_python.check(refused(path), said.replace("b'", "'"))


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf"), 1e-45])
def test_factors_of_rope(factor, tmp_path):
    written = refused_by_python.tiny()
    factors = refused_by_python.np.array([factor] + [1.0] * 7, "float32")
    written.tensors["rope_freqs.weight"] = (factors, refused_by_python.GGMLQuantizationType.F32)
    assert refused(written.write(tmp_path / "m.gguf")) in (
        "has rope factors that are not positive numbers",
        "rope's base, factor or factors produce frequencies that are not finite",
    )


def test_cut_anywhere(tmp_path):
    path = refused_by_python.tiny().write(tmp_path / "m.gguf")
    data = path.read_bytes()
    for n in {*range(0, 2000, 7), *range(len(data) - 200, len(data), 13), len(data) - 1}:
        path.write_bytes(data[:n])
        said = refused(path)
        assert said.startswith((f"has {n} bytes, ", "is not a GGUF file")) or f", got {n}: it ends " in said, (n, said)


@pytest.mark.parametrize(
    "model, tokens, keys, said",
    [
        ("gpt2", "ab", {"pre": "what"}, "pre-tokenizer: expected one of gpt-2, ..., got 'what'"),
        ("gpt2", "ab", {}, "pre-tokenizer: expected one of gpt-2, ..., got 'default'"),
        ("gpt2", "ab", {"pre": "gpt-2"}, "has no key 'tokenizer.ggml.merges'"),
        ("gpt2", "aa", {"pre": "gpt-2", "merges": ["a b"]}, "token 'a' is in the vocabulary twice"),
        ("gpt2", "ab", {"pre": "gpt-2", "merges": [1]}, "merges': expected an array of kind text, got one of int32"),
        ("llama", "ab", {"scores": [0.0]}, "key 'tokenizer.ggml.scores': expected 2 elements, got 1"),
        ("llama", "ab", {"scores": [1.0, float("nan")]}, "scores' has elements that are not finite"),
        ("llama", "ab", {"token_type": [1, 7]}, "token 1: expected type 1 to 6, got 7"),
        ("llama", "a\0", {}, "key 'tokenizer.ggml.tokens', element 1 contains NUL"),
    ],
)
def test_vocabularies(model, tokens, keys, said, tmp_path):
    keys = {k: (v, "array" if isinstance(v, list) else "string") for k, v in keys.items()}
    written = with_vocabulary("llama", model, list(tokens), **keys)
    refused_by_python.check(refused(written.write(tmp_path / "m.gguf")), said)


def test_vocabulary_of_another_size(tmp_path):
    written = with_vocabulary("llama", "llama", list("abc"))
    written.keys["tokenizer.ggml.tokens"] = (["a", "b"], "array")
    assert refused(written.write(tmp_path / "m.gguf")) == "has 2 tokens, and token_embd.weight has rows for 3"


@pytest.mark.by_turn(2)
@pytest.mark.parametrize("name, kind, more", hostile.FILES)
def test_mutated(name, kind, more, everything, tmp_path):
    """A file with changed numbers or bytes is refused in one line, or makes a program; either way it needs little
    memory."""
    vocabulary = "gpt2" if name.startswith("q") else "llama"
    path = hostile.with_vocabulary(Written(name, kind, **TINY | more), vocabulary).write(tmp_path / "m.gguf")
    data = path.read_bytes()
    tensors = hostile.read_header(data, AssertionError)[1].values()
    header, places = min(t.at for t in tensors), hostile.places_of(data)
    said, made = set(), 0
    with hostile.little_room():
        for i in range(3000 if everything else 150):
            path.write_bytes(hostile.mutated(data, header, places, random.Random(f"{name} {i}")))
            try:
                clave.load(path)
                made += 1
            except clave.Error as e:
                assert str(e).endswith(str(path)) and "\n" not in str(e) and len(str(e)) < 1000, (i, str(e))
                said.add(str(e)[:30])
    assert made > 3 and len(said) > 20
