#!/usr/bin/env python3
"""Generates manual pages and completions for bash, zsh and fish from the tool's command tables.

cli/pages.py TABLES.json FOLDER: TABLES.json is the output of `clave command-tables`; `make install` copies FOLDER to
share/.
"""

import json
import pathlib
import sys

FILES = ("path", "written", "operand")  # kinds of flags with a file as value
DEVICES = ("cpu", "opencl")


def options(command):
    """Returns the flags that are given by name, except --help."""
    return [f for f in command["flags"] if f["kind"] != "operand"]


def spellings(f):
    return [f"-{f['short']}", f["name"]] if f["short"] else [f["name"]]


def accepts_file(f):
    """True if the value is a file name. The shell completes the part of NAME=FILE after the equals sign."""
    return f["kind"] in FILES or (f["kind"] == "list" and "." in (f["value"] or ""))


def accepts_device(f):
    return f["name"] in ("--device", "--pack")


# ---------------------------------------------------------------- manual pages


def roff(text):
    """Escapes text for troff: no requests at line starts, and hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in ".'" else line for line in text.split("\n"))


def head(name, summary, version):
    return [f'.TH {name.upper()} 1 "" "clave {version}" "clave"', ".SH NAME", f"{roff(name)} \\- {roff(summary)}"]


def lead(summary):
    """Returns a summary in the style of a manual page's NAME section."""
    return summary[0].lower() + summary[1:].rstrip(".")


def entry(title, text):
    return [".TP", title, roff(text)]


def command_page(c, tables):
    lines = head(f"clave-{c['name']}", lead(c["summary"]), tables["version"])
    lines += [".SH SYNOPSIS", f"clave {roff(c['usage'])}", ".SH DESCRIPTION", roff(c["summary"])]
    if c["more"]:
        lines += [".PP", ".nf", roff(c["more"].rstrip("\n")), ".fi"]
    lines += [".SH OPTIONS"]
    for f in c["flags"]:
        value = f" \\fI{roff(f['value'])}\\fR" if f["value"] else ""
        named = ", ".join(f"\\fB{roff(s)}\\fR" for s in ([f["name"]] if f["kind"] == "operand" else spellings(f)))
        lines += entry(named + value, f["help"])
    lines += entry("\\fB\\-\\-help\\fR", "this text") + entry("\\fB\\-\\-version\\fR", "the version of clave")
    lines += [".SH EXIT STATUS", roff(tables["exits"].partition(": ")[2]), ".SH SEE ALSO", ".BR clave (1)"]
    return "\n".join(lines) + "\n"


def main_page(tables):
    lines = head("clave", "runs exported neural networks on any OpenCL device, or on the CPU", tables["version"])
    lines += [".SH SYNOPSIS", "clave COMMAND ...", ".SH COMMANDS"]
    for c in tables["commands"]:
        lines += entry(f"\\fB{roff(c['name'])}\\fR", f"{c['summary']} See clave-{c['name']}(1).")
    lines += [".SH DEVICES", roff(tables["devices"].partition(": ")[2]), ".SH ENVIRONMENT"]
    for v in tables["variables"]:
        lines += entry(f"\\fB{v['name']}\\fR=\\fI{roff(v['value'])}\\fR", v["help"])
    lines += [".SH EXIT STATUS", roff(tables["exits"].partition(": ")[2])]
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- completions


