"""Everything that touches Spark: session, source frames, exchanges, the epoch action.

The only package that may import pyspark. It knows no checkpoints, no generations and no failover;
`headrace.driver` drives it.
"""
