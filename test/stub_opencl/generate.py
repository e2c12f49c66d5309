"""Writes a wrapper for every function of <CL/cl.h>, which counts the call and fails or forwards it (see stub.c).

    generate.py --header /usr/include/CL/cl.h --out calls.inc --map stub.map [--own FILE...]

With --own, it writes every function that the C files do not define, which fails (see ../imitated_opencl). The map has
the symbol versions of the usual loader, which programs linked against that loader expect.
"""

import argparse
import pathlib
import re

PROTOTYPE = re.compile(
    r"extern CL_API_ENTRY\s+(.*?)\s*CL_API_CALL\s*(cl\w+)\((.*?)\)\s*CL_API_SUFFIX__VERSION_(\w+)", re.S
)
HOOKED = (  # stub.c changes their results
    "clGetDeviceInfo",
    "clFinish",
    "clGetPlatformIDs",
    "clGetPlatformInfo",
    "clCreateBuffer",
    "clGetKernelWorkGroupInfo",
    "clEnqueueNDRangeKernel",
    "clEnqueueMapBuffer",
    "clGetEventProfilingInfo",
    "clCreateBufferWithProperties",
    "clGetExtensionFunctionAddressForPlatform",
    "clSetKernelArg",
    "clReleaseKernel",
)
HARMFUL = {  # harm.h: they may crash or hang
    **{name: f'harm_bytes("{name}", "list", 4);' for name in ("clGetPlatformIDs", "clGetDeviceIDs", "clGetDeviceInfo")},
    "clBuildProgram": "harm_source(program);",
    "clCreateKernel": "harm_name(kernel_name);",
    "clEnqueueNDRangeKernel": "harm_launch(kernel);",
    "clCreateProgramWithBinary": 'harm_bytes("clCreateProgramWithBinary", binaries[0], lengths[0]);',
}


def split_parameters(text):
    """Returns the parameters of a prototype; commas inside parentheses belong to function pointers."""
    parts, depth = [""], 0
    for c in re.sub(r"\s+", " ", text).strip():
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip() not in ("", "void")]


def parameter_name(parameter):
    pointer = re.search(r"\(\s*CL_CALLBACK\s*\*\s*(\w+)\s*\)", parameter)
    return pointer[1] if pointer else re.search(r"(\w+)(\[\])?$", parameter)[1]


def object_class(name):
    """Returns the object count of stub.c that a function changes, and the change."""
    name = re.sub(r"^clCreate(Sub)?Buffer\w*$|^clCreateImage\w*$|^clCreatePipe$", "clCreateMemObject", name)
    for verb, change in (("Create", 1), ("Retain", 1), ("Release", -1)):
        found = re.match(rf"cl{verb}(CommandQueue|Context|MemObject|Program|Kernel|UserEvent|Event)", name)
        if found and not name.startswith("clCreateKernelsInProgram"):
            return found[1].replace("UserEvent", "Event"), change
    return None, 0


def subject(parameters):
    """Returns what a call is about: a program, a kernel and a text (see stub.c)."""
    named = {parameter_name(p): p for p in parameters}
    text = next((n for n in ("options", "kernel_name") if n in named), "NULL")
    typed = {t: n for n, p in named.items() for t in ("cl_program", "cl_kernel") if re.fullmatch(rf"{t}\s+\w+", p)}
    return "NULL" if text == "kernel_name" else typed.get("cl_program", "NULL"), typed.get("cl_kernel", "NULL"), text


