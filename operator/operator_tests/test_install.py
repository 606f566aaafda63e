"""What installs the operator: enough rights, and no more."""

import yaml
from typer.testing import CliRunner

from headrace_operator.cli import app
from headrace_operator.resources.access import DRIVER_RULES
from headrace_operator.resources.install import build_install


def by_kind(documents):
    return {document["kind"]: document for document in documents}


def rights(rules):
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_operator_holds_every_right_that_it_grants_to_drivers():
    rules = by_kind(build_install())["ClusterRole"]["rules"]
    assert rights(DRIVER_RULES) <= rights(rules)


def test_secrets_cannot_be_listed_or_watched():
    held = rights(by_kind(build_install())["ClusterRole"]["rules"])
    assert {"create", "delete", "get"} == {v for _, r, v in held if r == "secrets"}


def test_nothing_is_granted_by_a_wildcard():
    held = rights(by_kind(build_install())["ClusterRole"]["rules"])
    assert not any("*" in right for right in held)


def test_a_namespaced_install_needs_only_roles():
    documents = build_install(namespaces=("cards", "upi"))
    kinds = [document["kind"] for document in documents]
    assert "ClusterRole" not in kinds
    assert 2 == kinds.count("Role") == kinds.count("RoleBinding")
    command = by_kind(documents)["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert command == ["headrace", "operator", "run", "--namespace=cards", "--namespace=upi"]


def test_the_operators_pod_is_confined():
    made = by_kind(build_install())["Deployment"]["spec"]["template"]["spec"]
    container = made["containers"][0]
    assert made["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "memory" in container["resources"]["limits"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"


def test_several_operators_elect_one_with_a_right_to_one_lease():
    made = build_install(replicas=2)
    (role,) = [d for d in made if d["kind"] == "Role"]
    assert ("headrace-system", "headrace-operator-election") == (
        role["metadata"]["namespace"],
        role["metadata"]["name"],
    )
    verbs = {verb: rule.get("resourceNames") for rule in role["rules"] for verb in rule["verbs"]}
    lease = ["headrace-operator"]
    assert {"create": None, "get": lease, "update": lease} == verbs
    spec = by_kind(made)["Deployment"]["spec"]
    assert (2, "RollingUpdate") == (spec["replicas"], spec["strategy"]["type"])
    (container,) = spec["template"]["spec"]["containers"]
    assert "--election-namespace=headrace-system" in container["args"]


def test_a_single_operator_needs_no_election():
    made = build_install()
    assert "Role" not in [d["kind"] for d in made]
    assert "election" not in str(made)


def test_the_command_prints_manifests_for_kubectl():
    result = CliRunner().invoke(app, ["manifests", "--image", "registry.local/op:9"])
    assert result.exit_code == 0
    documents = list(yaml.safe_load_all(result.stdout))
    deployment = by_kind(documents)["Deployment"]
    assert (
        (deployment["spec"]["template"]["spec"]["containers"][0]["image"]) == "registry.local/op:9"
    )
    assert documents[0]["kind"] == "Namespace"


def test_the_command_prints_the_definitions():
    result = CliRunner().invoke(app, ["crds"])
    kinds = [d["spec"]["names"]["kind"] for d in yaml.safe_load_all(result.stdout)]
    assert kinds == ["StreamJob", "Savepoint", "Rescale"]


def test_namespace_and_all_namespaces_exclude_each_other():
    result = CliRunner().invoke(app, ["run", "--namespace", "a", "--all-namespaces"])
    assert result.exit_code == 2
