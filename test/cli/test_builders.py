"""Child processes that build kernels (`clave build-kernels`): the results are right with good, bad or no children."""

import contextlib
import json
import os
import pathlib
import socket
import stat
import struct
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from conftest import make_program
from safetensors.numpy import load_file, save_file

pytestmark = pytest.mark.by_turn(15)
always = pytest.mark.by_turn(4)

GREETING, ORDER, SAVE, READY, BUILT, SAVED = range(1, 7)
X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


@pytest.fixture
def helped(tool, program, tmp_path):
    """Runs the program without a cache but with a helper; returns the cache's folder and the standard error."""
    left_out = ("CLAVE_CACHE_DIR", "POCL_CACHE_DIR", "CLAVE_HELPER")
    env = {k: v for k, v in os.environ.items() if k not in left_out} | {"CLAVE_DEVICE": "opencl"}
    devices = subprocess.run([tool.exe, "devices"], capture_output=True, text=True, env=env).stdout
    if "Portable Computing Language" not in devices or "llvmpipe" in devices:
        pytest.skip("PoCL is not the default device")
    save_file({"input_0": X, "input_1": np.array(2.0)}, tool.folder / "in.safetensors")

    def run(helper, **more):
        cache = tmp_path / f"cache{len(list(tmp_path.iterdir()))}"
        command = [tool.exe, "run", program, "--inputs", "in.safetensors", "--outputs", "out.safetensors"]
        full = env | {"CLAVE_CACHE_DIR": str(cache), "CLAVE_HELPER": str(helper)} | more
        p = subprocess.run(command, cwd=tool.folder, env=full, capture_output=True, text=True, timeout=200)
        assert p.returncode == 0 and not p.stderr, p.stderr
        got, want = load_file(tool.folder / "out.safetensors")["output_0"], np.exp(X.astype(np.float64) * 2)
        assert abs(got - want / want.sum(-1, keepdims=True)).max() < 1e-6
        return cache

    run.env = env
    return run


def script(tmp_path, text, name="helper"):
    path = tmp_path / name
    path.write_text(textwrap.dedent(text))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def talker(tmp_path, body):
    """Writes a helper in Python, in which `s` is the socket."""
    head = f"""\
        #!{sys.executable}
        import os, socket, struct, sys, time
        s = socket.socket(fileno=0)
        def receive(n):
            data = b""
            while len(data) < n:
                piece = s.recv(n - len(data))
                if not piece: sys.exit(0)
                data += piece
            return data
        def hear():
            kind, number, size, _ = struct.unpack("4I", receive(16))
            return kind, number, receive(size)
        def say(kind, number=0, data=b""):
            s.sendall(struct.pack("4I", kind, number, len(data), 0) + data)
        """
    return script(tmp_path, textwrap.dedent(head) + textwrap.dedent(body))


def watch(folder, ends, seen):
    """Collects the inodes of the binaries in a folder by name, again and again."""
    while not ends.wait(0.001):
        with contextlib.suppress(FileNotFoundError):
            for f in os.scandir(folder):
                if f.name.endswith(".clbin"):
                    seen.setdefault(f.name, set()).add(f.inode())


@pytest.mark.parametrize("check", ["off", "on"])
def test_binaries_are_kept_once(tool, helped, tmp_path, check):
    """The child stores the binaries; the process adds only its proofs."""
    ends, seen = threading.Event(), {}
    thread = threading.Thread(target=watch, args=(tmp_path / "kept", ends, seen))
    thread.start()
    helped(tool.exe, CLAVE_CACHE_DIR=str(tmp_path / "kept"), CLAVE_SELF_CHECK=check)
    ends.set()
    thread.join()
    assert seen and max(map(len, seen.values())) == (1 if check == "off" else 2), seen


@always
def test_children_build(tool, helped, tmp_path):
    """Children are started, print nothing, and store all binaries that a run needs: the next run builds nothing."""
    log = tmp_path / "log"
    helper = script(tmp_path, f'#!/bin/sh\necho "$@" >> {log}\nexec {tool.exe} "$@"\n')
    cache = helped(helper)
    assert log.read_text().splitlines()[0] == "build-kernels"
    files = {f: f.stat().st_ino for f in cache.glob("*.clbin")}
    assert len(files) > 1
    log.unlink()
    helped(helper, CLAVE_CACHE_DIR=str(cache))
    assert not log.exists()
    assert {f: f.stat().st_ino for f in cache.glob("*.clbin")} == files


