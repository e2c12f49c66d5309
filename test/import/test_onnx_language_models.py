"""Language models in ONNX, as onnxruntime-genai and transformers.js use them: caches are state of the session."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import clave

_decoders = pytest.importorskip("_onnx_decoders", reason="no onnxruntime is installed")
onnx = pytest.importorskip("onnx", reason="no onnx package is installed")

GENAI = "onnxruntime-genai==0.18.0"
PROMPTS = [[5], [7, 9, 200, 31, 31, 8, 77], [(i * 37) % 250 + 4 for i in range(40)]]


@pytest.fixture(scope="module")
def genai(package, tmp_path_factory):
    """Returns a function that makes a folder of onnxruntime-genai once."""
    folders = {}

    def make(name, precision="fp32", provider="cpu"):
        key = f"{name}_{precision}_{provider}"
        if key not in folders:
            folder = tmp_path_factory.mktemp(key)
            folders[key] = _decoders.build_genai(package(GENAI), name, precision, provider, folder)
        return folders[key]

    return make


@pytest.fixture(scope="module")
def js(tmp_path_factory):
    """Returns a function that makes a folder for transformers.js once."""
    pytest.importorskip("onnxscript", reason="no onnxscript is installed")
    folders = {}

    def make(name, dynamo=False):
        key = f"{name}_{dynamo}"
        if key not in folders:
            folders[key] = _decoders.build_transformers_js(name, tmp_path_factory.mktemp(key), dynamo)
        return folders[key]

    return make


def compare(path, reference, device, bound=1e-3, steps=12):
    """Compares the logits of prompts of several lengths and of the tokens after them."""
    llm = clave.LLM(path, device=device)
    for prompt in PROMPTS:
        graph = _decoders.Reference(reference)
        with llm.conversation(ignore_stop_ids=True) as talk:
            talk.prompt(prompt)
            want = graph.run(prompt)
            for _ in range(steps):
                (token,) = talk.generate(max_new_tokens=1, logprobs=5).logprobs
                scale = np.abs(want).max()
                logprobs = want - np.log(np.exp(want - want.max()).sum()) - want.max()
                for i, p in token.top:
                    assert abs(p - logprobs[i]) <= bound * scale, (i, p, logprobs[i])
                assert want[token.id] >= want.max() - bound * scale, (token.id, want.argmax())
                want = graph.run([token.id])


@pytest.mark.parametrize("device", ["cpu", "opencl"])
@pytest.mark.parametrize("name", ["llama", "qwen3", "smollm3", "granite", "qwen2", "phi3"])
def test_genai(genai, name, device):
    """The attention of onnxruntime-genai's graphs reads the cache in place, and conversations share pages."""
    folder = genai(name)
    compare(folder, folder / "model.onnx", device)
    assert clave.LLM(folder).page_rows == 32


