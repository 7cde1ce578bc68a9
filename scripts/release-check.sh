#!/usr/bin/env bash
# Makes a release of the commit that is checked out twice, in two clones in folders of different lengths: all files must have
# the same bytes. The second links what the first compiled; so the binary of this machine is made once more, in the second
# folder, with an empty cache of Go. Changes that no commit has are not in it.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$(git rev-parse HEAD)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
one=$work/one
two=$work/and/a/second/folder
for clone in "$one" "$two"; do
	git clone -q --no-tags . "$clone"
	git -C "$clone" checkout -q --detach "$commit"
	git -C "$clone" tag v0.0.0-check
done
make -C "$one" release
make -C "$two" release
(cd "$one/dist" && sha256sum --quiet -c SHA256SUMS)
if ! diff -r "$one/dist" "$two/dist"; then
	echo "release-check: the second release has other bytes"
	exit 1
fi
machine=$(go env GOOS)_$(go env GOARCH)
tar -xzf "$one/dist/postrider_0.0.0-check_$machine.tar.gz" -C "$work"
binary=$work/postrider_0.0.0-check_$machine/postrider
(cd "$two/deploy/release" && go build -o "$work/tool" .)
GOCACHE=$work/cache "$work/tool" -source "$two" -compile "$machine" -out "$work/alone"
cmp "$binary" "$work/alone" || { echo "release-check: with an empty cache the binary has other bytes"; exit 1; }
said=$("$binary" version)
for part in v0.0.0-check "$commit"; do
	if ! grep -q "$part" <<<"$said" || grep -q dirty <<<"$said"; then
		echo "release-check: the binary does not say $part: $said"
		exit 1
	fi
done
echo change >>"$one/README.md"
if make -C "$one" release >"$work/refused" 2>&1 || ! grep -q "README.md" "$work/refused"; then
	echo "release-check: a tree with changes was released:"
	cat "$work/refused"
	exit 1
fi
echo "release-check: ok, $(wc -l <"$one/dist/SHA256SUMS") files twice with the same bytes"
