"""The build and its checkers: incremental make, layers, sizes, counts, torch's size."""

import http.server
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def make(*goals, **more):
    env = {k: v for k, v in os.environ.items() if k not in ("BUILD", "MAKEFLAGS")}
    return subprocess.run(
        ["make", "--no-print-directory", *goals], cwd=ROOT, env=env, capture_output=True, text=True, **more
    )


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_is_rebuilt(build):
    p = make(f"BUILD={build.relative_to(ROOT)}", "-q", "all")
    assert p.returncode == 0, (
        "make would build again:\n" + make(f"BUILD={build.relative_to(ROOT)}", "-n", "all").stdout[:2000]
    )


@pytest.mark.parametrize(
    "header, source",
    [
        ("base/status.h", "base/status"),
        ("delegate/objects.h", "delegate/bind"),
        ("test/delegate/release_1/clave_delegate.h", "test/delegate/release_1/host"),
    ],
)
def test_a_header_rebuilds_what_includes_it(build, header, source):
    name = build.relative_to(ROOT)
    plan = make(f"BUILD={name}", "-n", "-W", header, f"{name}/obj/{source}.o").stdout
    assert f"{source}.c" in plan


def test_commands_are_shown_when_asked_for(build):
    name = build.relative_to(ROOT)
    plan = lambda *options: make(*options, f"BUILD={name}", "-n", "-W", "base/text.c", f"{name}/obj/base/text.o").stdout
    compiles = f"-c base/text.c -o {name}/obj/base/text.o"
    assert "echo 'CC base/text.c';" in plan() and compiles in plan()
    assert "echo" not in plan("V=1") and compiles in plan("V=1")
    assert "echo" not in plan("-s") and compiles in plan("-s")


def test_compile_commands(build):
    """The file has the commands of library, tool and tests, as make runs them."""
    file = ROOT / "compile_commands.json"
    before = file.read_text() if file.exists() else None
    assert make("compile_commands.json").returncode == 0
    commands = {c["file"]: c for c in json.loads(file.read_text())}
    if before is None:
        file.unlink()
    else:
        file.write_text(before)
    assert {"base/text.c", "backend/opencl/ops/conv/conv.c", "cli/main.c", "test/base/test_file.c"} <= commands.keys()
    assert all(c["directory"] == str(ROOT) and f" -c {name} -o " in c["command"] for name, c in commands.items())
    assert "-O3" in commands["backend/cpu/kernels/softmax.c"]["command"]


@pytest.mark.parametrize(
    "goals, jobs",
    [
        (["show"], os.cpu_count()),
        (["-j3", "show"], 3),
        (["-j1", "show"], 1),
        (["show", "help"], 1),
    ],
)
def test_one_goal_is_made_on_every_processor(goals, jobs, monkeypatch, tmp_path):
    """make starts the number of jobs given by -j, if present. Several goals run one after another."""
    monkeypatch.delenv("MAKELEVEL", raising=False)
    more = tmp_path / "more.mk"
    more.write_text("include Makefile\nshow:\n\t@echo jobs $(filter -j%,$(MAKEFLAGS))\n")
    given = make("-s", "-f", more, *goals).stdout.splitlines()[0]
    assert given == f"jobs -j{jobs}" or (jobs == 1 and given.strip() == "jobs")


def test_help_names_every_target():
    text = make("help").stdout
    for target in (
        "all",
        "demo",
        "quick",
        "check",
        "check-more",
        "check-all",
        "check-clean",
        "bench",
        "lint",
        "format",
        "fuzz",
        "install",
        "uninstall",
        "dist",
        "deb",
        "wheel",
        "clean",
    ):
        assert f"make {target} " in text, target


