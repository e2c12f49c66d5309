"""Refusals of clave.llm.export: one line, exit 1, and no file, before any long step."""

import json
import os
import shutil

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

from _folders import folder_of, mxfp4_folder
from safetensors import safe_open
from safetensors.torch import save_file

import clave
from clave.llm import LLMExporter, export

Q = "model.layers.1.self_attn.q_proj.weight"
INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"


@pytest.fixture(scope="session")
def good(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("refused") / "m")[0]


@pytest.fixture
def folder(good, tmp_path):
    """Returns a copy, which a test damages."""
    return shutil.copytree(good, tmp_path / "m")


def tensors_of(folder, name=SINGLE):
    with safe_open(folder / name, "pt") as f:
        return {k: f.get_tensor(k) for k in f.keys()}  # noqa: SIM118


def change_config(folder, **keys):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | keys))


def change_weights(folder, change):
    tensors = tensors_of(folder)
    change(tensors)
    save_file(tensors, folder / SINGLE)


def shard(folder, **wrong):
    """Writes two files and an index, which may be wrong."""
    tensors = tensors_of(folder)
    (folder / SINGLE).unlink()
    names = sorted(tensors)
    index = {}
    for i, part in enumerate((names[:7], names[7:]), 1):
        file = f"model-{i:05d}-of-00002.safetensors"
        save_file({n: tensors[n] for n in part}, folder / file)
        index |= dict.fromkeys(part, file)
    (folder / INDEX).write_text(json.dumps({"weight_map": index | wrong}))


def refused(capsys, folder, *options, code=1):
    """Returns the error line of the command."""
    output = folder.parent / "out.clv"
    assert export.main(["--model", str(folder), "--output", str(output), *options]) == code
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("clave: ") and err.count("\n") == 1
    assert not list(folder.parent.glob("out*")) and not list(folder.parent.glob("tmp*"))
    return err.removeprefix("clave: ").rstrip()


def test_folders(folder, capsys, tmp_path):
    assert refused(capsys, tmp_path / "none") == f"{tmp_path / 'none'}: there is no such folder"
    assert "is not a folder" in refused(capsys, folder / "config.json")
    for text, want in (("[1]", "expected an object, got list"), ("{", "is not JSON"), ("[" * 100_000, "is not JSON")):
        (folder / "config.json").write_text(text)
        assert want in refused(capsys, folder)
    (folder / "config.json").unlink()
    assert "has no config.json" in refused(capsys, folder)


def test_names_of_the_hub_and_adapters(folder, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("HuggingFaceTB/SmolLM2-135M", "a/b"):
        output = tmp_path / "out.clv"
        assert export.main(["--model", name, "--output", str(output)]) == 1 and not output.exists()
        said = capsys.readouterr().err
        assert said.startswith(f"clave: {name}: there is no such folder; hf download {name} --local-dir DIR")
    for name in ("./a/b", "a", "a/b/c", "../a"):
        assert export.main(["--model", name, "--output", str(output)]) == 1
        assert capsys.readouterr().err.endswith("there is no such folder\n")
    for base, named in (("meta-llama/Llama-3.2-1B", " for meta-llama/Llama-3.2-1B"), (None, "")):
        (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
        (folder / SINGLE).unlink(missing_ok=True)
        assert f"expected a whole model, got an adapter{named} (adapter_config.json): merge" in refused(capsys, folder)
        (folder / "config.json").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (lambda t: t.pop(Q), f"has no weights for {Q!r}"),
        (lambda t: t.update(more=torch.ones(3)), "has tensors that the model has no place for: 'more'"),
        (lambda t: t.update({Q: torch.ones(32, 31)}), f"tensor {Q!r}: expected (32, 32) by config.json, got (32, 31)"),
        (
            lambda t: t.update({Q: torch.ones(32, 32, dtype=torch.int8)}),
            f"tensor {Q!r}: expected one of F64, F32, F16, BF16, got I8",
        ),
    ],
)
def test_tensors(folder, capsys, change, want):
    change_weights(folder, change)
    assert want in refused(capsys, folder)


def test_files_of_weights(folder, capsys):
    data = (folder / SINGLE).read_bytes()
    (folder / SINGLE).write_bytes(data[:-100])
    assert f"{SINGLE}: is not a safetensors file" in refused(capsys, folder)
    (folder / SINGLE).unlink()
    assert f"has no {SINGLE} and no {INDEX}" in refused(capsys, folder)
    (folder / "pytorch_model.bin").write_bytes(b"")
    assert f"expected the weights in {SINGLE}, got pytorch_model.bin: " in refused(capsys, folder)


def test_shards(folder, capsys):
    shard(folder)
    assert len(LLMExporter(folder)._folder.files) == 2
    (folder / "model-00002-of-00002.safetensors").rename(folder / "model-00002-of-00003.safetensors")
    assert "lacks 'model-00002-of-00002.safetensors' of the 2 files" in refused(capsys, folder)
    shutil.copy(folder / "model-00002-of-00003.safetensors", folder / "model-00002-of-00002.safetensors")
    assert f"has 'model-00002-of-00003.safetensors', which {INDEX} does not name" in refused(capsys, folder)


