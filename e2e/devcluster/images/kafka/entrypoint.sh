#!/bin/bash
# Formats the storage on the first start, then runs the broker.
#
# Two listeners, because a client goes on to whatever address the broker advertises where it first
# connected: inside the cluster a stable DNS name, from the host the pod's own address (the host
# has a route to pods, but does not use the cluster's DNS).
#
#   KAFKA_ADVERTISED_HOST   name that pods reach the broker by, port 9092   (default: localhost)
#   POD_IP                  address that the host reaches it by, port 9094  (default: 127.0.0.1)
#   KAFKA_HEAP              heap of the broker                              (default: 384m)
#   KAFKA_DATA              directory of the log                            (default: /var/lib/kafka/data)
set -euo pipefail

data="${KAFKA_DATA:-/var/lib/kafka/data}"
properties=/var/lib/kafka/server.properties
cat >"$properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=INTERNAL://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093,EXTERNAL://0.0.0.0:9094
advertised.listeners=INTERNAL://${KAFKA_ADVERTISED_HOST:-localhost}:9092,EXTERNAL://${POD_IP:-127.0.0.1}:9094
listener.security.protocol.map=INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT
inter.broker.listener.name=INTERNAL
controller.listener.names=CONTROLLER
log.dirs=$data
# One broker holds the only copy of everything.
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# The defaults, 50 partitions each, take seconds and hundreds of files to make.
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
share.coordinator.state.topic.num.partitions=1
# Topics are made on purpose: a misspelt one is an error, as in production.
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
log.retention.hours=24
PROPERTIES

java=("$JAVA_HOME/bin/java" -Dlog4j2.configurationFile=/opt/kafka/log4j2.properties
    -cp "/opt/kafka/jars/*")
if [[ ! -e "$data/meta.properties" ]]; then
    "${java[@]}" -Xmx128m kafka.tools.StorageTool format \
        --config "$properties" --cluster-id "aGVhZHJhY2UtZGV2LWthZg" >/dev/null
fi
exec "${java[@]}" -Xms"${KAFKA_HEAP:-384m}" -Xmx"${KAFKA_HEAP:-384m}" -XX:+UseSerialGC \
    -XX:+ExitOnOutOfMemoryError kafka.Kafka "$properties"
