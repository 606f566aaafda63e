"""What crosses the border between operator, driver and user: models only.

Imports pydantic and the standard library, nothing of Spark, RocksDB or Kubernetes. `v1alpha1` holds
the custom resources, `driver` the contract between operator and driver pod.
"""
