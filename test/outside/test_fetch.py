"""examples/fetch with mirrors on this machine: whole, truncated, wrong and missing files. Nothing is downloaded."""

import functools
import hashlib
import http.server
import os
import re
import shutil
import subprocess
import threading

import pytest

CONTENT = bytes(range(256)) * 700
HTTPS = re.compile(r"https://[\w.-]+/\S+")


@pytest.fixture
def examples(root, tmp_path):
    """Makes examples/ with a separate table: two files of one name."""
    folder = tmp_path / "examples"
    folder.mkdir()
    for name in ("fetch", "example_data.py"):
        shutil.copy(root / "examples" / name, folder)
    rows = [
        ("numbers", file, len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), "MIT", "https://127.0.0.1:9/x")
        for file in ("a.bin", "b.bin")
    ]
    (folder / "data.tsv").write_text("# name\n" + "".join("\t".join(map(str, row)) + "\n" for row in rows))
    return folder


@pytest.fixture
def mirror(tmp_path):
    folder = tmp_path / "mirror"
    (folder / "numbers").mkdir(parents=True)
    for file in ("a.bin", "b.bin"):
        (folder / "numbers" / file).write_bytes(CONTENT)
    return folder


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files with or without ranges, and records the requested ranges."""

    ranges = True
    asked: list = []

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.asked.append(wanted)
        if not (self.ranges and wanted):
            return super().do_GET()
        with open(self.translate_path(self.path), "rb") as f:
            rest = f.read()[int(wanted.removeprefix("bytes=").rstrip("-")) :]
        self.send_response(206)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        return self.wfile.write(rest)

    def log_message(self, *_):
        pass


@pytest.fixture(params=[True, False], ids=["ranges", "no ranges"])
def server(request, mirror):
    """Yields (address, the requested ranges, True if it supports ranges)."""
    kind = type("Kind", (Handler,), {"ranges": request.param, "asked": []})
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(kind, directory=mirror))
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}", kind.asked, request.param
    running.shutdown()
    running.server_close()


@pytest.fixture
def fetch(examples, outsider):
    def call(*arguments, code=0):
        env = {k: v for k, v in outsider.items() if "proxy" not in k.lower()}
        command = [examples / "fetch", *map(str, arguments)]
        p = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True)
        assert p.returncode == code, p.stdout + p.stderr
        assert "Traceback" not in p.stderr
        return p.stdout if code == 0 else p.stderr

    return call


def stored(examples):
    return {f.name: f.read_bytes() for f in (examples / "data/numbers").iterdir()}


def test_a_folder(fetch, examples, mirror):
    said = fetch("numbers", "--from", mirror)
    assert said.splitlines()[0] == "numbers/a.bin: 179,200 bytes, licence: MIT" and len(said.splitlines()) == 2
    assert stored(examples) == {"a.bin": CONTENT, "b.bin": CONTENT}
    assert fetch("numbers").count("already present") == 2  # without the mirror


def test_a_server(fetch, examples, server):
    fetch("numbers", "--from", server[0])
    assert stored(examples) == {"a.bin": CONTENT, "b.bin": CONTENT} and server[1] == [None, None]


def test_a_download_that_was_cut_off_goes_on(fetch, examples, server):
    (examples / "data/numbers").mkdir(parents=True)
    (examples / "data/numbers/a.bin.part").write_bytes(CONTENT[:1000])
    (examples / "data/numbers/b.bin.part").write_bytes(CONTENT * 2)
    fetch("numbers", "--from", server[0])
    assert stored(examples) == {"a.bin": CONTENT, "b.bin": CONTENT} and server[1] == ["bytes=1000-", None]


@pytest.mark.parametrize(
    ("content", "said", "left"),
    [
        (CONTENT[:-1] + b"?", "expected SHA-256 ", []),
        (CONTENT[:1000], "expected 179200 bytes, got 1000", ["a.bin.part"]),
        (CONTENT + b"more", "expected 179200 bytes, got 179201", []),
        (b"", "expected 179200 bytes, got 0", ["a.bin.part"]),
        (None, "No such file or directory", []),
    ],
)
def test_a_wrong_file_is_refused(fetch, examples, mirror, content, said, left):
    file = mirror / "numbers/a.bin"
    file.unlink() if content is None else file.write_bytes(content)
    error = fetch("numbers", "--from", mirror, code=1)
    assert error.startswith("fetch: ") and len(error.splitlines()) == 1
    assert said in error and str(mirror) in error
    assert list(stored(examples)) == left
    file.write_bytes(CONTENT)
    fetch("numbers", "--from", mirror)
    assert stored(examples)["a.bin"] == CONTENT


def test_bad_bytes_that_were_left_do_not_stay(fetch, examples, server):
    """The rest of the right file is appended to wrong bytes. The result is refused once, then fetched as a whole."""
    (examples / "data/numbers").mkdir(parents=True)
    (examples / "data/numbers/a.bin.part").write_bytes(b"?" * 1000)
    if server[2]:
        assert "expected SHA-256" in fetch("numbers", "--from", server[0], code=1)
    fetch("numbers", "--from", server[0])
    assert stored(examples) == {"a.bin": CONTENT, "b.bin": CONTENT}


def test_a_damaged_copy_is_fetched_again(fetch, examples, mirror):
    (examples / "data/numbers").mkdir(parents=True)
    (examples / "data/numbers/a.bin").write_bytes(CONTENT[::-1])
    fetch("numbers", "--from", mirror)
    assert stored(examples)["a.bin"] == CONTENT


def test_what_is_wrong_is_one_line(fetch, examples, server, tmp_path):
    assert "404" in fetch("numbers", "--from", f"{server[0]}/none", code=1)
    assert "no data are named other: expected numbers" in fetch("other", code=2)
    assert "expected a NAME" in fetch(code=2)
    assert "https://127.0.0.1:9/x: [Errno" in fetch("numbers", code=1)
    (tmp_path / "file").write_text("no folder")
    error = fetch("numbers", "--from", server[0], "--to", tmp_path / "file", code=1)
    assert len(error.splitlines()) == 1
    assert "numbers" in fetch("--list") and "MIT" in fetch("--list")


def test_the_table(root):
    """Every row has a TLS address, a size, a hash and a licence; the tests' data are the same."""
    rows = [line.split("\t") for line in (root / "examples/data.tsv").read_text().splitlines() if line[0] != "#"]
    data = root / os.environ.get("CLAVE_TEST_DATA", "../shared/data")
    for name, file, size, digest, licence, url in rows:
        assert re.fullmatch("[0-9a-f]{64}", digest) and HTTPS.fullmatch(url) and licence
        copy = data / name / file
        if copy.exists():
            assert copy.stat().st_size == int(size) and hashlib.sha256(copy.read_bytes()).hexdigest() == digest
    assert {row[0] for row in rows} == {"mnist", "stories260K", "text", "cifar10"}


def test_no_example_reads_beside_the_checkout(root):
    """A user's files of the repository do not name the folder of our own tests' data."""
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout
    named = [n for n in listed.splitlines() if n.startswith(("examples/", "docs/", "python/", "README", "cli/"))]
    texts = [n for n in named if n.endswith((".md", ".py", ".sh", ".c", ".h", ".tsv")) and (root / n).is_file()]
    assert [n for n in texts if "../shared" in (root / n).read_text() or '"shared"' in (root / n).read_text()] == []
