#!/bin/sh
# The group must be there before the files that belong to it.
set -e
getent group postrider >/dev/null || groupadd --system postrider
getent passwd postrider >/dev/null || useradd --system --gid postrider --no-create-home --home-dir /nonexistent \
	--shell /usr/sbin/nologin --comment "Postrider" postrider
