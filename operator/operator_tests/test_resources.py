"""The objects of a job: what the driver and Spark rely on, and what security asks for."""

import json

import yaml

from headrace.api.driver import DriverConfig
from headrace.api.v1alpha1 import StreamJobSpec
from headrace_operator.resources.access import build_access
from headrace_operator.resources.configuration import build_config_map, build_driver_config
from headrace_operator.resources.desired import build_objects
from headrace_operator.resources.driver_pod import build_driver_pod
from headrace_operator.resources.network import build_service
from headrace_operator.resources.secrets import build_token_secret
from operator_tests.world import JOB, JOB_UID, spec_manifest


def spec(**changes):
    return StreamJobSpec.model_validate(spec_manifest(**changes))


def pod(**changes):
    return build_driver_pod(
        JOB, spec(**changes), spec_hash="h", token_uid="t", attempt=3, grace_s=30
    )


def container(**changes):
    return pod(**changes)["spec"]["containers"][0]


def env(manifest):
    return {variable["name"]: variable for variable in manifest["env"]}


def test_everything_belongs_to_the_job_and_carries_its_labels():
    secret = build_token_secret(JOB, "s3cret")
    for manifest in (*build_objects(JOB, spec()), pod(), secret):
        metadata = manifest["metadata"]
        (owner,) = metadata["ownerReferences"]
        assert ("StreamJob", JOB_UID, True) == (owner["kind"], owner["uid"], owner["controller"])
        assert "payments" == metadata["labels"]["headrace.dev/job"]
        assert "bank" == metadata["namespace"]


def test_the_driver_pod_is_never_restarted_in_place_and_has_one_fixed_name():
    assert "payments-driver" == pod()["metadata"]["name"]
    assert "Never" == pod()["spec"]["restartPolicy"]
    assert {
        "headrace.dev/spec-hash": "h",
        "headrace.dev/token-uid": "t",
        "headrace.dev/attempt": "3",
    } == pod()["metadata"]["annotations"]


