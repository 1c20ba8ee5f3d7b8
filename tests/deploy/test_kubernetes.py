"""Kubernetes manifests, against the schemas of Kubernetes and by a real kustomize."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from artefacts import DEPLOY, MANIFESTS, documents, pods, tool

KUSTOMIZATIONS = sorted((DEPLOY / "kubernetes").rglob("kustomization.yaml"))
VERSIONS = ("1.29", "1.34")
STOPS = {"holdfast-server": 45, "holdfast-scheduler": 90, "holdfast-triggerer": 90}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_manifests_follow_the_schema(file: Path, version: str) -> None:
    for document in documents(file):
        kubernetes_validate.validate(document, version, strict=True)


def test_the_schema_refuses_a_misspelled_field() -> None:
    document = documents(DEPLOY / "kubernetes" / "services" / "triggerer.yaml")[0]
    document["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("file", KUSTOMIZATIONS, ids=lambda file: file.parent.name)
def test_kustomize_builds_every_directory(file: Path) -> None:
    built = subprocess.run(
        [tool("kubectl"), "kustomize", str(file.parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    listed = yaml.safe_load(file.read_text())["resources"]
    found = list(yaml.safe_load_all(built.stdout))

    assert len(found) == sum(len(documents(file.parent / name)) for name in listed)
    namespaces = {one["metadata"].get("namespace") for one in found if one["kind"] != "Namespace"}
    assert namespaces == {"holdfast"}
    images = [one["image"] for pod in map(_pod, found) if pod for one in pod["containers"]]
    assert all(image == "holdfast:0.1.0" for image in images)


def test_every_directory_but_the_example_is_in_a_kustomization() -> None:
    listed = {
        file.parent / name
        for file in KUSTOMIZATIONS
        for name in yaml.safe_load(file.read_text())["resources"]
    }

    assert {file.name for file in set(MANIFESTS) - listed} == {"secret.example.yaml"}


def test_pods_are_allowed_in_a_restricted_namespace() -> None:
    for _, pod in pods():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {kind for one in pod["volumes"] for kind in one} <= {"name", "configMap", "emptyDir"}
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_pods_refer_to_what_the_other_manifests_define() -> None:
    found = [document for file in MANIFESTS for document in documents(file)]
    names = {(one["kind"], one["metadata"]["name"]): one for one in found}
    for _, pod in pods():
        [container] = pod["containers"]
        [source] = container["envFrom"]
        assert ("Secret", source["secretRef"]["name"]) in names
        [settings] = [one for one in pod["volumes"] if one["name"] == "settings"]
        data = names["ConfigMap", settings["configMap"]["name"]]["data"]
        mounts = {one["name"]: one for one in container["volumeMounts"]}
        assert mounts["settings"]["subPath"] in data
        claims = {"home"} if container["name"] == "scheduler" else set()
        assert mounts.keys() == {one["name"] for one in pod["volumes"]} | claims


def test_services_select_the_pods_and_their_port() -> None:
    [deployment, service, budget] = documents(DEPLOY / "kubernetes" / "services" / "server.yaml")
    template = deployment["spec"]["template"]
    [port] = template["spec"]["containers"][0]["ports"]

    assert service["spec"]["selector"] == template["metadata"]["labels"]
    assert budget["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert port["containerPort"] == 8793


def test_pods_have_the_time_to_stop_that_the_units_give() -> None:
    found = {name: one.get("terminationGracePeriodSeconds") for name, one in pods()}

    assert {name: found[name] for name in STOPS} == STOPS


def _pod(document: dict[str, Any]) -> dict[str, Any] | None:
    spec: dict[str, Any] | None = document.get("spec", {}).get("template", {}).get("spec")
    return spec
