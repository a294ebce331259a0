"""`sentinel web`: shows runs without supervising them: after their end, or from another machine that sees their directories."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from sentinel.errors import UsageError
from sentinel.signals import stop_event
from sentinel.web.access import read_token
from sentinel.web.address import Address, read_address
from sentinel.web.opening import Listen, check_places, open_site
from sentinel.web.runs import Runs
from sentinel.web.site import NO_SERVICES, SiteServices


def serve(places: Sequence[Path], listen: Listen, services: SiteServices = NO_SERVICES) -> None:
    """Until it is interrupted, or asked to end by SIGTERM. Raises UsageError before anything is shown."""
    check_places(places)
    address = Address() if listen.address is None else read_address(listen.address)
    if address is None:
        raise UsageError("--listen off: then there is nothing to do; name a port")
    token = read_token(listen.token_file, os.environ)
    with stop_event() as stop, closing(open_site(address, token, Runs(places), services)) as site:
        site.start()
        stop.wait()  # as long as somebody wants it: a signal ends it
