#!/bin/sh
# The user agent, its home and the mount point of the second disk.
set -eu
id agent >/dev/null 2>&1 || useradd --uid 1000 --user-group --create-home --shell /bin/bash --comment Agent agent
usermod --password '*' --append --groups sudo,adm,tty,video,audio,input,dialout agent
chmod 0440 /etc/sudoers.d/agent
visudo --check --quiet
home=/home/agent
# Those of menus and applications are watched by the panel, which would look every four seconds
# whether they are there now.
mkdir -p "$home/.config/menus" "$home/.cache" "$home/.local/share/applications" "$home/.local/share/desktop-directories"
for d in Desktop Documents Downloads Music Pictures Public Templates Videos; do
	mkdir -p "$home/$d"
done
cat >"$home/.config/user-dirs.dirs" <<'DIRS'
XDG_DESKTOP_DIR="$HOME/Desktop"
XDG_DOWNLOAD_DIR="$HOME/Downloads"
XDG_TEMPLATES_DIR="$HOME/Templates"
XDG_PUBLICSHARE_DIR="$HOME/Public"
XDG_DOCUMENTS_DIR="$HOME/Documents"
XDG_MUSIC_DIR="$HOME/Music"
XDG_PICTURES_DIR="$HOME/Pictures"
XDG_VIDEOS_DIR="$HOME/Videos"
DIRS
chown -R agent:agent "$home"
chmod 0755 "$home"
install -d -o agent -g agent -m 0755 /workspace
