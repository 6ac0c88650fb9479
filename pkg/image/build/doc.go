// Package build makes images from recipes with mmdebstrap.
//
// A recipe is a directory: recipe.yaml, an overlay/ tree that is copied over the installed
// packages, and hook scripts that run inside the guest's tree. A build goes through the
// stages in [Stages]:
//
//	bootstrap   packages are fetched and installed into a tree
//	customise   overlay and guest binaries are copied in, hooks run
//	kernel      kernel and a small initramfs are taken out of the tree
//	pack disk   the tree becomes an ext4 file system
//	digest      disk, kernel and initramfs are hashed
//	seal        the draft becomes an image of the store
//
// Everything that needs root happens in namespaces of its own: of mounts and processes, so
// that a build that is killed leaves neither; and of users when the builder is an ordinary
// user, with the subordinate ids of /etc/subuid, so that ownership comes out right.
//
// # Same recipe, same digest
//
// Two builds from the same package versions give the same image. mke2fs -d would copy
// change times and take names in the order of the host's directory hash, so the file
// system is written by debugfs from a sorted list instead (see diskScript); the initramfs
// is written by this package; times are clamped to the recipe's epoch; uuid and hash seed
// come from the recipe; what differs inside the tree is removed by the recipe's last hook.
package build
