"""The objects of a job: what the driver and Spark rely on, and what security asks for."""

import json

import yaml

from headrace.api.driver import DriverConfig
from headrace.api.v1alpha1 import StreamJobSpec
from headrace_operator.resources.access import build_access
from headrace_operator.resources.configuration import build_config_map, build_driver_config
from headrace_operator.resources.desired import build_objects
from headrace_operator.resources.driver_pod import build_driver_pod, with_token
from headrace_operator.resources.network import build_service
from headrace_operator.resources.secrets import build_token_secret
from operator_tests.world import JOB, JOB_UID, spec_manifest


def spec(**changes):
    return StreamJobSpec.model_validate(spec_manifest(**changes))


def pod(**changes):
    made = build_driver_pod(JOB, spec(**changes), spec_hash="h", attempt=3, grace_s=30)
    return with_token(made, "t")


def container(**changes):
    return pod(**changes)["spec"]["containers"][0]


def env(manifest):
    return {variable["name"]: variable for variable in manifest["env"]}


def test_everything_belongs_to_the_job_and_carries_its_labels():
    secret = build_token_secret(JOB, "s3cret")
    for manifest in (*build_objects(JOB, spec()), pod(), secret):
        metadata = manifest["metadata"]
        (owner,) = metadata["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("StreamJob", JOB_UID, True)
        assert metadata["labels"]["headrace.dev/job"] == "payments"
        assert metadata["namespace"] == "bank"


def test_the_driver_pod_is_never_restarted_in_place_and_has_one_fixed_name():
    assert pod()["metadata"]["name"] == "payments-driver"
    assert pod()["spec"]["restartPolicy"] == "Never"
    assert pod()["metadata"]["annotations"] == {
        "headrace.dev/spec-hash": "h",
        "headrace.dev/token-uid": "t",
        "headrace.dev/attempt": "3",
    }


def test_the_driver_runs_the_contracts_command_with_its_configuration():
    made = container()
    assert made["args"] == ["headrace", "driver", "--config", "/etc/headrace/job.json"]
    assert {"name": "headrace-config", "mountPath": "/etc/headrace", "readOnly": True} in (
        made["volumeMounts"]
    )
    assert [port["containerPort"] for port in made["ports"]] == [8081, 7078, 7079, 7080]
    variables = env(made)
    assert variables["POD_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert variables["HEADRACE_TOKEN"]["valueFrom"]["secretKeyRef"] == {
        "name": "payments-token",
        "key": "token",
    }
    assert tuple(
        made[probe]["httpGet"]["path"]
        for probe in ("readinessProbe", "livenessProbe", "startupProbe")
    ) == ("/readyz", "/healthz", "/healthz")
    assert made["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_scratch_is_in_memory_and_counts_to_the_limit():
    volumes = {volume["name"]: volume for volume in pod()["spec"]["volumes"]}
    assert volumes["headrace-scratch"]["emptyDir"]["medium"] == "Memory"
    assert volumes["headrace-state"]["emptyDir"] == {}
    assert container()["resources"]["limits"] == {"memory": "1856Mi"}
    assert container()["resources"]["requests"] == {"cpu": "1", "memory": "1856Mi"}


def test_pods_meet_the_restricted_profile():
    made = yaml.safe_load(build_config_map(JOB, spec())["data"]["executor.yaml"])
    for manifest in (pod(), made):
        context = manifest["spec"]["securityContext"]
        assert (
            context["runAsNonRoot"],
            context["runAsUser"],
            context["seccompProfile"]["type"],
        ) == (True, 10001, "RuntimeDefault")
        inner = manifest["spec"]["containers"][0]["securityContext"]
        assert inner["allowPrivilegeEscalation"] is False
        assert inner["capabilities"]["drop"] == ["ALL"]


def test_executors_get_the_token_and_no_kubernetes_account():
    template = yaml.safe_load(build_config_map(JOB, spec())["data"]["executor.yaml"])
    assert template["spec"]["automountServiceAccountToken"] is False
    made = template["spec"]["containers"][0]
    assert made["name"] == "spark-kubernetes-executor"
    assert "HEADRACE_TOKEN" in env(made)
    assert template["metadata"]["labels"]["headrace.dev/role"] == "executor"


def test_job_json_is_the_drivers_contract():
    data = build_config_map(JOB, spec(parallelism=3, executor={"slots": 2}))["data"]
    config = DriverConfig.model_validate_json(data["job.json"])
    assert JOB_UID.replace("-", "") == config.job_id
    assert (
        config.job_name,
        config.namespace,
        config.program,
        config.parallelism,
        config.max_parallelism,
    ) == ("payments", "bank", "/opt/job.py", 3, 128)
    executor = config.executor
    assert (
        executor.instances,
        executor.slots,
        executor.memory_mib,
        executor.memory_overhead_mib,
        executor.cpu_request,
    ) == (2, 2, 512, 1024, "2")
    assert executor.service_account == "payments-driver"
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
    assert made.config == {"execution.checkpointing.interval": "10 s"}
    assert made.spark_conf == {
        "spark.driver.memory": "2048m",
        "spark.kubernetes.driver.service.publishNotReadyAddresses": "true",
        "spark.sql.shuffle.partitions": "7",
        "spark.kubernetes.executor.limit.cores": "2",
    }
    assert (
        made.args,
        made.restore_path,
        made.allow_non_restored_state,
    ) == (["--topic", "upi"], "s3://b/chk-1", True)


def test_each_program_source_ends_up_where_the_driver_looks():
    inline = spec(program={"inline": "print(1)"})
    assert build_driver_config(JOB, inline).program == "/etc/headrace/program.py"
    assert build_config_map(JOB, inline)["data"]["program.py"] == "print(1)"
    copied = spec(program={"configMap": {"name": "programs", "key": "job.py"}})
    assert "/etc/headrace/program.py" == build_driver_config(JOB, copied).program
    assert "print(2)" == build_config_map(JOB, copied, "print(2)")["data"]["program.py"]
    volumes = pod(program={"configMap": {"name": "programs", "key": "job.py"}})["spec"]["volumes"]
    assert ["payments-driver"] == [v["configMap"]["name"] for v in volumes if "configMap" in v]


def test_spark_is_told_kubernetes_own_default_pull_policy():
    def policy(image, **more):
        return build_driver_config(JOB, spec(image=image, **more)).executor.image_pull_policy

    assert policy("registry.local:5000/job") == "Always"
    assert policy("job:latest") == "Always"
    assert policy("job:1") == "IfNotPresent"
    assert policy("job@sha256:0") == "IfNotPresent"
    assert policy("job:1", imagePullPolicy="Never") == "Never"


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
        assert made["nodeSelector"] == {"disk": "ssd"}
        assert made["tolerations"][0] == {"key": "spot", "operator": "Exists"}
        assert made["imagePullSecrets"] == [{"name": "registry"}]
        assert (made["priorityClassName"], made["affinity"]) == ("high", {"nodeAffinity": {}})
        assert inner["envFrom"] == [{"secretRef": {"name": "s3"}}]
        assert {"name": "rules", "mountPath": "/rules"} in inner["volumeMounts"]
        assert {"name": "rules", "configMap": {"name": "rules"}} in made["volumes"]
        labels = manifest["metadata"]["labels"]
        assert (labels["team"], labels["headrace.dev/job"]) == ("cards", "payments")
        assert "valueFrom" in env(inner)["HEADRACE_TOKEN"]
    assert env(driver["spec"]["containers"][0])["REGION"]["value"] == "driver"
    assert env(executor["spec"]["containers"][0])["REGION"]["value"] == "in"
    assert "ONLY" in env(executor["spec"]["containers"][0])


def test_a_lost_node_costs_half_a_minute_unless_the_user_says_otherwise():
    def seconds(**changes):
        tolerations = pod(**changes)["spec"]["tolerations"]
        return {item["key"]: item["tolerationSeconds"] for item in tolerations}

    not_ready, unreachable = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
    assert seconds() == {not_ready: 30, unreachable: 30}
    own = {"key": unreachable, "operator": "Exists", "tolerationSeconds": 600}
    assert seconds(podTemplate={"tolerations": [own]}) == {unreachable: 600, not_ready: 30}


def test_a_named_account_is_used_and_none_is_made():
    changes = {"serviceAccountName": "streams"}
    assert [m["kind"] for m in build_objects(JOB, spec(**changes))] == ["Service", "ConfigMap"]
    assert pod(**changes)["spec"]["serviceAccountName"] == "streams"


def test_the_driver_may_manage_executors_and_nothing_else():
    account, role, binding = build_access(JOB)
    (rule,) = role["rules"]
    assert rule["resources"] == ["configmaps", "persistentvolumeclaims", "pods", "services"]
    assert "secrets" not in rule["resources"]
    assert account["metadata"]["name"] == binding["subjects"][0]["name"]


def test_the_service_is_headless_and_serves_drivers_that_are_not_ready():
    made = build_service(JOB)["spec"]
    assert (made["clusterIP"], made["publishNotReadyAddresses"]) == ("None", True)
    assert made["selector"] == {"headrace.dev/job": "payments", "headrace.dev/role": "driver"}


def test_building_twice_gives_the_same():
    assert build_objects(JOB, spec()) == build_objects(JOB, spec())
