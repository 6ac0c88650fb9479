# Copies overlay and guest binaries into $ROOT and runs the hooks given as arguments.
# $WORK holds sources.list; it gets packages.txt.
set -eu
umask 022

cp "$WORK/sources.list" "$ROOT/etc/apt/sources.list"
rm -rf "$ROOT/etc/apt/sources.list.d"
mkdir "$ROOT/etc/apt/sources.list.d"
rm -f "$ROOT"/etc/apt/apt.conf.d/99mmdebstrap "$ROOT/etc/resolv.conf"
sed -i '/^force-unsafe-io$/d' "$ROOT"/etc/dpkg/dpkg.cfg.d/99mmdebstrap

if [ -d "$OVERLAY" ]; then
	cp -R -P --remove-destination "$OVERLAY/." "$ROOT/"
	# A checkout's umask is no part of an image.
	(cd "$OVERLAY" && find . -type f -perm /111 -print0) | (cd "$ROOT" && xargs -0r chmod 0755)
	(cd "$OVERLAY" && find . -type f ! -perm /111 -print0) | (cd "$ROOT" && xargs -0r chmod 0644)
	(cd "$OVERLAY" && find . ! -type d -print0) | (cd "$ROOT" && xargs -0r chown -h 0:0)
fi
install -D -m 0755 "$GUESTD" "$ROOT$GUESTD_PATH"
install -D -m 0755 "$HELPER" "$ROOT$HELPER_PATH"

# Mounts live as long as this script: it has a mount namespace of its own.
mount -t proc proc "$ROOT/proc"
mount -t tmpfs -o mode=0755 tmpfs "$ROOT/dev"
for n in null zero full random urandom tty; do
	: >"$ROOT/dev/$n"
	mount --bind "/dev/$n" "$ROOT/dev/$n"
done
ln -s /proc/self/fd "$ROOT/dev/fd"
mount -t tmpfs -o mode=0755 tmpfs "$ROOT/run"

inside() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C TZ=UTC DEBIAN_FRONTEND=noninteractive \
		SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" chroot "$ROOT" "$@"
}
for hook; do
	echo "hook $hook"
	cp "$RECIPE/$hook" "$ROOT/run/hook"
	chmod 0755 "$ROOT/run/hook"
	inside /run/hook
done
inside dpkg-query -W -f '${Package} ${Version}\n' | LC_ALL=C sort >"$WORK/packages.txt"

clamp() {
	find "$ROOT" -xdev \( -path "$ROOT/proc" -o -path "$ROOT/dev" -o -path "$ROOT/run" \) -prune -o \
		-newermt "@$SOURCE_DATE_EPOCH" -print0 | xargs -0r touch -h -d "@$SOURCE_DATE_EPOCH"
}
# Font caches hold the times of their directories, so they are made after the clamp.
clamp
if [ -x "$ROOT/usr/bin/fc-cache" ]; then
	rm -rf "$ROOT"/var/cache/fontconfig/*
	inside fc-cache -s
	clamp
fi