@pytest.mark.parametrize(
    "path, line, wrong",
    [
        ("interp/x.c", '#include "backend/opencl/opencl.h"', True),
        ("interp/x.c", '#include "backend/backend.h"', False),
        ("delegate/x.c", '#include "interp/interp.h"', True),
        ("delegate/x.c", '#include "clave_opencl.h"', False),
        ("delegate/clave_delegate.h", '#include "base/status.h"', True),
        ("examples/host_app/x.c", '#include "clave_builder.h"', True),
        ("examples/host_app/x.c", "#include <dlfcn.h>", True),
        ("cli/x.c", '#include "interp/interp.h"', True),
        ("api/x.c", '#include "interp/interp.h"', False),
        ("api/x.c", '#include "interp/run/session.h"', True),
        ("interp/x.c", '#include "interp/run/session.h"', True),
        ("interp/plan/x.c", '#include "interp/run/session.h"', True),
        ("interp/run/x.c", '#include "interp/plan/planner.h"', True),
        ("interp/tune/x.c", '#include "interp/run/session.h"', False),
        ("serialize/x.c", "#include <utf8proc.h>", True),
        ("jinja/unicode.c", "#include <utf8proc.h>", False),
        ("json/x.c", '#include "serialize/decode.h"', True),
        ("cli/x.c", '#include "json/writer.h"', False),
        ("cli/x.c", '#include "base/threads.h"', True),
        ("backend/cpu/x.c", "#include <CL/cl.h>", True),
        ("include/clave_opencl.h", "#include <CL/cl.h>", True),
        ("api/x.c", '#include "clave_opencl.h"', False),
        ("backend/opencl/ops/gemm/gemm.c", "#include <clblast_c.h>", True),
        ("backend/cpu/kernels/x.c", '#include "ops/tensor.h"', True),
        ("ops/x.c", "#include <pthread.h>", True),
        ("include/clave.h", "#include <stdio.h>", True),
        ("tokenizer/x.c", '#include "clave_tokenizer.h"', False),
        ("tokenizer/x.c", '#include "clave_llm.h"', True),
        ("llm/x.c", '#include "tokenizer/parts.h"', False),
        ("llm/x.c", '#include "tokenizer/tokenizer.h"', True),
        ("include/clave_tokenizer.h", '#include "clave_llm.h"', True),
        ("elsewhere/x.c", "int x;", True),
        ("jinja/x.c", "#include <ctype.h>", True),
        ("cli/x.c", "double d = strtod(s, NULL);", True),
        ("base/number.c", "double d = strtod(s, NULL);", False),
    ],
)
def test_layers_finds(tmp_path, path, line, wrong):
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(line + "\n")
    p = subprocess.run([ROOT / "ci/layers", tmp_path], capture_output=True, text=True)
    assert (p.returncode != 0) == wrong, p.stdout
    assert not wrong or path in p.stdout


def test_layers_finds_circles(tmp_path):
    (tmp_path / "llm").mkdir()
    for stem, name in (("a", "b"), ("b", "c"), ("c", "d")):
        (tmp_path / f"llm/{stem}.c").write_text(f'#include "llm/{stem}.h"\n#include "llm/{name}.h"\n')
    (tmp_path / "llm/d.h").write_text("int d;\n")
    layers = lambda: subprocess.run([ROOT / "ci/layers", tmp_path], capture_output=True, text=True)
    assert layers().returncode == 0, layers().stdout
    (tmp_path / "llm/d.h").write_text('#include "llm/b.h"\n')
    p = layers()
    assert p.returncode == 1 and "llm/b -> llm/c -> llm/d -> llm/b" in p.stdout and "llm/a:" not in p.stdout, p.stdout


