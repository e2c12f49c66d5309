"""The link graph of a build: which source file calls or reads what of which other one, by the symbols of their objects.

Inline functions and types are not in it, and generated tables, which name everything, are left out.
"""

import collections
import subprocess
import sys

LEFT_OUT = ("gen/", "test/", "bench/", "examples/")
PROGRAMS = {  # room: what its objects are linked into, beside the library; each has symbols of its own
    "cli/": "tool",
    "compile/carried/": "program",
    "compile/runtime/": "program",
    "delegate/": "plugin",
}


def program_of(path):
    """What the object is linked into: two of these may give one name to two things."""
    return next((name for room, name in PROGRAMS.items() if path.startswith(room)), "library")


def symbols(build, sources):
    """(source, whether it defines the symbol, symbol) of the objects whose sources are there."""
    found = {}
    for path in sorted((build / "obj").rglob("*.o")):
        source = path.relative_to(build / "obj").with_suffix(".c").as_posix()
        if source in sources and not source.startswith(LEFT_OUT):
            found[str(path)] = source
    if not found:
        sys.exit(f"{build} has no objects: make it first")
    out = subprocess.run(["nm", "-A", "-g", *found], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        path, _, rest = line.partition(":")
        kind, name = rest.split()[-2:]
        yield found[path], kind != "U", name


def link_graph(build, sources):
    """{user: {definer: symbols}} by source file. A name that several programs define is that of the user's own."""
    definers, users = collections.defaultdict(list), []
    for source, defines, name in symbols(build, sources):
        if defines:
            definers[name].append(source)
        else:
            users.append((source, name))
    arrows = {}
    for source, name in users:
        own = [d for d in definers[name] if program_of(d) == program_of(source)]
        others = [] if program_of(source) == "library" else definers[name]
        for definer in own or others:
            arrows.setdefault(source, {}).setdefault(definer, []).append(name)
    return arrows


def circles_of(arrows):
    """The strongly connected components of more than one file (Tarjan), sorted."""
    numbers, lowest, stack, found = {}, {}, [], []

    def visit(file):
        numbers[file] = lowest[file] = len(numbers)
        stack.append(file)
        for other in arrows.get(file, ()):
            if other not in numbers:
                visit(other)
            if other in stack:
                lowest[file] = min(lowest[file], lowest[other])
        if lowest[file] == numbers[file]:
            at = stack.index(file)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for file in arrows:
        if file not in numbers:
            visit(file)
    return sorted(found)
