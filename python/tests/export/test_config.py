"""The switches: what each value means, and which of them wins."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import jax2onnx
from jax2onnx import _config
from jax2onnx._types import Level

DETAIL = "JAX2ONNX_STACKTRACE_DETAIL"
ENABLE = "JAX2ONNX_ENABLE_STACKTRACE_METADATA"
LIBRARY_CODE = "JAX2ONNX_LIBRARY_CODE"
PATHS = "JAX2ONNX_STACKTRACE_PATHS"
PREFIXES = "JAX2ONNX_STACKTRACE_PREFIXES"
USER_CODE = "JAX2ONNX_USER_CODE"


@pytest.fixture(autouse=True)
def _no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ENABLE, DETAIL, PATHS, PREFIXES, USER_CODE, LIBRARY_CODE):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("value", "level"),
    [
        (None, "off"),
        ("", "off"),
        ("0", "off"),
        ("false", "off"),
        ("False", "off"),
        ("OFF", "off"),
        ("off", "off"),
        ("no", "off"),
        ("No", "off"),
        ("1", "minimal"),
        ("yes", "minimal"),
        ("on", "minimal"),
        ("true", "minimal"),
        ("2", "minimal"),
        ("anything", "minimal"),
    ],
)
def test_the_environment_switches_on_unless_it_says_no(
    monkeypatch: pytest.MonkeyPatch, value: str | None, level: str
) -> None:
    if value is not None:
        monkeypatch.setenv(ENABLE, value)
    assert _config.settings().provenance == level


@pytest.mark.parametrize(
    ("value", "level"),
    [("", "minimal"), ("minimal", "minimal"), ("full", "full"), ("indexed", "indexed")],
)
def test_the_detail_is_the_level(monkeypatch: pytest.MonkeyPatch, value: str, level: str) -> None:
    monkeypatch.setenv(DETAIL, value)
    assert _config.settings().provenance == "off"
    monkeypatch.setenv(ENABLE, "1")
    assert _config.settings().provenance == level


@pytest.mark.parametrize("value", ["off", "Full", "all", " full"])
def test_another_detail_is_an_error_that_lists_the_three(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv(ENABLE, "1")
    monkeypatch.setenv(DETAIL, value)
    with pytest.raises(jax2onnx.ConfigError, match=r"use minimal, full, indexed$") as error:
        _config.settings()
    assert DETAIL in str(error.value)
    assert isinstance(error.value, ValueError)
    assert _config.settings(provenance="full").provenance == "full"


def test_another_level_is_an_error_that_lists_the_four() -> None:
    with pytest.raises(
        jax2onnx.ConfigError,
        match=r"^`loud` is not a provenance level: use off, minimal, full, indexed$",
    ):
        _config.settings(provenance="loud")
    with (
        pytest.raises(jax2onnx.ConfigError, match="use off, minimal, full, indexed"),
        jax2onnx.provenance("loud"),  # type: ignore[arg-type]
    ):
        pass


def test_another_path_policy_is_an_error_that_lists_the_three(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(jax2onnx.ConfigError, match="use relative, absolute, basename"):
        _config.settings(provenance_paths="short")
    monkeypatch.setenv(PATHS, "short")
    with pytest.raises(jax2onnx.ConfigError, match="use relative, absolute, basename"):
        _config.settings()


def test_the_argument_comes_before_the_block_and_that_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _config.settings().provenance == "off"
    monkeypatch.setenv(ENABLE, "1")
    monkeypatch.setenv(PATHS, "absolute")
    assert _config.settings().provenance == "minimal"
    assert _config.settings().provenance_paths == "absolute"
    with jax2onnx.provenance("indexed", paths="basename"):
        assert _config.settings().provenance == "indexed"
        assert _config.settings().provenance_paths == "basename"
        assert _config.settings(provenance="off", provenance_paths="relative").provenance == "off"
        assert (
            _config.settings(provenance="off", provenance_paths="relative").provenance_paths
            == "relative"
        )
    with jax2onnx.provenance("off"):
        assert _config.settings().provenance == "off"
    assert _config.settings().provenance == "minimal"


def test_an_inner_block_inherits_options_that_it_does_not_set() -> None:
    before = _config.settings()
    with jax2onnx.provenance("full", paths="basename", user_code=["/a"]):
        with jax2onnx.provenance(library_code=["/b"]):
            with jax2onnx.provenance("minimal", user_code=["/c", "<cell>"]):
                inner = _config.settings()
            assert _config.settings().provenance == "full"
        assert inner.provenance == "minimal"
        assert inner.provenance_paths == "basename"
        assert inner.user_code == ("/a", "/c", "<cell>")
        assert inner.library_code == ("/b",)
    assert _config.settings() == before


def test_a_block_that_fails_is_undone() -> None:
    with pytest.raises(KeyError), jax2onnx.provenance("full"):
        raise KeyError
    assert _config.settings().provenance == "off"


def test_a_single_path_is_not_a_list_of_paths() -> None:
    with (
        pytest.raises(jax2onnx.ConfigError, match="user_code"),
        jax2onnx.provenance(user_code="/a"),
    ):
        pass


def test_each_thread_has_its_own_blocks() -> None:
    barrier = threading.Barrier(4)

    def level(word: Level) -> str:
        before = _config.settings().provenance
        with jax2onnx.provenance(word):
            barrier.wait()
            inside = _config.settings().provenance
            barrier.wait()
        return f"{before} {inside} {_config.settings().provenance}"

    words: list[Level] = ["off", "minimal", "full", "indexed"]
    with jax2onnx.provenance("full"), ThreadPoolExecutor(4) as pool:
        found = list(pool.map(level, words))
    assert found == [f"off {word} off" for word in words]
