"""A small program as JSON, without constants, and a fixture that runs the command line tool on it."""

import json
import os
import subprocess

import pytest


class Tool:
    """Runs the built `clave` in a separate folder."""

    def __init__(self, build, folder):
        self.exe, self.folder = str(build / "clave"), folder

    def run(self, *args, env=None, **kw):
        full = {k: v for k, v in os.environ.items() if k != "CLAVE_DEVICE"} | {"CLAVE_DEVICE": "cpu"} | (env or {})
        kw = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "stdin": subprocess.DEVNULL,
            "timeout": 60,
        } | kw
        return subprocess.run(
            [self.exe, *map(str, args)],
            text=True,
            check=False,
            env=full,
            cwd=self.folder,
            **kw,
        )

    def good(self, *args, **kw):
        r = self.run(*args, **kw)
        assert r.returncode == 0, r.stderr
        return r.stdout

    def bad(self, code, *args, **kw):
        """Returns the only error line, without its prefix."""
        r = self.run(*args, **kw)
        assert r.returncode == code, (r.returncode, r.stderr)
        assert not r.stdout
        lines = r.stderr.splitlines()
        errors = [x for x in lines if x.startswith("clave: ") and not x.startswith("clave: note: ")]
        assert len(errors) == 1, r.stderr
        assert code == 2 or all(x.startswith("clave: ") for x in lines), r.stderr
        return errors[0].removeprefix("clave: ")


def tensor(name, dtype, *shape):
    dims = [{"vid": {"idx": 0}} if d == "n" else {"literal": d} for d in shape]
    return {"name": name, "dtype": dtype, "shape": dims}


def make_program(hostile_name="probability"):
    """Returns the program probability = softmax(x * scale), label = argmax(probability); x: (n, 4), n from 1 to 8."""
    scaled = {
        "inputs": [{"idx": 0}],
        "out": {"idx": 3},
        "steps": [
            {
                "kind": "mul",
                "dtype": "F32",
                "operands": [
                    {"source": "input", "index": 0},
                    {"source": "value", "index": 1},
                ],
            }
        ],
    }
    softmax = {"x": {"idx": 3}, "axis": 1, "log": False, "out": {"idx": 1}}
    label = {
        "kind": "argmax",
        "x": {"idx": 1},
        "axis": 1,
        "keepdim": False,
        "out": {"idx": 2},
    }
    instructions = [
        {"op_type": "Elementwise", "op": scaled, "name": "mul"},
        {"op_type": "Softmax", "op": softmax, "name": "softmax"},
        {"op_type": "ArgReduce", "op": label, "name": "argmax"},
    ]
    method = {
        "name": "forward",
        "chain": 0,
        "inputs": [
            {"name": "x", "tensor": {"idx": 0}},
            {"name": "scale", "value": {"idx": 1}},
        ],
        "outputs": [
            {"name": hostile_name, "tensor": {"idx": 1}},
            {"name": "label", "tensor": {"idx": 2}},
        ],
    }
    return {
        "version": 1,
        "producer": "test",
        "n_inputs": 1,
        "n_outputs": 2,
        "n_state": 0,
        "tensors": [
            tensor("x", "F32", "n", 4),
            tensor(hostile_name, "F32", "n", 4),
            tensor("label", "I64", "n"),
            tensor("scaled", "F32", "n", 4),
        ],
        "values": [
            {"name": "batch", "type": "int_", "min": 1, "max": 8},
            {"name": "scale", "type": "float_"},
        ],
        "chains": [{"name": "forward", "instructions": instructions}],
        "methods": [method],
    }


@pytest.fixture
def tool(build, tmp_path):
    return Tool(build, tmp_path)


@pytest.fixture
def program(tmp_path):
    """Writes p.json to the tool's folder."""
    (tmp_path / "p.json").write_text(json.dumps(make_program()))
    return "p.json"
