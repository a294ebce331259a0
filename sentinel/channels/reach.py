"""From where an address can be reached: one of the loopback leads nowhere but on the machine that says it."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_here(host: str) -> bool:
    """The host is this machine itself, whatever the network looks like."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(url: str) -> str:
    """Empty where the address has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def where_it_leads(url: str, host: str) -> str:
    """What to say behind a link that only `host` itself can follow, and how others come there; empty for any other."""
    if not is_here(host_name(url)):
        return ""
    split = urlsplit(url)
    port = split.port or (443 if split.scheme == "https" else 80)
    return f" (on {host} only; from elsewhere: ssh -L {port}:127.0.0.1:{port} {host})"
