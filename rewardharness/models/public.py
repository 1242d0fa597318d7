"""Detect addresses on the public internet.

A user-supplied address must not reach this machine, its local network or cloud metadata services (SSRF protection).
"""

import ipaddress

_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""Addresses that a NAT64 gateway maps to the IPv4 address in their last 32 bits (RFC 6052)."""


def is_public(address: str) -> bool:
    """Return whether a numeric address is on the public internet.

    Args:
        address: Numeric IPv4 or IPv6 address from name resolution. Names are never public.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.teredo is not None:
            return False
        inner = parsed.ipv4_mapped or parsed.sixtofour
        if inner is None and parsed in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        # Addresses outside global unicast (RFC 4291, 2000::/3) have a special meaning.
        if int(parsed) >> 125 != 1:
            return False
    return parsed.is_global and not parsed.is_multicast
