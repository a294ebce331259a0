"""How nodes are checked: the word `node_check`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from sentinel.policy.quantities import Malformed, show
from sentinel.policy.schema_fields import Count, Flag, Model, Seconds, Text, written

WORDS_MAX = 256
AT_MOST = 4
When = Literal["launch", "suspicion", "readmit"]


class NodeCheck(Model):
    """A command that says whether a node is healthy. `node_check: [command, word, …]` stands for the defaults."""

    command: Annotated[tuple[Text, ...], Field(min_length=1, max_length=WORDS_MAX)]
    """Run on each node. It leaves with 0: healthy; 1 with the reason on its standard output: sick; all else is unknown."""
    timeout_s: Seconds = written("5m", alias="timeout")
    """What has not ended by then is unknown."""
    when: Annotated[tuple[When, ...], Field(min_length=1)] = ("launch", "suspicion", "readmit")
    """launch: the nodes that will take part, before every launch. suspicion: a node that was blamed `after_blames` times.
    readmit: one that is left out, before `sentinel uncordon` lets it back."""
    after_blames: Count = 2
    """So many incidents, or returns of one, since it was last known to be healthy."""
    while_training: Flag = False
    """Check a suspected node at once, beside the training on it. Without it, before the next launch."""
    at_most: Count = AT_MOST
    """So many nodes may be left out of the run in all. Where its check calls more sick, none is, and the run is held."""

    @model_validator(mode="after")
    def _names_a_program(self) -> NodeCheck:
        if not self.command[0].strip():
            raise Malformed("the command names no program", "write it as a list of words, such as [sentinel, node-check]")
        return self


def _command_alone(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return {"command": list(value)}
    if value is None or isinstance(value, (dict, NodeCheck)):
        return value
    remedy = "write it as a list of words, such as [sentinel, node-check], or as {command: […], timeout: 5m}"
    raise Malformed(f"{show(value)} is no command", remedy)


NODE_CHECK_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": WORDS_MAX},
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["command"],
            "properties": {
                "command": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": WORDS_MAX},
                "timeout": {"type": "string", "default": "5m", "examples": ["30s", "5m"]},
                "when": {
                    "type": "array",
                    "items": {"enum": ["launch", "suspicion", "readmit"]},
                    "minItems": 1,
                    "default": ["launch", "suspicion", "readmit"],
                },
                "after_blames": {"type": "integer", "minimum": 1, "default": 2},
                "while_training": {"type": "boolean", "default": False},
                "at_most": {"type": "integer", "minimum": 1, "default": AT_MOST},
            },
        },
    ]
}
NodeCheckWord = Annotated[NodeCheck | None, BeforeValidator(_command_alone), WithJsonSchema(NODE_CHECK_SCHEMA)]
