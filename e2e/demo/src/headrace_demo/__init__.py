"""The demo: a StreamJob on a real Kubernetes that is killed in every part and loses nothing.

- `payments`, `oracle`: the input with known totals, and what the output must be; pure.
- `feed`, `output`: the producer and the read_committed consumer; the only users of Kafka's client.
- `kubernetes`, `manifests`, `installation`: the cluster's API, what is applied, install and remove.
- `observation`, `kills`: what is seen of the job, and how it is attacked.
- `screen`, `scenario`, `report`, `cli`: the run itself.

The end-to-end tests of jobs use the same parts.
"""
