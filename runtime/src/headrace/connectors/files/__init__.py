"""Files in directories and object stores: a source read by Spark, an exactly-once sink."""
