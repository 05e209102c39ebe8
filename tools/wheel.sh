#!/usr/bin/env bash
# Wheels for Linux that install elsewhere. `tools/wheel.sh build` makes one in target/wheels (manylinux2014: glibc 2.17, every
# Python from 3.11 on) and checks its size and what it links to; it takes Rust and Python 3.11 or newer with venv. What links against the old
# glibc comes from PyPI. `tools/wheel.sh try` installs it into a bare Debian without a compiler and runs it there, which takes root
# and debootstrap. ROOT=FOLDER keeps the Debian for the next time.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${CARGO_TARGET_DIR:-target}"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
wheels=$target/wheels

# Seconds of a command, on standard error.
timed() {
    local name=$1 start
    shift
    start=$(date +%s.%N)
    "$@"
    echo "$name: $(awk "BEGIN { printf \"%.2f\", $(date +%s.%N) - $start }") s" >&2
}

build() {
    local venv=$target/wheel-tools wheel size
    [ -x "$venv/bin/auditwheel" ] || {
        python3 -m venv "$venv"
        "$venv/bin/pip" install -q --disable-pip-version-check maturin ziglang cargo-zigbuild auditwheel
    }
    rm -rf "$wheels"
    (
        cd python
        PATH=$venv/bin:$PATH CARGO_TARGET_DIR=$target timed "the wheel" \
            maturin build --profile wheel --locked --zig --compatibility manylinux2014 -o "$wheels"
    )
    wheel=$(echo "$wheels"/*.whl)
    size=$(stat -c %s "$wheel")
    echo "$wheel: $((size / 1000)) kB"
    [ "$size" -lt 15000000 ] || { echo "the wheel is larger than 15 MB" >&2; exit 1; }
    # On one line, whatever the width.
    "$venv/bin/auditwheel" show "$wheel" | tr -s ' \n' '  ' | tee "$target/auditwheel.txt"
    echo
    grep -q 'platform tag: "manylinux_2_17_x86_64"' "$target/auditwheel.txt" ||
        { echo "the wheel is no manylinux2014" >&2; exit 1; }
}

try() {
    local wheel root work
    wheel=$(echo "$wheels"/*.whl)
    root=${ROOT:-$(mktemp -d)}
    [ -e "$root/usr/bin/python3" ] ||
        debootstrap --variant=minbase --include=python3,python3-venv bookworm "$root" >"$root.log"
    work=$root/trial
    rm -rf "$work"
    mkdir -p "$work/wheels"
    cp -r data "$work/data"
    cp "$wheel" "$work/wheels"
    # The Debian has no network.
    python3 -m pip download -q --disable-pip-version-check --only-binary :all: --python-version 3.11 \
        -d "$work/wheels" "$wheel"
    cat >"$work/steps.sh" <<'END'
set -eu
cd /trial
for tool in cc c++ rustc cargo mpicc; do
    if command -v $tool; then exit 1; fi
done
python3 -m venv venv
venv/bin/pip install -q --no-index --find-links wheels voxalign
if ldd venv/lib/python3*/site-packages/voxalign/_native*.so | grep -E 'not found|libmpi|libcuda|libpython'; then exit 1; fi
for call in venv/bin/voxalign 'venv/bin/python -m voxalign'; do
    test "$($call --version)" = "voxalign $(venv/bin/pip show voxalign | sed -n 's/^Version: //p')"
done
venv/bin/voxalign demo -o demo
test -s demo/result.json
venv/bin/python - <<'PYTHON'
import time

start = time.perf_counter()
import voxalign as vx

print(f"import: {time.perf_counter() - start:.3f} s")
result = vx.affine("data/icbm152_t1.nii.gz", "data/colin27_t1.nii.gz", dof=6)
print(result.verdict, result.warped)
assert result.verdict
PYTHON
END
    timed "in the bare Debian" unshare --mount sh -c "mount --rbind /proc '$root/proc' && chroot '$root' sh /trial/steps.sh"
    [ -n "${ROOT:-}" ] || rm -rf "$root" "$root.log"
}

case ${1:-} in
build) build ;;
try) try ;;
*)
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
    ;;
esac
