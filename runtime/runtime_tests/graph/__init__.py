"""Tests of planning: levels, chains, exchanges, uids."""
