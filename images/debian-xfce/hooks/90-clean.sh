#!/bin/sh
# What differs from build to build, or is of no use in a guest.
set -eu
rm -rf /var/log/* /var/tmp/* /tmp/* /var/cache/debconf/*-old /var/lib/dpkg/*-old \
	/var/cache/ldconfig/aux-cache /var/cache/man /var/cache/apt/*.bin /var/lib/apt/lists/* \
	/var/backups/* /root/.cache /etc/.pwd.lock /var/lib/systemd/random-seed \
	/var/lib/systemd/deb-systemd-helper-* /usr/lib/*/gconv/gconv-modules.cache.old
rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid-
mkdir -p /var/log/journal && rmdir /var/log/journal
install -d -m 2775 -g utmp /var/log/apt 2>/dev/null || mkdir -p /var/log/apt
touch /var/log/wtmp /var/log/lastlog
find / -xdev -name __pycache__ -type d -prune -exec rm -rf {} +
days=$(($SOURCE_DATE_EPOCH / 86400))
sed -i -E "s/^([^:]*:[^:]*:)[0-9]*:/\1$days:/" /etc/shadow
