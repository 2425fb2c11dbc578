"""Language models behind one Protocol; ``open_model`` opens the one that an address names.

Addresses are ``anthropic:MODEL``, ``openai:MODEL``, ``openai:MODEL@http://localhost:11434/v1`` for
every server that speaks as OpenAI does, and ``demo``, which needs nothing. Keys come from the
environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from midflight.errors import ModelNotInstalled, ModelUnavailable, to_install
from midflight.models.model import Model

SERVER: Final = re.compile(r"@[a-z]+://.*", re.DOTALL)
USE: Final = "Use anthropic:MODEL, openai:MODEL, openai:MODEL@http://HOST:PORT/v1, or demo."


def open_model(address: str, *, environment: Mapping[str, str] = os.environ) -> Model:
    """Return the model at an address; its package is imported only here."""
    provider, _, rest = address.partition(":")
    found = SERVER.search(rest)  # a model's own name may have an @ in it
    model, url = (rest[: found.start()], found.group()[1:]) if found else (rest, "")
    if address == "demo":
        from midflight.models.demo_model import DemoModel

        return DemoModel()
    if provider not in {"anthropic", "openai"} or not model:
        raise ModelUnavailable(f"{_shown(address)!r} is not the address of a model", USE)
    if url:
        _check(url)
    try:
        return _open(provider, model, url, environment)
    except ImportError:
        why = f"{provider}:{model} needs the package {provider}, which is not installed"
        raise ModelNotInstalled(why, f"Run: {to_install(provider)}.") from None


def _open(provider: str, model: str, url: str, environment: Mapping[str, str]) -> Model:
    if provider == "anthropic":
        from midflight.models import anthropic

        key = _key(environment, anthropic.KEY_VARIABLE, f"anthropic:{model}")
        return anthropic.AnthropicModel(model, key=key, base_url=url or None)
    from midflight.models import openai

    if url:  # a server of one's own may ask for no key
        key = environment.get(openai.KEY_VARIABLE, "")
        return openai.OpenAIModel(model, key=key, base_url=url)
    return openai.OpenAIModel(model, key=_key(environment, openai.KEY_VARIABLE, f"openai:{model}"))


def _key(environment: Mapping[str, str], variable: str, model: str) -> str:
    key = environment.get(variable, "").strip()
    if not key:
        raise ModelUnavailable(
            f"{model} needs a key and {variable} is not set", f"Run: export {variable}=…"
        )
    return key


def _check(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ModelUnavailable(f"{_shown(url)!r} is not the address of a server", USE)
    if "@" in parts.netloc:
        raise ModelUnavailable(
            "the address of a server holds a name or a password",
            "Take it out; a key belongs in the environment.",
        )


def _shown(address: str) -> str:
    """An address as it may be read: somebody may have put a password into it."""
    head, at, tail = address.rpartition("@")
    return f"…@{tail}" if at and "//" in head else address
