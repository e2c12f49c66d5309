"""Compilers for GPUs that this machine does not have, and what they report of an OpenCL program: errors, registers,
private memory, the width of a wave, counts of instructions, seconds. Nothing is installed: Debian packages and a wheel
are unpacked in build/compilers."""

import dataclasses
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/compilers"
PACKAGES = [
    *("intel-opencl-icd", "libigc1", "libigdfcl1", "libigdgmm12"),  # Intel's compiler, and clang for it
    *("libopencl-clang14", "libllvmspirvlib14", "libllvm14", "libclang-cpp14"),
    *("clang-22", "libclang-cpp22", "libclang-common-22-dev", "libllvm22", "llvm-22"),  # AMD, NVIDIA, SPIR-V
    *("libclc-22", "libclc-22-dev", "spirv-tools"),  # the functions of OpenCL C, a validator
]
# wheel: the file in it. The assembler of NVIDIA's GPUs, and its library of functions.
WHEELS = {"nvidia-cuda-nvcc==13.5.37": "bin/ptxas", "nvidia-nvvm==13.5.37": "libdevice.10.bc"}
MEASURES = 2  # increase it when a change of this file makes kept results wrong
SECONDS = 300  # maximum time of one compilation
WARPS = {"sm_75": 32, "sm_86": 48, "sm_90": 64}  # maximum warps of a multiprocessor; it has 65,536 registers

ARM_EXTENSIONS = ("cl_arm_integer_dot_product_int8", "cl_arm_integer_dot_product_accumulate_int8")

# Instructions that decide the speed of a kernel, as patterns of the compilers' assembly.
AMD_COUNTS = {
    "fma": r"\bv_(?:pk_|dual_)?(?:fma|mad|mac)\w*_f(?:32|16)",
    "dot": r"\bv_dot\w+",
    "matrix": r"\bv_(?:mfma|wmma)\w+",
    "local": r"\bds_(?:load|read|store|write)\w*",
    "private": r"\b(?:scratch|buffer)_(?:load|store)\w*",
}
PTX_COUNTS = {
    "fma": r"\bfma\.rn\.f(?:32|16)",
    "dot": r"\bdp4a\.",
    "matrix": r"\b(?:mma|wmma)\.",
    "local": r"\b(?:ld|st)\.shared",
    "private": r"\b(?:ld|st)\.local",
}


class Missing(Exception):
    """The compilers cannot be fetched."""


@dataclasses.dataclass
class Result:
    """The report of a compiler about a program. error: its first line, or "". scratch: bytes of private memory of a
    work-item that are not in registers. registers: of a work-item, or of a hardware thread (Intel). simd: work-items
    of a hardware thread. waves: the maximum number of waves of a SIMD unit or multiprocessor, by registers alone, or 0.
    seconds: of a processor."""

    error: str = ""
    registers: int = 0
    scratch: int = 0
    local: int = 0
    simd: int = 0
    waves: int = 0
    seconds: float = 0.0
    counts: dict = dataclasses.field(default_factory=dict)


def quiet(command, **more):
    """Runs a command. Raises Missing with the last line of its output if it fails."""
    p = subprocess.run(command, capture_output=True, text=True, **more)
    if p.returncode:
        last = ((p.stderr + p.stdout).strip().splitlines() or ["no output"])[-1]
        raise Missing(f"{' '.join(command[:3])}: {last}")


