# Makes the file system $DISK of $SIZE_MIB from the debugfs commands in $WORK/disk.cmds.
set -eu
rm -f "$DISK"
mke2fs -q -t ext4 -b 4096 -I 256 -m 1 -L "$LABEL" -U "$UUID" -J size=32 \
	-O '^metadata_csum,^64bit,^orphan_file,uninit_bg,has_journal,extent,dir_index' \
	-E "lazy_itable_init=0,lazy_journal_init=0,hash_seed=$HASH_SEED,root_owner=0:0" \
	"$DISK" "${SIZE_MIB}M"
debugfs -w -f "$WORK/disk.cmds" "$DISK" >/dev/null 2>"$WORK/disk.err"
# debugfs ends with 0 whatever happened; its first line on stderr is its version.
if sed 1d "$WORK/disk.err" | grep -q .; then
	sed 1d "$WORK/disk.err" | head -n 20 >&2
	exit 1
fi
e2fsck -fn "$DISK" || exit 1
fallocate --dig-holes "$DISK"