# Runs the program with one size and prints whether the driver started a linker, that is, compiled.
COMPILES = """
import resource, sys
import numpy as np, clave
clave.Session(clave.Program.load(sys.argv[1]), device="opencl").run(np.zeros((int(sys.argv[2]), 4), "f4"), 2.0)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0)
"""


@always
def test_kernels_of_several_sizes_are_kept(tool, helped, tmp_path):
    """A size that another process has launched compiles nothing, whatever was stored in between."""
    made, large = make_program(), 1 << 21  # rows; the grid has more cells than 16 bits can count
    made["values"][0]["max"] = large
    (tmp_path / "p.json").write_text(json.dumps(made))
    tool.good("convert", "p.json", "p.clv")
    env = helped.env | {"CLAVE_HELPER": "off", "CLAVE_CACHE_DIR": str(tmp_path / "sizes")}
    run = lambda n: subprocess.run(
        [sys.executable, "-c", COMPILES, tmp_path / "p.clv", str(n)],
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    ).stdout.strip()
    assert [run(n) for n in (1, large, 1, large)] == ["True", "True", "False", "False"]


def test_children_fill_the_drivers_files(tool, helped, tmp_path):
    """The process reads the files that a child leaves in the driver's folder: kernels are compiled once."""
    for helper in (tool.exe, "off"):
        folder = tmp_path / f"pocl-{pathlib.Path(helper).name}"
        folder.mkdir()
        helped(helper, POCL_CACHE_DIR=str(folder))
    built, alone = ({f.relative_to(d).as_posix() for f in d.rglob("*.so")} for d in sorted(tmp_path.glob("pocl-*")))
    assert built == alone


def test_no_cache_on_disk(tool, helped):
    helped(tool.exe, CLAVE_CACHE_DIR="off")


@pytest.mark.parametrize("helper", ["/bin/false", "/nowhere/clave", "/bin", "/bin/cat"])
def test_other_programs(helped, helper):
    helped(helper)


@pytest.mark.parametrize(
    "body",
    [
        "os.write(0, os.urandom(5000)); hear()",
        "hear(); say(4, 0, bytes(40)); hear(); time.sleep(1000)",
        "kind, _, g = hear(); say(4, 0, g[:40]); say(5, 77); hear(); time.sleep(1000)",
        "kind, _, g = hear(); say(4, 0, g[:40]); hear(); os.kill(os.getpid(), 9)",
        "kind, _, g = hear(); say(4, 0, g[:40]); k, n, _ = hear(); say(5, n); say(5, n); time.sleep(1000)",
        's.sendall(struct.pack("4I", 4, 0, 1 << 31, 0)); time.sleep(1000)',
        'kind, _, g = hear(); s.sendall(struct.pack("4I", 4, 0, 40, 0) + g[:7]); os._exit(0)',
    ],
    ids=["noise", "another_version", "no_such_order", "killed", "twice", "too_long", "half_a_message"],
)
def test_bad_children(helped, tmp_path, body):
    helped(talker(tmp_path, body))


def test_child_that_hangs(helped, tmp_path):
    """A child that sends no greeting is ended after ten seconds."""
    helped(
        talker(tmp_path, "open(os.path.dirname(__file__) + '/pid', 'a').write(f'{os.getpid()}\\n'); time.sleep(1000)")
    )
    for pid in (tmp_path / "pid").read_text().split():
        assert not pathlib.Path(f"/proc/{pid}").exists()


def test_lies_are_not_believed(helped, tmp_path):
    """A child reports that everything is built and saved, but did nothing."""
    body = """
    kind, _, g = hear()
    say(4, 0, g[:40])
    while True:
        kind, number, _ = hear()
        say(5 if kind == 2 else 6, number)
    """
    helped(talker(tmp_path, body))


TWO_PROGRAMS = """if True:
    import os, sys
    import numpy as np
    import clave
    device = clave.Device("opencl")
    for path in sys.argv[1:]:
        clave.Session(clave.load(path), device=device)(np.ones((2, 4), np.float32), 2.0)
    """


@pytest.mark.parametrize("body", ["exit 1", "exec sleep 1000"], ids=["ends", "hangs"])
def test_a_helper_that_never_greets_is_left_alone(tool, helped, program, root, tmp_path, body):
    """A helper that does not respond costs ten seconds once per process, not for each program."""
    log = tmp_path / "log"
    helper = script(tmp_path, f"#!/bin/sh\necho $CLAVE_HELPER >> {log}\n{body}\n")
    env = helped.env | {"CLAVE_CACHE_DIR": "off", "CLAVE_HELPER": helper, "PYTHONPATH": str(root / "python")}
    other = (tool.folder / program).read_text().replace('"mul"', '"add"').replace('"argmax"', '"argmin"')
    (tool.folder / "other.json").write_text(other)
    command = [sys.executable, "-c", TWO_PROGRAMS, program, "other.json"]
    p = subprocess.run(command, env=env, capture_output=True, text=True, cwd=tool.folder)
    assert p.returncode == 0, p.stderr
    started = log.read_text().split()
    assert started and set(started) == {"off"}  # the child must not start children
    assert len(started) <= len(os.sched_getaffinity(0))


