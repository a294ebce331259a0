"""The JSON schema of the policy language, for editors: `sentinel policy schema > policies/schema.json`."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

from sentinel.channels import registry as _registry  # noqa: F401 - completes the language
from sentinel.policy.schema import Policy
from sentinel.policy.schema_fields import Model

WHOLE = {"Rung", "Secret"}  # a playbook and a secret are replaced as a whole, so what stands in them must be complete
NAMES = {"alert"}  # what an entry is recognised by, and so must be written


def policy_json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a policy file, in the words of the file. With `extends`, `spec` holds only what differs."""
    schema = Policy.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    describe(definitions | {"Policy": schema})
    partial = {name for name in _reached("PolicySpec", definitions, set()) if _asks(name, definitions)}
    changes = {f"{name}Changes": _partial(definitions[name], partial) for name in sorted(partial)}
    schema["$defs"] = definitions | changes
    schema["properties"]["spec"] = {"description": schema["properties"]["spec"].get("description", "The policy itself.")}
    schema["if"] = {"required": ["extends"]}
    schema["then"] = {"properties": {"spec": {"$ref": "#/$defs/PolicySpecChanges"}}}
    schema["else"] = {"properties": {"spec": {"$ref": "#/$defs/Spec"}, "remove": False}, "required": ["spec"]}
    schema["required"].remove("spec")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def describe(definitions: dict[str, Any]) -> None:
    """Give each property of these definitions, by the names of their models, the docstring behind its field.

    Pydantic would read them at every start of the program, at the cost of a tenth of a second; only this command wants them.
    """
    texts: dict[ModuleType, dict[str, dict[str, str]]] = {}
    for model in _models(Model):
        properties = definitions.get(model.__name__, {}).get("properties", {})
        if properties.keys() != {field.alias or name for name, field in model.model_fields.items()}:
            continue  # a model of another language with the same name
        for owner in reversed(model.__mro__):
            module = inspect.getmodule(owner)
            if module is None or not issubclass(owner, Model):
                continue
            if module not in texts:
                texts[module] = _docstrings(inspect.getsource(module))
            for name, text in texts[module].get(owner.__name__, {}).items():
                key = model.model_fields[name].alias or name if name in model.model_fields else name
                if key in properties and "description" not in properties[key]:
                    properties[key] = dict(sorted((properties[key] | {"description": text}).items()))


def _models(model: type[Model]) -> Iterator[type[Model]]:
    yield model
    for child in model.__subclasses__():
        yield from _models(child)


def _docstrings(source: str) -> dict[str, dict[str, str]]:
    """By class and field, of a module's source: the strings that stand behind annotated fields."""
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    return {one.name: dict(text for pair in pairwise(one.body) if (text := _docstring(*pair)) is not None) for one in classes}


def _docstring(field: ast.stmt, behind: ast.stmt) -> tuple[str, str] | None:
    """The field's name and the string behind it; None where one of them is something else."""
    if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
        return None
    if not isinstance(behind, ast.Expr) or not isinstance(behind.value, ast.Constant) or not isinstance(behind.value.value, str):
        return None
    return field.target.id, inspect.cleandoc(behind.value.value)


def _reached(name: str, definitions: dict[str, Any], seen: set[str]) -> set[str]:
    """The names of this definition and of all that it refers to, without what is replaced as a whole."""
    if name not in seen and name not in WHOLE:
        seen.add(name)
        for other in _references(definitions[name]):
            _reached(other, definitions, seen)
    return seen


def _asks(name: str, definitions: dict[str, Any]) -> bool:
    """Whether this definition asks for keys, or refers to one that does."""
    nodes = (definitions[other] for other in _reached(name, definitions, set()))
    return any("required" in node or "oneOf" in node for node in nodes)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield _name(node["$ref"])
        for child in node.values():
            yield from _references(child)
    elif isinstance(node, list):
        for child in node:
            yield from _references(child)


def _partial(node: Any, partial: set[str], is_definition: bool = True) -> Any:
    """The definition with nothing asked for but names: what is not written comes from the base."""
    if isinstance(node, list):
        return [_partial(child, partial, False) for child in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = _name(node["$ref"])
        return node | {"$ref": f"#/$defs/{name}Changes"} if name in partial else node
    kept = {key: child for key, child in node.items() if not (is_definition and key in ("oneOf", "required"))}
    asked = [key for key in node.get("required", ()) if key in NAMES] if is_definition else []
    changed = {key: _partial(child, partial, False) for key, child in kept.items()}
    return changed | ({"required": asked} if asked else {})


def _name(reference: str) -> str:
    return reference.rsplit("/", 1)[-1]


def policy_json_schema_text() -> str:
    """The exact text of `policies/schema.json`."""
    return json.dumps(policy_json_schema(), indent=1, ensure_ascii=False) + "\n"
