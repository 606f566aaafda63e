"""The demo: a StreamJob on a real Kubernetes that is killed in every part and loses nothing.

- `payments`, `oracle`: the input with known totals, and what the output must be; pure.
- `broker`, `feed`, `output`: topics, the producer and the read_committed consumer.
- `kubernetes`, `manifests`, `installation`, `worlds`: the cluster's API, what is applied, and
  clusters with everything in them.
- `observation`, `kills`: what is seen of the job, and how it is attacked.
- `screen`, `scenario`, `report`, `demonstration`, `cli`: the run itself.

The end-to-end tests of jobs use the same parts.
"""
