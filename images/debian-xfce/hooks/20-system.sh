#!/bin/sh
# Units: on what a desktop needs, off what moves by itself or wakes an idle guest.
set -eu
systemctl set-default graphical.target
systemctl enable systemd-networkd.service guestd.service deskfork-x.service deskfork-session.service
systemctl disable ssh.service
# None are shared through the image; deskfork-ssh-keys makes them in the guest.
rm -f /etc/ssh/ssh_host_*

systemctl mask \
	apt-daily.timer apt-daily.service apt-daily-upgrade.timer apt-daily-upgrade.service \
	dpkg-db-backup.timer dpkg-db-backup.service man-db.timer \
	e2scrub_all.timer e2scrub_reap.service fstrim.timer \
	systemd-tmpfiles-clean.timer systemd-tmpfiles-clean.service \
	systemd-timesyncd.service systemd-networkd-wait-online.service \
	systemd-network-generator.service systemd-pcrphase.service systemd-pcrphase-sysinit.service \
	systemd-pcrphase-initrd.service \
	systemd-random-seed.service systemd-update-utmp.service systemd-update-utmp-runlevel.service \
	systemd-rfkill.service systemd-rfkill.socket systemd-backlight@.service \
	systemd-pstore.service systemd-boot-update.service \
	systemd-hwdb-update.service systemd-update-done.service systemd-ask-password-wall.path \
	systemd-ask-password-console.path systemd-firstboot.service systemd-sysusers.service \
	systemd-fsck-root.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount \
	dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
	systemd-journal-flush.service systemd-udev-settle.service keyboard-setup.service console-setup.service \
	getty.target getty@tty1.service serial-getty@ttyS0.service getty-static.service \
	ldconfig.service networking.service modprobe@.service modprobe@configfs.service modprobe@drm.service modprobe@fuse.service modprobe@loop.service modprobe@dm_mod.service modprobe@efi_pstore.service \
	sys-kernel-config.mount sys-fs-fuse-connections.mount \
	rtkit-daemon.service upower.service colord.service ModemManager.service bluetooth.service \
	avahi-daemon.service udisks2.service
: >/etc/machine-id
rm -f /var/lib/dbus/machine-id
ln -s /etc/machine-id /var/lib/dbus/machine-id
# The session bus and its run-time directory are made by deskfork-session.service; a systemd
# instance for each user would only take memory and time.
pam-auth-update --package --remove systemd
