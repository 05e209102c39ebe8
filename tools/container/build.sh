# Builds the program, with MPI, into /opt/voxalign, from the sources in /voxalign; on Debian with Rust.
set -eu
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    ca-certificates gcc libc6-dev libopenmpi-dev libclang-dev
cargo install --locked --path /voxalign/crates/cli --features mpi --root /opt/voxalign --no-track --target-dir /tmp/target
rm -rf /tmp/target
cp /voxalign/LICENSE-* /voxalign/tools/container/install.sh /opt/voxalign