def bash(tables):
    """Completes options of the command, file names for file options, and devices for device options."""
    names = " ".join(c["name"] for c in tables["commands"])
    lines = [
        "# bash completion for clave",
        "_clave() {",
        '  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} options=""',
        "  COMPREPLY=()",
        '  if [ "$COMP_CWORD" = 1 ]; then',
        f"    COMPREPLY=($(compgen -W '{names} --help --version' -- \"$word\"))",
        "    return",
        "  fi",
        '  case "$command $before" in',
    ]
    for c in tables["commands"]:
        for f in options(c):
            pattern = " | ".join(f'"{c["name"]} {s}"' for s in spellings(f))
            if accepts_device(f):
                lines.append(f"    {pattern}) COMPREPLY=($(compgen -W '{' '.join(DEVICES)}' -- \"$word\")); return ;;")
            elif f["kind"] != "switch" and not accepts_file(f):
                lines.append(f"    {pattern}) return ;;")
            elif f["kind"] != "switch":
                lines.append(f'    {pattern}) COMPREPLY=($(compgen -f -- "$word")); return ;;')
    lines += ["  esac", '  case "$command" in']
    for c in tables["commands"]:
        every = " ".join(s for f in options(c) for s in spellings(f))
        lines.append(f"    {c['name']}) options='{every} --help --version' ;;")
    lines += [
        "  esac",
        '  case "$word" in',
        '    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;',
        '    *) COMPREPLY=($(compgen -f -- "$word")) ;;',
        "  esac",
        "}",
        "complete -o filenames -F _clave clave",
    ]
    return "\n".join(lines) + "\n"


def zsh_quoted(text):
    """Escapes text for single quotes and for _arguments, where brackets and colons are special."""
    for special in "\\[]:":
        text = text.replace(special, "\\" + special)
    return text.replace("'", "'\\''")


def zsh_option(f):
    action = ":device:(" + " ".join(DEVICES) + ")" if accepts_device(f) else ":file:_files" if accepts_file(f) else ""
    if not action and f["kind"] != "switch":
        action = f":{zsh_quoted(f['value'] or 'value')}: "
    star = "*" if f["kind"] == "list" else ""
    return [f"'{star}{s}[{zsh_quoted(f['help'])}]{action}'" for s in spellings(f)]


def zsh(tables):
    lines = ["#compdef clave", "local -a commands", "commands=("]
    lines += [f"  '{c['name']}:{zsh_quoted(c['summary'])}'" for c in tables["commands"]]
    lines += [")", "if (( CURRENT == 2 )); then", "  _describe command commands", "  return", "fi"]
    lines += ["local command=$words[2]", "shift words", "(( CURRENT-- ))", "case $command in"]
    for c in tables["commands"]:
        given = [spec for f in options(c) for spec in zsh_option(f)]
        operands = [
            f"'{i}:{zsh_quoted(f['name'])}:_files'"
            for i, f in enumerate([f for f in c["flags"] if f["kind"] == "operand"], 1)
        ]
        every = [*given, "'--help[this text]'", "'--version[the version of clave]'", *operands]
        lines.append(f"  {c['name']}) _arguments {' '.join(every)} ;;")
    return "\n".join([*lines, "esac"]) + "\n"


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(tables):
    lines = ["# fish completion for clave"]
    for c in tables["commands"]:
        lines.append(f"complete -c clave -f -n __fish_use_subcommand -a {c['name']} -d {fish_quoted(c['summary'])}")
    for c in tables["commands"]:
        seen = f"-n '__fish_seen_subcommand_from {c['name']}'"
        if any(f["kind"] == "operand" for f in c["flags"]):
            lines.append(f"complete -c clave {seen} -F")
        for f in options(c):
            names = "".join(f" -l {s[2:]}" if s.startswith("--") else f" -s {s[1:]}" for s in spellings(f))
            value = "" if f["kind"] == "switch" else " -r -F" if accepts_file(f) else " -x"
            value += f" -a '{' '.join(DEVICES)}'" if accepts_device(f) else ""
            lines.append(f"complete -c clave {seen}{names}{value} -d {fish_quoted(f['help'])}")
    return "\n".join(lines) + "\n"


def main(tables, folder):
    tables = json.loads(pathlib.Path(tables).read_text())
    files = {f"man/man1/clave-{c['name']}.1": command_page(c, tables) for c in tables["commands"]}
    files |= {
        "man/man1/clave.1": main_page(tables),
        "bash-completion/completions/clave": bash(tables),
        "zsh/site-functions/_clave": zsh(tables),
        "fish/vendor_completions.d/clave.fish": fish(tables),
    }
    for name, text in files.items():
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
