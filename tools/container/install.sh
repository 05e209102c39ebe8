# What the program in /opt/voxalign needs to run; on a bare Debian.
set -eu
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends openmpi-bin
rm -rf /var/lib/apt/lists/*
ln -s /opt/voxalign/bin/voxalign /usr/local/bin/voxalign
voxalign --version
