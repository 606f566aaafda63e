"""Kafka. The only package that may import ``confluent_kafka``; the source itself is Spark's."""
