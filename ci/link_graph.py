"""The link graph of a build: the symbols of other source files that each source file uses, read from its object.

Inline functions and types are not in the graph. Generated tables are left out, because they name every function.
"""

import collections
import subprocess
import sys

LEFT_OUT = ("gen/", "test/", "bench/", "examples/")
PROGRAMS = {  # room: the program that its objects are linked into; other rooms belong to the library
    "cli/": "tool",
    "compile/carried/": "program",
    "compile/runtime/": "program",
    "delegate/": "plugin",
}


def program_of(path):
    """Returns the program that a source is linked into. Two programs may define the same symbol."""
    return next((name for room, name in PROGRAMS.items() if path.startswith(room)), "library")


def symbols(build, sources):
    """Yields (source, true if it defines the symbol, symbol) for the objects of existing sources."""
    found = {}
    for path in sorted((build / "obj").rglob("*.o")):
        source = path.relative_to(build / "obj").with_suffix(".c").as_posix()
        if source in sources and not source.startswith(LEFT_OUT):
            found[str(path)] = source
    if not found:
        sys.exit(f"{build} has no objects: run make first")
    out = subprocess.run(["nm", "-A", "-g", *found], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        path, _, rest = line.partition(":")
        kind, name = rest.split()[-2:]
        yield found[path], kind != "U", name


def link_graph(build, sources):
    """Returns {user: {definer: symbols}} of source files. If several programs define a symbol, the definition in the
    user's own program counts."""
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
    """Returns the strongly connected components of more than one file, sorted, by Tarjan's algorithm."""
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
