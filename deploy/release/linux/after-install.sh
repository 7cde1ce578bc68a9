#!/bin/sh
set -e
# Nothing is started: the settings come first, and in an upgrade the schema (postrider migrate up).
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
