"""From an address to a model, with keys from the environment and errors that say what to do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from midflight.errors import ModelUnavailable
from midflight.models import open_model

KEYS = {"ANTHROPIC_API_KEY": "sk-ant-0123", "OPENAI_API_KEY": "sk-0123"}


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("anthropic:claude-sonnet-5", "anthropic:claude-sonnet-5"),
        ("openai:gpt-5", "openai:gpt-5"),
        (
            "openai:llama3:8b@http://localhost:11434/v1",
            "openai:llama3:8b@http://localhost:11434/v1",
        ),
        (
            "openai:@cf/meta/llama@https://example.org/v1",
            "openai:@cf/meta/llama@https://example.org/v1",
        ),
        ("demo", "demo model"),
    ],
)
def test_an_address_gives_a_model(address: str, name: str) -> None:
    assert open_model(address, environment=KEYS).name == name


def test_a_server_of_ones_own_needs_no_key() -> None:
    model = open_model("openai:llama3@http://localhost:11434/v1", environment={})

    assert "llama3" in model.name


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
@pytest.mark.parametrize("key", [None, "", "  "])
def test_a_missing_key_names_its_variable(kind: str, key: str | None) -> None:
    variable = f"{kind.upper()}_API_KEY"
    environment = {} if key is None else {variable: key}

    with pytest.raises(ModelUnavailable, match=f"{variable} is not set. Run: export {variable}="):
        open_model(f"{kind}:some-model", environment=environment)


@pytest.mark.parametrize("address", ["", "gpt-5", "anthropic", "anthropic:", "gemini:x", "demo:x"])
def test_what_is_no_address_is_told_what_one_is(address: str) -> None:
    with pytest.raises(ModelUnavailable, match="openai:MODEL@http://HOST:PORT/v1"):
        open_model(address, environment=KEYS)


@pytest.mark.parametrize("url", ["http://ann:secret@host/v1", "https://secret@host/v1"])
def test_a_password_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ModelUnavailable, match="belongs in the environment") as caught:
        open_model(f"openai:m@{url}", environment=KEYS)
    with pytest.raises(ModelUnavailable) as strange:
        open_model(f"gemini:m@{url}", environment=KEYS)

    assert "secret" not in str(caught.value) + str(strange.value)


@pytest.mark.parametrize("url", ["ftp://host/v1", "http:///v1"])
def test_a_server_is_reached_by_http(url: str) -> None:
    with pytest.raises(ModelUnavailable, match="not the address of a server"):
        open_model(f"openai:m@{url}", environment=KEYS)


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_a_missing_package_names_its_extra(kind: str) -> None:
    told = python(
        f"import sys; sys.modules[{kind!r}] = None",
        "from midflight.models import open_model",
        f"try: open_model('{kind}:m', environment={{'{kind.upper()}_API_KEY': 'k'}})",
        "except Exception as error: print(type(error).__name__, error)",
    )

    assert told.startswith("ModelNotInstalled")
    assert f"pip install './midflight[{kind}]'" in told


def test_nothing_is_imported_that_was_not_asked_for() -> None:
    told = python(
        "import sys, midflight, midflight.models.scripted",
        "from midflight.models import open_model",
        "open_model('demo')",
        "print({'anthropic', 'openai', 'genai_prices', 'httpx2', 'pydantic'} & set(sys.modules))",
    )

    assert told == "set()"


def python(*lines: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return done.stdout.strip()
