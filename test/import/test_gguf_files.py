"""GGUF files without Python: `clave generate`, and clave.LLM, which load them as clave_llm_load does. test/python tests
what is read of them, by clave.from_gguf."""

import subprocess

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

from _gguf import Written
from _trained import trained
from test_gguf_tokenizer import bpe_keys

import clave

TINY = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2}
TINY |= {"num_key_value_heads": 1}
PROMPT = "Hello there"


def write(path, pre="qwen2", **more):
    """Writes a model with a trained tokenizer. pre: what the file calls its pre-tokenizer."""
    library = trained("qwen2")
    written = Written("qwen2", **TINY | {"vocab_size": library.get_vocab_size()} | more)
    for key, value in ({"model": "gpt2", "pre": pre} | bpe_keys(library)).items():
        written.keys[f"tokenizer.ggml.{key}"] = (value, "array" if isinstance(value, list) else "string")
    return written.write(path)


def generate(build, path, *options):
    command = [build / "clave", "generate", path, "--prompt", PROMPT, "-n", "12", "--device", "cpu", *options]
    return subprocess.run(command, capture_output=True, text=True)


def generated(build, path, *options):
    p = generate(build, path, *options)
    assert p.returncode == 0 and p.stdout, p.stderr
    return p.stdout


def saved(path, source, **options):
    clave.from_gguf(source, **options).save(path)
    return path


def test_without_python(build, tmp_path):
    """`clave generate` answers like the program that Python saves."""
    path = write(tmp_path / "m.gguf")
    assert generated(build, path) == generated(build, saved(tmp_path / "m.clv", path))


def test_what_load_reads(tmp_path):
    """clave.load reads what from_gguf does, with the defaults of its options."""
    path = write(tmp_path / "m.gguf")
    clave.load(path).save(tmp_path / "loaded.clv")
    saved(tmp_path / "made.clv", path)
    assert (tmp_path / "loaded.clv").read_bytes() == (tmp_path / "made.clv").read_bytes()


def test_another_tokenizer(build, tmp_path):
    """It replaces one of an unknown kind, and supplies what the file's keys do not say."""
    path, other = write(tmp_path / "m.gguf", "what"), tmp_path / "tokenizer.json"
    trained("qwen2").save(str(other))
    text = generated(build, path, "--tokenizer", other)
    assert text == generated(build, saved(tmp_path / "m.clv", path, tokenizer=other))
    p = generate(build, path)
    assert p.returncode == 1 and p.stderr.startswith("clave: pre-tokenizer: expected one of gpt-2, ")
    assert p.stderr.endswith(f"; another tokenizer can be given in its place (tokenizer=, --tokenizer); {path}\n")


def test_context(build, tmp_path):
    """The context is the model's own unless the caller chooses another one."""
    path = write(tmp_path / "m.gguf")
    for options, limit in [({}, 128), ({"max_context": 40}, 40), ({"max_context": 1000}, 1000)]:
        assert clave.LLM(path, device="cpu", **options).max_context == limit
    assert generated(build, path, "-c", "500") == generated(build, path)


def states(program):
    """Returns the types of the caches, and of the scales of caches in integers."""
    s = program.schema
    first = len(s.constants) + s.n_inputs + s.n_outputs
    return sorted(t.dtype.name for t in s.tensors[first : first + s.n_state])


CACHES = {"f32": ["F32"] * 2, "f16": ["F16"] * 2, "bf16": ["BF16"] * 2, "int8": ["F32", "F32", "I8", "I8"]}


def test_types_of_the_cache(build, tmp_path):
    """The caller chooses the type of the cache of a .gguf file, and gets the logits of a program with such caches."""
    path, found = write(tmp_path / "m.gguf"), set()

    def written(model, *options):
        generated(build, model, "--logprobs", tmp_path / "l.json", *options)
        return (tmp_path / "l.json").read_text()

    def logprobs(model, **options):
        answer = clave.LLM(model, device="cpu", **options).generate(PROMPT, max_new_tokens=12, logprobs=5)
        return repr(answer.logprobs)

    for kv, types in CACHES.items():
        program = saved(tmp_path / "m.clv", path, kv=kv)
        assert states(clave.load(program)) == types
        assert written(path, "--kv", kv) == written(program)
        assert logprobs(path, kv=kv) == logprobs(program)
        found.add(written(program))
    assert len(found) == 4 and written(path) == written(path, "--kv", "f16")


def test_the_cache_of_another_file(build, tmp_path):
    """Only a .gguf file has caches whose type can be chosen."""
    program = saved(tmp_path / "m.clv", write(tmp_path / "m.gguf"))
    said = f"{program}: kv: only the caches of a .gguf file can be chosen"
    p = generate(build, program, "--kv", "int8")
    assert (p.returncode, p.stdout, p.stderr) == (1, "", f"clave: {said}\n")
    p = generate(build, tmp_path / "m.gguf", "--kv", "int9")
    said_of_int9 = f"kv: expected f32, f16, bf16 or int8, got 'int9'; {tmp_path / 'm.gguf'}"
    assert (p.returncode, p.stdout, p.stderr) == (1, "", f"clave: {said_of_int9}\n")
    for use in (lambda: clave.LLM(program, device="cpu", kv="int8"), lambda: clave.from_gguf(program)):
        with pytest.raises(clave.Error) as e:
            use()
        assert str(e.value) == said
    with pytest.raises(clave.Error, match="kv: expected 'f32', 'f16', 'bf16', 'int8' or None, got 'int9'"):
        clave.LLM(tmp_path / "m.gguf", device="cpu", kv="int9")
