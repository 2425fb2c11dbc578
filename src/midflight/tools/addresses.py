"""The addresses that a tool may connect to: public ones, and none of our own network.

An address is checked after its name was resolved, at the moment of connecting, and the connection
goes to the very address that was checked: a name that means another address later changes nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

import anyio

from midflight.tools.declaration import ToolRefused

RESOLVE_S: Final = 10.0
ADDRESSES_MAX: Final = 8  # of one name that are tried

GLOBAL_V6: Final = ip_network("2000::/3")
NOT_GLOBAL: Final = tuple(
    map(
        ip_network,
        (
            "100.64.0.0/10",  # behind a provider's translation; holds a metadata address
            "168.63.129.16/32",  # a cloud's own service for its machines
            "192.0.0.0/24",
            "192.88.99.0/24",
            "198.18.0.0/15",
            "240.0.0.0/4",
            "2001::/23",  # Teredo and other protocol assignments
            "2001:db8::/32",
            "2002::/16",  # 6to4: holds an IPv4 address
            "3fff::/20",
        ),
    )
)
"""What ``is_global`` lets pass in some version of Python, or what only looks public."""


def is_public(address: str) -> bool:
    """Return whether an address belongs to the public internet.

    IPv6 is allowed only from the range that is handed out to everybody: this leaves out what holds
    an IPv4 address inside (mapped, compatible, NAT64), which would be another way to the same door.
    """
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and (found not in GLOBAL_V6 or found.scope_id):
        return False
    special = found.is_multicast or found.is_private or found.is_reserved or not found.is_global
    return not special and not any(_is_in(found, network) for network in NOT_GLOBAL)


def _is_in(address: IPv4Address | IPv6Address, network: object) -> bool:
    return getattr(network, "version", 0) == address.version and address in network  # type: ignore[operator]


async def addresses(host: str, port: int, allow: Sequence[str]) -> list[str]:
    """Return the addresses of a host that a tool may connect to; refuse if there are none.

    ``allow`` names hosts with their ports, such as ``127.0.0.1:8080``, that need not be public.
    """
    try:
        with anyio.fail_after(RESOLVE_S):
            found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolRefused(f"{host} has no address: {error}. Nothing was sent.") from error
    resolved = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))[:ADDRESSES_MAX]
    if f"{host.lower().rstrip('.')}:{port}" in allow:
        return resolved
    public = [address for address in resolved if is_public(address)]
    if not public:
        raise ToolRefused(
            f"{host} is not on the public internet. Nothing was sent. A developer may allow it "
            f'with allow=("{host}:{port}",).'
        )
    return public