HOST = """if True:
    import ctypes, gc, os, signal, sys, threading
    import numpy as np
    import clave
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if sys.argv[2] == "ignored": signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    children = lambda: [c for t in os.listdir("/proc/self/task")
                        for c in open(f"/proc/self/task/{t}/children").read().split()]
    clave.devices()
    program = clave.load(sys.argv[1])
    x = np.ones((2, 4), np.float32)
    def use(n):
        session = clave.Session(program, device="opencl")
        assert abs(session(x * n, 2.0)[0] - 0.25).max() < 1e-6
    use(0)
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    threads = [threading.Thread(target=use, args=(n,)) for n in range(3)]
    for t in threads: t.start()
    for t in threads: t.join()
    gc.collect()
    assert not children(), children()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    """


@pytest.mark.parametrize("kind", ["plain", "ignored"])
def test_in_a_host(tool, helped, program, root, tmp_path, kind):
    """In threads of a host that handles signals, no child, zombie or descriptor remains."""
    env = helped.env | {"CLAVE_CACHE_DIR": "off", "CLAVE_HELPER": tool.exe, "PYTHONPATH": str(root / "python")}
    p = subprocess.run(
        [sys.executable, "-c", HOST, program, kind], env=env, capture_output=True, text=True, cwd=tool.folder
    )
    assert p.returncode == 0, p.stderr


# ---------------------------------------------------------------- the other end


def serve(tool, env, data, ends=True):
    """Returns the answer of `clave build-kernels`, its exit code and its standard error."""
    ours, its = socket.socketpair()
    p = subprocess.Popen(
        [tool.exe, "build-kernels"], stdin=its, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    )
    its.close()
    ours.sendall(data)
    if ends:
        ours.shutdown(socket.SHUT_WR)
    answer = b""
    with contextlib.suppress(ConnectionResetError):  # the child ended without reading all
        while piece := ours.recv(4096):
            answer += piece
    out, err = p.communicate(timeout=60)
    assert not out
    return answer, p.returncode, err.decode()


def message(kind, data=b"", size=None):
    return struct.pack("4I", kind, 0, len(data) if size is None else size, 0) + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x" * 100,
        message(GREETING),
        message(GREETING, bytes(39)),
        message(ORDER, bytes(300)),
        message(GREETING, size=1 << 30),
    ],
    ids=["nothing", "noise", "empty", "short", "order_first", "too_long"],
)
def test_strangers_are_refused(tool, helped, data):
    answer, code, err = serve(tool, helped.env, data)
    assert answer == b"" and code == 1 and err.count("\n") == 1, err


def test_another_version_is_refused(tool, helped):
    answer, code, err = serve(tool, helped.env, message(GREETING, bytes(40)))
    assert struct.unpack("4I", answer[:16])[0] == READY and len(answer) == 56
    assert code == 1 and "another version" in err


@pytest.mark.parametrize("kind", [ORDER, BUILT])
def test_bad_orders_end_the_child(tool, helped, kind):
    """Reads the greeting from the child itself, then sends invalid orders."""
    first, _, _ = serve(tool, helped.env, message(GREETING, bytes(40)))
    greeting = first[16:56]
    fields = lambda n_args, *sizes: struct.pack("4I7Q", n_args, 0, 0, 0, 0, *sizes) + bytes(64) + b"f\0\0\0"
    one = (1, 1, 1)
    counts = fields(1000, *one, *one), fields(1, *one, *one), fields(0, *one, *one)[:-3] + b"no ends"
    sizes = (*one, 0, 1, 1), (1, 4097, 1, 1, 4097, 1), (1, 1 << 17 | 1, 1, *one), (3, 1, 1, 2, 1, 1), (0, 1, 1, *one)
    for data in (b"", *counts, *(fields(0, *s) for s in sizes)):
        answer, code, err = serve(tool, helped.env, message(GREETING, greeting) + message(kind, data))
        assert answer == first and code == 0 and not err


