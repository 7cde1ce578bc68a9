#!/bin/sh
set -e
# The user stays: files that belong to it may be left.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
