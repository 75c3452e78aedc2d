"""The manifests of docs/clusters.md are valid YAML, fit each other, and name what jaxtop knows."""

from __future__ import annotations

import re

import pytest
import yaml

from jaxtop.cli import ways
from jaxtop.transport import PORTS_TRIED
from tests.support import ROOT

PAGE = ROOT / "docs" / "clusters.md"


class Strict(yaml.SafeLoader):
    """A loader that accepts no key twice."""


def _mapping(loader, node):
    keys = [loader.construct_object(key) for key, _ in node.value]
    assert len(keys) == len(set(keys)), f"twice: {keys}"
    return {
        loader.construct_object(key): loader.construct_object(value, deep=True) for key, value in node.value
    }


Strict.add_constructor("tag:yaml.org,2002:map", _mapping)
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
DOCUMENTS = [document for block in BLOCKS for document in yaml.load_all(block, Strict)]
VERSIONS = {
    "Secret": "v1",
    "Service": "v1",
    "Job": "batch/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
}


def of_kind(kind):
    return [each for each in DOCUMENTS if each["kind"] == kind]


def test_every_manifest_has_a_kind_and_a_name():
    assert {each["kind"]: each["apiVersion"] for each in DOCUMENTS} == VERSIONS
    assert {each["metadata"]["namespace"] for each in DOCUMENTS} == {"ml"}
    assert all(re.fullmatch(r"[a-z0-9-]+", each["metadata"]["name"]) for each in DOCUMENTS)


@pytest.mark.parametrize("job", of_kind("Job"), ids=lambda job: job["metadata"]["name"])
def test_a_job_has_its_key_its_run_files_and_its_service(job):
    pod = job["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (secret,), (service,) = of_kind("Secret"), of_kind("Service")
    variables = {each["name"]: each.get("value") for each in container["env"]}
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    assert mounts.keys() == volumes.keys()
    assert volumes["key"]["secret"]["secretName"] == secret["metadata"]["name"]
    assert volumes["key"]["secret"]["defaultMode"] == 0o400
    (file,) = secret["stringData"]
    assert variables["JAXTOP_KEY_FILE"] == f"{mounts['key']}/{file}"
    assert variables["XDG_STATE_HOME"] == mounts["run"]
    assert container["command"][:2] == ["jaxtop", "run"]
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert job["spec"]["completions"] == job["spec"]["parallelism"]
    if "COORDINATOR" in variables:
        assert variables["COORDINATOR"] == f"{job['metadata']['name']}-0.{service['metadata']['name']}:8476"
        assert int(variables["PROCESSES"]) == job["spec"]["completions"]


def test_the_policy_lets_the_pods_of_the_run_reach_the_ports_that_are_used():
    (policy,) = of_kind("NetworkPolicy")
    labels = of_kind("Job")[0]["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"] == labels
    (rule,) = policy["spec"]["ingress"]
    assert [each["podSelector"]["matchLabels"] for each in rule["from"]] == [labels]
    open_ports = {
        port for each in rule["ports"] for port in range(each["port"], each.get("endPort", each["port"]) + 1)
    }
    assert {8476, *PORTS_TRIED} <= open_ports


def test_the_role_allows_what_the_shorthand_runs():
    (role,) = of_kind("Role")
    allowed = {
        (resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]
    }
    assert {("pods", "get"), ("pods", "list"), ("pods/exec", "create")} == allowed


def test_the_targets_on_the_page_are_ways():
    text = PAGE.read_text()
    assert ways.find(None, ["slurm://4711"]) is not None
    vias = re.findall(r"--via '([^']*)'", text)
    assert len(vias) == 2
    for via in vias:
        assert ways.find(via, []) is not None
    written = ways.find(vias[0], []).command
    assert written[2:] == ways.find(None, ["slurm://4711"]).command
