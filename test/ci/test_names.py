"""ci/names on sources that break its rules, and on those that look as if they did."""

import pathlib
import subprocess

import pytest

NAMES = pathlib.Path(__file__).parents[2] / "ci/names"


def run(tmp_path, name, text):
    """Returns the lines that ci/names prints for a tree with one source."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    p = subprocess.run([NAMES, "."], cwd=tmp_path, capture_output=True, text=True)
    assert p.returncode == (p.stdout != "") and not p.stderr
    return p.stdout.splitlines()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("int f(const node *n);\n", "base/a.c:1: the parameter n is a pointer: give it a word"),
        (
            "int f(int a,\n      const char *const *s, int b);\n",
            "base/a.c:2: the parameter s is a pointer: give it a word",
        ),
        ("int f(uint8_t const *s);\n", "base/a.c:1: the parameter s is a pointer: give it a word"),
        ("int f(enum kind *k, union value *value);\n", "base/a.c:1: the parameter k is a pointer: give it a word"),
        ("bool op_takes_rows(int n);\n", "base/a.c:1: the name op_takes_rows has 'takes': better: accepts"),
        ("enum { MOST_ROWS = 8 };\n", "base/a.c:1: the name MOST_ROWS has 'MOST': better: MAX"),
        ("int ask_host(void);\n", "base/a.c:1: the name ask_host has 'ask': better: query, request"),
        ("const char *said;\n", "base/a.c:1: the name said has 'said': better: what the variable holds"),
    ],
)
def test_refused(tmp_path, text, said):
    assert run(tmp_path, "base/a.c", text) == [said]


@pytest.mark.parametrize(
    "text",
    [
        "int f(const node *node, int n) { return g(n * n, 2 * n); }\n",
        'const char *s = "/* Of it */ f(const node *n)";\n',
        "static int (*const f)(int n);\n",
        "int give_up_command(int at_most, int most_of_a_buffer, int almost, int task);\n",
        'int believes(int n); /* takes (const node *n). */ const char *text = "said";\n',
    ],
)
def test_taken(tmp_path, text):
    assert run(tmp_path, "base/a.c", text) == []


def add(tmp_path, name, text):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)


def test_functions_have_names_of_their_own(tmp_path):
    for name in ("llm/b.c", "test/b.c"):
        add(
            tmp_path,
            name,
            "static int\nsize_of(const node *node) {\n  return 1;\n}\nint main(void) { return size_of(0); }\n",
        )
    twice = ["base/a.c and llm/b.c: size_of is defined twice: begin it with the file's stem"]
    assert run(tmp_path, "base/a.c", "static int size_of(const node *node) { return 2; }\n") == twice
    assert run(tmp_path, "base/a.c", "int size_of(const node *node);\nint main(void) { return 0; }\n") == []


def test_a_kernel_has_the_letters_of_its_formula(tmp_path):
    assert run(tmp_path, "kernels_cl/a.cl", "void f(__global const float *x, int n);\n") == []
    assert run(tmp_path, "backend/cpu/kernels/gemm/a.c", "void f(const float *x, int n);\n") == []
    said = run(tmp_path, "kernels_cl/a.cl", "void f(__global float *pipe, int n); /* a pipe */\n")
    assert said == ["kernels_cl/a.cl:1: pipe is a keyword of some compilers"]


@pytest.mark.parametrize("name", ["model_run", "edit_line", "open_editor", "tuning_key_begin", "cpu_has_amx", "main"])
def test_siblings_have_one_name(tmp_path, name):
    add(tmp_path, "llm/b.c", f"int {name}(void) {{ return 1; }}\n")
    assert run(tmp_path, "base/a.c", f"int {name}(void) {{ return 2; }}\n") == []
    add(tmp_path, "llm/b.h", f"static inline int {name}_more(void) {{ return 1; }}\n")
    assert len(run(tmp_path, "base/a.c", f"int {name}_more(void) {{ return 2; }}\n")) == 1 - name.startswith("cpu_")