@pytest.mark.parametrize("name", ["../other.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "a\\b"])
def test_an_index_that_leads_elsewhere(folder, capsys, name):
    shard(folder, x=name)
    assert f"expected names of files in the folder itself, got {name!r}" in refused(capsys, folder)


def test_an_index_of_something_else(folder, capsys):
    shard(folder, x="model-00001-of-00002.safetensors")
    assert "has no tensor 'x', which model.safetensors.index.json places there" in refused(capsys, folder)
    for text in ('{"weight_map": 3}', '{"weight_map": {"x": 3}}', "{}"):
        (folder / INDEX).write_text(text)
        assert "weight_map must name a file for each tensor" in refused(capsys, folder)


def test_configurations(folder, capsys):
    change_config(folder, quantization_config={"quant_method": "gptq"})
    assert "expected plain weights, or experts in mxfp4, got weights quantised by 'gptq'" in refused(capsys, folder)
    change_config(folder, quantization_config=None, num_attention_heads="four")
    assert "transformers cannot build a model of config.json" in refused(capsys, folder)
    for kind in ("what", None, ["llama"]):
        change_config(folder, model_type=kind)
        message = refused(capsys, folder)
        assert "architecture: expected one of bamba, bloom, cohere2" in message and f", got {kind!r}" in message


@pytest.mark.parametrize("said", [97, [97], [2, 151329], [1, 2, 3, 4, 97]])
@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_ids_beyond_the_vocabulary(folder, capsys, said, name):
    (folder / "generation_config.json").unlink()
    config = json.loads((folder / "config.json").read_text()) if name == "config.json" else {}
    (folder / name).write_text(json.dumps(config | {"eos_token_id": said}))
    largest = said if isinstance(said, int) else max(said)
    assert f"{name}: eos_token_id: expected 0 to 96, the model's tokens, got {largest}" in refused(capsys, folder)


@pytest.mark.parametrize("said", [None, [], 2, [2], [96, 2, 1], -1, [-1]])
def test_ids_that_are_tokens_load(folder, tmp_path, said):
    (folder / "generation_config.json").unlink()
    change_config(folder, eos_token_id=said)
    llm = clave.LLM(LLMExporter(folder, max_context=16).save(tmp_path / "m.clv"), "cpu")
    assert llm.stop_ids == [i for i in (said if isinstance(said, list) else [said]) if i is not None and i >= 0]


def test_what_does_not_load_is_not_kept(folder, tmp_path):
    exporter = LLMExporter(folder, max_context=16).lower()
    exporter.program.metadata = {"llm": exporter.metadata | {"stop_ids": [97]}}
    with pytest.raises(clave.Error, match=r"clave\.LLM cannot load the program: llm\.stop_ids is 97"):
        exporter.save(tmp_path / "m.clv")
    assert not (tmp_path / "m.clv").exists()


TABLES = {
    "gpt2": {"n_positions": 32, "max_position_embeddings": 32},
    "opt": {"max_position_embeddings": 32},
    "bloom": {},
    "gpt_neox": {"max_position_embeddings": 32},
}


@pytest.mark.parametrize(("name", "most"), [("gpt2", 32), ("opt", 32), ("bloom", None), ("gpt_neox", None)])
def test_tables_of_positions(tmp_path, capsys, name, most):
    """Contexts beyond a table are refused; rope and ALiBi have positions for every context. By default all fit."""
    folder, _ = folder_of(tmp_path / "m", name, **TABLES[name])
    capsys.readouterr()
    if most is not None:
        message = (
            f"has positions for {most} tokens; expected max_context (--max-context) at most {most}, got {most + 1}"
        )
        assert message in refused(capsys, folder, "--max-context", str(most + 1))
    for context in (None, most or 64):
        llm = clave.LLM(LLMExporter(folder, max_context=context).save(tmp_path / "m.clv"), "cpu")
        if name != "bloom":
            assert llm.max_context == (context or 32)
        answer = llm.generate([5] * 20, max_new_tokens=50, ignore_stop_ids=True)
        assert most is None or (answer.stop_reason, len(answer.ids)) == ("context_full", 12)


def test_experts_of_mxfp4(tmp_path, capsys):
    good, _ = mxfp4_folder(tmp_path / "good", hidden_size=64, intermediate_size=32)
    capsys.readouterr()
    name = "model.layers.0.mlp.experts.down_proj"

    def refused_with(change, want):
        folder = tmp_path / "m"
        shutil.rmtree(folder, ignore_errors=True)
        change_weights(shutil.copytree(good, folder), change)
        assert want in refused(capsys, folder)

    blocks, scales = f"{name}_blocks", f"{name}_scales"
    refused_with(lambda t: t.pop(scales), f"has no {scales!r} beside {blocks!r}")
    refused_with(lambda t: t.pop(blocks), f"has tensors that the model has no place for: {scales!r}")
    refused_with(lambda t: t.update({name: torch.ones(1)}), f"has {name!r} beside {blocks!r}")
    refused_with(
        lambda t: t.update({scales: t[scales][:, 1:].clone()}), "expected (E, N, K / 32, 16) and (E, N, K / 32), got "
    )
    refused_with(lambda t: t.update({scales: t[scales].char()}), "its scales: expected U8, got U8 and I8")
    refused_with(
        lambda t: t.update({n: t[n][:, 1:].clone() for n in (blocks, scales)}),
        f"tensor {name!r}: expected (4, 32, 64) by config.json, got (4, 32, 63)",
    )
    refused_with(lambda t: t[scales].fill_(255), f"weight {name!r} has a scale that is not a number")


def test_options(folder, capsys):
    for option in ("--quantize", "--quantize-embedding"):  # before the folder is read
        said = refused(capsys, folder.parent / "not read", option, "int9", code=2)
        assert said.startswith(f"{option} int9: expected int2 to int8")
    assert "cannot be quantised" in refused(capsys, folder, "--quantize", "Q4_0", "--quantize-embedding", "TQ1_0")
    assert "unknown device 'nodev'" in refused(capsys, folder.parent / "not read", "--pack", "nodev")
    said = refused(capsys, folder, "--max-context", str(2**31 - 1))
    assert "caches of 2147483647 tokens take" in said
    fits = int(said.split()[-3])
    assert 1 < fits < 2**31 and fits * 256 <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # 256: a token
    for option, value in (("--kv", "f8"), ("--dtype", "f8"), ("--max-context", "1"), ("--prompt-piece", "0")):
        assert option in refused(capsys, folder, option, value, code=2)


def test_what_has_a_state_of_another_kind(tmp_path, capsys):
    heads = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "num_experts": 10}
    config = transformers.Qwen3NextConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, **heads)
    transformers.Qwen3NextForCausalLM(config).save_pretrained(tmp_path / "m")
    capsys.readouterr()
    message = "use_kv_cache: Qwen3NextForCausalLM: layer 0 keeps a state that is not of Mamba's kind"
    assert message in refused(capsys, tmp_path / "m")


