"""Phase 3, diff: what changed against the spec that was last acted on, and what that calls for.

The record of a spec is a digest of each field (`digests`), kept in ``status.lastReconciledSpec``;
`changes` compares. Watch events play no part, so nothing is missed while the operator is down.
"""