def compiled(root, files):
    """Writes these C files into a tree and compiles them."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        if path.endswith(".c"):
            made = root / "build/obj" / path.replace(".c", ".o")
            made.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cc", "-c", "-I.", path, "-o", made], cwd=root, check=True)


def test_layers_reads_the_link_graph(tmp_path):
    """A use without an include is found: the function is declared outside its own header."""
    use = "int helper(void);\nint {}(void) {{ return helper(); }}\n"
    hidden = {"jinja/a.c": use.format("a"), "base/b.c": "int helper(void) { return 1; }\n"}
    compiled(tmp_path, hidden | {"build/obj/gen/a.c": ""})
    layers = lambda *build: subprocess.run([ROOT / "ci/layers", tmp_path, *build], capture_output=True, text=True)
    assert layers().returncode == 0
    p = layers("build")
    assert p.returncode == 1 and "jinja/a.c: uses helper of base/b.c, but includes no header of base/" in p.stdout
    compiled(tmp_path, {"base/b.h": "int helper(void);\n", "jinja/a.c": '#include "base/b.h"\n' + use.format("a")})
    assert layers("build").returncode == 0


def test_circles_of_the_link_graph(tmp_path):
    """Each circle is an error unless a row of ci/circles.allow has exactly the circle's files."""
    header = "int a(int n);\nint b(int n);\n"
    files = {"jinja/both.h": header, "jinja/a.c": '#include "jinja/both.h"\nint a(int n) { return b(n); }\n'}
    compiled(tmp_path, files | {"jinja/b.c": '#include "jinja/both.h"\nint b(int n) { return n ? a(n - 1) : 0; }\n'})
    layers = lambda: subprocess.run([ROOT / "ci/layers", tmp_path, "build"], capture_output=True, text=True)
    p = layers()
    assert p.returncode == 1 and p.stdout == "jinja/a: uses itself, in a circle of jinja/a, jinja/b\n"
    (tmp_path / "ci").mkdir()
    rows = tmp_path / "ci/circles.allow"
    rows.write_text("# a comment\njinja/ a b: they recurse\n")
    assert layers().returncode == 0, layers().stdout
    rows.write_text("jinja/ a b c: they recurse\n")
    assert layers().stdout == "ci/circles.allow: jinja/c: no longer in a circle\n"
    rows.write_text("jinja/ a b:\n")
    assert "give a reason" in layers().stdout
    rows.write_text("jinja/ a b: they recurse\n")
    compiled(tmp_path, {"jinja/b.c": '#include "jinja/both.h"\nint b(int n) { return n; }\n'})
    assert layers().stdout == "ci/circles.allow: jinja/a, jinja/b: no longer in a circle\n"


def test_sizes_finds(tmp_path):
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci/sizes.allow").write_text("# none\n")
    (tmp_path / "ci/sizes.budget").write_text("./ 1000\n")
    (tmp_path / "long.c").write_text("int f(int x) {\n" + "  x++;\n" * 70 + "  return x;\n}\n")
    (tmp_path / "big.c").write_text("int x;\n" * 601)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    p = subprocess.run([ROOT / "ci/sizes", tmp_path], capture_output=True, text=True)
    assert p.returncode == 1 and "long.c:f" in p.stdout and "big.c" in p.stdout, p.stdout + p.stderr


