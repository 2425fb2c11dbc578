"""Addresses of pages, as people write them and as browsers send them."""

from __future__ import annotations

import pytest

from midflight.errors import InvalidRequest
from midflight.interfaces.cli.commands.serve_command import check_origins
from midflight.interfaces.cli.commands.token_command import page_address, public_origin


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


NOWHERE = ["https://[half", "https://h:99999", "https://h:0", "https://h:x", "https://[::1]x"]


@pytest.mark.parametrize("url", NOWHERE)
def test_what_no_browser_can_open_is_refused_in_words(url: str) -> None:
    with pytest.raises(InvalidRequest, match="is not the address of a page"):
        page_address(url, otherwise="No key was made.")
    with pytest.raises(InvalidRequest, match="is not the address of a page"):
        public_origin(url)
    with pytest.raises(InvalidRequest, match="is not an origin"):
        check_origins([url])
