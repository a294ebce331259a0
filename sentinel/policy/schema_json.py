"""The JSON schema of the policy language, for editors: `python -m sentinel.policy.schema_json > policies/schema.json`."""

from __future__ import annotations

import json
from typing import Any

from sentinel.policy.schema import Policy


def policy_json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a policy file, in the words of the file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Policy.model_json_schema(by_alias=True)


def policy_json_schema_text() -> str:
    """The exact text of `policies/schema.json`."""
    return json.dumps(policy_json_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(policy_json_schema_text(), end="")
