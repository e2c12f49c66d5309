"""clave.llm.LLMExporter of small folders: the tokens that transformers' own model generates greedily, by family."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

from _folders import CONTEXT, FAMILIES, VOCAB, folder_of, mxfp4_folder

import clave
from clave.llm import LLMExporter, use_kv_cache

N_NEW = 64
PROMPTS = ((1,), (7,), (64,), (30, 1, 20, 13))  # lengths of pieces
IDS = torch.randint(3, VOCAB, (1, 64), generator=torch.Generator().manual_seed(0))


def greedy(session, prompt, pieces, n_new):
    """Returns the prompt with the tokens that follow, and the logits of all decisions: (n_new, VOCAB)."""
    ids, at, logits = prompt, 0, []
    for n in pieces:
        last = session(ids[:, at : at + n], torch.tensor(at))
        at += n
    while len(logits) < n_new:
        logits.append(last[0].float())
        ids = torch.cat([ids, last.argmax(-1, keepdim=True)], 1)
        last = session(ids[:, -1:], torch.tensor(ids.shape[1] - 1))
    return ids, torch.stack(logits)


@torch.no_grad()
def check_greedy(session, model, pieces, tolerance=1e-3):
    """A token may differ only if the model itself hardly prefers its own."""
    n = sum(pieces)
    ids, got = greedy(session, IDS[:, :n], pieces, N_NEW)
    want = model(ids, use_cache=False).logits[0, n - 1 : -1].float()
    largest = want.abs().max()
    torch.testing.assert_close(got, want, rtol=0, atol=float(tolerance * largest))
    top = want.topk(2).values
    differ = ids[0, n:] != want.argmax(-1)
    assert not (differ & (top[:, 0] - top[:, 1] > 1e-4 * largest)).any()


@pytest.mark.by_turn(22)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_gives_transformers_tokens(name, tmp_path):
    folder, model = folder_of(tmp_path / "m", name)
    path = LLMExporter(folder, max_context=CONTEXT, prompt_piece=16).save(tmp_path / "m.clv")
    for device in ("cpu", "opencl"):
        session = clave.Session(path, device)
        for pieces in PROMPTS:
            session.reset()
            check_greedy(session, model, pieces)


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("name", ["gpt2", "llama_tied", "bloom", "mamba", "mixtral", "gpt_oss"])
@torch.no_grad()
def test_quantised_matrices_are_those_of_the_model(name, tmp_path):
    """Matrices are quantised as clave.export quantises a model in memory. gpt2 and the experts of gpt-oss read them
    transposed. In mamba one matrix is multiplied from the left and is not quantised."""
    folder, model = folder_of(tmp_path / "m", name)
    path = LLMExporter(folder, max_context=CONTEXT).quantize("int8", "int8").save(tmp_path / "m.clv")
    encoded = {t.name for t in clave.load(path).schema.tensors if t.encoding is not None}
    assert len(encoded) >= 6 and (name not in ("mixtral", "gpt_oss") or sum("experts" in n for n in encoded) == 4)
    assert any("embed" in n or "wte" in n or "lm_head" in n for n in encoded)
    plain = model(IDS[:, :20]).logits[0, -1]
    cached, length = use_kv_cache(model, CONTEXT), torch.export.Dim("length", min=1, max=CONTEXT)
    example = (IDS[:, :3], torch.tensor(0))
    form = lambda name, weight: None if ".gate.weight" in name or ".router." in name else "int8"  # routers stay
    made = clave.export(cached, example, dynamic_shapes=({1: length}, None), quantize=form)
    want = clave.Session(made, "cpu")(IDS[:, :20], torch.tensor(0))[0]
    near = 0.3 if name == "gpt_oss" else 0.1  # a token may be routed to another expert
    assert float((want - plain).abs().max()) < near * float(plain.abs().max())
    for device in ("cpu", "opencl"):
        got = clave.Session(path, device)(IDS[:, :20], torch.tensor(0))[0]
        torch.testing.assert_close(got, want, rtol=0, atol=1e-3 * float(want.abs().max()))


@pytest.mark.by_turn(15)
@torch.no_grad()
def test_experts_of_mxfp4_are_taken_as_they_are(tmp_path):
    """The tokens are those of transformers' model with the decoded numbers."""
    folder, model = mxfp4_folder(tmp_path / "m", hidden_size=64, intermediate_size=32)
    path = LLMExporter(folder, max_context=CONTEXT, prompt_piece=16).save(tmp_path / "m.clv")
    forms = [t.encoding.format for t in clave.load(path).schema.tensors if t.encoding is not None]
    assert forms == ["MXFP4"] * 4
    for device in ("cpu", "opencl"):
        session = clave.Session(path, device)
        for pieces in PROMPTS:
            session.reset()
            check_greedy(session, model, pieces)
