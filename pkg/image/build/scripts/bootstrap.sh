# Installs Debian into $ROOT. Arguments: those of mmdebstrap.
# Packages come out of $CACHE and new ones go into it; superseded ones leave it.
set -eu
umask 022
export INITRD=No # the initramfs is made elsewhere
fill='mkdir -p "$1/var/cache/apt/archives"
for f in "$CACHE"/*.deb; do
	[ ! -e "$f" ] || ln "$f" "$1/var/cache/apt/archives/" 2>/dev/null || cp "$f" "$1/var/cache/apt/archives/"
done'
save='chroot "$1" apt-get -qq autoclean
for f in "$1"/var/cache/apt/archives/*.deb; do
	n=$CACHE/${f##*/}
	[ -e "$n" ] || ln "$f" "$n" 2>/dev/null || { cp "$f" "$n.new" && mv "$n.new" "$n"; }
done
for f in "$CACHE"/*.deb; do
	[ -e "$1/var/cache/apt/archives/${f##*/}" ] || rm -f "$f"
done'
if [ -n "$CACHE" ]; then
	set -- --setup-hook="$fill" --skip=essential/unlink --customize-hook="$save" "$@"
fi
exec mmdebstrap --mode=root --format=directory "$@"
