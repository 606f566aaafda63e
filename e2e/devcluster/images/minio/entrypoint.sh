#!/bin/sh
# Makes the buckets named in MINIO_BUCKETS (separated by spaces), then serves on port 9000.
# On a single drive a bucket is a top-level directory, so no client is needed to make one.
set -eu
for bucket in ${MINIO_BUCKETS:-}; do
    mkdir -p "/data/$bucket"
done
exec minio server /data --address :9000