def test_the_driver_runs_the_contracts_command_with_its_configuration():
    made = container()
    assert ["headrace", "driver", "--config", "/etc/headrace/job.json"] == made["command"]
    assert {"name": "headrace-config", "mountPath": "/etc/headrace", "readOnly": True} in (
        made["volumeMounts"]
    )
    assert [8081, 7078, 7079, 7080] == [port["containerPort"] for port in made["ports"]]
    variables = env(made)
    assert "status.podIP" == variables["POD_IP"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert {"name": "payments-token", "key": "token"} == variables["HEADRACE_TOKEN"]["valueFrom"][
        "secretKeyRef"
    ]
    assert ("/readyz", "/healthz", "/healthz") == tuple(
        made[probe]["httpGet"]["path"]
        for probe in ("readinessProbe", "livenessProbe", "startupProbe")
    )
    assert "FallbackToLogsOnError" == made["terminationMessagePolicy"]


def test_scratch_is_in_memory_and_counts_to_the_limit():
    volumes = {volume["name"]: volume for volume in pod()["spec"]["volumes"]}
    assert "Memory" == volumes["headrace-scratch"]["emptyDir"]["medium"]
    assert {} == volumes["headrace-state"]["emptyDir"]
    assert {"memory": "1856Mi"} == container()["resources"]["limits"]
    assert {"cpu": "1", "memory": "1856Mi"} == container()["resources"]["requests"]


def test_pods_meet_the_restricted_profile():
    made = yaml.safe_load(build_config_map(JOB, spec())["data"]["executor.yaml"])
    for manifest in (pod(), made):
        context = manifest["spec"]["securityContext"]
        assert (True, 10001, "RuntimeDefault") == (
            context["runAsNonRoot"],
            context["runAsUser"],
            context["seccompProfile"]["type"],
        )
        inner = manifest["spec"]["containers"][0]["securityContext"]
        assert inner["allowPrivilegeEscalation"] is False
        assert ["ALL"] == inner["capabilities"]["drop"]


def test_executors_get_the_token_and_no_kubernetes_account():
    template = yaml.safe_load(build_config_map(JOB, spec())["data"]["executor.yaml"])
    assert template["spec"]["automountServiceAccountToken"] is False
    made = template["spec"]["containers"][0]
    assert "spark-kubernetes-executor" == made["name"]
    assert "HEADRACE_TOKEN" in env(made)
    assert "executor" == template["metadata"]["labels"]["headrace.dev/role"]


def test_job_json_is_the_drivers_contract():
    data = build_config_map(JOB, spec(parallelism=3, executor={"slots": 2}))["data"]
    config = DriverConfig.model_validate_json(data["job.json"])
    assert JOB_UID.replace("-", "") == config.job_id
    assert ("payments", "bank", "/opt/job.py", 3, 128) == (
        config.job_name,
        config.namespace,
        config.program,
        config.parallelism,
        config.max_parallelism,
    )
    executor = config.executor
    assert (2, 2, 512, 1024, "2") == (
        executor.instances,
        executor.slots,
        executor.memory_mib,
        executor.memory_overhead_mib,
        executor.cpu_request,
    )
    assert "payments-driver" == executor.service_account
    assert "jobId" in json.loads(data["job.json"])


def test_options_reach_the_driver_verbatim():
    made = build_driver_config(
        JOB,
        spec(
            config={"execution.checkpointing.interval": "10 s"},
            sparkConf={"spark.sql.shuffle.partitions": "7"},
            args=["--topic", "upi"],
            restoreFrom={"path": "s3://b/chk-1"},
            allowNonRestoredState=True,
            driver={"memory": "2Gi"},
            executor={"cpuLimit": "2"},
        ),
    )
    assert {"execution.checkpointing.interval": "10 s"} == made.config
    assert {
        "spark.driver.memory": "2048m",
        "spark.sql.shuffle.partitions": "7",
        "spark.kubernetes.executor.limit.cores": "2",
    } == made.spark_conf
    assert (["--topic", "upi"], "s3://b/chk-1", True) == (
        made.args,
        made.restore_path,
        made.allow_non_restored_state,
    )


def test_each_program_source_ends_up_where_the_driver_looks():
    inline = spec(program={"inline": "print(1)"})
    assert "/etc/headrace/program.py" == build_driver_config(JOB, inline).program
    assert "print(1)" == build_config_map(JOB, inline)["data"]["program.py"]
    source = {"configMap": {"name": "programs", "key": "job.py"}}
    mounted = spec(program=source)
    assert "/etc/headrace-program/job.py" == build_driver_config(JOB, mounted).program
    volumes = {v["name"]: v for v in pod(program=source)["spec"]["volumes"]}
    assert {"name": "programs", "items": [{"key": "job.py", "path": "job.py"}]} == volumes[
        "headrace-program"
    ]["configMap"]


def test_spark_is_told_kubernetes_own_default_pull_policy():
    def policy(image, **more):
        return build_driver_config(JOB, spec(image=image, **more)).executor.image_pull_policy

    assert "Always" == policy("registry.local:5000/job")
    assert "Always" == policy("job:latest")
    assert "IfNotPresent" == policy("job:1")
    assert "IfNotPresent" == policy("job@sha256:0")
    assert "Never" == policy("job:1", imagePullPolicy="Never")


def test_what_the_user_says_about_pods_reaches_both_kinds_of_pods():
    template = {
        "labels": {"team": "cards", "headrace.dev/job": "evil"},
        "annotations": {"a": "b"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "env": [{"name": "REGION", "value": "in"}, {"name": "HEADRACE_TOKEN", "value": "stolen"}],
        "envFrom": [{"secretRef": {"name": "s3"}}],
        "volumes": [{"name": "rules", "configMap": {"name": "rules"}}],
        "volumeMounts": [{"name": "rules", "mountPath": "/rules"}],
        "imagePullSecrets": [{"name": "registry"}],
        "priorityClassName": "high",
        "affinity": {"nodeAffinity": {}},
    }
    changes = {
        "podTemplate": template,
        "driver": {"env": [{"name": "REGION", "value": "driver"}]},
        "executor": {"env": [{"name": "ONLY", "value": "executor"}]},
    }
    driver = pod(**changes)
    data = build_config_map(JOB, spec(**changes))["data"]
    executor = yaml.safe_load(data["executor.yaml"])
    for manifest in (driver, executor):
        made, inner = manifest["spec"], manifest["spec"]["containers"][0]
        assert {"disk": "ssd"} == made["nodeSelector"]
        assert [{"key": "spot", "operator": "Exists"}] == made["tolerations"]
        assert [{"name": "registry"}] == made["imagePullSecrets"]
        assert ("high", {"nodeAffinity": {}}) == (made["priorityClassName"], made["affinity"])
        assert [{"secretRef": {"name": "s3"}}] == inner["envFrom"]
        assert {"name": "rules", "mountPath": "/rules"} in inner["volumeMounts"]
        assert {"name": "rules", "configMap": {"name": "rules"}} in made["volumes"]
        labels = manifest["metadata"]["labels"]
        assert ("cards", "payments") == (labels["team"], labels["headrace.dev/job"])
        assert "valueFrom" in env(inner)["HEADRACE_TOKEN"]
    assert "driver" == env(driver["spec"]["containers"][0])["REGION"]["value"]
    assert "in" == env(executor["spec"]["containers"][0])["REGION"]["value"]
    assert "ONLY" in env(executor["spec"]["containers"][0])


def test_a_named_account_is_used_and_none_is_made():
    changes = {"serviceAccountName": "streams"}
    assert ["Service", "ConfigMap"] == [m["kind"] for m in build_objects(JOB, spec(**changes))]
    assert "streams" == pod(**changes)["spec"]["serviceAccountName"]


def test_the_driver_may_manage_executors_and_nothing_else():
    account, role, binding = build_access(JOB)
    (rule,) = role["rules"]
    assert ["configmaps", "persistentvolumeclaims", "pods", "services"] == rule["resources"]
    assert "secrets" not in rule["resources"]
    assert account["metadata"]["name"] == binding["subjects"][0]["name"]


def test_the_service_is_headless_and_serves_drivers_that_are_not_ready():
    made = build_service(JOB)["spec"]
    assert ("None", True) == (made["clusterIP"], made["publishNotReadyAddresses"])
    assert {"headrace.dev/job": "payments", "headrace.dev/role": "driver"} == made["selector"]


def test_building_twice_gives_the_same():
    assert build_objects(JOB, spec()) == build_objects(JOB, spec())