def test_sizes_holds_budgets(tmp_path):
    """The longest matching room counts a file's lines. Files that are not sources do not count."""
    for name, lines in (("room/a.c", 30), ("room/b.h", 10), ("room/own/c.py", 20), ("new/d.cl", 5), ("room/x.md", 900)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("\n" * lines)
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci/sizes.allow").write_text("")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)

    def problems(budget):
        (tmp_path / "ci/sizes.budget").write_text("# room, lines\n" + budget)
        return subprocess.run([ROOT / "ci/sizes", tmp_path], capture_output=True, text=True).stdout.splitlines()

    assert problems("room/ 40\nroom/own/ 20\nnew/ 5\n") == [""]
    (over,) = problems("room/ 39\nroom/own/ 20\nnew/ 5\n")
    assert over.startswith("room/ has 40 lines (at most 39): ")
    assert problems("room/ 60\n") == ["new/ has no budget in ci/sizes.budget: it has 5 lines"]
    assert problems("room/ 60\nnew/ 5\nold/ 9\n") == ["ci/sizes.budget: old/ has no sources"]


def test_runner_counts():
    count = load("runner").count
    assert count(
        "[==========] Running 3 test(s).\n[  PASSED  ] 2 test(s).\n[  FAILED  ] 1 test(s), listed below:\n"
    ) == (2, 1)
    assert count("[==========] tests: 2\n[  PASSED  ] tests: 1 test(s).\n[  FAILED  ] tests: 1 test(s)\n") == (1, 1)
    assert count("...\n5 passed, 2 skipped in 0.10s\n") == (5, 0)
    assert count("1 failed, 5 passed, 1 error in 12.3s (0:00:12)\n") == (5, 2)
    assert count("FAIL x\n7 passed, 1 failed\n") == (7, 1)
    assert count("hello") is None


def test_runner_counts_skips():
    runner = load("runner")
    output = "SKIPPED [2] test/x.py:12: no data\nskipped: no device\n"
    output += "[  SKIPPED ] odd\n[  SKIPPED ] 1 test(s), listed below:\n[  SKIPPED ] odd\n"
    output += "[  SKIPPED ] tests: 1 test(s), listed below:\n"  # the format of a newer cmocka
    found = runner.count_skips(output)
    assert found == {"test/x.py:12: no data": 2, "no device": 1, "odd": 1}
    bounds = [(1, runner.re.compile("no data"), "where there is none"), (1, runner.re.compile("device"), "nor here")]
    lines, wrong = runner.judge_skips(found, bounds)
    assert wrong == 2 and len(lines) == 3, lines  # there is one too many without data, and one unknown
    assert runner.judge_skips({}, bounds) == ([], 0)


class Index(http.server.BaseHTTPRequestHandler):
    """Serves a package index with one file of torch, whose size is the given one."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b'<a href="/files/torch-2.13.0-py3-none-any.whl">torch-2.13.0-py3-none-any.whl</a>')

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream" if "files" in self.path else "text/html")
        self.send_header("Content-Length", str(self.server.size))
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("size, large", [(180 << 20, False), (860 << 20, True)])
def test_a_cuda_size_torch_is_explained(tmp_path, size, large):
    """The refusal precedes the download and names the alternative. pip finds no other file."""
    server = http.server.HTTPServer(("127.0.0.1", 0), Index)
    server.size = size
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/simple"
    env = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")} | {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": url,
    }
    (tmp_path / "requirements.txt").write_text("torch==2.13.0\n")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    p = subprocess.run(
        [python, ROOT / "ci/torch_size.py", tmp_path / "requirements.txt"], env=env, capture_output=True, text=True
    )
    server.shutdown()
    assert p.returncode == 0 and bool(p.stdout) == large and "note" not in p.stdout, p.stdout + p.stderr
    assert not large or ("TORCH=" in p.stdout and "860 MB" in p.stdout), p.stdout


def test_packages_are_installed_again_for_another_python(tmp_path):
    """Runs ci/venv in a copy, with a fake pip that only reports that it was called."""
    (tmp_path / "ci").mkdir()
    for name in ("venv", "torch_size.py", "requirements.txt"):
        shutil.copy(ROOT / "ci" / name, tmp_path / "ci")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    python = tmp_path / ".venv/bin/python"

    def install(version):
        python.write_text(f'#!/bin/sh\n[ "$1" != --version ] || echo Python {version}\n')
        (python.parent / "pip").write_text('#!/bin/sh\necho pip "$1"\n')
        for tool in python.parent.iterdir():
            tool.chmod(0o755)
        return subprocess.run([tmp_path / "ci/venv"], check=True, capture_output=True, text=True).stdout

    assert "pip install" in install("3.11.7")
    assert install("3.11.7") == ""
    assert "pip install" in install("3.12.1")
    (tmp_path / "ci/requirements.txt").write_text("torch==9\n")
    assert "pip install" in install("3.12.1")
