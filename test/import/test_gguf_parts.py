"""Models in several GGUF files: the tensors of all parts, and parts that are missing, repeated or of another model."""

import shutil

import gguf
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

from _gguf import VOCAB, Written

import clave

TINY = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 32}
IDS = torch.randint(3, VOCAB, (1, 9), generator=torch.Generator().manual_seed(0))


def part(path, architecture, tensors, keys):
    writer = gguf.GGUFWriter(path, architecture)
    for key, (value, how) in keys.items():
        getattr(writer, f"add_{how}")(key, value)
    for name, (data, _) in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def parts_of(folder, n, written):
    """Writes n parts, of which the first has the keys and each has every n-th tensor. Returns their paths."""
    paths = [folder / f"m-{i + 1:05}-of-{n:05}.gguf" for i in range(n)]
    for i, path in enumerate(paths):
        keys = {"split.no": (i, "uint16"), "split.count": (n, "uint16")}
        keys["split.tensors.count"] = (len(written.tensors), "int32")
        names = list(written.tensors)[i::n]
        part(
            path, written.architecture, {k: written.tensors[k] for k in names}, keys | (written.keys if i == 0 else {})
        )
    return paths


@pytest.fixture
def written():
    return Written("llama3", **TINY)


def logits(path):
    return clave.Session(clave.load(path), "cpu")(IDS, torch.tensor(0))[0]


@pytest.mark.parametrize("n", [1, 2, 3, 11])
def test_parts(n, written, tmp_path):
    """The logits are those of the model in one file, also after saving. With 11 parts, some have one tensor."""
    want = logits(written.write(tmp_path / "m.gguf"))
    paths = parts_of(tmp_path, n, written)
    assert torch.equal(logits(paths[0]), want)
    clave.load(paths[0]).save(tmp_path / "m.clv")
    assert torch.equal(logits(tmp_path / "m.clv"), want)


def refused(path):
    with pytest.raises(clave.Error) as e:
        clave.load(path)
    said = str(e.value)
    assert "\n" not in said
    return said


def test_what_is_refused(written, tmp_path):
    first, second, third = parts_of(tmp_path, 3, written)
    assert refused(second) == f"expected the first part of the model, got part 2 of 3; {second}"
    shutil.copy(first, tmp_path / "other.gguf")
    said = "is one of 3 parts: expected a file name that ends in -00001-of-00003.gguf"
    assert refused(tmp_path / "other.gguf") == f"{said}; {tmp_path / 'other.gguf'}"
    with pytest.raises(clave.Error, match="is one of 3 parts: expected a file name"):
        clave.program.load_bytes(first.read_bytes(), "bytes")
    kept = third.read_bytes()
    shutil.copy(second, third)
    assert refused(first) == f"expected part 3 of 3, got part 2 of 3; {third}; {first}"
    third.write_bytes(kept[:-64])
    assert f" bytes or more, got {len(kept) - 64}: it ends before tensor " in refused(first)
    third.write_bytes(b"GGU")
    assert "is not a GGUF file" in refused(first)
    third.unlink()
    assert refused(first) == f"{third}: no such file or directory; {first}"


def test_tensors_of_the_parts(written, tmp_path):
    """A tensor in two parts, and another number of tensors than the key says."""
    first, second = parts_of(tmp_path, 2, written)
    names = list(written.tensors)
    keys = {"split.no": (1, "uint16"), "split.count": (2, "uint16")}
    some = {k: written.tensors[k] for k in names[1::2]}
    part(second, written.architecture, some | {names[0]: written.tensors[names[0]]}, keys)
    assert refused(first) == f"has tensor '{names[0]}' twice; {first}"
    some.pop(names[1])
    part(second, written.architecture, some, keys)
    n = len(names)
    assert refused(first) == f"key 'split.tensors.count' is {n}, but the parts have {n - 1} tensors; {first}"


def test_a_part_that_changes(tmp_path):
    """Afterwards the program is not run. Small files would be copied."""
    first, second = parts_of(tmp_path, 2, Written("llama3", hidden_size=256, intermediate_size=512))
    program = clave.load(first)
    with second.open("r+b") as f:
        f.truncate(100)
    with pytest.raises(clave.Error, match=r"m-00002-of-00002\.gguf"):
        clave.Session(program, "cpu")
