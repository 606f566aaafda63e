#!/bin/sh
# Runs a command in a control group: join.sh PROCS_FILE... -- COMMAND [ARG]...
set -eu
while [ "$1" != -- ]; do
    echo $$ >"$1"
    shift
done
shift
exec "$@"
