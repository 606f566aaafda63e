"""Phase 2, validate: is the spec one that can be acted on, and what about it deserves a warning.

The API server refuses bad manifests by schema and CEL; this is for objects that were stored before
a rule existed, and for what is allowed but unwise.
"""
