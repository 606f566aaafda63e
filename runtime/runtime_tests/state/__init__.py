"""Tests of keyed state: one contract over all backends, layout, restore, timers."""
