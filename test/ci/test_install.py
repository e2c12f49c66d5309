"""make install into a separate prefix: an ordinary user builds and runs the example, and make uninstall removes all
files. Manual pages and completions cover every command and flag. test/packages tests packages, in make check-all."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "packages"))
from trials import DIGIT, IMAGE, MODEL, ROOT, VERSION, bare, files, make, readable, run, scratch


@pytest.fixture(scope="module")
def installed(build):
    """Installs; returns (the folder, the make variables to uninstall)."""
    with scratch() as folder:
        prefix, libraries = folder / "usr", folder / "usr/lib/x86"
        where = [f"BUILD={build.relative_to(ROOT)}", f"PREFIX={prefix}", f"LIBDIR={libraries}"]
        make("install", *where)
        yield folder, where


@pytest.fixture(scope="module")
def tables(build):
    return json.loads(run(build / "clave", "command-tables"))


def test_everything_is_there(installed, tables, build):
    found = files(installed[0] / "usr")
    wanted = {f"include/{h.name}" for h in (ROOT / "include").glob("*.h")}
    wanted |= {f"lib/x86/{n}" for n in ("libclave.a", "libclave_main.a", "libclave_delegate.so")}
    wanted |= {f"lib/x86/{n}" for n in ("libclave.so", "libclave.so.0", f"libclave.so.{VERSION}")}
    wanted |= {"lib/x86/libclave_executorch.so"} if (build / "libclave_executorch.so").exists() else set()
    wanted.add("include/clave_delegate.h")
    shim = [*(ROOT / "delegate/executorch").glob("*.[ch]*"), ROOT / "delegate/executorch/build.sh"]
    shim += [ROOT / "delegate/clave_delegate.h", ROOT / "include/clave.h"]
    wanted |= {f"share/clave/{f.relative_to(ROOT)}" for f in shim}
    wanted |= {"lib/x86/pkgconfig/clave.pc", "lib/x86/cmake/clave/claveConfig.cmake", "bin/clave"}
    wanted |= {"lib/x86/cmake/clave/claveConfigVersion.cmake", "share/man/man1/clave.1"}
    wanted |= {f"share/man/man1/clave-{c['name']}.1" for c in tables["commands"]}
    wanted |= {"share/bash-completion/completions/clave", "share/zsh/site-functions/_clave"}
    wanted |= {"share/fish/vendor_completions.d/clave.fish"}
    assert set(found) == wanted


def test_the_example_is_built_and_run_by_a_user(installed):
    folder = installed[0]
    model, image = readable(folder, MODEL, IMAGE)
    libraries = folder / "usr/lib/x86"
    env = bare(PKG_CONFIG_PATH=str(libraries / "pkgconfig"), LD_LIBRARY_PATH=str(libraries), CLAVE_DEVICE="cpu")
    flags = run("pkg-config", "--cflags", "--libs", "clave", env=env).split()
    run("cc", "-std=c11", "-o", folder / "embed", ROOT / "examples/embed_c/embed.c", *flags, env=env)
    assert "is a 7" in run(folder / "embed", model, image, as_user=True, env=env)
    version = run("pkg-config", "--modversion", "clave", env=env).strip()
    assert version in run(folder / "usr/bin/clave", "--version", as_user=True, env=env)
    static = run("pkg-config", "--static", "--libs", "clave", env=env)
    assert "-lpcre2-8" in static and "-lutf8proc" in static


def test_static_programs_keep_what_they_call_alone(installed):
    """pkg-config --static passes the linker flag that drops unused sections."""
    folder, libraries = installed[0], installed[0] / "usr/lib/x86"
    model, image = readable(folder, MODEL, IMAGE)
    env = bare(PKG_CONFIG_PATH=str(libraries / "pkgconfig"), CLAVE_DEVICE="cpu")
    flags = run("pkg-config", "--static", "--cflags", "--libs", "clave", env=env).split()
    flags[flags.index("-lclave")] = str(libraries / "libclave.a")
    sizes = []
    for chosen in (flags, [f for f in flags if f != "-Wl,--gc-sections"]):
        run("cc", "-s", "-std=c11", "-o", folder / "static", ROOT / "examples/embed_c/embed.c", *chosen, env=env)
        assert "is a 7" in run(folder / "static", model, image, env=env)
        sizes.append((folder / "static").stat().st_size)
    assert sizes[0] < 0.8 * sizes[1], sizes


def total(folder):
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file() and not f.is_symlink())


def test_debugging_information_is_apart(installed, build):
    """make install omits debug information, install-strip also symbols; install-debug puts it where debuggers look."""
    folder, where = installed[0], installed[1]
    with scratch() as other:
        there = [where[0], f"PREFIX={other}/usr", f"LIBDIR={other}/usr/lib/x86"]
        make("install-strip", *there)
        assert set(files(other)) == {f for f in files(folder) if f.startswith("usr/") and "/.debug/" not in f}
        assert total(other) < total(folder / "usr") < 40e6
        make("install-debug", *there)
        make("uninstall", *there)
        assert files(other) == [] and not list(other.rglob(".debug"))
    make("install-debug", *where)
    assert {"usr/bin/.debug/clave.debug", "usr/lib/x86/.debug/libclave.so.debug"} <= set(files(folder))
    for file, symbol in (("bin/clave", "main"), (f"lib/x86/libclave.so.{VERSION}", "clave_session_run")):
        rows = map(str.split, run("nm", "--defined-only", folder / "usr" / file).splitlines())
        address = next(row[0] for row in rows if row[-1] == symbol)
        assert ".c:" in run("addr2line", "-e", folder / "usr" / file, address)


def test_programs_are_compiled_and_the_plugin_opens(installed):
    """The installed package works without files of the checkout."""
    folder, library = installed[0], installed[0] / "usr/lib/x86"
    more = ("--static-library", library / "libclave.a")
    (model,) = readable(folder, MODEL)
    run(folder / "usr/bin/clave", "compile", model, "-o", folder / "digits", "--method", "all", *more, as_user=False)
    assert "clave" not in run("ldd", folder / "digits")
    opened = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).clave_delegate_register"  # finds libclave.so.0 beside it
    run(sys.executable, "-c", opened, library / "libclave_delegate.so", env=bare())


def test_packages_are_of_this_version(tables):
    changes = (ROOT / "packaging/debian/changelog").read_text()
    assert changes.startswith(f"clave ({tables['version']}-")


def test_the_library_names_its_abi(installed):
    said = run("readelf", "-d", installed[0] / "usr/lib/x86/libclave.so")
    assert "[libclave.so.0]" in said and "RPATH" not in said and "RUNPATH" not in said


def test_the_tool_runs_there(installed):
    model, digit = readable(installed[0], MODEL, DIGIT)
    said = run(installed[0] / "usr/bin/clave", "run", model, "--device", "cpu", "--input", f"x={digit}", as_user=True)
    assert "[1, 10]" in said


def test_manual_pages_name_every_flag(installed, tables):
    for c in tables["commands"]:
        page = (installed[0] / f"usr/share/man/man1/clave-{c['name']}.1").read_text()
        assert page.startswith(f'.TH CLAVE-{c["name"].upper()} 1 "" "clave {tables["version"]}"')
        for f in c["flags"]:
            assert f"\\fB{f['name']}\\fR".replace("-", "\\-") in page, f["name"]
    main = (installed[0] / "usr/share/man/man1/clave.1").read_text()
    assert all(v["name"] in main for v in tables["variables"]) and all(c["name"] in main for c in tables["commands"])


def complete(installed, *words):
    script = installed[0] / "usr/share/bash-completion/completions/clave"
    typed = f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}"
    line = f'. {script}; {typed}; _clave; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return run("bash", "--norc", "-c", line, cwd=installed[0]).split()


def test_bash_completes(installed, tables):
    assert set(complete(installed, "clave", "")) == {c["name"] for c in tables["commands"]} | {"--help", "--version"}
    assert complete(installed, "clave", "do") == ["doctor"]
    for c in tables["commands"]:
        flags = [f for f in c["flags"] if f["kind"] != "operand"]
        every = {f["name"] for f in flags} | {f"-{f['short']}" for f in flags if f["short"]}
        assert every | {"--help", "--version"} == set(complete(installed, "clave", c["name"], "-"))
    assert complete(installed, "clave", "run", "--device", "o") == ["opencl"]
    assert complete(installed, "clave", "bench", "--runs", "u") == []
    assert complete(installed, "clave", "run", "u") == ["usr"]


def test_other_shells_know_every_flag(installed, tables):
    zsh = (installed[0] / "usr/share/zsh/site-functions/_clave").read_text()
    fish = (installed[0] / "usr/share/fish/vendor_completions.d/clave.fish").read_text()
    for c in tables["commands"]:
        row = next(line for line in zsh.splitlines() if line.startswith(f"  {c['name']}) "))
        for f in c["flags"]:
            if f["kind"] != "operand":
                assert f"{f['name']}[" in row
                name = re.sub("^--?", "", f["name"])
                assert re.search(rf"seen_subcommand_from {c['name']}'.* -[ls] {name} ", fish)


def test_uninstall_leaves_nothing(installed):
    kept = ["lib/x86/other", "share/clave/other"]
    for name in kept:
        (installed[0] / "usr" / name).write_text("not ours")
    make("uninstall", *installed[1])
    assert files(installed[0] / "usr") == kept
    assert not (installed[0] / "usr/lib/x86/cmake/clave").exists()


def test_what_programs_were_built_for_is_listed(build, tmp_path):
    """ci/exports reports a function that is not in the list, and a listed one that is missing."""
    listed = (ROOT / "packaging/debian/libclave0.symbols").read_text()
    tree = tmp_path / "tree"
    for name in ("ci", "packaging/debian", "include"):
        subprocess.run(["mkdir", "-p", tree / name], check=True)
        subprocess.run(["cp", "-r", f"{ROOT / name}/.", tree / name], check=True)
    symbols = tree / "packaging/debian/libclave0.symbols"
    check = lambda: subprocess.run([tree / "ci/exports", build], capture_output=True, text=True)
    assert check().returncode == 0
    symbols.write_text(listed.replace(" clave_version@Base 0.1.0\n", "") + " clave_gone@Base 0.1.0\n")
    p = check()
    assert p.returncode == 1
    assert "clave_version: exported, but not listed" in p.stdout and "clave_gone: listed in" in p.stdout


def test_importing_is_quick():
    """`import clave` takes at most 50 ms of CPU time, and imports neither numpy nor torch."""
    program = """
import sys, time
begin = time.process_time()
import clave
took = time.process_time() - begin
assert not {"numpy", "torch", "ctypes", "ml_dtypes"} & set(sys.modules), sorted(sys.modules)
assert "Session" in dir(clave)
print(took)
"""
    env = bare(PYTHONPATH=str(ROOT / "python"))
    times = [float(run(sys.executable, "-c", program, env=env)) for _ in range(3)]
    assert min(times) <= 0.05, times
