from tests.unit.agent.agent_kit import node

__all__ = ["node"]
