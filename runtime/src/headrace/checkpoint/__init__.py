"""Checkpoints: protocol, storage, upload and download, coordinator, restore."""
