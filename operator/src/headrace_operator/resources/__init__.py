"""Pure builders of the Kubernetes objects of a job: the same job gives the same manifests.

- `identity`: who owns an object, labels and metadata.
- `security`: security contexts that Kubernetes' ``restricted`` profile accepts.
- `access`: ServiceAccount, Role and RoleBinding of the driver.
- `network`: headless Service; `secrets`: the job's token.
- `configuration`: ConfigMap with ``job.json``, program and executor template.
- `driver_pod`, `executor_template`: the pods.
- `install`: the operator's own objects.
"""
