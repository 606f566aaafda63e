"""Tests of the driver: restart decisions, coordination, REST."""
