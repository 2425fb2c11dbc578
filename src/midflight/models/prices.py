"""The cost of a call, by the price list that ``genai-prices`` carries with it.

Nothing is downloaded: the list is as old as the installed package. A model or a server that it does
not know has no price, which is shown as tokens; a guess would be a wrong sum.
"""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from midflight.models.base import Spent


def priced(spent: Spent, *, url: str, at: float) -> Spent:
    """Return the usage with its price, if the server at ``url`` is known to sell that model."""
    return spent if spent.estimated else replace(spent, usd=_usd(spent, url, at))


def _usd(spent: Spent, url: str, at: float) -> float | None:
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    try:
        usage = Usage(
            input_tokens=spent.input_tokens,
            cache_read_tokens=spent.cached_tokens,
            cache_write_tokens=spent.cache_write_tokens,
            output_tokens=spent.output_tokens,
        )
        found = calc_price(
            usage,
            spent.model,
            provider_api_url=url,
            genai_request_timestamp=datetime.fromtimestamp(at, UTC),
        )
    except (LookupError, ValueError):  # not on the list, or figures that cannot be right
        return None
    return (
        float(found.total_price) or None
    )  # the list has models without a price: they cost 0 there
