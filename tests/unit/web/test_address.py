"""Where the site listens: what may be written, and what cannot be had."""

from __future__ import annotations

from contextlib import closing

import pytest

from sentinel.errors import UsageError
from sentinel.web.address import Address, AddressTaken, bind, is_loopback, read_address


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ("9464", Address("127.0.0.1", 9464)),
        ("0", Address("127.0.0.1", 0)),
        (" localhost:80 ", Address("localhost", 80)),
        ("0.0.0.0:9464", Address("0.0.0.0", 9464)),
        ("[::1]:9464", Address("::1", 9464)),
        ("off", None),
        ("OFF", None),
    ],
)
def test_an_address_is_a_port_or_a_host_with_a_port(words: str, address: Address | None) -> None:
    assert read_address(words) == address


@pytest.mark.parametrize("words", ["", ":", "localhost", "localhost:", "::1:9464", "65536", "9464/", "http://x:1", "-1", "٣"])
def test_what_is_no_address_is_refused_with_what_to_write(words: str) -> None:
    with pytest.raises(UsageError, match="write PORT, HOST:PORT or off"):
        read_address(words)


def test_a_taken_address_says_so() -> None:
    with closing(bind(Address("127.0.0.1", 0))) as first:
        port = first.getsockname()[1]
        with pytest.raises(AddressTaken, match=rf"127\.0\.0\.1:{port}: another program listens there already"):
            bind(Address("127.0.0.1", port))


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
def test_an_address_of_another_machine_cannot_be_listened_on(host: str) -> None:
    with pytest.raises(UsageError, match=host):
        bind(Address(host, 0))


def test_loopback_is_told_from_every_other_address() -> None:
    for host, is_local in (("127.0.0.1", True), ("localhost", True), ("127.8.8.8", True), ("0.0.0.0", False)):
        with closing(bind(Address(host, 0))) as listener:
            assert is_loopback(listener) is is_local, host
    assert str(Address("::1", 80)) == "[::1]:80"
