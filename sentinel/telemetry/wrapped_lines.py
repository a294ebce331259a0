"""Lines that a container's log driver or a logging agent wraps in JSON: what the program printed is one member of an object.

    {"log":"[rank2]: RuntimeError: ...\\n","stream":"stderr","time":"..."}            Docker, Fluent Bit
    {"timestamp":"...","level":"error","rank":2,"message":"RuntimeError: ..."}        loggers of Python (exc_info), Vector, Loki
    {"textPayload":"RuntimeError: ...","resource":{...}}                              Google Cloud; journalctl -o json has MESSAGE

The rank and the pod that the object names come back as labels before the text, an Xid behind it. A line of metrics is left
as it is.
"""

from __future__ import annotations

import json
import re

LAYERS_MAX = 3  # an agent wraps what a logger has wrapped
_TEXT = re.compile(r'"(?P<key>exc_info|log|message|msg|textPayload|MESSAGE)" ?: ?"(?P<text>[^"\\]*+(?:\\.[^"\\]*+)*+)')
_RANK = re.compile(r'"(?:global_)?rank" ?: ?"?(\d{1,7})\b')
_POD = re.compile(r'"(?:pod|pod_name|podName)" ?: ?"([\w./-]{1,100})"')
_XID = re.compile(r'"xid(?:_code|_error|_errors)?" ?: ?[\["]?(\d{1,3})\b', re.IGNORECASE)
_METRICS = re.compile(r'"(?:global_)?(?:step|iteration)" ?: ?\d')


def unwrap(line: str) -> str:
    """The text that a program printed, or the line itself where it is not wrapped. Of a traceback in one line, its last line."""
    labels = ""
    for _ in range(LAYERS_MAX):
        if not line.startswith("{") or _METRICS.search(line) is not None:
            break
        found = {match["key"]: match["text"] for match in _TEXT.finditer(line)}
        if not found:
            break
        rank, pod, xid = _RANK.search(line), _POD.search(line), _XID.search(line)
        labels += (f"[pod/{pod[1]}] " if pod is not None else "") + (f"[rank{rank[1]}]: " if rank is not None else "")
        line = _unescaped(found.get("exc_info") or next(iter(found.values())))
        if "\n" in line:
            line = line[line.rindex("\n") + 1 :]
        line += f" (Xid: {xid[1]})" if xid is not None else ""
    return labels + line


def _unescaped(text: str) -> str:
    """Without JSON's escapes. The text of a line that was cut may end inside one."""
    try:
        plain = json.loads(f'"{text}"', strict=False)
    except ValueError:
        plain = text
    return str(plain).rstrip("\r\n")
