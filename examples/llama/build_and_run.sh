#!/bin/sh
# build_and_run.sh: builds clave and run_llama, and runs it; the environment says on what (README.md).
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
make -s -C "$root" build/run_llama
exec "$root/build/run_llama"
