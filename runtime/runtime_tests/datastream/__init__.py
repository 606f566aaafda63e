"""Tests of the job API: PyFlink's surface, and the graph that programs build."""
