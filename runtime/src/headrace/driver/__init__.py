"""The driver = JobManager: generations, epochs, checkpoints, failover, REST (A1, A2).

`execution` runs a job, `job_master` owns its life, `slot_service` talks to the slots, `rest` to
people and to the operator, `main` is the entry point of a driver pod.
"""
