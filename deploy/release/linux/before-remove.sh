#!/bin/sh
set -e
# dpkg says remove, rpm the number of versions that stay. An upgrade goes on with the process that runs.
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now postrider.service
	fi
	;;
esac
