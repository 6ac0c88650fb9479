package image

// Names in an image's directory and in the store's.
const (
	ManifestFile  = "manifest.json" // a Manifest as JSON
	DiskFileRaw   = "system.img"    // the disk in format FormatRaw
	DiskFileQcow2 = "system.qcow2"  // the disk in format FormatQcow2
	KernelFile    = "vmlinuz"       // the kernel, loaded by the hypervisor: ELF with a PVH entry, or a bzImage
	InitrdFile    = "initrd.img"    // the initramfs, loaded by the hypervisor
	PackagesFile  = "packages.txt"  // "name version" lines; optional, not part of the digest

	tagsDir     = ".tags"
	lockFile    = ".lock"
	draftPrefix = ".tmp-"
	draftLock   = "lock"

	dirMode  = 0o750 // QEMU's group may read shared parts
	fileMode = 0o640
)
