"""Configuration of a node's components."""

from pathlib import Path

import pytest
import yaml

from headrace_devcluster import components
from headrace_devcluster.components import IDENTITIES, NodePlan
from headrace_devcluster.layout import Addresses, Layout

TOKENS = {identity: f"token-{identity}" for identity in IDENTITIES}
BUILDERS = (
    components.build_containerd,
    components.build_etcd,
    components.build_apiserver,
    components.build_controllers,
    components.build_scheduler,
    components.build_kubelet,
    components.build_proxy,
    components.build_dns,
)


def plan_of(index: int, name: str = "demo") -> NodePlan:
    return NodePlan(Layout(name, Path("/clusters")), Addresses(index), Path("/bin/kube"))


@pytest.fixture
def plan() -> NodePlan:
    return plan_of(3)


def test_every_file_of_a_cluster_is_inside_of_its_directory(plan: NodePlan) -> None:
    files = components.build_config_files(plan, TOKENS, "Q0E=")
    assert [path for path in files if not path.is_relative_to("/clusters/demo")] == []


def test_two_clusters_share_no_file_and_no_address(plan: NodePlan) -> None:
    one = components.build_config_files(plan, TOKENS, "Q0E=")
    two = components.build_config_files(plan_of(4, "other"), TOKENS, "Q0E=")
    assert set() == set(one) & set(two)
    assert not any("10.213.3." in text or "10.214.3." in text for text in two.values())
    assert not any("/clusters/demo" in text for text in two.values())


def test_each_component_calls_the_api_server_as_itself(plan: NodePlan) -> None:
    rows = components.build_token_file(TOKENS).splitlines()
    assert len(IDENTITIES) == len(rows)
    assert 'token-admin,admin,admin,"system:masters"' in rows
    assert 'token-kubelet,system:node:node1,kubelet,"system:nodes"' in rows
    used = {
        argument.rpartition("/")[2]
        for build in BUILDERS
        for argument in build(plan).command
        if argument.startswith("--kubeconfig=")
    }
    assert {
        f"{name}.kubeconfig" for name in ("controllers", "scheduler", "kubelet", "proxy")
    } == used


def test_the_kubeconfig_checks_the_servers_certificate(plan: NodePlan) -> None:
    document = yaml.safe_load(components.build_kubeconfig(plan, "secret", "Q0E="))
    cluster = document["clusters"][0]["cluster"]
    assert cluster == {"server": "https://10.213.3.2:6443", "certificate-authority-data": "Q0E="}
    assert document["users"][0]["user"]["token"] == "secret"


def test_the_kubelet_keeps_to_the_clusters_control_group_and_evicts_nothing(plan: NodePlan) -> None:
    kubelet = yaml.safe_load(components.build_kubelet_config(plan))
    assert f"/{plan.layout.cgroup}" == kubelet["cgroupRoot"]
    assert {"0%"} == set(kubelet["evictionHard"].values())
    assert kubelet["clusterDNS"] == ["10.215.3.10"]
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}


def test_the_cni_configuration_gives_pods_the_clusters_subnet(plan: NodePlan) -> None:
    network = yaml.safe_load(components.build_cni_config(plan))
    assert network["plugins"][0]["type"] == "ptp"
    assert network["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.214.3.0/24"}]]


def test_the_dns_service_points_to_the_node_under_the_address_that_pods_are_told(
    plan: NodePlan,
) -> None:
    documents = list(yaml.safe_load_all(components.build_base_manifests(plan.addresses)))
    service = next(document for document in documents if document["kind"] == "Service")
    slices = next(document for document in documents if document["kind"] == "EndpointSlice")
    assert service["spec"]["clusterIP"] == "10.215.3.10"
    assert slices["endpoints"][0]["addresses"] == ["10.213.3.2"]


def test_components_have_distinct_names_and_absolute_or_packaged_programs(plan: NodePlan) -> None:
    built = [build(plan) for build in BUILDERS]
    assert len(BUILDERS) == len({component.name for component in built})
    assert {"/bin/kube", "containerd"} == {component.command[0] for component in built}
