"""torch_size.py REQUIREMENTS: prints a note if pip is about to download a build of torch for CUDA, and how to avoid it.

It asks pip's own finder for the file, with the user's settings. It prints nothing if this version of torch is
installed, if the file is local, or if it is small enough.
"""

import importlib.metadata
import pathlib
import re
import sys

LIMIT = 400 << 20  # bytes; a CPU wheel has about 200 MB, a CUDA wheel over 500 MB and gigabytes of nvidia-* packages

ADVICE = """downloading {size} MB of torch {version} ({name}) and gigabytes of CUDA libraries,
which the tests do not need. To avoid this, stop here and pass a CPU build (200 MB): make check TORCH=PATH, where PATH
is a wheel or a folder of wheels. Or add the index of CPU builds on torch's installation page to pip's settings."""


def installed(version):
    try:
        return importlib.metadata.version("torch").split("+")[0] == version
    except importlib.metadata.PackageNotFoundError:
        return False


def candidate(requirement):
    """Returns the link of the file that `pip install` would download and its size in bytes, or (None, 0)."""
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
    except Exception as error:  # pip's internals differ between versions; the installation itself goes on
        print(f"note: could not ask pip for torch's size ({type(error).__name__}: {error})")
        return
    if link is not None and size > LIMIT:
        print(ADVICE.format(version=version, size=size >> 20, name=link.filename), flush=True)


if __name__ == "__main__":
    main()
