"""The Kubernetes operator of Headrace: brings StreamJobs to the state that their specs ask for.

Phases, each a package: `observe` reads the world to facts, `validate` checks the spec, `diff` finds
what changed, `reconcile` decides purely on facts and then acts. `resources` builds manifests,
`kube` is the border to the Kubernetes API, `handlers` the border to kopf. Of the runtime only the
API models (`headrace.api`) and the checkpoint protocol are known here.
"""