def test_source_that_does_not_compile(tool, helped):
    first, _, _ = serve(tool, helped.env, message(GREETING, bytes(40)))
    order = struct.pack("4I7Q", 0, 0, 0, 0, 0, *[1] * 6) + bytes(64) + b"f\0-w\0__kernel void f( {\0"
    answer, code, _ = serve(tool, helped.env, message(GREETING, first[16:56]) + message(ORDER, order))
    assert struct.unpack("4I", answer[56:72])[0] == BUILT and code == 0  # clang writes to stderr


# The numbers are arg_kind of args.h; a buffer and its offset, which is 0, are two arguments. Pointers and images are
# parameters; all other arguments are in a struct.
KINDS = {
    "buffer": (0, "__global char *x"),
    "offset": (5, "long o"),
    "local": (1, "__local char *l"),
    "image": (2, "__read_only image1d_buffer_t m"),
    "int": (3, "int i"),
    "uint": (4, "uint u"),
    "long": (5, "long g"),
    "ulong": (6, "ulong h"),
    "float": (7, "float f"),
    "double": (8, "double d"),
    "real": (9, "float r"),
    "index": (10, "int n"),
    "index8": (11, "int v[8]"),
    "seed": (12, "ulong seed"),
    "run": (13, "uint run"),
    "fault": (14, "__global int *fault"),
    "fault_node": (15, "uint node"),
}
LAUNCHED = """typedef struct { %s; } numbers;
__kernel void f(%s, const numbers s) {
  if (s.o != 0 || s.i != 1 || s.u != 1 || s.g != 1 || s.h != 1 || s.f != 1 || s.d != 1 || s.r != 1 || s.n != 1)
    __builtin_trap();
  for (int k = 0; k < 8; k++)
    if (s.v[k] != 1) __builtin_trap();
  if (s.seed != 0 || s.run != 0 || s.node != 0) __builtin_trap();
  for (int k = 0; k < s.n; k++) { l[k] = (char)s.r + x[s.o + k]; x[s.o + k] = l[k] + (fault[0] != 0); }
}"""


@always
def test_each_variant_is_launched(tool, helped, tmp_path):
    """PoCL compiles at the launch, with arguments of each kind, which are all 1 or all 0."""
    env = helped.env | {"POCL_CACHE_DIR": str(tmp_path / "pocl")}
    (tmp_path / "pocl").mkdir()
    first, _, _ = serve(tool, env, message(GREETING, bytes(40)))
    kinds = bytes(number for number, _ in KINDS.values()).ljust(64, b"\0")
    declarations = [declaration for _, declaration in KINDS.values()]
    pointers = [d for d in declarations if "*" in d or "image" in d]
    source = LAUNCHED % ("; ".join(d for d in declarations if d not in pointers), ", ".join(pointers))
    texts = b"f\0-cl-std=CL1.2 -w\0" + source.encode() + b"\0"
    sizes = (16, 1, 1, 16, 1, 1), (4, 2, 1, 4, 2, 1), (1 << 16, 1, 1, 16, 1, 1)
    orders = [struct.pack("4I7Q", len(KINDS), 0, 0, 0, 256, *s) + kinds for s in sizes]
    said = b"".join(message(ORDER, order + texts) for order in orders)
    answer, code, err = serve(tool, env, message(GREETING, first[16:56]) + said)
    said = [struct.unpack("4I", answer[at : at + 16])[0] for at in (56, 72, 88)]
    assert said == [BUILT] * 3 and code == 0 and not err
    built = {f.parent.name for f in (tmp_path / "pocl").rglob("f.so")}
    assert built == {"16-1-1-goffs0-smallgrid", "4-2-1-goffs0-smallgrid", "16-1-1-goffs0"}


def test_a_drivers_programs_do_not_get_the_socket(tool, helped):
    ours, its = socket.socketpair()
    with subprocess.Popen([tool.exe, "build-kernels"], stdin=its, env=helped.env, stderr=subprocess.DEVNULL) as p:
        its.close()
        first, _, _ = serve(tool, helped.env, message(GREETING, bytes(40)))
        ours.sendall(message(GREETING, first[16:56]))
        assert ours.recv(56, socket.MSG_WAITALL) == first
        assert os.readlink(f"/proc/{p.pid}/fd/0") == "/dev/null"
        ours.close()
        assert p.wait(timeout=60) == 0


def test_terminal(tool):
    r = tool.run("build-kernels", stdin=subprocess.DEVNULL)
    assert r.returncode == 1 and "no process requests kernels" in r.stderr
    assert "build-kernels" not in tool.good("--help") and "socket" in tool.good("build-kernels", "--help")
