"""Which addresses lie on the public internet.

An address that a stranger gives must not lead to this machine, to the network around it, or to what clouds keep at
link-local addresses.
"""

import ipaddress

_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""Addresses that a NAT64 gateway turns into the IPv4 address in their last 32 bits (RFC 6052)."""


def is_public(address: str) -> bool:
    """Say whether a numeric address can only be a machine on the public internet.

    Args:
        address: IPv4 or IPv6 in figures, as name resolution gives it. Names are never public.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if found.teredo is not None:
            return False
        inner = found.ipv4_mapped or found.sixtofour
        if inner is None and found in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        # Whatever is not handed out as global unicast (RFC 4291, 2000::/3) has some special meaning.
        if int(found) >> 125 != 1:
            return False
    return found.is_global and not found.is_multicast
