"""What images are made from, and when that changes."""

from pathlib import Path

import pytest

from headrace.errors import InvalidConfigError
from headrace_devcluster.checkout import Checkout, find_checkout
from headrace_devcluster.images import IMAGES, Part, compute_image_keys, find_image

APPLICATION = "runtime/src/headrace/job.py"
RUNTIME_LOCK = "requirements/runtime.txt"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    files = [f"e2e/devcluster/images/{name}/Dockerfile" for name in IMAGES]
    files += ["e2e/devcluster/images/runtime/headrace", APPLICATION, RUNTIME_LOCK, "pyproject.toml"]
    files += ["requirements/operator.txt", "e2e/devcluster/minio/go.mod"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return Checkout(tmp_path)


def keys_of_all(checkout: Checkout) -> dict[str, str]:
    return {name: compute_image_keys(checkout, name, "x86_64")[name] for name in IMAGES}


def changed_by(checkout: Checkout, file: str) -> set[str]:
    before = keys_of_all(checkout)
    (checkout.root / file).write_text("something else")
    after = keys_of_all(checkout)
    return {name for name in IMAGES if before[name] != after[name]}


def test_a_change_of_source_rebuilds_only_what_holds_headrace_itself(checkout: Checkout) -> None:
    assert {"runtime", "operator"} == changed_by(checkout, APPLICATION)


def test_a_change_of_dependencies_rebuilds_them_and_what_is_on_top(checkout: Checkout) -> None:
    assert {"runtime-deps", "runtime"} == changed_by(checkout, RUNTIME_LOCK)


def test_a_change_of_a_parent_rebuilds_every_image_that_extends_it(checkout: Checkout) -> None:
    changed = changed_by(checkout, "e2e/devcluster/images/java/Dockerfile")
    assert {"java", "runtime-deps", "runtime", "kafka"} == changed


def test_nothing_changed_means_the_same_keys(checkout: Checkout) -> None:
    assert keys_of_all(checkout) == keys_of_all(checkout)


def test_another_architecture_is_another_image(checkout: Checkout) -> None:
    assert compute_image_keys(checkout, "kafka", "x86_64") != compute_image_keys(
        checkout, "kafka", "aarch64"
    )


def test_parents_cannot_be_loaded_and_the_message_names_what_can() -> None:
    for name in ("java", "nonsense"):
        with pytest.raises(InvalidConfigError, match="kafka, minio, operator, runtime"):
            find_image(name)


def test_every_image_has_a_dockerfile_and_every_lock_exists_in_this_checkout() -> None:
    checkout = find_checkout()
    for image in IMAGES.values():
        assert (checkout.images / image.name / "Dockerfile").is_file()
        if Part.DEPENDENCIES in image.parts:
            assert (checkout.requirements / image.requirements).is_file()


def test_locks_of_images_agree_with_the_lock_that_tests_run_with() -> None:
    def pins(name: str) -> set[str]:
        lines = (find_checkout().requirements / name).read_text().splitlines()
        return {line.split(" ")[0] for line in lines if "==" in line.split(" ")[0]}

    tested = pins("dev.txt")
    assert set() == (pins("runtime.txt") | pins("operator.txt")) - tested
