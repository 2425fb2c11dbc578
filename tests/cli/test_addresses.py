"""Addresses of pages, as people write them and as browsers send them."""

from __future__ import annotations

import pytest

from midflight.cli.addresses import public_origin


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("https://agents.example.com", "https://agents.example.com"),
        ("https://Agents.Example.com:443/", "https://agents.example.com"),
        ("https://agents.example.com:8443", "https://agents.example.com:8443"),
        ("http://localhost:80", "http://localhost"),
        ("http://[::1]:8321", "http://[::1]:8321"),
        ("https://Bücher.example", "https://xn--bcher-kva.example"),
        ("https://straße.example:443", "https://xn--strae-oqa.example"),
        ("https://xn--bcher-kva.example", "https://xn--bcher-kva.example"),
    ],
)
def test_an_origin_is_what_browsers_send(written: str, sent: str) -> None:
    assert public_origin(written) == sent
