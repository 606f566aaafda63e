"""Everything that touches Spark: session, source DataFrames, exchanges, the epoch action, its log files.

The only package that may import pyspark. It knows no checkpoints, no generations and no failover;
`headrace.driver` drives it.
"""
