#!/bin/sh
# Starts a daemon and leaves it behind: daemon.sh PID_FILE COMMAND [ARG]...
#
# Run inside the node, whose process 1 becomes the daemon's parent. The number written is the
# node's own for it: in the background of a script, setsid replaces itself by the command.
set -eu
pid_file=$1
shift
setsid "$@" &
echo $! >"$pid_file"
