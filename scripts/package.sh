#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes packages of a build that has `verbatim` and the libraries, from the rules of `cmake --install`:
#   verbatim_VERSION-1_ARCHITECTURE.deb          for Debian
#   verbatim-dbgsym_VERSION-1_ARCHITECTURE.deb   its debug symbols
#   verbatim-VERSION-linux-ARCHITECTURE.tar.gz   unpacks anywhere and runs there
# and lets lintian judge them: errors and warnings fail. Usage: package.sh BUILD; they are in BUILD/packages.
# docs/decisions/0033 says why the tools of dpkg are called here, and not by debhelper or CPack.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C

build=$(realpath "$1")
work=$build/package
rm -rf "$work" "$build/packages"
mkdir -p "$work/debian" "$build/packages"
cp packaging/debian/control "$work/debian"

version=$(sed -n 's/^project(verbatim VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
heading=$(grep -E "^## $version( |\$)" CHANGELOG.md) ||
  { echo "package: CHANGELOG.md has no heading '## $version', the version of CMakeLists.txt" >&2; exit 1; }
# The day of the release; a version that has none yet gets that of the last commit.
day=$(grep -oE '[0-9]{4}-[0-9]{2}-[0-9]{2}' <<<"$heading" || git log -1 --format=%cs)
SOURCE_DATE_EPOCH=$(date -u -d "$day" +%s)
export SOURCE_DATE_EPOCH # dpkg-deb gives no file a later time

compiler=$(sed -n 's/^set(CMAKE_CXX_COMPILER "\(.*\)")/\1/p' "$build"/CMakeFiles/*/CMakeCXXCompiler.cmake)
machine=$("$compiler" -dumpmachine)
architecture=$(dpkg-architecture -a"$(dpkg-architecture -qDEB_HOST_ARCH -t"$machine" 2>/dev/null)" -qDEB_HOST_ARCH 2>/dev/null)
export DEB_HOST_ARCH=$architecture
tool() { command -v "$machine-$1" || command -v "$1"; }
objcopy=$(tool objcopy)
readelf=$(tool readelf)

cmake --install "$build" --prefix "$work/whole/usr" >"$work/install.log"

# The debug symbols, by build ID.
main=$work/verbatim
symbols=$work/verbatim-dbgsym
mkdir -p "$main" "$symbols/usr/lib/debug/.build-id" "$symbols/usr/share/doc"
cp -a "$work/whole/usr" "$main"
programs=("$main/usr/bin/verbatim" "$main"/usr/lib/verbatim/*.so* "$main"/usr/lib/verbatim/fabric/*.so*)
identifications=()
for program in "${programs[@]}"; do
  id=$("$readelf" -nW "$program" | sed -n 's/.*Build ID: //p')
  folder=$symbols/usr/lib/debug/.build-id/${id:0:2}
  mkdir -p "$folder"
  "$objcopy" --only-keep-debug --compress-debug-sections "$program" "$folder/${id:2}.debug"
  "$objcopy" --strip-unneeded --remove-section=.comment "$program"
  chmod 0644 "$folder/${id:2}.debug"
  identifications+=("$id")
done
chmod 0644 "${programs[@]:1}"

# The tarball: the same files, without debug symbols.
name=verbatim-$version-linux-$architecture
tar -C "$main/usr" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
  --transform "s,^\.,$name," -c . | gzip -9n >"$build/packages/$name.tar.gz"

# What Debian wants in another form.
doc=$main/usr/share/doc/verbatim
maintainer=$(sed -n 's/^Maintainer: //p' packaging/debian/control)
rm "$doc/LICENSE" # the file `copyright` names Debian's copy of it
mv "$doc/CHANGELOG.md" "$doc/changelog"
cat >"$work/debian/changelog" <<EOF
verbatim ($version-1) unstable; urgency=medium

  * Version $version; /usr/share/doc/verbatim/changelog.gz says what is new.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
EOF
cp "$work/debian/changelog" "$doc/changelog.Debian"
gzip -9n "$doc"/changelog* "$main"/usr/share/man/man?/*
install -D -m 0644 packaging/debian/lintian-overrides "$main/usr/share/lintian/overrides/verbatim"
ln -s verbatim "$symbols/usr/share/doc/verbatim-dbgsym"

cd "$work"
if [[ $architecture == "$(dpkg --print-architecture)" ]]; then
  dpkg-shlibdeps -Tsubstvars -l"$main/usr/lib/verbatim" "${programs[@]}" 2>shlibdeps.log ||
    { cat shlibdeps.log >&2; exit 1; }
else
  # dpkg-shlibdeps would need the libraries of the other architecture as packages. The symbols test of the build checks that
  # no newer glibc is needed.
  echo "shlibs:Depends=libc6 (>= 2.35), libgcc-s1 (>= 4.2), libstdc++6 (>= 12)" >substvars
fi
for package in verbatim verbatim-dbgsym; do
  mkdir "$package/DEBIAN"
  (cd "$package" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
  options=(-Tsubstvars)
  [[ $package == verbatim ]] ||
    options=(-T/dev/null -DAuto-Built-Package=debug-symbols "-DBuild-Ids=${identifications[*]}")
  dpkg-gencontrol -p"$package" -P"$package" "${options[@]}"
  dpkg-deb --root-owner-group -Zxz --build "$package" "$build/packages" >/dev/null
done

for package in "$build"/packages/*; do printf '%9d octets  %s\n' "$(stat -c %s "$package")" "$package"; done
lintian --allow-root --fail-on error,warning "$build"/packages/*.deb
echo "lintian: no errors, no warnings"
