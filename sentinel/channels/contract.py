"""What every channel promises: a notice is delivered, or there is a reason, and the reason says whether trying again can help."""

from __future__ import annotations

from typing import Protocol

from sentinel.channels.notice import Notice

TRY_S = 15.0  # one try to deliver, whatever it does
CALL_S = 12.0  # what a channel gives the other side, so that it says itself what went wrong
AGAIN_S = 5.0  # the first pause after a try that may work later


class Channel(Protocol):
    def deliver(self, notice: Notice) -> str:
        """Deliver it; a short word for the journal on what came of it. The same notice delivered twice is the same.

        Raises:
            RetryLater: it may work later: the network, a server that is busy or broken. PerhapsDelivered: and it may have worked.
            GiveUp: it cannot work as it is set up: a wrong key, an address that leads nowhere.
        """
        ...
