"""The address of a Postgres server, read with care: any part of it may be somebody's password.

An unquoted ``#``, ``?``, ``/``, ``[`` or ``@`` in a password ends a URL early. The rest of the
password would be taken for a host, be looked up, and be shown.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from midflight.errors import StoreUnavailable

SCHEMES: Final = ("postgres", "postgresql")
DEFAULT_SCHEMA: Final = "midflight"


def unreadable() -> StoreUnavailable:
    """Return the error for an address that is not valid; nothing of the address is repeated."""
    return StoreUnavailable(
        "the store's address must look like postgresql://user:password@host:5432/database, with "
        "%40 for @, %2F for /, %23 for # and so on in the password. It is not shown here, as a "
        "part of it may be the password. Nothing was opened."
    )


def split(address: str) -> SplitResult:
    """Return the parts of an address; raise if it is not one, or if something was cut off."""
    try:
        parts = urlsplit(address)
    except ValueError:
        raise unreadable() from None
    cut_off = "@" in parts.path or (not parts.path and "@" in parts.query) or parts.fragment
    if parts.scheme not in SCHEMES or cut_off:
        raise unreadable()
    return parts


def named(dsn: str) -> tuple[str, str, str]:
    """Return user, database and host, for messages: all of the address but the password."""
    parts = split(dsn)
    if parts.netloc.count("@") > 1:
        raise unreadable()
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    credentials, _, host = parts.netloc.rpartition("@")
    user = unquote(credentials.partition(":")[0]) or options.get("user", "")
    host = unquote(host) or options.get("host", "localhost")
    database = unquote(parts.path.lstrip("/")) or options.get("dbname", "") or user
    return user, database, host


def without_schema(address: str) -> tuple[str, str]:
    """Take ``schema`` out of the address: it is ours, and the server would not know it."""
    parts = split(address)
    query = dict(parse_qsl(parts.query))
    schema = query.pop("schema", DEFAULT_SCHEMA)
    return parts._replace(query=urlencode(query)).geturl(), schema


def shown(address: str) -> str:
    """As it may stand on a screen and in a log."""
    try:
        parts = split(address)
    except StoreUnavailable:
        return f"{address.partition('://')[0]}://…"
    user, at, host = parts.netloc.rpartition("@")
    schema = [(name, value) for name, value in parse_qsl(parts.query) if name == "schema"]
    kept = parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}", query=urlencode(schema))
    return kept.geturl()
