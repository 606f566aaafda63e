"""The program as a graph: what was written (`stream_graph`), and how it runs (`job_graph`).

`headrace.graph.planner` turns one into the other; nothing here knows Spark.
"""