def wrapper(result, name, parameters):
    names = [parameter_name(p) for p in parameters]
    arguments, declared = ", ".join(names), ", ".join(parameters) or "void"
    pointer_result = result != "cl_int"
    fail = "return NULL;" if pointer_result else "return code;"
    if pointer_result and names and names[-1] == "errcode_ret":
        fail = "{ if (errcode_ret) *errcode_ret = code; return NULL; }"
    # A lost device has stopped, but the real device still runs: wait until it is idle.
    if name in ("clFinish", "clWaitForEvents"):
        fail = f"{{ real({arguments}); return code; }}"
    if "blocking" in declared:
        fail = f"{{ stub_wait_idle(command_queue); {fail} }}"
    about = f"&(subject){{{', '.join(subject(parameters))}}}"
    kind, change = object_class(name)
    lines = [f"{result} CL_API_CALL {name}({declared}) {{", f"  typedef {result} (CL_API_CALL *function)({declared});"]
    lines += ["  static function real;", f'  if (!real) load_real("{name}", (void *)&real, sizeof real);']
    if result == "void":
        return "\n".join([*lines, f"  real({arguments});", "}"])
    if change >= 0:
        lines += [f'  cl_int code = stub_call("{name}", {about});', f"  if (code || hostile_takes(&code)) {fail}"]
    else:
        lines += [f'  (void)stub_call("{name}", {about});']
    if name.startswith("clEnqueue"):
        memory = [names[i] for i, p in enumerate(parameters) if re.fullmatch(r"cl_mem\s+\w+", p)]
        lines += [f"  code = refuse_memory({m});\n  if (code) {fail}" for m in memory]
    if name in HARMFUL:
        lines += [f"  {HARMFUL[name]}"]
    call = f"hook_{name}(real, {arguments})" if name in HOOKED else f"real({arguments})"
    lines.append(f"  {result} answer = {call};")
    if names[-3:] == ["param_value_size", "param_value", "param_value_size_ret"]:
        lines.append(f"  answer = hostile_query(answer, {', '.join(names[-3:])});")
    if names[-1:] in (["num_platforms"], ["num_devices"]) and len(names) > 2:
        lines.append(f"  answer = hostile_list(answer, {', '.join(names[-3:])});")
    good = "answer" if pointer_result else "answer == CL_SUCCESS"
    if kind:
        lines.append(f"  if ({good}) stub_count({kind}_OBJECTS, {change});")
    if parameters and re.fullmatch(r"cl_event\s*\*\s*event", parameters[-1]):
        lines.append(f"  if ({good} && event) stub_count(Event_OBJECTS, 1);")
    return "\n".join([*lines, "  return answer;", "}"])


def missing(result, name, parameters):
    """Returns the text of a function that always fails."""
    value = {"void": "", "cl_int": " CL_INVALID_OPERATION"}.get(result, " NULL")
    unused = "".join(f"  (void){parameter_name(p)};\n" for p in parameters)
    return f"{result} CL_API_CALL {name}({', '.join(parameters) or 'void'}) {{\n{unused}  return{value};\n}}"


def version_map(versions):
    """Returns a linker version script for {"1_0": ["clGetPlatformIDs", ...], ...}; the last node is the stub's own."""
    nodes = [f"OPENCL_{v.replace('_', '.')} {{ {'; '.join(names)}; }};" for v, names in sorted(versions.items())]
    return "\n".join([*nodes, "STUB { global: stub_*; local: *; };"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--header", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--map", type=pathlib.Path, required=True)
    parser.add_argument("--own", type=pathlib.Path, nargs="*", help="C files of a library that forwards nothing")
    args = parser.parse_args()
    texts, versions = [], {}
    own = {name for f in args.own or () for name in re.findall(r"CL_API_CALL (cl\w+)\(", f.read_text())}
    write = missing if args.own else wrapper
    for result, name, parameters, version in PROTOTYPE.findall(args.header.read_text()):
        result = re.sub(r"CL_API_PREFIX\w*\s*", "", result).strip()
        if name not in own:
            texts.append(write(result, name, split_parameters(parameters)))
        # The header says when a function was deprecated: deprecated functions of 1.x exist since 1.0.
        introduced = "1_0" if re.fullmatch(r"1_\d_DEPRECATED", version) else version.removesuffix("_DEPRECATED")
        versions.setdefault(introduced, []).append(name)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("\n".join(texts) + "\n")
    args.map.write_text(version_map(versions))


if __name__ == "__main__":
    main()
