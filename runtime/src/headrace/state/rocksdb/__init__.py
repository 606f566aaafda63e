"""The RocksDB backend; the only package that imports rocksdict."""
