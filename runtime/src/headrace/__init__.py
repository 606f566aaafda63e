"""Headrace: Flink-grade keyed state, checkpoints and rescaling for PySpark.

The job API mirrors PyFlink's module paths (``headrace.datastream``, ``headrace.common``), so a
PyFlink program moves by changing its imports. ARCHITECTURE.md maps every behaviour to its module.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