def test_types_of_caches_that_are_not_there(tmp_path, capsys):
    folder, _ = folder_of(tmp_path / "m", "mamba")
    capsys.readouterr()
    assert "mamba keeps no keys and values, which could be int8" in refused(capsys, folder, "--kv", "int8")


def test_tokenizers(folder, capsys):
    (folder / "tokenizer.json").write_text("{}")
    assert "tokenizer.json: " in refused(capsys, folder)
    (folder / "tokenizer_config.json").write_text("[]")
    assert "tokenizer_config.json: expected an object, got list" in refused(capsys, folder)


def test_weights_that_are_no_numbers(folder, capsys):
    change_weights(folder, lambda t: t[Q].fill_(float("nan")))
    assert f"weight {Q!r} cannot be quantised: it has elements that are not finite" in refused(
        capsys, folder, "--quantize", "int8"
    )


def test_a_folder_that_changes_meanwhile(folder):
    exporter = LLMExporter(folder)
    change_weights(folder, lambda t: t.update({Q: torch.zeros(32, 32)}))
    with pytest.raises(clave.Error, match="was changed during the export: export again"):
        exporter.capture()


def test_pt2e(folder):
    quantizer = pytest.importorskip("clave.quantizer", reason="needs torchao")
    weights = quantizer.ClaveQuantizer(activations="none")

    def refused_with(message, exporter, *given):
        with pytest.raises(clave.Error) as e:
            exporter.pt2e_quantize(*given)
        assert message in str(e.value) and "\n" not in str(e.value)

    refused_with("expected torchao quantizers like clave.quantizer.ClaveQuantizer(), got none", LLMExporter(folder), [])
    refused_with(
        "expected torchao quantizers like clave.quantizer.ClaveQuantizer(), got str", LLMExporter(folder), ["int8"]
    )
    refused_with("the weights are int8 already", LLMExporter(folder).quantize("int8"), [weights])
    exporter = LLMExporter(folder, max_context=16).capture()
    with pytest.raises(clave.Error, match=r"^quantize comes before capture"):
        exporter.quantize("int8")
    refused_with("expected ids, because there is no tokenizer, got a text", exporter, [weights], ["a text"])
    refused_with("expected texts, or ids from 0 to 96", exporter, [weights], [[]])
    for ids in ([97], [-1], torch.tensor([97]), ["a"], [1.5], [True], torch.tensor([1.0])):
        refused_with("an id of calibration: expected an integer from 0 to 96, got ", exporter, [weights], [ids])
    refused_with("the rounding of activations needs calibration", exporter, [quantizer.ClaveQuantizer()])
    refused_with("the quantizers annotate nothing", exporter, [quantizer.ClaveQuantizer(skip=["model"])])
    exporter.pt2e_quantize([weights])
    refused_with("it is done already", exporter, [weights])
    refused_with("the program is made already", exporter.lower(), [weights])
    encoded = [t for t in exporter.program.schema.tensors if t.encoding is not None]
    assert len(encoded) == 2 * 4 + 2  # q, k and v are joined, and so are gate and up
    with pytest.raises(clave.Error, match="activations: expected 'all', 'inputs' or 'none', got 'int8'"):
        quantizer.ClaveQuantizer(activations="int8")
