"""Says beforehand when pip is about to fetch a CUDA-size build of torch, and how to avoid it: asks pip's own finder
which file it would take, as the user set it.

Usage: torch_size.py REQUIREMENTS. Silent when torch is installed already, is a local file, or is small enough.
"""

import importlib.metadata
import pathlib
import re
import sys

LIMIT = 400 << 20  # bytes; a CPU wheel has about 200 MB, one for CUDA over 500 MB beside gigabytes of nvidia-* packages

ADVICE = """fetching {size} MB of torch {version} ({name}) and gigabytes of CUDA's libraries,
which the tests do not need. To avoid it, stop here and give a CPU build (200 MB): make check TORCH=WHEEL, or a folder
of wheels; or let pip see the index of CPU builds that torch's installation page names."""


def installed(version):
    try:
        return importlib.metadata.version("torch").split("+")[0] == version
    except importlib.metadata.PackageNotFoundError:
        return False


def candidate(requirement):
    """The file that `pip install` would pick: (link, session)."""
    from pip._internal.commands.install import InstallCommand

    command = InstallCommand("install", "")
    with command.main_context():
        options, _ = command.parse_args([requirement])
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session)
        from pip._vendor.packaging.requirements import Requirement

        wanted = Requirement(requirement)
        best = finder.find_best_candidate(wanted.name, wanted.specifier).best_candidate
        if best is None or best.link.is_file:
            return None, 0
        answer = session.head(best.link.url_without_fragment, headers={"Accept-Encoding": "identity"})
        return best.link, int(answer.headers.get("Content-Length", 0))


def main():
    lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
    requirement = next(line for line in lines if line.startswith("torch==")).strip()
    version = re.fullmatch(r"torch==(.*)", requirement)[1]
    if installed(version):
        return
    try:
        link, size = candidate(requirement)
    except Exception as error:  # pip's inside differs between versions: without an answer, let pip itself speak
        print(f"note: could not ask pip for torch's size ({type(error).__name__}: {error})")
        return
    if link is not None and size > LIMIT:
        print(ADVICE.format(version=version, size=size >> 20, name=link.filename), flush=True)


if __name__ == "__main__":
    main()