def genai_ids(package, folder, prompt, count):
    """Returns the ids that onnxruntime-genai decodes greedily, in a process of its own."""
    script = (
        "import sys, json, numpy as np, onnxruntime_genai as og\n"
        "folder, prompt, count = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])\n"
        "model = og.Model(folder); options = og.GeneratorParams(model)\n"
        "options.set_search_options(do_sample=False, max_length=len(prompt) + count)\n"
        "made = og.Generator(model, options); made.append_tokens(np.array([prompt], dtype=np.int32))\n"
        "while not made.is_done(): made.generate_next_token()\n"
        "print(json.dumps([int(i) for i in made.get_sequence(0)][len(prompt):]))\n"
    )
    paths = ":".join([str(package), *sys.path])
    command = [sys.executable, "-c", script, str(folder), json.dumps(prompt), str(count)]
    p = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": paths})
    assert p.returncode == 0, p.stderr[-2000:]
    return json.loads(p.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt_oss", "phi3_long"])
def test_genai_ids(genai, package, name):
    """Windows, sinks, experts, and frequencies that depend on the length: the ids of onnxruntime-genai itself."""
    folder = genai(name)
    for prompt in PROMPTS[1:]:
        want = genai_ids(package(GENAI), folder, prompt, 30)
        got = clave.LLM(folder, device="cpu").generate(prompt, max_new_tokens=30).ids
        assert got[: len(want)] == want and got[len(want) :] in ([], [2], [3])  # genai drops the end


@pytest.mark.parametrize("precision, provider, bound", [("int4", "cpu", 3e-2), ("fp16", "webgpu", 2e-2)])
def test_genai_precisions(genai, precision, provider, bound):
    """onnxruntime rounds the activations of these products to 8 bits, or cannot run the file on a CPU."""
    folder = genai("qwen3", precision, provider)
    if precision == "int4":
        compare(folder, folder / "model.onnx", "cpu", bound, steps=4)
    else:
        compare(folder, genai("qwen3") / "model.onnx", "cpu", bound, steps=4)


@pytest.mark.parametrize("device", ["cpu", "opencl"])
@pytest.mark.parametrize("name, dynamo", [("llama", False), ("gpt2", False), ("falcon", False), ("llama", True)])
def test_transformers_js(js, name, dynamo, device):
    """Past and present are concatenated in the graph; the new rows are written into the state instead."""
    folder = js(name, dynamo)
    compare(folder, folder / "onnx/model.onnx", device, steps=6)


def quantise(folder, kind):
    """Makes the file of a quantised form, by onnxruntime's tools."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    from onnxruntime.transformers.float16 import convert_float_to_float16

    source, path = folder / "onnx/model.onnx", folder / f"onnx/model_{kind}.onnx"
    model = onnx.load(source)
    if kind == "quantized":
        quantize_dynamic(source, path, weight_type=QuantType.QInt8)
        return path
    if kind.startswith("q4"):
        quantizer = MatMulNBitsQuantizer(model, block_size=32, is_symmetric=True)
        quantizer.process()
        model = quantizer.model.model
    if kind.endswith("f16"):
        model = convert_float_to_float16(model, disable_shape_infer=True)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("kind, bound", [("quantized", 1e-2), ("q4", 1e-2), ("f16", 2e-2), ("q4f16", 2e-2)])
def test_transformers_js_forms(js, kind, bound):
    """A file in the folder "onnx" belongs to the folder around it."""
    path = quantise(js("llama"), kind)
    compare(path, path, "cpu", bound, steps=4)


def test_merged_decoder(js, tmp_path):
    """Older files have an If: one branch for the first tokens, one for later ones."""
    folder = js("llama")
    shutil.copytree(folder, tmp_path / "merged")
    model = onnx.load(folder / "onnx/model.onnx")
    graph, inner = model.graph, onnx.GraphProto()
    inner.node.extend(graph.node)
    inner.output.extend(graph.output)
    inner.name = "with_past"
    other = onnx.GraphProto()
    other.CopyFrom(inner)
    made = onnx.helper.make_node("If", ["use_cache_branch"], [o.name for o in graph.output], "choose")
    made.attribute.append(onnx.helper.make_attribute("then_branch", inner))
    made.attribute.append(onnx.helper.make_attribute("else_branch", other))
    del graph.node[:]
    graph.node.append(made)
    graph.input.append(onnx.helper.make_tensor_value_info("use_cache_branch", onnx.TensorProto.BOOL, [1]))
    path = tmp_path / "merged/onnx/decoder_model_merged.onnx"
    (tmp_path / "merged/onnx/model.onnx").unlink()
    onnx.save(model, path)
    compare(tmp_path / "merged", folder / "onnx/model.onnx", "cpu", steps=3)


def test_recurrent_state(tmp_path):
    """State of a fixed size, such as the last columns of a convolution, is replaced by its new value."""
    rng = np.random.default_rng(3)
    weights = {"table": (64, 8), "head": (8, 64)}
    initializers = [
        onnx.numpy_helper.from_array(rng.standard_normal(s).astype("float32"), n) for n, s in weights.items()
    ] + [onnx.numpy_helper.from_array(np.array(v), n) for n, v in (("one", [1]), ("end", [2**62]), ("last", [-1]))]
    make = onnx.helper.make_node
    nodes = [
        make("Gather", ["table", "input_ids"], ["rows"]),  # (1, L, 8)
        make("Transpose", ["rows"], ["columns"], perm=[0, 2, 1]),
        make("Concat", ["past_conv.0", "columns"], ["all"], axis=2),  # (1, 8, 2 + L)
        make("Slice", ["all", "last2", "end", "two"], ["present_conv.0"]),
        make("AveragePool", ["all"], ["mixed"], kernel_shape=[3], strides=[1]),
        make("Transpose", ["mixed"], ["back"], perm=[0, 2, 1]),
        make("MatMul", ["back", "head"], ["logits"]),
    ]
    initializers += [onnx.numpy_helper.from_array(np.array(v), n) for n, v in (("last2", [-2]), ("two", [2]))]
    info, float32 = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    inputs = [info("input_ids", onnx.TensorProto.INT64, ["b", "l"]), info("past_conv.0", float32, ["b", 8, 2])]
    outputs = [info("logits", float32, ["b", "l", 64]), info("present_conv.0", float32, ["b", 8, 2])]
    graph = onnx.helper.make_graph(nodes, "conv", inputs, outputs, initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "model.onnx")
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 64}))
    llm = clave.LLM(tmp_path, device="cpu")
    prompt = [3, 9, 27, 41]
    got = llm.generate(prompt, max_new_tokens=8).ids
    table, head = (onnx.numpy_helper.to_array(i) for i in initializers[:2])
    ids = list(prompt)
    for _ in range(8):
        rows = np.concatenate([np.zeros((2, 8), "float32"), table[ids]])[-3:]
        ids.append(int((rows.mean(0) @ head).argmax()))
    assert got == ids[4:]


def test_settings(genai, tmp_path):
    """The tokenizer, chat template, context and ends are those of the folder; a .clv keeps them."""
    folder = genai("llama")
    program = clave.Program.load(folder)
    llm = program.metadata["llm"]
    assert llm["max_context"] == 256 and llm["bos"] is None and llm["eos"] == 2
    assert set(llm["stop_ids"]) == {2, 3} and llm["chat_template"] == _decoders.TEMPLATE
    assert llm["sampling"]["do_sample"] is False
    program.save(tmp_path / "llama.clv")
    answers = [
        clave.LLM(path, device="cpu").chat([{"role": "user", "content": "hello"}], max_new_tokens=9, temperature=0).ids
        for path in (folder, folder / "model.onnx", tmp_path / "llama.clv")
    ]
    assert answers[0] == answers[1] == answers[2]
    shutil.copytree(folder, tmp_path / "adds")
    config = json.loads((folder / "tokenizer_config.json").read_text()) | {"add_bos_token": True}
    (tmp_path / "adds/tokenizer_config.json").write_text(json.dumps(config))
    assert clave.Program.load(tmp_path / "adds").metadata["llm"]["bos"] == 1


def test_commands(genai, build, tmp_path):
    """Commands take the folder in place of a program."""
    folder, clv, binary = genai("llama"), tmp_path / "llama.clv", tmp_path / "llama"
    ask = ["--prompt", "hello", "--max-new-tokens", "9"]
    run = lambda *command: subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
    run(build / "clave", "convert", folder, clv)
    run(build / "clave", "compile", folder, "-o", binary)
    texts = [run(build / "clave", "generate", p, *ask) for p in (folder, folder / "model.onnx", clv)]
    assert texts[0] and texts.count(texts[0]) == 3 and run(binary, *ask) == texts[0]
    assert "past_key_values.0.key" in run(build / "clave", "inspect", folder)


def refused(folder):
    with pytest.raises(clave.Error) as error:
        clave.LLM(folder, device="cpu")
    message = str(error.value)
    assert "\n" not in message
    return message


def test_errors(js, tmp_path):
    """A folder that is not a language model in ONNX, or is one in part."""
    assert "no .onnx file" in refused(tmp_path)
    folder = shutil.copytree(js("llama"), tmp_path / "js")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if "max_position" not in k}))
    assert "the length of the context" in refused(folder)
    (folder / "config.json").write_text("{")
    assert "config.json" in refused(folder)
    (folder / "config.json").write_text(json.dumps(config))
    model = onnx.load(folder / "onnx/model.onnx")
    path = folder / "onnx/model.onnx"

    def changed(change):
        other = onnx.ModelProto()
        other.CopyFrom(model)
        change(other.graph)
        onnx.save(other, path)
        return refused(folder)

    def rename(graph):
        graph.input[0].name = "pixel_values"
        for n in graph.node:
            for i, name in enumerate(n.input):
                n.input[i] = name.replace("input_ids", "pixel_values")

    assert "pixel_values" in changed(rename)
    assert "past_key_values.0.key" in changed(lambda g: g.output.pop(1))  # no present value
    assert "not a language model" in changed(lambda g: [g.input.pop() for _ in range(4)])
    onnx.save(model, folder / "onnx/model_other.onnx")
    path.rename(folder / "onnx/model_first.onnx")
    assert "model_first.onnx, model_other.onnx" in refused(folder)
    (tmp_path / "other.onnx").touch()
    (folder / "genai_config.json").write_text(json.dumps({"model": {"decoder": {"filename": "../other.onnx"}}}))
    assert "outside of its folder" in refused(folder)


def test_present_values_of_other_rows(js, tmp_path):
    """A present value that is not the past one with new rows cannot be state of the cache."""
    folder = shutil.copytree(js("llama"), tmp_path / "js")
    model = onnx.load(folder / "onnx/model.onnx")
    for n in model.graph.node:
        for i, name in enumerate(n.output):
            if name == "present.0.key":
                n.output[i] = "kept"
        for i, name in enumerate(n.input):
            if name == "present.0.key":
                n.input[i] = "kept"
    model.graph.node.append(onnx.helper.make_node("Neg", ["kept"], ["present.0.key"]))
    onnx.save(model, folder / "onnx/model.onnx")
    assert "present.0.key" in refused(folder) and "new rows" in refused(folder)


def test_rewinding(js, genai):
    """Rows that were written from a position on can be written again."""
    for folder in (js("llama"), genai("gpt_oss"), genai("llama")):
        llm = clave.LLM(folder, device="cpu")
        with llm.conversation(ignore_stop_ids=True) as talk, llm.conversation(ignore_stop_ids=True) as other:
            talk.prompt([5, 6, 7, 8, 9])
            talk.generate(max_new_tokens=3)
            talk.rewind(3)
            talk.prompt([8, 9])
            other.prompt([5, 6, 7, 8, 9])
            assert talk.generate(max_new_tokens=4).ids == other.generate(max_new_tokens=4).ids


def projections():
    """Returns the weights and nodes that compute h, keys and values (1, L, 8) from input_ids."""
    rng, make = np.random.default_rng(4), onnx.helper.make_node
    floats = lambda *shape: rng.standard_normal(shape).astype("float32")
    weights = {"table": floats(32, 8), "head": floats(8, 32), "wkey": floats(8, 8), "wvalue": floats(8, 8)}
    nodes = [make("Gather", ["table", "input_ids"], ["h"])]
    nodes += [make("MatMul", ["h", f"w{name}"], [f"p{name}"]) for name in ("key", "value")]
    return weights, nodes


def save_decoder(folder, nodes, weights, inputs, outputs):
    graph = onnx.helper.make_graph(
        nodes, "g", inputs, outputs, [onnx.numpy_helper.from_array(np.asarray(x), n) for n, x in weights.items()]
    )
    imports = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("com.microsoft", 1)]
    folder.mkdir(exist_ok=True)
    onnx.save(onnx.helper.make_model(graph, opset_imports=imports, ir_version=9), folder / "model.onnx")
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 64}))
    return folder


def grouped_decoder(folder, between):
    """Attention of onnxruntime, and nodes from "a" to "z" after it."""
    make, info, F = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    weights, nodes = projections()
    weights |= {"one": np.array([1]), "i": np.array(1), "flat": np.array([1, -1]), "whole": np.array([1, -1, 8])}
    nodes += [
        make("ReduceSum", ["attention_mask", "one"], ["s"], keepdims=0),
        make("Cast", ["s"], ["n"], to=onnx.TensorProto.INT32),
        make("Shape", ["attention_mask"], ["m"]),
        make("Gather", ["m", "i"], ["u"]),
        make("Cast", ["u"], ["t"], to=onnx.TensorProto.INT32),
        make(
            "GroupQueryAttention",
            ["h", "pkey", "pvalue", "past_key_values.0.key", "past_key_values.0.value", "n", "t"],
            ["a", "present.0.key", "present.0.value"],
            domain="com.microsoft",
            num_heads=1,
            kv_num_heads=1,
        ),
        *(make(op, i, o, **more) for op, i, o, more in between),
        make("MatMul", ["z", "head"], ["logits"]),
    ]
    I64, names = onnx.TensorProto.INT64, [f"0.{k}" for k in ("key", "value")]
    inputs = [info("input_ids", I64, ["b", "l"]), info("attention_mask", I64, ["b", "t"])]
    inputs += [info(f"past_key_values.{n}", F, ["b", 1, "past", 8]) for n in names]
    outputs = [info("logits", F, ["b", "l", 32])] + [info(f"present.{n}", F, ["b", 1, "all", 8]) for n in names]
    return save_decoder(folder, nodes, weights, inputs, outputs)


MIXING = {
    "maximum": [("ReduceMax", ["a"], ["x"], {"keepdims": 1}), ("Add", ["a", "x"], ["z"], {})],
    "softmax": [("Softmax", ["a"], ["z"], {"axis": 1})],
    "product": [("MatMul", ["a", "x"], ["y"], {}), ("MatMul", ["y", "a"], ["z"], {})],
}
MIXING["flat"] = [("Reshape", ["a", "flat"], ["x"], {}), ("Softmax", ["x"], ["y"], {"axis": -1})]
MIXING["flat"] += [("Reshape", ["y", "whole"], ["z"], {})]
MIXING["product"].insert(0, ("Transpose", ["a"], ["x"], {"perm": [0, 2, 1]}))


@pytest.mark.parametrize("name", ["separate", *MIXING])
def test_conversations_do_not_mix(name, tmp_path):
    """Conversations share a run only if no op lets a token read another one."""
    between = MIXING.get(name) or [("Tanh", ["a"], ["x"], {}), ("Add", ["a", "x"], ["z"], {})]
    folder = grouped_decoder(tmp_path / "g", between)
    llm = clave.LLM(folder, device="cpu")
    assert llm.page_rows == (32 if name == "separate" else 0)
    prompts = [[3, 9, 14], [27, 1], [8]]
    together = [a.ids for a in llm.generate_each(prompts, max_new_tokens=4)]
    assert together == [clave.LLM(folder, device="cpu").generate(p, max_new_tokens=4).ids for p in prompts]


def test_pasts_of_one_node(genai, tmp_path):
    """A node of which only one past value is a cache, or both are the same."""
    folder = shutil.copytree(genai("llama"), tmp_path / "genai")
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    node = next(n for n in model.graph.node if n.op_type == "GroupQueryAttention")
    for name in ("", "past_key_values.0.key", "past_key_values.1.value"):
        node.input[4] = name
        onnx.save(model, folder / "model.onnx")
        assert "GroupQueryAttention" in refused(folder)


def test_new_rows_that_are_not_one_for_each_token(js, tmp_path):
    folder = shutil.copytree(js("llama"), tmp_path / "js")
    model = onnx.load(folder / "onnx/model.onnx")
    concat = next(n for n in model.graph.node if n.output[0] == "present.0.key")
    new = concat.input[1]
    bounds = [onnx.numpy_helper.from_array(np.array([v]), n) for n, v in (("b0", 0), ("b1", 1), ("b2", 2))]
    model.graph.initializer.extend(bounds)
    model.graph.node.append(onnx.helper.make_node("Slice", [new, "b0", "b1", "b2"], ["cut"]))
    concat.input[1] = "cut"
    onnx.save(model, folder / "onnx/model.onnx")
    llm = clave.LLM(folder, device="cpu")
    with pytest.raises(clave.Error, match="not one for each token"):
        llm.generate([5, 6, 7], max_new_tokens=2)


def test_other_interfaces(js, tmp_path):
    """An output of another name is not the logits; a batch of two is no conversation."""
    folder = shutil.copytree(js("llama"), tmp_path / "js")
    model = onnx.load(folder / "onnx/model.onnx")

    def changed(change):
        other = onnx.ModelProto()
        other.CopyFrom(model)
        change(other.graph)
        onnx.save(other, folder / "onnx/model.onnx")
        return refused(folder)

    def rename(graph):
        graph.output[0].name = "hidden_states"
        for n in graph.node:
            n.output[:] = ["hidden_states" if o == "logits" else o for o in n.output]

    def batch(graph):
        graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2

    def initialise(graph):
        graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, 3), np.int64), "input_ids"))

    assert "logits" in changed(rename)
    assert "batch" in changed(batch) and "input_ids" in changed(initialise)


def test_links_and_one_of_several_graphs(js, build, tmp_path):
    """Folders of the Hugging Face cache are links to files; a chosen graph is converted with its folder's settings."""
    folder, cache = js("llama"), tmp_path / "snapshots/a"
    cache.mkdir(parents=True)
    for path in (folder / "onnx/model.onnx", folder / "config.json", folder / "tokenizer.json"):
        shutil.copy(path, tmp_path / path.name)
        (cache / path.name).symlink_to(f"../../{path.name}")
    want = clave.LLM(folder, device="cpu").generate([5, 6, 7], max_new_tokens=5).ids
    assert clave.LLM(cache, device="cpu").generate([5, 6, 7], max_new_tokens=5).ids == want
    command = [build / "clave", "convert", "--language-model", folder / "onnx/model.onnx", tmp_path / "one.clv"]
    subprocess.run(command, check=True)
    assert clave.LLM(tmp_path / "one.clv", device="cpu").generate([5, 6, 7], max_new_tokens=5).ids == want
