"""The JSON schema of trainer profiles, for editors: `sentinel trainers schema`."""

from __future__ import annotations

import json
from typing import Any

from sentinel.policy_files.schema_json import describe
from sentinel.trainers.profile import TrainerProfile


def profile_json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a profile, in the words of the file."""
    schema = TrainerProfile.model_json_schema(by_alias=True)
    describe(schema["$defs"] | {"TrainerProfile": schema})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def profile_json_schema_text() -> str:
    return json.dumps(profile_json_schema(), indent=1, ensure_ascii=False) + "\n"
