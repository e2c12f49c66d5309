#!/bin/sh
# build_and_run.sh: builds clave and run_llama, and runs it; its arguments are environment variables (README.md).
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
make -s -C "$root" build/run_llama
exec "$root/build/run_llama"
