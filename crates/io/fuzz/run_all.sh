#!/usr/bin/env bash
# Runs every fuzz target for a while, $FUZZ_JOBS (2) at a time, and prints a table at the end.
#
#   ./run_all.sh [SECONDS [TARGET…]]
#
# Logs, crashing inputs and grown corpora stay in $FUZZ_WORK (default: work/ beside this file).
# Needs `cargo install cargo-fuzz` and a nightly compiler.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-1260}
shift || true
targets=("$@")
if [ "${#targets[@]}" -eq 0 ]; then
    mapfile -t targets < <(sed -n 's|^path = "fuzz_targets/\(.*\)\.rs"|\1|p' Cargo.toml)
fi
work=${FUZZ_WORK:-$PWD/work}
mkdir -p "$work/bin"
if [ -z "${FUZZ_NO_BUILD:-}" ]; then
    (cd .. && cargo +nightly fuzz build)
    built=${CARGO_TARGET_DIR:-$PWD/target}
    for target in "${targets[@]}"; do
        cp "$built/x86_64-unknown-linux-gnu/release/$target" "$work/bin/"
    done
fi

# Files of `detached` and `zarr` are written over all the time: into memory where there is such a folder.
[ -d /dev/shm ] && export TMPDIR=${TMPDIR:-/dev/shm}

dictionary() {
    case $1 in
        nifti | nifti_gz | analyze | field) echo nifti ;;
        pyramid) echo xray ;;
        *) echo "$1" ;;
    esac
}

one() {
    local target=$1
    mkdir -p "$work/corpus/$target" "$work/artifacts/$target" "corpus/$target"
    nice -n 19 "$work/bin/$target" "$work/corpus/$target" "corpus/$target" \
        -dict="dictionaries/$(dictionary "$target").dict" -max_len=8192 \
        -max_total_time="$seconds" -rss_limit_mb=2048 -malloc_limit_mb=1024 -timeout=10 \
        -print_final_stats=1 -artifact_prefix="$work/artifacts/$target/" >"$work/$target.log" 2>&1
}

for target in "${targets[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "${FUZZ_JOBS:-2}" ]; do wait -n || true; done
    one "$target" &
done
while [ "$(jobs -rp | wc -l)" -gt 0 ]; do wait -n || true; done

printf '%-10s %8s %12s %7s %7s %8s\n' target seconds executions cov ft findings
for target in "${targets[@]}"; do
    log=$work/$target.log
    last=$(grep -E 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -1)
    printf '%-10s %8s %12s %7s %7s %8s\n' "$target" \
        "$(sed -n 's/^Done .* in \([0-9]*\) second.*/\1/p' "$log")" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
        "$(sed 's/.*cov: \([0-9]*\).*/\1/' <<<"$last")" \
        "$(sed 's/.* ft: \([0-9]*\).*/\1/' <<<"$last")" \
        "$(find "$work/artifacts/$target" -type f | wc -l)"
done
