#!/usr/bin/env bash
# The Python package as it is tested: `tools/python.sh test [ARGUMENT...]` builds the module and runs pytest over python/tests with
# two processes (`-n 0` for one), `tools/python.sh stubs` writes python/voxalign/_native.pyi anew, `tools/python.sh packages` installs
# what the tests need, as `test` does where that is missing: into a virtual environment in target/, with VOXALIGN_NO_PIPELINES=1 without
# the packages of pipelines. Needs Python 3.11 or later with venv.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${CARGO_TARGET_DIR:-target}"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
venv=$target/python-tests

packages() {
    # Those of python/pyproject.toml; ITK, ANTs, torch and jax, which are large, are tested where they are installed.
    local needed="numpy pytest pytest-xdist hypothesis nibabel SimpleITK mypy pyright[nodejs] matplotlib nbclient ipykernel"
    [ "$(cat "$venv/needed" 2>/dev/null)" = "$needed" ] || {
        python3 -m venv "$venv"
        # shellcheck disable=SC2086
        "$venv/bin/pip" install -q --disable-pip-version-check $needed
        echo "$needed" >"$venv/needed"
    }
    # nipype brings 200 MB with it, the others 60 MB and a validator of 100 MB.
    [ -n "${VOXALIGN_NO_PIPELINES:-}" ] || [ -x "$venv/bin/bids-validator-deno" ] || {
        "$venv/bin/pip" install -q --disable-pip-version-check 'nipype<2' 'pydra<1' boutiques styxcompiler bids-validator-deno
    }
}

module() {
    # With the tests of Rust, as `cargo test` builds it: nothing is built twice.
    cargo build --workspace --locked --profile test --lib --bins --tests
    cp "$target/debug/libvoxalign_native.so" python/voxalign/_native.abi3.so
}

case ${1:-} in
packages)
    packages
    ;;
stubs)
    module
    # The module alone, without the package, which needs numpy.
    python3 - >"$target/_native.pyi" <<'END'
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("_native", "python/voxalign/_native.abi3.so")
module = module_from_spec(spec)
spec.loader.exec_module(module)
print(module._stubs(), end="")
END
    mv "$target/_native.pyi" python/voxalign/_native.pyi
    ;;
test)
    shift
    module
    packages
    # Much of it waits for one thread.
    VOXALIGN_PROGRAM=$target/debug/voxalign PYTHONPATH=$PWD/python "$venv/bin/pytest" -q -n 2 python/tests "$@"
    ;;
*)
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
    ;;
esac
