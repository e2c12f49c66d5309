"""The library in hosts unlike the test runner: another locale, an empty environment, a working directory that is
removed. test/api/test_host_floats.c covers rounding modes and traps."""

import os
import shutil
import subprocess

import pytest

EVERYTHING = bool(os.environ.get("CLAVE_TEST_ALL"))
LOCALES = ("de_DE", "tr_TR")  # one with a decimal comma and points between thousands, one with a dotless i
MNIST, DIGIT = "examples/mnist/mnist.clv", "examples/mnist/digits/7.npy"
# Programs of the C suite that read or write numbers; make check-all runs all of it.
ROOMS = ("base", "json", "serialize", "tokenizer", "interp/graph")

PRELOAD = """
#include <locale.h>
#include <stdlib.h>
__attribute__((constructor)) static void become_a_host(void) {
  if (!setlocale(LC_ALL, "")) abort();
}
"""


@pytest.fixture(scope="module")
def locales(tmp_path_factory):
    """Makes a folder with locales, and a library that makes a process use them."""
    if not shutil.which("localedef"):
        pytest.skip("no localedef (package locales)")
    folder = tmp_path_factory.mktemp("locales")
    for name in LOCALES:
        made = subprocess.run(
            ["localedef", "-i", name, "-f", "UTF-8", str(folder / f"{name}.UTF-8")], capture_output=True, text=True
        )
        if made.returncode > 1:
            pytest.skip(f"localedef makes no {name} (package locales)")
    (folder / "host.c").write_text(PRELOAD)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "host.so", folder / "host.c"], check=True)
    return folder


def variables(locales, name):
    keep = {k: v for k, v in os.environ.items() if not k.startswith("LC_")}
    return keep | {"LANG": f"{name}.UTF-8", "LC_ALL": f"{name}.UTF-8", "LOCPATH": str(locales)}


def follow(locales, name):
    return variables(locales, name) | {"LD_PRELOAD": str(locales / "host.so")}


def programs(build):
    every = sorted((build / "test").rglob("test_*"))
    every = [p for p in every if p.is_file() and os.access(p, os.X_OK) and not p.suffix]
    inside = [p for p in every if p.parent.relative_to(build / "test").as_posix() in ROOMS]
    return every if EVERYTHING else inside


def run_all(paths, root, env):
    failed = []
    for path in paths:
        p = subprocess.run([path], cwd=root, env=env, capture_output=True, text=True, timeout=900)
        if p.returncode:
            failed.append(f"{path.name}: {p.returncode}: {(p.stdout + p.stderr)[-600:]}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("name", LOCALES)
def test_c_suite_in_a_locale(build, root, locales, name):
    found = programs(build)
    if not found:
        pytest.skip("the C tests are not built (make tests)")
    run_all(found, root, follow(locales, name) | {"CLAVE_CACHE_DIR": "off"})


TEMPLATE = "{{ 1.5 }}|{{ x|tojson }}|{{ '%.2f'|format(2.5) }}|{{ '1.5'|float }}|{{ 3.75|round(1) }}|{{ 'INF'|float }}"


@pytest.mark.parametrize("name", LOCALES)
def test_commands_in_a_locale(build, root, locales, name, tmp_path):
    """The tool's output and input have the same bytes in each locale."""
    (tmp_path / "t.jinja").write_text(TEMPLATE)
    (tmp_path / "m.json").write_text("[]")
    template = [tmp_path / "t.jinja", "--messages", tmp_path / "m.json", "--arg", "x=[0.25, 1e30, 3]"]
    for command in (
        ["template", *template],
        ["inspect", MNIST, "--json"],
        ["inspect", MNIST, "--svg"],
        ["run", MNIST, "--device", "cpu", "--input", f"x={DIGIT}", "--json"],
        ["verify", MNIST, "--device", "cpu", "--run", "--json"],
        ["tune", "--list", "--device", "cpu", "--json"],
    ):
        answers = []
        for env in (dict(os.environ) | {"LC_ALL": "C"}, follow(locales, name)):
            p = subprocess.run([build / "clave", *command], cwd=root, env=env, capture_output=True, text=True)
            answers.append((p.returncode, p.stdout))
        assert answers[0][0] == 0 and answers[0] == answers[1], command


def test_emitted_sources_in_a_locale(build, root, locales, tmp_path):
    for name, env in (("c", dict(os.environ)), ("de", follow(locales, "de_DE"))):
        command = ["compile", MNIST, "--emit-c", tmp_path / name / "digit", "--dim", "batch=1"]
        subprocess.run([build / "clave", *command], cwd=root, env=env, check=True, capture_output=True)
    assert subprocess.run(["diff", "-r", tmp_path / "c", tmp_path / "de"]).returncode == 0


ENVIRONMENTS = {
    "empty": {},
    "not on PATH": {"PATH": "/nonexistent"},
    "nothing can be written": {
        "HOME": "/proc/none",
        "TMPDIR": "/proc/none",
        "XDG_CACHE_HOME": "/proc/none",
        "PATH": "",
    },
    "relative folders": {"HOME": ".", "TMPDIR": ".", "XDG_CACHE_HOME": "cache"},
    "very large": {f"V{i}": "x" * 1000 for i in range(500)},
}


@pytest.mark.parametrize("helper", [{}, {"CLAVE_HELPER": "off"}], ids=["helper", "no helper"])
@pytest.mark.parametrize(
    "name", [n if n == "empty" else pytest.param(n, marks=pytest.mark.by_turn(5)) for n in ENVIRONMENTS]
)
def test_environments(build, root, name, helper):
    """OpenCL, if present, builds its kernels, and missing variables do not end the process."""
    env = ENVIRONMENTS[name] | helper | {"CLAVE_CACHE_DIR": "off"}
    command = [build / "clave", "bench", MNIST, "--device", "opencl,cpu", "--runs", "1", "--warmup", "1", "--json"]
    p = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=300)
    assert p.returncode == 0, (p.returncode, p.stderr)


def test_the_c_suite_in_an_empty_environment(build, root):
    found = programs(build)
    if not found:
        pytest.skip("the C tests are not built (make tests)")
    run_all(found, root, {"CLAVE_CACHE_DIR": "off"})


def test_the_working_directory_goes_away(build, root, tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    model = (root / MNIST).resolve()
    script = f'rmdir "$PWD"; exec "{build.resolve()}/clave" bench "{model}" --device cpu --runs 1 --warmup 1 --json'
    p = subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    script = f'rmdir "$PWD"; exec "{build.resolve()}/clave" bench m.clv --device cpu'
    folder.mkdir()
    p = subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, text=True)
    assert p.returncode == 1 and len(p.stderr.splitlines()) == 1, p.stderr
