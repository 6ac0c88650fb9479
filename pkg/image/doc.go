// Package image is the vocabulary of bootable images: references, manifests, digests and
// the store that holds them.
//
// An image is an immutable disk, kernel and initramfs with the metadata needed to boot
// them. Its [Digest] is a hash over exactly these parts; names and tags point at digests.
// Everything else that is known of an image (when it was built, from which recipe) is
// written in its [Manifest] and is not part of its identity.
//
// On disk, below the directory given to [Open]:
//
//	<hex of digest>/manifest.json   what the image is; see Manifest
//	<hex of digest>/system.img      the disk, raw (or system.qcow2)
//	<hex of digest>/vmlinuz         the kernel
//	<hex of digest>/initrd.img      the initramfs
//	<hex of digest>/packages.txt    package versions, when the builder knows them
//	.tags/<name>/<tag>              the digest that the tag points at, as text
//	.tmp-*/                         drafts; a live one holds a lock on its file "lock"
//	.lock                           taken while tags and images are changed
package image
