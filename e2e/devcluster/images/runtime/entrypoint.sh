#!/bin/bash
# Serves both roles of a job's pods.
#
#   executor [ARG]...   what Spark's Kubernetes backend starts: an executor, described by the
#                       SPARK_* variables that the backend sets on the pod
#   COMMAND [ARG]...    anything else is run as it is, first of all `headrace driver ...`
set -euo pipefail

if [[ "${1:-}" != executor ]]; then
    exec "$@"
fi

# SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ... in numeric order: later options win.
options=()
while IFS='=' read -r -d '' name value; do
    options+=("${name#SPARK_JAVA_OPT_} $value")
done < <(env -0 | grep -z '^SPARK_JAVA_OPT_[0-9]*=' | sort -z -t_ -k4n)
java_options=("${options[@]#* }")

# The archive of classes fits a class path that begins with Spark's jars by name, in order.
class_path="$(LC_ALL=C; printf '%s:' "$SPARK_HOME"/jars/*.jar)${SPARK_CONF_DIR:-/opt/spark/conf}"
read -r -a archive_options <<<"${HEADRACE_CLASSES:-}"
if [[ -n "${SPARK_EXTRA_CLASSPATH:-}" ]]; then
    class_path="$SPARK_EXTRA_CLASSPATH:$class_path"
fi

exec "$JAVA_HOME/bin/java" "${archive_options[@]}" "${java_options[@]}" \
    -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
    -cp "$class_path" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
