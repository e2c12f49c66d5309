#!/bin/sh
# build.sh EXECUTORCH OUT [LIBRARIES]: builds libclave_executorch.so as OUT, for ExecuTorch's Python package in the folder EXECUTORCH.
# ExecuTorch has no stable binary interface, so each of its versions needs its own library. LIBRARIES is the folder of
# libclave_delegate.so and libclave.so; by default the linker finds them. CXX, CXXFLAGS: a C++17 compiler and its flags.
set -eu
[ $# -eq 2 ] || [ $# -eq 3 ] || { echo "usage: build.sh EXECUTORCH OUT [LIBRARIES]" >&2; exit 2; }
theirs=$1 out=$2 libraries=${3-}
here=$(cd "$(dirname "$0")" && pwd)
ours=$(dirname "$(dirname "$here")")
[ -e "$theirs/include/executorch/runtime" ] || { echo "$theirs: no ExecuTorch package, version 1.5 or later, with headers in this folder" >&2; exit 1; }
command -v ${CXX:-c++} >/dev/null || { echo "${CXX:-c++}: no C++ compiler is installed (Debian: g++)" >&2; exit 1; }
version=$(cd "$theirs/.." && echo executorch-*.dist-info)
version=${version#executorch-} version=${version%.dist-info}
[ "$version" != "*" ] || version=unknown
set -- "$here"/*.cc "-L$theirs/lib" "-Wl,-rpath,$theirs/lib"
[ -z "$libraries" ] || set -- "$@" "-L$libraries" "-Wl,-rpath,$libraries"
# shellcheck disable=SC2086
exec ${CXX:-c++} -std=c++17 -O2 ${CXXFLAGS-} -fPIC -shared -fvisibility=hidden -w \
  -DC10_USING_CUSTOM_GENERATED_MACROS -DET_EVENT_TRACER_ENABLED "-DCLAVE_EXECUTORCH_VERSION=\"$version\"" \
  "-I$ours" "-I$ours/include" "-I$ours/delegate" \
  -isystem "$theirs/include" -isystem "$theirs/include/executorch/runtime/core/portable_type/c10" \
  -Wl,-z,defs -Wl,-soname,libclave_executorch.so -o "$out" "$@" -lclave_delegate -lclave -lexecutorch
