"""Tests of options: notations, keys, rules, layers, reference page."""