def fetch():
    """Unpacks the compilers in build/compilers, once for each list of packages. Raises Missing."""
    stamp, wanted = FOLDER / "made", " ".join([*PACKAGES, *WHEELS])
    if stamp.exists() and stamp.read_text() == wanted:
        return
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise Missing("this is not Debian")
    if os.uname().machine != "x86_64":
        raise Missing(f"the packages are for x86_64, not {os.uname().machine}")
    print("fetching compilers for GPUs (320 MB) into build/compilers", file=sys.stderr)
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "cuda").mkdir(parents=True)
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        download = ["apt-get", "download", "-q", *PACKAGES]
        try:
            quiet(download, cwd=work)
        except Missing:  # the lists of packages are absent or old; only root can renew them
            quiet(["apt-get", "update", "-qq"])
            quiet(download, cwd=work)
        for package in sorted(pathlib.Path(work).glob("*.deb")):
            quiet(["dpkg", "-x", str(package), str(FOLDER)])
        quiet([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", work, *WHEELS])
        for path in pathlib.Path(work).glob("*.whl"):
            with zipfile.ZipFile(path) as wheel:
                for name in wheel.namelist():
                    if name.endswith(tuple(WHEELS.values())):
                        (FOLDER / "cuda" / name.rpartition("/")[2]).write_bytes(wheel.read(name))
    (FOLDER / "cuda/ptxas").chmod(0o755)
    stamp.write_text(wanted)


def versions():
    """Returns a text that changes with the compilers and with what is read from them."""
    return hashlib.sha256(f"{MEASURES} {PACKAGES} {WHEELS}".encode()).hexdigest()[:12]


class Tools:
    """The paths and the environment of the compilers."""

    def __init__(self):
        self.usr = FOLDER / "usr"
        lib = self.usr / "lib"
        found = sorted(lib.rglob("amdgcn-amd-amdhsa.bc"))
        if not found:
            raise Missing("libclc has no library for amdgcn-amd-amdhsa")
        self.clc = found[0].parent
        self.env = {**os.environ, "LD_LIBRARY_PATH": f"{lib}/x86_64-linux-gnu:{lib}/llvm-22/lib"}
        self.clang = [str(lib / "llvm-22/bin/clang"), "-x", "cl", "-w", "-nogpulib"]
        self.clang += ["-Xclang", "-finclude-default-header", "-O3"]

    def run(self, command, work):
        """Runs a compiler. Returns (exit status, output, processor seconds)."""
        with open(work / "log", "w+b") as log:
            command = ["timeout", str(SECONDS), *map(str, command)]
            p = subprocess.Popen(command, cwd=work, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            _, status, used = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
            log.seek(0)
            text = log.read().decode(errors="replace")
        text += f"\nerror: stopped after {SECONDS} s" if p.returncode == 124 else ""
        return p.returncode, text, used.ru_utime + used.ru_stime

    def library(self, name):
        """Returns clang's arguments for a library in libclc's folder, or at an absolute path."""
        return ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", self.clc / name]


def first_error(text):
    lines = [line for line in text.splitlines() if re.search(r"error|fatal|unsupported|assert|crash|segm", line, re.I)]
    line = re.sub(r"\s+", " ", (lines or text.splitlines() or ["no output"])[0])
    return re.sub(r"^\S*?(?:source\.cl|\.ptx)[^ ]*:? ", "", line)[:160]


def standard(options):
    """Returns clang's arguments of OpenCL's compiler options, whose default is OpenCL C 1.2."""
    words = shlex.split(options)
    return words if any(w.startswith("-cl-std=") for w in words) else ["-cl-std=CL1.2", *words]


def counts(patterns, text):
    return {name: len(re.findall(pattern, text)) for name, pattern in patterns.items()}


def number(pattern, text):
    """Returns the number that a pattern finds, or 0."""
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def compile_amd(tools, program, target, work):
    command = [*tools.clang, "-S", *standard(program.options), "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}"]
    command += [*tools.library("amdgcn-amd-amdhsa.bc"), "-o", "a.s", "source.cl"]
    code, log, seconds = tools.run(command, work)
    if code:
        return Result(first_error(log), seconds=seconds)
    text = (work / "a.s").read_text()
    facts = text[text.rfind("amdhsa.kernels") :]
    found = re.search(r"\.symbol:\s*'?(\w+)\.kd", facts)
    body = text[text.find(f"\n{found[1]}:") :] if found else text
    # The body of a kernel is inlined in it, and follows again as a function.
    return Result(
        registers=number(r"\.vgpr_count:\s*(\d+)", facts),
        scratch=number(r"\.private_segment_fixed_size:\s*(\d+)", facts),
        local=number(r"\.group_segment_fixed_size:\s*(\d+)", facts),
        simd=number(r"\.wavefront_size:\s*(\d+)", facts),
        waves=number(r"; Occupancy: (\d+)", body),
        seconds=seconds,
        counts=counts(AMD_COUNTS, body[: body.find(".Lfunc_end")]),
    )


def write_ptx(tools, program, work):
    """Compiles a program to PTX, which is kept for other targets. Returns (its path, "" or the error, seconds).

    Units for matrices (kernels_cl/support/mma.h) need at least sm_80, except Turing's.
    """
    level = "sm_80" if re.search(r"MMA=[12]\b", program.options) else "sm_75"
    path = ROOT / f"build/vendor/ptx/{versions()}-{program.hash}.ptx"
    if path.exists():
        return path, "", 0.0
    command = [*tools.clang, "-S", *standard(program.options), "-target", "nvptx64-nvidia-nvcl"]
    command += ["-Xclang", "-target-cpu", "-Xclang", level, "-Xclang", "-target-feature", "-Xclang", "+ptx78"]
    command += [*tools.library("nvptx64--nvidiacl.bc"), *tools.library(FOLDER / "cuda/libdevice.10.bc")]
    code, log, seconds = tools.run([*command, "-o", "a.ptx", "source.cl"], work)
    if not code:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(work / "a.ptx", path)
    return path, first_error(log) if code else "", seconds


def body_of_ptx(text):
    """Returns the kernel's instructions. clang writes them in a function that the entry calls."""
    start = max(text.rfind(".func __clang_ocl_kern_imp_"), text.find(".entry"))
    return text[start : text.find("\n}", start)]


def compile_nvidia(tools, program, target, work):
    """clang writes PTX, and ptxas assembles it."""
    path, error, seconds = write_ptx(tools, program, work)
    if error:
        return Result(error, seconds=seconds)
    code, log, more = tools.run([FOLDER / "cuda/ptxas", f"-arch={target}", "-v", "-o", "a.bin", path], work)
    if code:
        return Result(first_error(log), seconds=seconds + more)
    entry = log[log.find("Compiling entry function") :]  # the kernel's body is a function beside it, too
    registers = number(r"Used (\d+) registers", entry)
    return Result(
        registers=registers,
        scratch=number(r"(\d+) bytes stack frame", entry),
        local=number(r"(\d+) bytes smem", entry),
        simd=32,
        waves=min(WARPS[target], 65536 // (32 * max(8, -(-registers // 8) * 8))),
        seconds=seconds + more,
        counts=counts(PTX_COUNTS, body_of_ptx(path.read_text())),
    )


# Intel's old headers declare these functions only to drivers' compilers, but the library of the compiler has them.
DPAS = "".join(
    f"{c} __attribute__((overloadable)) intel_sub_group_{t}_matrix_mad_{k}({rows} a, {b} b, {c} c);"
    for t, k, b, c in map(str.split, ("f16_f16 k16 int8 float8", "bf16_bf16 k16 int8 float8", "i8_u8 k32 uint8 int8"))
    for rows in ("int8", "short8")
)


def compile_intel(tools, program, target, work):
    if "intel_sub_group_" in program.text:
        (work / "source.cl").write_text(DPAS + "\n" + program.text)
    command = [tools.usr / "bin/ocloc", "compile", "-file", "source.cl", "-device", target, "-options", program.options]
    command += ["-internal_options", "-cl-intel-allow-zebin", "-out_dir", "."]
    code, log, seconds = tools.run(command, work)
    binaries = sorted(work.glob("*.bin"))
    if code or not binaries:
        return Result(first_error(log), seconds=seconds)
    read = lambda *options: (
        subprocess.run(["readelf", *options, str(binaries[0])], capture_output=True, text=True, errors="replace").stdout
    )
    missing = re.findall(r"UND (_Z\w+)", read("-sW"))
    if missing:
        return Result(f"unresolved external {missing[0]}", seconds=seconds)
    facts = read("-p", ".ze_info").replace("\\n", "")
    simd = number(r"simd_size:\s*(\d+)", facts)
    sizes = lambda pattern: sum(int(n) for n in re.findall(pattern, facts))
    # Private memory is of a work-item. Scratch, where spilled registers are, is of a hardware thread.
    private = sizes(r"type:\s*global\s+usage:\s*private_space\s+size:\s*(\d+)")
    scratch = sizes(r"type:\s*scratch\s+usage:\s*\w+\s+size:\s*(\d+)") // max(1, simd)
    registers = number(r"grf_count:\s*(\d+)", facts)
    local = number(r"slm_size:\s*(\d+)", facts)
    return Result(registers=registers, scratch=private or scratch, local=local, simd=simd, seconds=seconds)


def compile_spirv(tools, program, target, work):
    """Arm's compiler defines the macro of each extension, whose functions clang declares."""
    command = [*tools.clang, "-c", *standard(program.options), "-target", "spirv64v1.2-unknown-unknown"]
    command += [f"-D{name}=1" for name in ARM_EXTENSIONS if name in program.text]
    code, log, seconds = tools.run([*command, "-o", "a.spv", "source.cl"], work)
    if not code:
        code, log, _ = tools.run([tools.usr / "bin/spirv-val", "--target-env", "spv1.2", "a.spv"], work)
        log = f"error: spirv-val: {first_error(log)}" if code else ""
    return Result(first_error(log) if code else "", seconds=seconds)


def preprocess(tools, program, target, work):
    """Counts lines and tokens after preprocessing by the system's compiler, without those of built-in functions."""
    defines = [w for w in standard(program.options) if w != "-w" and not w.startswith("-cl-")]
    command = ["cpp", "-P", "-w", "-undef", "-D__OPENCL_VERSION__=120", *defines, "source.cl", "a.i"]
    code, log, seconds = tools.run(command, work)
    if code:
        return Result(first_error(log), seconds=seconds)
    text = (work / "a.i").read_text()
    tokens = len(re.findall(r"\w+|\"[^\"]*\"|[^\w\s]", text))
    return Result(seconds=seconds, counts={"lines": text.count("\n"), "tokens": tokens})


@dataclasses.dataclass(frozen=True)
class Target:
    """compile: returns the Result of a program. profiles: the imitated devices whose programs are compiled. whole:
    compiles every kernel, not only those that are heavy, because no other target has this compiler's back end."""

    compile: object
    profiles: tuple
    whole: bool = True


TARGETS = {
    "skl": Target(compile_intel, ("intel_uhd770",), whole=False),
    "tgllp": Target(compile_intel, ("intel_uhd770",)),
    "dg2": Target(compile_intel, ("intel_a770",)),
    "pvc": Target(compile_intel, ("intel_pvc",)),
    "gfx900": Target(compile_amd, ("amd_gfx900",)),
    "gfx942": Target(compile_amd, ("amd_gfx942",), whole=False),
    "gfx1030": Target(compile_amd, ("amd_gfx1030",), whole=False),
    "gfx1100": Target(compile_amd, ("amd_gfx1100",)),
    "gfx1201": Target(compile_amd, ("amd_gfx1201",), whole=False),
    "sm_75": Target(compile_nvidia, ("nvidia_sm75",), whole=False),
    "sm_86": Target(compile_nvidia, ("nvidia_sm86",)),
    "sm_90": Target(compile_nvidia, ("nvidia_sm86",), whole=False),
    "spirv": Target(compile_spirv, ("adreno_740", "mali_g52", "mali_g78")),
    "text": Target(preprocess, ()),
}


def compile_program(tools, program, target):
    """Compiles a program for a target in a temporary folder. Returns its Result."""
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "source.cl").write_text(program.text)
        return TARGETS[target].compile(tools, program, target, work)
