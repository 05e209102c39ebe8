#!/usr/bin/env bash
# Looks for memory errors in the `unsafe` code of the CPU and in the readers of files: every
# operator is checked at every SIMD level and with several threads, as in the conformance tests.
#
#   tools/sanitize.sh [address|thread|valgrind…]      (default: address)
#
# address   AddressSanitizer and LeakSanitizer; needs a nightly compiler.
# thread    ThreadSanitizer; needs a nightly compiler with the component rust-src.
# valgrind  Valgrind's memcheck, for reads of values that were never written; needs valgrind. It
#           knows no AVX-512, which is hidden from the program. It is slow: VOXALIGN_CHECKS names
#           some of the checks, such as `sort::cpu::`.
#
# VOXALIGN_SANITIZE_DIR names the folder for what is built (default: target/sanitize).
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${VOXALIGN_SANITIZE_DIR:-$PWD/target/sanitize}
host=$(rustc -vV | sed -n 's/^host: //p')

# The checks of the CPU. The kernels of the GPU, emulated on stacks of their own, are left out.
compute=(-p voxalign-compute --test conformance -- cpu::)
files=(-p voxalign-io)

address() {
    export RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR="$folder/address"
    export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:detect_stack_use_after_return=0}"
    # Documentation tests are not instrumented.
    cargo +nightly test --target "$host" --lib --tests "${files[@]}"
    cargo +nightly test --target "$host" "${compute[@]}"
    cargo +nightly test --target "$host" -p voxalign-compute --lib -- cpu::
}

thread() {
    export RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR="$folder/thread"
    cargo +nightly test --target "$host" -Zbuild-std "${compute[@]}"
}

memcheck() {
    export CARGO_TARGET_DIR="$folder/valgrind"
    local test
    test=$(cargo test -p voxalign-compute --test conformance --no-run --message-format=json |
        sed -n 's/.*"executable":"\([^"]*conformance-[^"]*\)".*/\1/p')
    valgrind --error-exitcode=1 --leak-check=no --num-callers=25 \
        --suppressions=tools/valgrind.supp "$test" "${VOXALIGN_CHECKS:-cpu::}"
}

for tool in "${@:-address}"; do
    case $tool in
        address) address ;;
        thread) thread ;;
        valgrind) memcheck ;;
        *) echo "unknown: $tool; use address, thread or valgrind" >&2 && exit 2 ;;
    esac
done
